"""OIDs as dotted text: checking, comparing and cutting by whole sub-identifiers. No I/O, no vendor knowledge."""

import re

from portal.domain.messages import N_

MIN_ARCS = 2
MAX_ARCS = 128  # RFC 2578 §3.5
MAX_ARC = 0xFFFFFFFF

_DOTTED = re.compile(r"[0-9]+(?:\.[0-9]+)*", re.ASCII)


def normalise(text: str) -> str:
    """The OID without leading dot, spaces and leading zeros. Raises ValueError with a Message: what is wrong."""
    shown = text.strip().removeprefix(".")
    if not _DOTTED.fullmatch(shown):
        raise ValueError(N_("OID %(given)s: write numbers separated by single dots, such as 1.3.6.1.2.1.1.3.0",
                            given=_shown(text)))  # fmt: skip
    parts = shown.split(".")
    if not MIN_ARCS <= len(parts) <= MAX_ARCS:
        raise ValueError(N_("OID %(given)s: %(count)d numbers, must be %(low)d to %(high)d", given=_shown(text),
                            count=len(parts), low=MIN_ARCS, high=MAX_ARCS))  # fmt: skip
    if any(len(part.lstrip("0")) > len(str(MAX_ARC)) for part in parts):
        raise ValueError(N_("OID %(given)s: a number is above %(high)d", given=_shown(text), high=MAX_ARC))
    arcs = tuple(int(part) for part in parts)
    _check_arcs(text, arcs)
    return ".".join(map(str, arcs))


def _shown(text: str) -> str:
    return repr(text[:200])


def _check_arcs(text: str, arcs: tuple[int, ...]) -> None:
    if arcs[0] > 2:
        raise ValueError(N_("OID %(given)s: the first number must be 0, 1 or 2", given=_shown(text)))
    if arcs[0] < 2 and arcs[1] >= 40:
        raise ValueError(N_("OID %(given)s: the second number must be below 40", given=_shown(text)))
    if max(arcs) > MAX_ARC:
        raise ValueError(N_("OID %(given)s: a number is above %(high)d", given=_shown(text), high=MAX_ARC))


def as_tuple(oid: str) -> tuple[int, ...]:
    """The sub-identifiers as numbers: the order in which an agent walks. ValueError if not dotted numbers."""
    return tuple(int(part) for part in oid.removeprefix(".").split("."))


def is_under(oid: str, root: str) -> bool:
    """True when `oid` lies strictly below `root`. 1.3.61 is not under 1.3.6. Both as dotted numbers."""
    return oid.removeprefix(".").startswith(root.removeprefix(".") + ".")


def index_of(oid: str, root: str) -> str:
    """What follows the column `root` in `oid`, such as "4194312448.2". ValueError when `oid` is not under it."""
    if not is_under(oid, root):
        raise ValueError(f"{oid[:200]} is not under {root[:200]}")
    return oid.removeprefix(".")[len(root.removeprefix(".")) + 1 :]
