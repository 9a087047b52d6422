"""OLTs from a spreadsheet: what each row would do, then all of it in one transaction, by the inventory's own plan.

A row becomes an entry of an inventory file, so there is one way to check OLTs and one way to write them. A row that is
wrong is left out and told why; what an empty cell says nothing about keeps its value; a hyphen alone empties a field.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from portal.domain import csv_rows, inventory_file, olt_fields
from portal.domain.csv_rows import Record, Sheet, SheetError
from portal.domain.document import Item, Problem, Problems
from portal.domain.inventory_file import OltEntry
from portal.domain.messages import N_, Message
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.dispatch import executions
from portal.services.errors import Conflict, Invalid
from portal.services.importing.inventory import Applier, Report
from portal.services.importing.inventory_plan import OltPlan, Plan, Planner
from portal.services.network import olts
from portal.services.network.trees import Difference, Tree, columns_of
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Brand, Olt

LARGEST = 512 * 1024  # bytes
MOST_ROWS = 2000
_MOST_PASSES = 6  # a row that is left out may free, or take away, what another one needs
EMPTY = "-"

FIELDS = (*olt_fields.OLT_SETTINGS, *olt_fields.OLT_REFERENCES, "template")
_COLUMN = {name: place for place, name in enumerate(FIELDS, start=1)}
# Heads of columns as `csv_rows.plain` leaves them, in English and Spanish; "" is passed over without a word.
_HEADS = {
    "name": "name|olt|nombre|equipo",
    "address": "address|ip|ip address|host|direccion|direccion ip|ip de gestion",
    "port": "port|udp port|puerto|puerto udp|puerto snmp",
    "brand": "brand|vendor|marca|fabricante",
    "model": "model|modelo",
    "credential": "credential|snmp credential|credencial|credencial snmp|perfil snmp",
    "template": "template|workflow template|plantilla|plantilla de flujo",
    "site": "site|sitio|sede|lugar|ubicacion",
    "enabled": "enabled|active|habilitada|habilitado|activa|activo",
    "timeout": "timeout|timeout s|tiempo de espera|tiempo de espera s|espera s",
    "retries": "retries|reintentos",
    "max_repetitions": "max repetitions|rows per getbulk|filas por getbulk",
    "max_varbinds": "max varbinds|values per get|valores por get",
    "max_inflight": "max inflight|requests at once|solicitudes a la vez|peticiones a la vez",
    "text_encoding": "text encoding|encoding|encoding of texts|codificacion|codificacion de los textos",
    "": "reason|motivo",
}
NAMES = {word: name for name, words in _HEADS.items() for word in words.split("|")}
_FLAGS = {
    **dict.fromkeys(("si", "s", "x", "verdadero", "habilitada", "habilitado", "activa", "activo", "enabled"), "true"),
    **dict.fromkeys(("falso", "deshabilitada", "deshabilitado", "inactiva", "inactivo", "disabled"), "false"),
}


class Effect(StrEnum):
    """What a row does."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """What one row would do. `changes`: field → [old, new] of an OLT that is there; `reasons`: (field or "", why).

    `wanted`: the nodes that would be written, by key; empty where they stay as they are.
    """

    number: int
    name: str
    effect: Effect
    values: Mapping[str, Any]
    changes: Mapping[str, list[Any]] = field(default_factory=dict)
    nodes: Difference = field(default_factory=Difference)
    reasons: tuple[tuple[str, Message], ...] = ()
    raw: tuple[str, ...] = ()
    wanted: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def told(self) -> tuple[object, ...]:
        """All of it that a write depends on."""
        return self.number, self.name, self.effect, self.values, self.changes, self.reasons, self.wanted


@dataclass(frozen=True)
class Preview:
    """What a whole table would do. `mark` changes with any of it: what is confirmed is what was looked at."""

    sheet: Sheet
    rows: tuple[Row, ...]

    def of(self, effect: Effect | str) -> tuple[Row, ...]:
        """The rows that do this, in their order."""
        return tuple(row for row in self.rows if row.effect == effect)

    @property
    def writes(self) -> int:
        """How many OLTs are created or changed."""
        return len(self.of(Effect.CREATED)) + len(self.of(Effect.CHANGED))

    @property
    def mark(self) -> str:
        """Fingerprint of every row's effect."""
        told = [row.told() for row in self.rows]
        return hashlib.sha256(json.dumps(told, default=str, sort_keys=True).encode()).hexdigest()[:32]


