"""Two people change the same thing: what each changed since they both saw it, and where they meet. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Merge:
    """`values`: the whole, with yours where you changed something and theirs elsewhere.

    `came_in`: what only they changed, field → [before, now]. `conflicts`: what both changed, field → [theirs, yours].
    """

    values: dict[str, Any]
    came_in: dict[str, list[Any]] = field(default_factory=dict)
    conflicts: dict[str, list[Any]] = field(default_factory=dict)


def merge(
    opened: Mapping[str, Any], theirs: Mapping[str, Any], yours: Mapping[str, Any],
    units: Iterable[Sequence[str]] = (),
) -> Merge:  # fmt: skip
    """`opened`: what you saw when you began; all three have the same fields. `units`: fields that make sense together

    only, such as interval and cron line: when you changed one of them, all of them are yours.
    """
    whole = {name: (name,) for name in theirs} | {name: tuple(unit) for unit in units for name in unit}
    result = Merge(dict(theirs))
    for name, unit in whole.items():
        if not _differ(yours, opened, unit):
            if theirs[name] != opened[name]:
                result.came_in[name] = [opened[name], theirs[name]]
            continue
        result.values[name] = yours[name]
        if _differ(theirs, opened, unit) and theirs[name] != yours[name]:
            result.conflicts[name] = [theirs[name], yours[name]]
    return result


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, list[Any]]:
    """field → [here, there] where the two are not the same."""
    return {name: [here[name], wanted] for name, wanted in there.items() if here[name] != wanted}


def _differ(some: Mapping[str, Any], others: Mapping[str, Any], unit: Sequence[str]) -> bool:
    return any(some[name] != others[name] for name in unit)
