"""Durations as people write them ("15m", "1h30m", 90) to whole seconds, and back. No I/O."""

import re

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_WRITTEN = re.compile(
    r"(?:(\d{1,9}) ?d(?:ays?)?)? ?(?:(\d{1,9}) ?h(?:ours?)?)? ?(?:(\d{1,9}) ?m(?:in(?:utes?)?)?)?"
    r" ?(?:(\d{1,9}) ?s(?:ec(?:onds?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_PLAIN = re.compile(r"\d{1,9}", re.ASCII)


def parse(text: str) -> int:
    """Seconds of "60s", "15m", "1h", "1h30m" or "900" (seconds). ValueError when it is none of these."""
    shown = text.strip()
    if _PLAIN.fullmatch(shown):
        return int(shown)
    found = _WRITTEN.fullmatch(shown) if shown else None
    if found is None:
        raise ValueError(f"{text[:40]!r} is no duration: write 60s, 15m, 1h or a number of seconds")
    return sum(int(part) * size for part, (_, size) in zip(found.groups(), _UNITS, strict=True) if part)


def show(seconds: int) -> str:
    """The shortest form that `parse` reads back: 900 → "15m", 90 → "90s", 5400 → "90m", 0 → "0s"."""
    for unit, size in _UNITS[:-1]:
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
