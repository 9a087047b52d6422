"""OLTs that a person chose from two lists or named in a URL. Numbers only; whether they exist is asked elsewhere."""

from collections.abc import Iterator
from itertools import pairwise

from werkzeug.datastructures import MultiDict

from portal.web.args import LARGEST

MOST = 1000  # OLTs in one go
_LONG = 1000  # letters from which on distances are written instead
_MARK = "~"
_LETTERS = "abcdefghijklmnopqrstuvwxyz012345ABCDEFGHIJKLMNOPQRSTUVWXYZ6789-_"


def chosen(values: "MultiDict[str, str]", name: str = "olt") -> list[int]:
    """The numbers in the fields, and those packed in `olts`, each once; what is no number is left out."""
    given = [one for one in values.getlist(name, type=int) if 0 < one <= LARGEST]
    return list(dict.fromkeys([*given, *unpacked(values.get("olts", ""))]))[:MOST]


def packed(ids: list[int]) -> str:
    """Numbers as a short text for a URL, in their order of size: 1-50.53, or where that is long only their distances.

    A thousand of them stay below the 4094 octets that gunicorn takes as a request's first line, as long as they are
    less than a thousand apart.
    """
    runs: list[list[int]] = []
    for one in sorted(ids):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    text = ".".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return text if len(text) <= _LONG else _MARK + "".join(map(_digits, _distances(sorted(ids))))


def unpacked(text: str) -> list[int]:
    """What `packed` made; what means nothing is left out."""
    found = dict.fromkeys(_from_distances(text[1:]) if text.startswith(_MARK) else _from_runs(text))
    return [one for one in found if 0 < one <= LARGEST][:MOST]


def _from_runs(text: str) -> Iterator[int]:
    for part in text.split("."):
        low, _dash, high = part.partition("-")
        if not (low.isascii() and low.isdigit() and (high or low).isascii() and (high or low).isdigit()):
            continue
        first, last = int(low[:10]), int((high or low)[:10])
        yield from range(first, min(last, LARGEST, first + MOST) + 1)


# -- distances in the alphabet of URLs, five bits a letter; the letters of the upper half say that more follows


def _distances(ids: list[int]) -> Iterator[int]:
    return (one - before for before, one in pairwise([0, *ids]))


def _digits(distance: int) -> str:
    letters = _LETTERS[distance % 32]
    while distance := distance // 32:
        letters = _LETTERS[32 + distance % 32] + letters
    return letters


def _from_distances(text: str) -> Iterator[int]:
    one = distance = 0
    for letter in text:
        digit = _LETTERS.find(letter)
        if digit < 0 or one > LARGEST or distance > LARGEST:
            return
        distance = distance * 32 + digit % 32
        if digit < 32:
            one, distance = one + distance, 0
            yield one
