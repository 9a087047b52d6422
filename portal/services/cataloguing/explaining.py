"""Explains decoding, for pages and the terminal: which catalogue row an OID is, and what value and index become. Reads.

Nothing here asks a device. What a row means comes as a Recipe, so that a row that is still being edited can be tried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from portal.domain import oid_text, proof, typed_values
from portal.domain.catalogue_data import BrandData, OidData, Shape
from portal.domain.composite import ReadingSpec
from portal.domain.fields import FieldError
from portal.domain.formulas import IndexFormula, Interface
from portal.domain.messages import N_, Message
from portal.domain.proof import Agreement, Proof, Verdict
from portal.domain.readings import Reading, ValueSpec, decode
from portal.services.cataloguing import catalogue, index_families
from portal.services.errors import Invalid
from portal.tables import Oid, Olt

ROWS_SHOWN = 200
_SHORTEST = 4  # sub-identifiers of a column


@dataclass(frozen=True)
class Recipe:
    """How a column is understood. `formulas`: the only one, or the candidates among which interface names choose."""

    root: str
    value: ValueSpec
    formulas: tuple[IndexFormula, ...] = ()
    by_ifindex: bool = False
    suffix: str = ""


@dataclass(frozen=True)
class Asked:
    """What a person wants to see: a raw value, an index or whole OID, a position. Texts as typed; "" = not asked."""

    raw: str = ""
    index: str = ""
    place: str = ""


@dataclass(frozen=True)
class Back:
    """The index of a position under one formula, or why there is none."""

    formula: str
    index: str
    why: str


@dataclass(frozen=True)
class Preview:
    """The answers. `table`: the decode proof of every interface of an OLT, the first ROWS_SHOWN of them."""

    reading: Reading | None = None
    proofs: tuple[Proof, ...] = ()
    back: tuple[Back, ...] = ()
    table: tuple[Proof, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    chosen: str = ""  # name of the formula that the table shows
    interfaces: int = 0
    problems: Mapping[str, Message] | None = None


@dataclass(frozen=True)
class Explained:
    """An OID of a device, and what the catalogue makes of it."""

    row: Oid
    spec: ReadingSpec
    proof: Proof


def recipe_of(row: Oid, formulas: Sequence[IndexFormula]) -> Recipe:
    """The recipe of a stored row."""
    spec = catalogue.reading_spec(row, row.oid, row.name)
    return Recipe(row.oid, spec.value, tuple(formulas), row.by_name, row.index_suffix)


def recipe_of_data(data: OidData, brand: BrandData) -> Recipe:
    """The recipe of a row that is being edited, with the formulas and state maps of its brand."""
    known = {item.name: item for item in brand.formulas}
    names = (data.formula,) if data.formula else data.candidates
    formulas = tuple(known[name].build() for name in names)
    return Recipe(data.oid, data.value_spec(brand.state_maps_by_name), formulas, data.by_name, data.index_suffix)


def interfaces_of(session: Session, olt: Olt) -> Mapping[str, Interface]:
    """The OLT's stored interface table, with the positions that its names tell."""
    return index_families.named(session, olt)


def preview(recipe: Recipe, asked: Asked, interfaces: Mapping[str, Interface] | None) -> Preview:
    """Try a recipe. `interfaces` None: no OLT was chosen, so nothing can confirm or contradict."""
    rows = interfaces or {}
    formulas, verdicts = _settled(recipe.formulas, rows)
    made = Preview(verdicts=verdicts, interfaces=len(rows))
    problems: dict[str, Message] = {}
    if asked.raw:
        made = replace(made, reading=_reading(recipe, asked.raw, problems))
    if asked.index:
        made = replace(made, proofs=_proofs(recipe, formulas, asked.index, rows, problems))
    if asked.place:
        made = replace(made, back=_back(formulas, asked.place, problems))
    if interfaces is not None and formulas:
        shown = formulas[0]
        made = replace(made, table=tuple(proof.table(shown, rows)[:ROWS_SHOWN]), chosen=shown.name)
    return replace(made, problems=problems)


def _settled(
    formulas: Sequence[IndexFormula], interfaces: Mapping[str, Interface]
) -> tuple[tuple[IndexFormula, ...], tuple[Verdict, ...]]:
    """The formulas to show, the one that the names speak for first (completed, where it learns), and how each fared."""
    if not formulas or not interfaces:
        return tuple(formulas), ()
    choice = proof.choose(formulas, interfaces)
    if choice.formula is None:
        return tuple(formulas), choice.verdicts
    return (choice.formula,), choice.verdicts


