"""The inventory as YAML text in the format that inventory.load takes. Holds no secret."""

import re
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from portal.domain import intervals, node_fields, olt_fields
from portal.domain.statuses import DEFAULT_PRIORITY
from portal.services.network import olts
from portal.services.network.trees import Tree, Wanted, tree_of
from portal.tables import Credential, Olt, Workflow, WorkflowTemplate

_PREFIX = {"community": "SNMP_COMMUNITY", "auth_password": "SNMP_AUTH", "priv_password": "SNMP_PRIV"}
_DURATIONS = ("retry_delay", "time_limit")
_HEADER = (
    "# Inventory of Facho Deluxe, written by `flask export`. Secrets are not in it: before an import into an empty\n"
    "# database, set the variables that *_env names. A setting that is left out has its default.\n"
)


def dump(session: Session) -> str:
    """The whole inventory, by name; what has its default is left out, so that the text is short and stable."""
    credentials = session.scalars(select(Credential).order_by(Credential.name)).all()
    templates = session.scalars(
        select(WorkflowTemplate).options(selectinload(WorkflowTemplate.nodes)).order_by(WorkflowTemplate.name)
    ).all()
    rows = session.scalars(
        select(Olt).where(Olt.deleted_at.is_(None)).order_by(Olt.name).options(
            joinedload(Olt.brand), joinedload(Olt.model), joinedload(Olt.credential),
            selectinload(Olt.workflow).selectinload(Workflow.nodes),
            selectinload(Olt.workflow).joinedload(Workflow.template).selectinload(WorkflowTemplate.nodes),
        )
    ).all()  # fmt: skip
    variables: set[str] = set()
    document = CommentedMap(
        credentials=CommentedSeq([_flow(_credential(row, variables)) for row in credentials]),
        templates=CommentedSeq([_template(row) for row in templates]),
        olts=CommentedSeq([_olt(row) for row in rows]),
    )
    return _HEADER + _text(document)


def _text(document: CommentedMap) -> str:
    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    stream = StringIO()
    writer.dump(document, stream)
    return stream.getvalue()


def _flow(values: Mapping[str, Any]) -> CommentedMap:
    """A mapping on one line."""
    made = CommentedMap(values)
    made.fa.set_flow_style()
    return made


def _credential(row: Credential, variables: set[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"name": row.name, "version": row.version}
    for name in ("username", "auth_protocol", "priv_protocol", "networks"):
        if getattr(row, name):
            values[name] = getattr(row, name)
    for name, prefix in _PREFIX.items():
        if row.holds(name):
            values[f"{name}_env"] = _variable(prefix, row.name, variables)
    return values


def _variable(prefix: str, name: str, taken: set[str]) -> str:
    """SNMP_COMMUNITY_LAB for lab; a number is added where two names would share a variable."""
    base = f"{prefix}_{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_') or 'X'}"
    made, number = base, 2
    while made in taken:
        made, number = f"{base}_{number}", number + 1
    taken.add(made)
    return made


def _template(row: WorkflowTemplate) -> CommentedMap:
    made = CommentedMap(name=row.name)
    if row.description:
        made["description"] = row.description
    if not row.enabled:
        made["enabled"] = False
    made["nodes"] = _nodes(tree_of(row.nodes))
    return made


def _olt(row: Olt) -> CommentedMap:
    values = olts.shown(row)
    order = ("name", "address", "port", "brand", "model", "credential", *olt_fields.OLT_SETTINGS)
    kept = {
        name: values[name] for name in dict.fromkeys(order)
        if name == "port" or values[name] != olt_fields.OLT_DEFAULTS.get(name, "")
    }  # fmt: skip
    workflow = _workflow(row.workflow) if row.workflow else CommentedMap()
    if row.workflow and row.workflow.template:
        kept["template"] = row.workflow.template.name
    if not workflow:
        return _flow(kept)
    made = CommentedMap(kept)
    made["workflow"] = workflow
    return made


def _workflow(row: Workflow) -> CommentedMap:
    made = CommentedMap()
    if not row.enabled:
        made["enabled"] = False
    template = {node.key: node for node in _every(tree_of(row.template.nodes))} if row.template else {}
    nodes = _differing(tree_of(row.nodes), template)
    if nodes:
        made["nodes"] = nodes
    return made


def _every(tree: Tree) -> Iterable[Wanted]:
    for master in tree:
        yield from (master, *master.chain)


def _differing(tree: Tree, template: Mapping[str, Wanted]) -> CommentedSeq:
    """The OLT's own nodes, and of the template's only what the OLT has otherwise."""
    made = CommentedSeq()
    order = {key: place for place, key in enumerate(template)}
    usual = sorted(tree, key=lambda node: order.get(node.key, len(order)))
    for node in tree:
        base = template.get(node.key)
        chain = _differing(node.chain, template)
        if base is None:
            made.append(_node(node, chain))
            continue
        given = {"key": node.key} | (_against(node, base) if node.overridden else {})
        if chain or len(given) > 1 or list(tree) != usual:
            made.append(_with_chain(given, chain))
    return made


def _nodes(tree: Tree) -> CommentedSeq:
    return CommentedSeq([_node(node, _nodes(node.chain)) for node in tree])


def _node(node: Wanted, chain: CommentedSeq) -> CommentedMap:
    defaults = {**node_fields.DEFAULTS, "name": node.key, "priority": DEFAULT_PRIORITY[node.columns["kind"]]}
    return _with_chain({"key": node.key} | _shown(node, defaults), chain)


def _against(node: Wanted, base: Wanted) -> dict[str, Any]:
    """What an overridden node has otherwise than its template; its kind at least, so that it stays overridden."""
    return _shown(node, base.columns) or {"kind": node.columns["kind"].value}


def _shown(node: Wanted, defaults: Mapping[str, Any]) -> dict[str, Any]:
    columns = node.columns
    order = ("name", "kind", "oid", "interval_seconds", "cron", *node_fields.COLUMNS)
    differing = {
        name: columns[name] for name in dict.fromkeys(order)
        if name != "key" and columns[name] != defaults.get(name) and columns[name] is not None
    }  # fmt: skip
    return {_FILE_NAMES.get(name, name): _value(name, value) for name, value in differing.items()}


_FILE_NAMES = {"interval_seconds": "interval", "override_reason": "override"}


def _value(name: str, value: Any) -> Any:
    if name == "kind":
        return value.value
    return intervals.show(value) if name in ("interval_seconds", *_DURATIONS) else value


def _with_chain(values: Mapping[str, Any], chain: CommentedSeq) -> CommentedMap:
    if not chain:
        return _flow(values)
    made = CommentedMap(values)
    made["chain"] = chain
    return made
