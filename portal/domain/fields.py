"""Readers: one value of a form or a file → what a column stores, or a FieldError that says what is accepted."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar

from portal.domain import intervals
from portal.domain.messages import N_, Message

Reader = Callable[[object], Any]
Word = TypeVar("Word", bound=StrEnum)

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on", "y"), True),
    **dict.fromkeys(("0", "false", "no", "off", "n", ""), False),
}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}", re.ASCII)


class FieldError(ValueError):
    """A value that a field does not take; `message` is for the person who gave it."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


def shown(value: object) -> str:
    """`value` short enough for a message."""
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(longest: int, *, required: bool = False) -> Reader:
    """Text without control or invisible characters, stripped.

    It is composed (NFC) and its blanks are plain spaces: what looks alike is alike.
    """

    def read(value: object) -> str:
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise FieldError(N_("must be text"))
        text = _plain(value)
        if required and not text:
            raise FieldError(N_("is missing"))
        if len(text) > longest:
            raise FieldError(N_("is longer than %(longest)d characters", longest=longest))
        return text

    return read


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    kinds = {char: unicodedata.category(char) for char in composed}
    plain = "".join(" " if kinds[char] == "Zs" else char for char in composed).strip()
    for char in plain:
        if kinds.get(char) in ("Cc", "Cs", "Zl", "Zp"):
            raise FieldError(N_("must be one line without control characters"))
        if kinds.get(char) == "Cf":
            name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
            raise FieldError(N_("holds a character that cannot be seen (%(name)s): type it again", name=name))
    return plain


def secret(longest: int) -> Reader:
    """Like one_line, but spaces count and no message repeats the value. Empty → None."""

    def read(value: object) -> str | None:
        if value is None or value == "":
            return None
        if not isinstance(value, str) or any(unicodedata.category(char) in ("Cc", "Cs") for char in value):
            raise FieldError(N_("must be one line of text without control characters"))
        if len(value) > longest:
            raise FieldError(N_("is longer than %(longest)d characters", longest=longest))
        return value

    return read


def whole(low: int, high: int) -> Reader:
    """A whole number from `low` to `high`."""

    def read(value: object) -> int:
        number = _as_whole(value)
        if number is None or not low <= number <= high:
            raise FieldError(
                N_("must be a whole number from %(low)d to %(high)d, not %(given)s", low=low, high=high,
                   given=shown(value))
            )  # fmt: skip
        return number

    return read


def _as_whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return None


def number(low: float, high: float) -> Reader:
    """A number from `low` to `high`; a decimal comma is taken too."""

    def read(value: object) -> float:
        try:
            found = float(value.replace(",", ".")) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            found = float("nan")
        if isinstance(value, bool) or not isfinite(found) or not low <= found <= high:
            raise FieldError(
                N_("must be a number from %(low)s to %(high)s, not %(given)s", low=f"{low:g}", high=f"{high:g}",
                   given=shown(value))
            )  # fmt: skip
        return found

    return read


def flag(value: object) -> bool:
    """true or false, as YAML, JSON and HTML forms write it."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if value is not None else ""
    if word not in _FLAGS:
        raise FieldError(N_("must be true or false, not %(given)s", given=shown(value)))
    return _FLAGS[word]


def choice(words: type[Word]) -> Reader:
    """One word of a closed set."""

    def read(value: object) -> Word:
        try:
            return words(str(value).strip().lower())
        except ValueError:
            listed = ", ".join(word.value for word in words)
            raise FieldError(
                N_("must be one of %(accepted)s, not %(given)s", accepted=listed, given=shown(value))
            ) from None

    return read


def duration(low: int, high: int) -> Reader:
    """Seconds, from a number of seconds or from "60s", "15m", "1h"."""

    def read(value: object) -> int:
        try:
            seconds = intervals.parse(str(value))
        except ValueError:
            raise FieldError(
                N_("must be a duration such as 60s, 15m, 1h or a number of seconds, not %(given)s", given=shown(value))
            ) from None
        if not low <= seconds <= high:
            raise FieldError(
                N_("must be from %(low)s to %(high)s, not %(given)s", low=intervals.show(low),
                   high=intervals.show(high), given=intervals.show(seconds))
            )  # fmt: skip
        return seconds

    return read


def key(value: object) -> str:
    """A short name for machines: letters, digits, `_`, `-`, `.`."""
    text = str(value).strip() if value is not None else ""
    if not _KEY.fullmatch(text):
        raise FieldError(
            N_("must be 1 to 60 letters, digits, _, - or dots (first a letter or digit), not %(given)s",
               given=shown(value))
        )  # fmt: skip
    return text


def optional(reader: Reader) -> Reader:
    """None and "" mean "not set" and give None."""

    def read(value: object) -> Any:
        blank = value is None or (isinstance(value, str) and not value.strip())
        return None if blank else reader(value)

    return read


def read_all(readers: Mapping[str, Reader], given: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Message]]:
    """(values of the fields that are given and right, field → what is wrong). An unknown field is an error."""
    values: dict[str, Any] = {}
    errors: dict[str, Message] = {}
    for name, value in given.items():
        if name not in readers:
            errors[name] = unknown(name, readers)
            continue
        try:
            values[name] = readers[name](value)
        except FieldError as error:
            errors[name] = error.message
    return values, errors


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or ""."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")


def unknown(word: str, known: Iterable[str]) -> Message:
    """Message for a name that is not known: what was probably meant, and what there is."""
    listed = ", ".join(known)
    meant = nearest(word, listed.split(", "))
    if meant:
        return N_(
            "%(word)s is unknown, did you mean %(meant)s? Known: %(known)s", word=shown(word), meant=meant, known=listed
        )
    if not listed:
        return N_("%(word)s is unknown, there is none yet", word=shown(word))
    return N_("%(word)s is unknown. Known: %(known)s", word=shown(word), known=listed)
