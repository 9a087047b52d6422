"""Does a formula say what the interface names say? Proof of one OID, verdict on a formula, choice of one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from portal.domain import oid_text
from portal.domain.formulas import IndexFormula, Interface, Part, Position

__all__ = ["Agreement", "Choice", "Interface", "Part", "Position", "Proof", "Verdict", "choose", "judge", "prove",
           "read_interfaces", "table"]  # fmt: skip


class Agreement(StrEnum):
    """What the interface table says of a decoded position."""

    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    NO_NAME = "no name"  # no interface of that index, or its name tells no position
    UNDECODABLE = "undecodable"  # the formula does not fit the index
    NOT_CHECKED = "not checked"  # the index is no ifIndex: the interface table says nothing of it


@dataclass(frozen=True)
class Proof:
    """The way from one raw OID to a position, each step shown."""

    oid: str
    root: str  # the column
    index: str  # what follows it
    parts: tuple[Part, ...]  # the fields of the index under the formula
    formula: str  # "" where there is none
    position: Position | None
    interface: Interface | None  # the row of the interface table that speaks of the same port
    verdict: Agreement
    text: str = ""  # what a length-prefixed index spells (UFiber: the serial)


@dataclass(frozen=True)
class Verdict:
    """How one formula stands against the names of one OLT. `first` is the first contradiction, in words."""

    formula: str
    agree: int
    contradict: int
    first: str = ""

    @property
    def holds(self) -> bool:
        """True when names speak for it and none against."""
        return self.agree > 0 and self.contradict == 0


@dataclass(frozen=True)
class Choice:
    """The formula that agrees with all names, if there is exactly one such answer; and how each one fared."""

    formula: IndexFormula | None
    verdicts: tuple[Verdict, ...] = field(default=())


def read_interfaces(rows: Iterable[tuple[str, str]], readers: Sequence[IndexFormula]) -> dict[str, Interface]:
    """ifIndex text → Interface, from (index, name) rows; the first reader that understands a name decides."""
    found = {}
    for index, name in rows:
        position = next((got for reader in readers if (got := reader.decode(name)) is not None), None)
        found[index] = Interface(index, name, position)
    return found


def judge(formula: IndexFormula, interfaces: Iterable[Interface]) -> Verdict:
    """Compare the formula with every interface that it claims to number."""
    agree, wrong, first = 0, 0, ""
    for interface in interfaces:
        if not formula.claims(interface):
            continue
        if formula.agrees(interface):
            agree += 1
        else:
            wrong += 1
            first = first or _said(formula, interface)
    return Verdict(formula.name, agree, wrong, first)


def _said(formula: IndexFormula, interface: Interface) -> str:
    found = formula.decode(interface.index)
    says = f"{formula.name} says {found}" if found is not None else f"{formula.name} does not fit"
    return f"{interface.index} is named {interface.name.strip()}, {says}"


def choose(formulas: Sequence[IndexFormula], interfaces: Mapping[str, Interface]) -> Choice:
    """The one formula that all names speak for. None when none does, or several do (nothing then tells them apart).

    A formula that learns is completed by the names first.
    """
    rows = list(interfaces.values())
    tried = [(formula.learned(rows) or formula) if formula.learns else formula for formula in formulas]
    verdicts = tuple(judge(formula, rows) for formula in tried)
    holding = [formula for formula, verdict in zip(tried, verdicts, strict=True) if verdict.holds]
    return Choice(holding[0] if len(holding) == 1 else None, verdicts)


def prove(
    oid: str, root: str, formula: IndexFormula | None, interfaces: Mapping[str, Interface], by_ifindex: bool = True
) -> Proof:
    """The proof of one instance of column `root`. ValueError when `oid` is not under it.

    `by_ifindex`: the column is keyed by ifIndex, so that the interface table may confirm or contradict. ZTE's 1012
    tables are not: 268501248 is 1/1 there and the ifIndex of 2/2 on the same C320.
    """
    index = oid_text.index_of(oid, root)
    parts = formula.parts(index) if formula is not None else ()
    proof = Proof(
        oid, root, index, parts, formula.name if formula else "", formula.decode(index) if formula else None, None,
        Agreement.NOT_CHECKED, _spelt(index),
    )  # fmt: skip
    return _checked(proof, formula, interfaces) if by_ifindex else _unchecked(proof)


def table(formula: IndexFormula, interfaces: Mapping[str, Interface]) -> list[Proof]:
    """One proof for each interface; `root` is empty, the index stands alone."""
    return [
        _checked(
            Proof(index, "", index, formula.parts(index), formula.name, formula.decode(index), None, Agreement.NO_NAME),
            formula, interfaces,
        )
        for index in interfaces
    ]  # fmt: skip


def _unchecked(proof: Proof) -> Proof:
    return proof if proof.position or not proof.formula else replace(proof, verdict=Agreement.UNDECODABLE)


def _checked(proof: Proof, formula: IndexFormula | None, interfaces: Mapping[str, Interface]) -> Proof:
    interface = _interface_of(proof, formula, interfaces)
    named = interface.position if interface else None
    if proof.position is None:
        verdict = Agreement.UNDECODABLE if formula is not None else Agreement.NO_NAME
        if named is not None and formula is None:  # BDCOM: the name is all there is
            return replace(proof, interface=interface, position=named, verdict=Agreement.AGREES)
    elif interface is not None and formula is not None and named is None and formula.claims(interface):
        verdict = Agreement.AGREES if formula.agrees(interface) else Agreement.CONTRADICTS
    elif named is None:
        verdict = Agreement.NO_NAME
    else:
        verdict = Agreement.AGREES if _same(named, proof.position) else Agreement.CONTRADICTS
    return replace(proof, interface=interface, verdict=verdict)


def _same(named: Position, found: Position) -> bool:
    """A port's name confirms the port of an ONU's index; an ONU's name all of it."""
    return named == (found if named.onu is not None else replace(found, onu=None))


def _interface_of(
    proof: Proof, formula: IndexFormula | None, interfaces: Mapping[str, Interface]
) -> Interface | None:  # fmt: skip
    """By the whole index, by its first part, or by the index of the port that the formula sees (C-Data packs both)."""
    for index in (proof.index, proof.index.partition(".")[0]):
        if index in interfaces:
            return interfaces[index]
    if formula is None or proof.position is None:
        return None
    try:
        return interfaces.get(formula.encode(replace(proof.position, onu=None)))
    except ValueError:
        return None


def _spelt(index: str) -> str:
    """The text of a length-prefixed string index, "" for any other."""
    given = _codes(index)
    return "".join(map(chr, given)) if given else ""


def _codes(index: str) -> list[int]:
    """Character codes of an index such as "12.85.66…": a length, then so many printable characters. [] for another."""
    parts = index.split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) <= 3 for part in parts):
        return []
    length, *codes = map(int, parts)
    printable = all(32 <= code < 127 for code in codes)
    return codes if length == len(codes) > 0 and printable else []