class Moved(Conflict):
    """What would happen is not what was looked at; `preview` is how it is now. Nothing was written."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        super().__init__(
            N_("what would happen is no longer what was shown, so nothing was written: look at it again, then confirm")
        )


def preview(text: str, now: datetime, *, by_admin: bool = False) -> Preview:
    """What each row would do; nothing is written. SheetError when the text is no table of OLTs.

    `by_admin`: whoever asks may approve that a credential is sent outside its networks.
    """
    return _preview(db.session(), _sheet(text), now, by_admin=by_admin)[0]


def load(text: str, mark: str, actor: str, now: datetime, *, by_admin: bool = False) -> Preview:
    """Write all that the preview of that mark showed, or nothing; rows that were refused there are left out.

    Everything is checked again: Moved when anything is different by now. First runs are spread (rule 1).
    """
    sheet = _sheet(text)
    with unique_or_invalid({}), transaction() as session:
        shown, plan = _preview(session, sheet, now, by_admin=by_admin)
        if shown.mark != mark:
            raise Moved(shown)
        disabled = Applier(session, plan, Report(dry_run=False), actor, now, None).run()
    if disabled:
        executions.stop_running(disabled)
    return shown


def _sheet(text: str) -> Sheet:
    if len(text.encode(errors="replace")) > LARGEST:
        raise SheetError(N_("the table is larger than %(limit)d KB: split the file", limit=LARGEST // 1024))
    sheet = csv_rows.read(text, NAMES, MOST_ROWS)
    if not sheet.records:
        raise SheetError(N_("there is a head but no row below it"))
    return sheet


def _preview(session: Session, sheet: Sheet, now: datetime, *, by_admin: bool) -> tuple[Preview, Plan]:
    items = {record.number: item for record, item in zip(sheet.records, _items(session, sheet), strict=True)}
    refused = {record.number: [*record.destroyed.items(), *_surplus(record)]
               for record in sheet.records if record.destroyed or record.surplus}  # fmt: skip
    for _ in range(_MOST_PASSES):
        problems = Problems()
        kept = tuple(item for number, item in items.items() if number not in refused)
        inventory = inventory_file.read(_root(kept), {}, problems)
        plan = Planner(session, inventory, problems, now, by_admin=by_admin, sync=False).run()
        if not problems.found:
            plans = {entry.at.line: each for entry, each in zip(inventory.olts, plan.olts, strict=True)}
            return Preview(sheet, tuple(_row(record, plans, refused) for record in sheet.records)), plan
        _refuse(problems, inventory.olts, refused)
    raise SheetError(N_("too many rows depend on each other (addresses that move in circles): import fewer at once"))


def _surplus(record: Record) -> list[tuple[str, Message]]:
    return [("", N_("the row has more cells than the head"))] if record.surplus else []


def _root(items: tuple[Item, ...]) -> Item:
    return Item(1, 0, entries=((Item(1, 0, text="olts"), Item(1, 0, items=items)),))


# -- a row as an entry of an inventory


def _items(session: Session, sheet: Sheet) -> list[Item]:
    brands = list(session.scalars(select(Brand).options(selectinload(Brand.models))))
    query = select(Olt.name, Brand.key).join(Brand, Brand.id == Olt.brand_id).where(Olt.deleted_at.is_(None))
    stored = {name: key for name, key in session.execute(query)}
    words = _Words(brands, stored)
    return [_item(record, words) for record in sheet.records]


class _Words:
    """What people write for a brand and a model → the keys by which the catalogue knows them."""

    def __init__(self, brands: Sequence[Brand], stored: Mapping[str, str]) -> None:
        self.stored = stored
        self.brands = {word: brand.key for brand in brands for word in (brand.name.casefold(), brand.key.casefold())}
        self.models = {
            (brand.key, word): model.key
            for brand in brands for model in brand.models for word in (model.name.casefold(), model.key.casefold())
        }  # fmt: skip

    def said(self, cells: Mapping[str, str]) -> dict[str, str]:
        """The cells with brand, model and enabled as an inventory file writes them; a hyphen alone is nothing."""
        given = {name: "" if text == EMPTY else text for name, text in cells.items()}
        brand = self.brands.get(given.get("brand", "").casefold(), given.get("brand"))
        if brand:
            given["brand"] = brand
        if "model" in given:
            here = brand or self.stored.get(given.get("name", ""), "")
            given["model"] = self.models.get((here, given["model"].casefold()), given["model"])
        if "enabled" in given:
            given["enabled"] = _FLAGS.get(csv_rows.plain(given["enabled"]), given["enabled"])
        return given


def _item(record: Record, words: _Words) -> Item:
    pairs = []
    for name, text in words.said(record.cells).items():
        pairs.append((Item(record.number, 0, text=name), Item(record.number, _COLUMN[name], text=text)))
    return Item(record.number, 0, entries=tuple(pairs))


# -- what is wrong, by row and field


def _refuse(
    problems: Problems, entries: Iterable[OltEntry], refused: dict[int, list[tuple[str, Message]]]
) -> None:  # fmt: skip
    whats = {entry.at.line: entry.what for entry in entries}
    for problem in problems.sorted():
        if not problem.line:
            raise Invalid({"": problem.message})
        refused.setdefault(problem.line, []).append(_reason(problem, whats.get(problem.line, "")))


def _reason(problem: Problem, what: str) -> tuple[str, Message]:
    """(field, why) without the name of the OLT, which stands in its row."""
    params = problem.message.params
    column = FIELDS[problem.column - 1] if problem.column else str(params.get("field", ""))
    column = column if column in FIELDS else ""
    node = str(params.get("what", "")).removeprefix(f"{what}: node ")
    reason = params.get("reason")
    if node != params.get("what", ""):
        return column, N_("node %(node)s: %(reason)s", node=node, reason=reason)
    if isinstance(reason, Message):
        return column, reason
    return column, N_("is missing") if "field" in params else problem.message


# -- what a right row does


def _row(record: Record, plans: Mapping[int, OltPlan], refused: Mapping[int, list[tuple[str, Message]]]) -> Row:
    plan = plans.get(record.number)
    if plan is None:
        name, reasons = record.cells.get("name", ""), tuple(refused[record.number])
        return Row(record.number, name, Effect.REFUSED, record.cells, reasons=reasons, raw=record.raw)
    values = {**(plan.values or {}), "template": plan.template}
    wanted = {} if plan.untouched else _states(plan.tree)
    if plan.row is None:
        nodes = Difference(added=list(wanted))
        return Row(record.number, plan.name, Effect.CREATED, values, nodes=nodes, raw=record.raw, wanted=wanted)
    flow = plan.row.workflow
    before = {**olts.shown(plan.row), "template": flow.template.name if flow and flow.template else ""}
    changes, nodes = audit.difference(before, {name: values[name] for name in before}), _nodes(plan, wanted)
    effect = Effect.CHANGED if changes or nodes else Effect.UNCHANGED
    return Row(record.number, plan.name, effect, values, changes, nodes, raw=record.raw, wanted=wanted)


def _nodes(plan: OltPlan, after: Mapping[str, dict[str, Any]]) -> Difference:
    """What writing the plan's tree would change of the stored nodes."""
    if plan.untouched:
        return Difference()
    stored = plan.row.workflow.nodes if plan.row and plan.row.workflow else []
    before = {
        node.key: {**columns_of(node), "position": node.position, "master": node.master.key if node.master else None,
                   "from template": node.template_node_id is not None}
        for node in stored
    }  # fmt: skip
    return Difference(
        added=[key for key in after if key not in before],
        changed={key: found for key, state in after.items() if key in before
                 and (found := audit.difference(before[key], state))},
        removed=[key for key in before if key not in after],
    )  # fmt: skip


def _states(tree: Tree) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for position, master in enumerate(tree):
        here = {"position": position, "master": None, "from template": master.from_template}
        found[master.key] = {**master.columns, **here}
        for place, node in enumerate(master.chain):
            there = {"position": place, "master": master.key, "from template": node.from_template}
            found[node.key] = {**node.columns, **there}
    return found