def _reading(recipe: Recipe, text: str, problems: dict[str, Message]) -> Reading | None:
    try:
        return decode(recipe.value, "", typed_values.raw_value(text, recipe.value.type))
    except FieldError as error:
        problems["raw"] = error.message
        return None


def _proofs(
    recipe: Recipe, formulas: Iterable[IndexFormula], text: str, interfaces: Mapping[str, Interface],
    problems: dict[str, Message],
) -> tuple[Proof, ...]:  # fmt: skip
    """One proof for each formula; one without a formula where there is none."""
    root, oid = recipe.root, text.strip().removeprefix(".")
    if not oid_text.is_under(oid, root):
        oid = f"{root}.{oid}"
    oid = oid.removesuffix(recipe.suffix) if recipe.suffix and len(oid) > len(root + recipe.suffix) + 1 else oid
    try:
        oid_text.normalise(oid)
    except ValueError:
        problems["index"] = N_("must be the numbers behind the column, or a whole OID of this column")
        return ()
    by_ifindex = recipe.by_ifindex and bool(interfaces)
    tried: Sequence[IndexFormula | None] = list(formulas) or [None]
    return tuple(proof.prove(oid, root, formula, interfaces, by_ifindex) for formula in tried)


def _back(formulas: Iterable[IndexFormula], text: str, problems: dict[str, Message]) -> tuple[Back, ...]:
    try:
        place = typed_values.position(text)
    except FieldError as error:
        problems["place"] = error.message
        return ()
    return tuple(_encoded(formula, place) for formula in formulas)


def _encoded(formula: IndexFormula, place: proof.Position) -> Back:
    try:
        return Back(formula.name, formula.encode(place), "")
    except ValueError as error:
        return Back(formula.name, "", str(error))


def specs_of(session: Session, olt: Olt | None, rows: Mapping[str, Oid | None]) -> tuple[ReadingSpec, ...]:
    """How to read columns (text of a node → its row) on an OLT, whose interface names may have chosen the formulas.

    `olt` None: on a device that is none of ours.
    """
    known = [row for row in rows.values() if row is not None]
    formulas = index_families.formulas_for(session, olt, known) if olt is not None else {}
    encoding = olt.text_encoding if olt is not None else ""
    return tuple(_spec(row, text, formulas, encoding) for text, row in rows.items())


def _spec(
    row: Oid | None, text: str, formulas: Mapping[int, IndexFormula | None], encoding: str
) -> ReadingSpec:  # fmt: skip
    if row is None:
        spec = catalogue.reading_spec(None, text, text[:60])
    elif row.id in formulas:
        spec = catalogue.reading_spec(row, text, row.name, formula=formulas[row.id])
    else:
        spec = catalogue.reading_spec(row, text, row.name)
    return replace(spec, value=replace(spec.value, encoding=encoding)) if encoding else spec


def explain(session: Session, oid: str, brand: str, model: str, olt: Olt | None) -> Explained:
    """Which row of the catalogue a raw OID belongs to, and the way from it to a position. Asks no device.

    Invalid when it is no OID, or no column of the brand (or of every brand) is above it.
    """
    try:
        whole = oid_text.normalise(oid)
    except ValueError as error:
        raise Invalid({"oid": N_("%(reason)s", reason=str(error))}) from None
    arcs, lookup = whole.split("."), catalogue.load_lookup(session, [brand])
    columns = (".".join(arcs[:length]) for length in range(len(arcs), _SHORTEST, -1))
    row = next((found for column in columns if (found := lookup.find(brand, model, column)) is not None), None)
    if row is None:
        raise Invalid({"oid": N_("%(oid)s lies in no column that the catalogue knows for %(brand)s", oid=whole,
                                 brand=brand)})  # fmt: skip
    (spec,) = specs_of(session, olt, {row.oid: row})
    rows = interfaces_of(session, olt) if olt is not None else {}
    return Explained(row, spec, _proof_of(whole, row, spec, rows))


def _proof_of(oid: str, row: Oid, spec: ReadingSpec, interfaces: Mapping[str, Interface]) -> Proof:
    if row.shape == Shape.SCALAR or oid == row.oid:
        return Proof(oid, row.oid, "", (), "", None, None, Agreement.NOT_CHECKED)
    suffix = spec.index_suffix
    kept = oid.removesuffix(suffix) if suffix and len(oid) > len(row.oid) + len(suffix) + 1 else oid
    return proof.prove(kept, row.oid, spec.formula, interfaces, row.by_name and bool(interfaces))
