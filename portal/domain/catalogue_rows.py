"""Typed access to the rows of a catalogue document, each error with its place. What the rows mean is elsewhere."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import TypeVar

from portal.domain import oid_text

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)


class CatalogueError(ValueError):
    """A catalogue document is wrong; the text names the file, the row and what to change."""


class Row:
    """A mapping of the document with typed access; every error starts with the place."""

    def __init__(self, entry: object, where: str) -> None:
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise CatalogueError(f"{where}: must be a mapping of names to values")
        self.entry: Mapping[str, object] = entry
        self.where = where

    def fail(self, text: str) -> CatalogueError:
        return CatalogueError(f"{self.where}: {text}")

    def known(self, *allowed: str) -> None:
        for key in self.entry:
            if key not in allowed:
                raise self.fail(f"{key!r} is unknown, use {', '.join(allowed)}")

    def rows(self, key: str, label: str, build: Callable[["Row"], T]) -> Iterable[T]:
        for number, entry in enumerate(self.items(key), start=1):
            shown = entry.get(label) if isinstance(entry, Mapping) else None
            yield build(Row(entry, f"{self.where}: {key} {number}" + (f" ({shown})" if shown else "")))

    def items(self, key: str) -> Sequence[object]:
        value = self.entry.get(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise self.fail(f"{key} must be a list")
        return value

    def text(self, key: str, required: bool = False, longest: int = 255) -> str:
        value = self.entry.get(key, "")
        if not isinstance(value, str):
            raise self.fail(f"{key} must be text, write it in quotes")
        if required and not value.strip():
            raise self.fail(f"{key} is missing")
        if len(value) > longest:
            raise self.fail(f"{key} is longer than {longest} characters")
        return value.strip()

    def name(self, key: str) -> str:
        value = self.text(key, required=True)
        if not _NAME.fullmatch(value):
            raise self.fail(f"{key} {value!r} must be lower-case letters, digits and _")
        return value

    def word(self, key: str, words: type[Word], default: Word | None = None) -> Word:
        value = self.entry.get(key, default)
        try:
            return words(str(value))
        except ValueError:
            listed = ", ".join(item.value for item in words)
            raise self.fail(f"{key} is {value!r}, use one of {listed}") from None

    def number(self, key: str, default: float) -> float:
        value = self.entry.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise self.fail(f"{key} must be a number")
        return float(value)

    def limit(self, key: str) -> float | None:
        return None if self.entry.get(key) is None else self.number(key, 0.0)

    def whole(self, value: object, what: str, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fail(f"{what} must be a whole number from {low} to {high}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.entry.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(f"{key} must be true or false")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        return tuple(str(item) for item in self.items(key))

    def pattern(self, key: str) -> str:
        text = self.text(key)
        try:
            re.compile(text)
        except re.error as error:
            raise self.fail(f"{key} is no regular expression: {error}") from error
        return text

    def oids(self, key: str) -> tuple[str, ...]:
        return tuple(self.oid(item, key) for item in self.items(key))

    def oid(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise self.fail(f"{what} must be text, write it in quotes")
        try:
            return oid_text.normalise(value)
        except ValueError as error:
            raise self.fail(str(error)) from error
