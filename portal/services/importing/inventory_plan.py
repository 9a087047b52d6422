"""What an inventory file means for this database: finds every clash and plans the writes. Reads only."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from portal.domain import fields, olt_fields
from portal.domain.document import Item, Problems
from portal.domain.fields import FieldError
from portal.domain.inventory_file import Entry, Inventory, NodeEntry, OltEntry, TemplateEntry
from portal.domain.messages import N_, Message
from portal.services import pairing
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock
from portal.services.importing.inventory_trees import TreeBuilder, entries_by_key
from portal.services.network import credentials, olts
from portal.services.network.node_rules import Device, Errors, NodeRules, Override
from portal.services.network.synced import new_masters
from portal.services.network.trees import Tree, tree_of
from portal.services.pairing import Leave
from portal.tables import Brand, Credential, Olt, OltModel, Workflow, WorkflowTemplate


@dataclass(frozen=True)
class CredentialPlan:
    """A credential to write: all its values."""

    name: str
    row: Credential | None
    values: dict[str, Any]


@dataclass(frozen=True)
class TemplatePlan:
    """A template to write, or one that only is referred to (`entry` None)."""

    name: str
    row: WorkflowTemplate | None
    tree: Tree
    entry: TemplateEntry | None = None

    @property
    def description(self) -> str:
        """As it shall be."""
        stored = self.row.description if self.row else ""
        return str(self.entry.values.get("description", stored)) if self.entry else stored

    @property
    def enabled(self) -> bool:
        """As it shall be."""
        stored = self.row.enabled if self.row else True
        return bool(self.entry.values.get("enabled", stored)) if self.entry else stored


@dataclass
class OltPlan:
    """An OLT to write. `values` None = the file does not name it: only its template's nodes are synced.

    `untouched`: its nodes stay as they are, also where its template has others by now.
    """

    name: str
    row: Olt | None
    values: dict[str, Any] | None = None
    leave: Leave | None = None
    brand: Brand | None = None
    model: OltModel | None = None
    template: str = ""
    workflow_enabled: bool | None = None
    tree: Tree = ()
    overrides: tuple[Override, ...] = ()
    has_new_masters: bool = False
    named_nodes: bool = False
    untouched: bool = False


@dataclass
class Plan:
    """Everything to write, in the order of the file."""

    credentials: list[CredentialPlan] = field(default_factory=list)
    templates: dict[str, TemplatePlan] = field(default_factory=dict)
    olts: list[OltPlan] = field(default_factory=list)

    @property
    def many_olts(self) -> bool:
        """True when first runs must be spread (rule 1)."""
        return sum(plan.has_new_masters for plan in self.olts) > 1


def _template_of(row: Olt | None) -> str:
    return row.workflow.template.name if row and row.workflow and row.workflow.template else ""


class Planner:
    """Plans one file. Whatever is wrong goes to `problems`; the plan then must not be written.

    `by_admin`: whoever loads it may approve that a credential is sent outside its networks. `sync` False: an OLT that
    keeps its template, and whose nodes the file does not name, keeps its nodes as they are.
    """

    def __init__(
        self, session: Session, inventory: Inventory, problems: Problems, now: datetime, *, by_admin: bool,
        sync: bool = True,
    ) -> None:  # fmt: skip
        self.session = session
        self.by_admin = by_admin
        self.inventory = inventory
        self.problems = problems
        self.sync = sync
        self.plan = Plan()
        self.broken: set[str] = set()  # templates whose mistakes are told once, not once for each OLT
        self.rules = NodeRules(catalogue.load_lookup(session), now, clock.portal_zone())
        self.brands = {row.key: row for row in session.scalars(
            select(Brand).options(selectinload(Brand.models)).order_by(Brand.key))}  # fmt: skip
        self.credentials = {row.name: row for row in session.scalars(select(Credential))}
        self.templates = {row.name: row for row in session.scalars(
            select(WorkflowTemplate).options(selectinload(WorkflowTemplate.nodes)))}  # fmt: skip
        self.olts = {row.name: row for row in session.scalars(
            select(Olt).where(Olt.deleted_at.is_(None)).options(
                joinedload(Olt.brand), joinedload(Olt.model), joinedload(Olt.credential),
                selectinload(Olt.workflow).selectinload(Workflow.nodes),
                selectinload(Olt.workflow).joinedload(Workflow.template),
            ))}  # fmt: skip

    def run(self) -> Plan:
        """The plan of the whole file."""
        for entry in self.inventory.credentials:
            self._credential(entry)
        for template in self.inventory.templates:
            self._template(template)
        for olt in self.inventory.olts:
            self._olt(olt)
        self._clashes()
        named = {entry.name for entry in self.inventory.olts}
        changed = {entry.name for entry in self.inventory.templates}
        for row in self.olts.values():
            linked = row.workflow.template if row.workflow else None
            if row.name not in named and linked is not None and linked.name in changed:
                self._linked(row, linked.name)
        return self.plan

    def _add(self, entry: Entry, name: str, message: Message) -> None:
        """Note a problem with one field, unless the field could not even be read, which was told then."""
        if name in entry.values or name not in entry.places:
            self.problems.add(
                entry.place(name), N_("%(what)s: %(field)s %(reason)s", what=entry.what, field=name, reason=message)
            )

    def _credential(self, entry: Entry) -> None:
        row = self.credentials.get(entry.name)
        values = credentials.merged(row, entry.values)
        for name, message in credentials.check(row, values).items():
            variable = entry.places.get(name)
            if variable is not None and variable.text and not entry.values.get(name):
                self.problems.add(variable, N_(
                    "%(what)s: variable %(variable)s is not set or empty: export it before the import",
                    what=entry.what, variable=fields.shown(variable.text),
                ))  # fmt: skip
            elif name != "name":
                self._add(entry, name, message)
        self.plan.credentials.append(CredentialPlan(entry.name, row, values))

    def _template(self, entry: TemplateEntry) -> None:
        row = self.templates.get(entry.name)
        stored = tree_of(row.nodes) if row else ()
        if entry.nodes is None:
            if row is None and "nodes" not in entry.places:
                self.problems.add(entry.at, N_("%(what)s: nodes is missing", what=entry.what))
            tree = stored
        else:
            before = len(self.problems.found)
            tree = TreeBuilder(stored, self.problems).from_file(entry.nodes)
            self._check(None, tree, entry.nodes, entry.at, entry.what)
            if len(self.problems.found) > before:
                self.broken.add(entry.name)
        self.plan.templates[entry.name] = TemplatePlan(entry.name, row, tree, entry)

    def _check(
        self, device: Device | None, tree: Tree, entries: Iterable[NodeEntry], fallback: Item, what: str
    ) -> tuple[Override, ...]:  # fmt: skip
        """Check composites against the catalogue; mistakes stand where the file names the node, else at `fallback`."""
        known = entries_by_key(entries)
        overrides: list[Override] = []
        for master in tree:
            composite = (master, *master.chain)
            if not all(node.columns.get("kind") and node.columns.get("oid") for node in composite):
                continue
            if not (master.columns["interval_seconds"] or master.columns["cron"]):
                continue
            verdict = self.rules.check(device, master.columns, [node.columns for node in master.chain])
            overrides += verdict.overrides
            self._tell(verdict.errors, known, fallback, what)
        return tuple(overrides)

    def _tell(self, errors: Errors, known: dict[str, NodeEntry], fallback: Item, what: str) -> None:
        for key, found in errors.items():
            for name, message in found.items():
                field_name = "override" if name == "override_reason" else name
                entry = known.get(key)
                if entry is not None:
                    place, owner = entry.place(name if name in entry.places else "interval"), entry.what
                else:
                    place, owner = fallback, f"{what}: node {key}"
                self.problems.add(
                    place, N_("%(what)s: %(field)s: %(reason)s", what=owner, field=field_name, reason=message)
                )

    def _olt(self, entry: OltEntry) -> None:
        row = self.olts.get(entry.name)
        values = self._values(entry, row)
        for name, message in olt_fields.check_olt(values).items():
            if name != "name":
                self._add(entry, name, message)
        if values.get("address"):
            for name, message in olts.check_address(values).items():
                self._add(entry, name, message)
        brand, model = self._device(entry, values)
        leave = self._leave(entry, row, values)
        plan = OltPlan(entry.name, row, values, leave, brand, model, workflow_enabled=entry.workflow_enabled)
        plan.template = self._template_name(entry, row)
        self._nodes(entry, plan)
        self.plan.olts.append(plan)

    def _values(self, entry: OltEntry, row: Olt | None) -> dict[str, Any]:
        stored = olts.shown(row) if row else {}
        if entry.values.get("brand", stored.get("brand")) != stored.get("brand"):
            stored["model"] = ""  # a model belongs to its brand
        return {**olt_fields.OLT_DEFAULTS, "model": "", **stored, **entry.values}

    def _device(self, entry: OltEntry, values: dict[str, Any]) -> tuple[Brand | None, OltModel | None]:
        key = values.get("brand")
        brand = self.brands.get(key or "")
        if brand is None:
            if key:
                self._add(entry, "brand", fields.unknown(key, self.brands))
            return None, None
        models = {model.key: model for model in brand.models}
        model = models.get(values["model"])
        if values["model"] and model is None:
            self._add(entry, "model", fields.unknown(values["model"], models))
        return brand, model

    def _leave(self, entry: OltEntry, row: Olt | None, values: dict[str, Any]) -> Leave | None:
        """Why the OLT's credential may be sent to it; None also where something is wrong."""
        name = values.get("credential")
        networks = {known.name: known.networks for known in self.credentials.values()}
        networks |= {plan.name: plan.values["networks"] for plan in self.plan.credentials}
        if name and name not in networks:
            self._add(entry, "credential", fields.unknown(name, networks))
        if name not in networks or not values.get("address"):
            return None
        stored = self.credentials.get(name)
        try:
            leave = pairing.of_olt(self.session, row, stored, networks[name], values, by_admin=self.by_admin)
        except FieldError as error:
            self._add(entry, "address", error.message)
            return None
        if leave is Leave.GRANTED and "credential" not in entry.places:
            moved = [field for field in ("address", "port") if field in entry.places]
            self._add(entry, moved[0], N_("changes: name the credential too, since it will be sent there"))
        return leave

    def _template_name(self, entry: OltEntry, row: Olt | None) -> str:
        """Name of the template the OLT shall have; "" for none."""
        stored = _template_of(row)
        if entry.nodes is not None:
            stored = ""  # where the file says which nodes there are, it says which template too
        name = str(entry.values.get("template", stored))
        if name and self._known_template(name) is None:
            known = dict.fromkeys([*self.templates, *self.plan.templates])
            self._add(entry, "template", fields.unknown(name, known))
        return name

    def _known_template(self, name: str) -> TemplatePlan | None:
        if name not in self.plan.templates and name in self.templates:
            row = self.templates[name]
            self.plan.templates[name] = TemplatePlan(name, row, tree_of(row.nodes))
        return self.plan.templates.get(name)

    def _nodes(self, entry: OltEntry, plan: OltPlan) -> None:
        stored = tree_of(plan.row.workflow.nodes) if plan.row and plan.row.workflow else ()
        template = self._known_template(plan.template) if plan.template else None
        builder = TreeBuilder(stored, self.problems, template.tree if template else (), plan.template)
        plan.untouched = not self.sync and entry.nodes is None and plan.template == _template_of(plan.row)
        if plan.untouched:
            plan.tree = stored
        else:
            plan.tree = builder.from_stored() if entry.nodes is None else builder.from_file(entry.nodes)
        plan.has_new_masters = new_masters(plan.tree, stored)
        plan.named_nodes = entry.nodes is not None
        same_device = plan.row is not None and (plan.row.brand, plan.row.model) == (plan.brand, plan.model)
        if plan.brand is not None and not (plan.untouched and same_device):
            device = Device(plan.brand.key, plan.model.key if plan.model else "")
            tree = tuple(m for m in plan.tree if not (plan.template in self.broken and m.from_template))
            plan.overrides = self._check(device, tree, entry.nodes or (), entry.place("template"), entry.what)

    def _linked(self, row: Olt, template_name: str) -> None:
        """An OLT that the file does not name, but whose template it changes."""
        template = self.plan.templates[template_name]
        stored = tree_of(row.workflow.nodes) if row.workflow else ()
        builder = TreeBuilder(stored, self.problems, template.tree, template_name)
        plan = OltPlan(row.name, row, template=template_name, tree=builder.from_stored())
        plan.has_new_masters = new_masters(plan.tree, stored)
        device = Device(row.brand.key, row.model.key if row.model else "")
        at = template.entry.at if template.entry else Item(0, 0)
        if template_name not in self.broken:
            what = f"OLT {row.name}, which has template {template_name}"
            plan.overrides = self._check(device, plan.tree, (), at, what)
        self.plan.olts.append(plan)

    def _clashes(self) -> None:
        """Each address and port may belong to one OLT in service: in the file, and among those it does not name."""
        named = {entry.name for entry in self.inventory.olts}
        holders = {(row.address, row.port): row.name for row in self.olts.values() if row.name not in named}
        stored = {(row.address, row.port): row.name for row in self.olts.values()}
        for entry, plan in zip(self.inventory.olts, self.plan.olts, strict=True):
            values = plan.values or {}
            if not values.get("address") or "address" in entry.places and "address" not in entry.values:
                continue
            pair = (values["address"], values["port"])
            holder = holders.setdefault(pair, entry.name)
            shown = f"{pair[0]}:{pair[1]}"
            if holder != entry.name:
                self._add(entry, "address", N_("%(pair)s belongs to OLT %(other)s already", pair=shown, other=holder))
            elif stored.get(pair, entry.name) != entry.name:
                self._add(entry, "address", N_(
                    "%(pair)s still belongs to OLT %(other)s, which this file moves: import that OLT alone first",
                    pair=shown, other=stored[pair],
                ))  # fmt: skip
