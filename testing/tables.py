"""Many small cases as one table: sentences with what was found and what is due."""

from collections.abc import Mapping


def differing(cases: Mapping[str, tuple[object, object]]) -> dict[str, tuple[object, object]]:
    """Those cases of {sentence: (found, due)} in which the two differ; a test compares it with {}."""
    return {sentence: pair for sentence, pair in cases.items() if pair[0] != pair[1]}
