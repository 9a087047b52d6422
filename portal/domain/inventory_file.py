"""The inventory file: from a located tree to entries that are right in themselves. What the database has
to say (known names, clashes, OIDs of a device) is asked elsewhere."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from portal.domain import fields, node_fields, olt_fields
from portal.domain.document import Item, Problems
from portal.domain.messages import N_

Environ = Mapping[str, str]


@dataclass(frozen=True)
class Entry:
    """One thing of the file: what it says, and where each part of it stands. What is left out is not in `values`."""

    what: str  # "OLT OLT-01", for messages
    at: Item
    values: dict[str, Any]
    places: dict[str, Item] = field(repr=False)

    @property
    def name(self) -> str:
        """The name by which the thing is known in the database (a node's key)."""
        return str(self.values.get("name", ""))

    def place(self, name: str) -> Item:
        """Where the field stands, or the entry when the field is left out."""
        return self.places.get(name, self.at)


@dataclass(frozen=True)
class NodeEntry(Entry):
    """A node and what is chained to it."""

    chain: tuple["NodeEntry", ...] = ()

    @property
    def key(self) -> str:
        """Key of the node in its workflow."""
        return str(self.values.get("key", ""))


@dataclass(frozen=True)
class TemplateEntry(Entry):
    """A template. `nodes` None = the file does not say which nodes it has."""

    nodes: tuple[NodeEntry, ...] | None = None


@dataclass(frozen=True)
class OltEntry(Entry):
    """An OLT. `nodes` None = the file does not say which nodes it has of its own."""

    nodes: tuple[NodeEntry, ...] | None = None
    workflow_enabled: bool | None = None


@dataclass(frozen=True)
class Inventory:
    """A whole file."""

    credentials: tuple[Entry, ...] = ()
    templates: tuple[TemplateEntry, ...] = ()
    olts: tuple[OltEntry, ...] = ()


SECTIONS = ("credentials", "templates", "olts")

_CREDENTIAL_KEYS = (*olt_fields.CREDENTIAL_FIELDS, *(f"{name}_env" for name in olt_fields.SECRETS))
_TEMPLATE_READERS: Mapping[str, fields.Reader] = {
    "name": fields.one_line(80, required=True),
    "description": fields.one_line(255),
    "enabled": fields.flag,
}
_NODE_READERS = {("override" if name == "override_reason" else name): r for name, r in node_fields.READERS.items()}
_OLT_READERS: Mapping[str, fields.Reader] = {
    **olt_fields.OLT_SETTINGS,
    **olt_fields.OLT_REFERENCES,
    "template": fields.one_line(80),
}

Made = TypeVar("Made", bound=Entry)


def read(root: Item, environ: Environ, problems: Problems) -> Inventory:
    """The inventory in `root`; whatever is wrong goes to `problems`, and what is right is read all the same.

    `environ` holds the variables that `community_env` and its like may name.
    """
    sections = problems.mapping(root, "the file", SECTIONS)

    def entries(name: str, make: Callable[[Item], Made]) -> tuple[Made, ...]:
        return tuple(make(at) for at in problems.list(sections[name], name)) if name in sections else ()

    inventory = Inventory(
        credentials=entries("credentials", lambda at: _credential(at, environ, problems)),
        templates=entries("templates", lambda at: _template(at, problems)),
        olts=entries("olts", lambda at: _olt(at, problems)),
    )
    for what, group in (("credential", inventory.credentials), ("template", inventory.templates)):
        _unique(what, group, problems)
    _unique("OLT", inventory.olts, problems)
    return inventory


def _named(kind: str, at: Item) -> str:
    """ "OLT OLT-01" for messages, before the entry has been read."""
    wanted = "key" if kind == "node" else "name"
    texts = [value.text for key, value in at.entries or () if key.text == wanted and value.text]
    return f"{kind} {fields.shown(texts[0])}" if texts else kind


def _require(name: str, at: Item, given: Mapping[str, Item], what: str, problems: Problems) -> None:
    if at.entries is not None and name not in given:
        problems.add(at, N_("%(what)s: %(field)s is missing", what=what, field=name))


def _credential(at: Item, environ: Environ, problems: Problems) -> Entry:
    what = _named("credential", at)
    given = problems.mapping(at, what, _CREDENTIAL_KEYS)
    values = problems.values(given, olt_fields.CREDENTIAL_FIELDS, what)
    places = dict(given)
    for name in olt_fields.SECRETS:
        variable = given.get(f"{name}_env")
        if variable is None:
            continue
        places[name] = variable
        if name in given:
            problems.add(variable, N_("%(what)s: %(field)s is given too, keep one of the two", what=what, field=name))
        else:
            values |= _from_environ(name, variable, environ, what, problems)
    _require("name", at, given, what, problems)
    return Entry(what, at, values, places)


def _from_environ(name: str, variable: Item, environ: Environ, what: str, problems: Problems) -> dict[str, object]:
    """The secret that a variable holds; an unset one is no problem yet, since a stored secret may be kept."""
    if variable.text is None:
        problems.add(variable, N_("%(what)s: %(field)s_env must name a variable", what=what, field=name))
        return {}
    given = {name: Item(variable.line, variable.column, text=environ.get(variable.text, ""))}
    return problems.values(given, {name: olt_fields.CREDENTIAL_FIELDS[name]}, what)


def _template(at: Item, problems: Problems) -> TemplateEntry:
    what = _named("template", at)
    given = problems.mapping(at, what, (*_TEMPLATE_READERS, "nodes"))
    values = problems.values(given, _TEMPLATE_READERS, what)
    _require("name", at, given, what, problems)
    nodes = _nodes(given["nodes"], what, problems) if "nodes" in given else None
    return TemplateEntry(what, at, values, given, nodes=nodes)


def _olt(at: Item, problems: Problems) -> OltEntry:
    what = _named("OLT", at)
    given = problems.mapping(at, what, (*_OLT_READERS, "workflow"))
    values = problems.values(given, _OLT_READERS, what)
    _require("name", at, given, what, problems)
    nodes, enabled = None, None
    if "workflow" in given:
        inside = problems.mapping(given["workflow"], f"{what}: workflow", ("enabled", "nodes"))
        read_flag = problems.values(inside, {"enabled": fields.flag}, f"{what}: workflow").get("enabled")
        enabled = read_flag if isinstance(read_flag, bool) else None
        nodes = _nodes(inside["nodes"], what, problems) if "nodes" in inside else None
    return OltEntry(what, at, values, given, nodes=nodes, workflow_enabled=enabled)


def _nodes(at: Item, owner: str, problems: Problems) -> tuple[NodeEntry, ...]:
    nodes = tuple(_node(item, owner, problems, chained=False) for item in problems.list(at, f"{owner}: nodes"))
    seen: set[str] = set()
    for node in (each for master in nodes for each in (master, *master.chain)):
        if node.key and node.key in seen:
            message = N_("%(what)s: this key is used twice in %(owner)s", what=node.what, owner=owner)
            problems.add(node.place("key"), message)
        seen.add(node.key)
    return nodes


def _node(at: Item, owner: str, problems: Problems, *, chained: bool) -> NodeEntry:
    what = f"{owner}: {_named('node', at)}"
    given = problems.mapping(at, what, (*_NODE_READERS, "chain"))
    values = problems.values(given, _NODE_READERS, what)
    places = dict(given)
    if "override" in given:
        places["override_reason"] = given["override"]
    if "override" in values:
        values["override_reason"] = values.pop("override")
    _require("key", at, given, what, problems)
    chain: tuple[NodeEntry, ...] = ()
    if "chain" in given and chained:
        problems.add(given["chain"], N_("%(what)s: a chained node has no chain of its own, chains have one level",
                                        what=what))  # fmt: skip
    elif "chain" in given:
        items = problems.list(given["chain"], f"{what}: chain")
        chain = tuple(_node(item, owner, problems, chained=True) for item in items)
    return NodeEntry(what, at, values, places, chain=chain)


def _unique(what: str, group: Iterable[Entry], problems: Problems) -> None:
    first: dict[str, Entry] = {}
    for entry in group:
        if not entry.name:
            continue
        earlier = first.setdefault(entry.name, entry)
        if earlier is not entry:
            problems.add(entry.place("name"), N_(
                "%(what)s %(name)s is in the file twice (first in line %(line)d)", what=what, name=entry.name,
                line=earlier.at.line,
            ))  # fmt: skip
