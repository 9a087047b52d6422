"""What a workflow shall have once it is in step with its template: a rule over trees. Reads and writes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from portal.services.network.trees import Difference, Tree, Wanted, every


@dataclass(frozen=True)
class Placed:
    """A node and the key of the master it hangs on; None for a master."""

    node: Wanted
    master: str | None


def placed(tree: Tree) -> dict[str, Placed]:
    """Key → node and place."""
    found = {master.key: Placed(master, None) for master in tree}
    return found | {chained.key: Placed(chained, master.key) for master in tree for chained in master.chain}


def synced(stored: Tree, template: Tree) -> Tree:
    """The template's nodes as they are now, with what this OLT has otherwise on purpose, and the OLT's own nodes.

    An own node that has the key of one of the template becomes the template's: see `clashes`.
    """
    return _Rule(stored, template).tree()


def without_template(stored: Tree) -> Tree:
    """All nodes as the OLT's own."""
    return tuple(
        replace(node, chain=without_template(node.chain), from_template=False, overridden=False) for node in stored
    )


def clashes(stored: Tree, template: Tree) -> list[str]:
    """Keys of own nodes that the template has too, and otherwise: which of the two is meant, no rule can say."""
    wanted = placed(template)
    return [
        key
        for key, found in placed(stored).items()
        if key in wanted and not found.node.from_template and not _same(found, wanted[key])
    ]


def _same(own: Placed, wanted: Placed) -> bool:
    return own.master == wanted.master and dict(own.node.columns) == dict(wanted.node.columns)


def kept(tree: Tree) -> list[str]:
    """Keys of the nodes that differ from the template on purpose."""
    return [node.key for node in every(tree) if node.overridden]


def difference(stored: Tree, wanted: Tree) -> Difference:
    """What writing `wanted` would change; a chain or list that is only ordered otherwise counts for its first node."""
    found = Difference()
    before, after = placed(stored), placed(wanted)
    found.added = [key for key in after if key not in before]
    found.removed = [key for key in before if key not in after]
    for key in after.keys() & before.keys():
        was, shall = before[key], after[key]
        changes = {
            name: [old, shall.node.columns[name]]
            for name, old in was.node.columns.items()
            if old != shall.node.columns[name]
        }
        if was.master != shall.master:
            changes["master"] = [was.master, shall.master]
        if was.node.from_template is not shall.node.from_template:
            changes["from template"] = [was.node.from_template, shall.node.from_template]
        if changes:
            found.changed[key] = changes
    if not found and _order(stored) != _order(wanted):
        found.changed[wanted[0].key] = {"position": [None, None]}
    return found


def _order(tree: Tree) -> list[str]:
    return [node.key for node in every(tree)]


def new_masters(wanted: Tree, stored: Tree) -> bool:
    """True when a master is among the wanted that is not stored at all."""
    known = {node.key for node in every(stored)}
    return any(master.key not in known for master in wanted)


class _Rule:
    """One workflow and its template."""

    def __init__(self, stored: Tree, template: Tree) -> None:
        self.stored = stored
        self.template = template
        self._stored: Mapping[str, Placed] = placed(stored)
        self._template: Mapping[str, Placed] = placed(template)

    def tree(self) -> Tree:
        masters = [self._kept(master, None) for master in self.template]
        own = [self._without_foreign(node) for node in self.stored if self._is_own(node)]
        return _in_stored_order(masters + own, self.stored)

    def _is_own(self, node: Wanted) -> bool:
        """Stored, and kept though the template does not have it: its own, or overridden and since then orphaned."""
        return node.key not in self._template and (not node.from_template or node.overridden)

    def _without_foreign(self, node: Wanted) -> Wanted:
        chain = tuple(replace(each, from_template=False, overridden=False) for each in node.chain if self._is_own(each))
        return replace(node, chain=chain, from_template=False, overridden=False)

    def _kept(self, wanted: Wanted, master: str | None) -> Wanted:
        """A node of the template as this OLT has it now; the OLT's own nodes stay in its chain."""
        stored = self._stored.get(wanted.key)
        chain = [self._kept(chained, wanted.key) for chained in wanted.chain]
        kept_chain: tuple[Wanted, ...] = stored.node.chain if stored else ()
        chain += [self._without_foreign(each) for each in kept_chain if self._is_own(each)]
        node = replace(wanted, chain=_in_stored_order(chain, kept_chain), from_template=True, overridden=False)
        if stored is None or not stored.node.overridden:
            return node
        columns = dict(stored.node.columns)
        if (stored.master is None) is not (master is None):
            columns |= {name: wanted.columns[name] for name in ("interval_seconds", "cron")}
        return replace(node, columns=columns, overridden=True)


def _in_stored_order(nodes: Sequence[Wanted], stored: Iterable[Wanted]) -> Tree:
    """The order a person gave on this OLT, as long as the same nodes are concerned."""
    order = {node.key: place for place, node in enumerate(stored)}
    moved = any(node.overridden for node in nodes)
    if moved and order.keys() == {node.key for node in nodes}:
        return tuple(sorted(nodes, key=lambda node: order[node.key]))
    return tuple(nodes)
