"""Where an ONU or a port sits: its name first, then the arithmetic of its index. Pure; no vendor's numbers."""

from collections.abc import Mapping
from dataclasses import replace

from portal.domain.composite import ReadingSpec
from portal.domain.formulas import NameLayout, Position
from portal.domain.readings import Reading


def position_of(spec: ReadingSpec, reading: Reading, named: Mapping[str, Position]) -> Position | None:
    """The position of a row, or None where neither a name nor a formula tells; the raw index is kept anyhow.

    `named`: interface index → position, from the OLT's own interface table. It counts only for a column whose index
    is, or begins with, an interface's (`spec.by_name`): the same number means 1/1 in one table of a ZTE C320 and 2/2
    in another (quirk 19). There it wins over any arithmetic (quirk 23).
    """
    formula = spec.formula
    if formula is not None and isinstance(formula.layout, NameLayout):
        return formula.decode(reading.value) if isinstance(reading.value, str) else None
    if spec.by_name and (found := _named(reading.index, named)) is not None:
        return found
    return None if formula is None else formula.decode(reading.index)


def _named(index: str, named: Mapping[str, Position]) -> Position | None:
    """The interface itself, which may be an ONU's; else the port it begins with, and the number after it."""
    whole = named.get(index)
    if whole is not None:
        return whole
    port_index, _, number = index.partition(".")
    port = named.get(port_index)
    if port is None or port.onu is not None or not number.isdecimal():
        return None
    return replace(port, onu=int(number))
