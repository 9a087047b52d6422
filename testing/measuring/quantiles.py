"""The one statistic that everybody asks for."""

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
