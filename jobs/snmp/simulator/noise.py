"""Repeatable chance: numbers that depend on nothing but their arguments; no state and no clock live here."""

from __future__ import annotations

from hashlib import blake2b

_SPAN = 2**32


def draw(seed: int, number: int, what: str) -> int:
    """A number 0..2^64-1 that is always the same for the same three arguments."""
    return int.from_bytes(blake2b(f"{seed}/{number}/{what}".encode(), digest_size=8).digest(), "big")


def uniform(seed: int, number: int, what: str) -> float:
    """A number 0 <= x < 1, evenly spread."""
    return (draw(seed, number, what) % _SPAN) / _SPAN


def between(seed: int, number: int, what: str, low: float, high: float) -> float:
    """A number low <= x < high, evenly spread."""
    return low + (high - low) * uniform(seed, number, what)
