"""Which nodes an OLT or a template shall have: the file over the template over what is stored. Reads only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from portal.domain import node_fields
from portal.domain.document import Problems
from portal.domain.inventory_file import NodeEntry
from portal.domain.messages import N_
from portal.services.network.synced import placed, synced
from portal.services.network.trees import Tree, Wanted


class TreeBuilder:
    """Builds trees for one OLT or template; mistakes go to `problems` at their place in the file."""

    def __init__(self, stored: Tree, problems: Problems, template: Tree = (), template_name: str = "") -> None:
        self.stored = stored
        self.problems = problems
        self.template = template
        self.template_name = template_name
        self._by_key = placed(stored)
        self._template_place = placed(template)

    def from_file(self, entries: Sequence[NodeEntry]) -> Tree:
        """The file is the truth: template nodes with the file's overrides, then the file's own nodes."""
        given = self._placed(entries, None)
        masters = [self._override(master, given.get(master.key)) for master in self.template]
        masters += [self._own(entry) for key, entry in given.items() if key not in self._template_place]
        return _in_file_order(masters, given)

    def from_stored(self) -> Tree:
        """The file says nothing of own nodes: the template's nodes as they are now, and the OLT's own as stored."""
        return synced(self.stored, self.template)

    def _placed(self, entries: Sequence[NodeEntry], master: str | None) -> dict[str, NodeEntry]:
        """The usable nodes of one level by key."""
        return {entry.key: entry for entry in entries if entry.key and self._at_its_place(entry, master)}

    def _at_its_place(self, entry: NodeEntry, master: str | None) -> bool:
        """Whether a file's node hangs where the template hangs the node of that key."""
        place = self._template_place.get(entry.key)
        if place is None or place.master == master:
            return True
        where = f"chain of {place.master}" if place.master else "nodes"
        self.problems.add(entry.place("key"), N_(
            "%(what)s: template %(template)s has this node under %(where)s: put it there, or take another key",
            what=entry.what, template=self.template_name, where=where,
        ))  # fmt: skip
        return False

    def _override(self, wanted: Wanted, entry: NodeEntry | None) -> Wanted:
        """A node of the template with what the file says of it."""
        given = self._placed(entry.chain, wanted.key) if entry else {}
        chain = [self._override(chained, given.get(chained.key)) for chained in wanted.chain]
        chain += [self._chained(each) for key, each in given.items() if key not in self._template_place]
        base = replace(wanted, chain=_in_file_order(chain, given), from_template=True, overridden=False)
        if entry is None or not entry.values.keys() - {"key"}:
            return base
        columns = self._columns(entry, wanted.columns, chained=self._template_place[wanted.key].master is not None)
        return replace(base, columns=columns, overridden=True)

    def _own(self, entry: NodeEntry) -> Wanted:
        chain = tuple(self._chained(each) for each in self._placed(entry.chain, entry.key).values())
        return Wanted(self._columns(entry, self._base(entry), chained=False), chain)

    def _chained(self, entry: NodeEntry) -> Wanted:
        return Wanted(self._columns(entry, self._base(entry), chained=True))

    def _base(self, entry: NodeEntry) -> Mapping[str, Any] | None:
        stored = self._by_key.get(entry.key)
        return stored.node.columns if stored else None

    def _columns(self, entry: NodeEntry, base: Mapping[str, Any] | None, *, chained: bool) -> dict[str, Any]:
        columns, errors = node_fields.complete(entry.values, base, chained=chained)
        for name, message in errors.items():
            if name in entry.values or name not in entry.places:  # others were told when they were read
                self.problems.add(entry.place(name), N_("%(what)s: %(field)s %(reason)s", what=entry.what, field=name,
                                                        reason=message))  # fmt: skip
        return columns


def _in_file_order(nodes: Sequence[Wanted], given: Mapping[str, NodeEntry]) -> Tree:
    """The file's order where it names every node; else the template's, then the OLT's own."""
    order = {key: place for place, key in enumerate(given)}
    if order.keys() >= {node.key for node in nodes}:
        return tuple(sorted(nodes, key=lambda node: order[node.key]))
    return tuple(nodes)


def entries_by_key(entries: Iterable[NodeEntry]) -> dict[str, NodeEntry]:
    """The file's nodes, chained ones too, by key."""
    return {each.key: each for master in entries for each in (master, *master.chain)}
