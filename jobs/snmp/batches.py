"""What is still to be asked for by GET, and in which portions. Sends nothing, knows of no thread."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jobs.snmp.errors import SnmpBadOid, SnmpError, SnmpNoSuchObject, SnmpTimeout
from jobs.snmp.session import VarBind, checked_oid
from jobs.snmp.sizes import OTHER_OCTETS, MessageSize, first_octets, name_octets
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import GET, SizeEvidence, SizeOutcome, Sizes, table_of

_GUESSED_VALUE = 8  # octets, of an instance that belongs to no known column


@dataclass(eq=False)
class Batch:
    """Names for one request, the sizes they count for, and whether the exact session must be asked.

    `alone`: nothing else was under way at any time of it, when it was asked for last.
    """

    names: list[str]
    sizes: list[MessageSize]
    exact: bool = False
    alone: bool = True

    def part(self, names: list[str]) -> "Batch":
        """Some of its names."""
        return Batch(names, self.sizes, self.exact)


@dataclass
class _Group:
    """Names of one table, in the order in which they were asked for."""

    size: MessageSize
    names: list[str] = field(default_factory=list)
    at: int = 0
    exact: bool = False


class Batches:
    """All names of one run: those to be asked for, the values that came, and those that failed."""

    def __init__(self, limit: int, roots: Sequence[str], sizes: Sizes) -> None:
        self.values: dict[str, VarBind] = {}
        self.failed: dict[str, ErrorKind] = {}
        self.message = ""
        self._limit, self._known = limit, sizes
        self._roots = [(f"{root}.", root) for root in roots]
        self._sizes: dict[str, MessageSize] = {}  # by table; "" for what belongs to no known column
        self._names: dict[str, str] = {}  # as asked for → as sent
        self._fresh: list[_Group] = []
        self._parts: list[Batch] = []  # of divided batches; these go first
        self._doubtful: list[tuple[list[MessageSize], list[str]]] = []

    @property
    def total(self) -> int:
        """How many OIDs were asked for."""
        return len(self._names)

    def accept(self, oids: Sequence[str]) -> None:
        """Take the OIDs in; one that is none fails at once."""
        sent: set[str] = set()
        table, prefix, group = "", "", None
        for oid in oids:
            try:
                name = self._names[oid] = checked_oid(oid)
            except SnmpBadOid as error:
                self._names[oid] = oid
                self._fail(oid, error)
                continue
            if name in sent:
                continue
            sent.add(name)
            if group is None or not prefix or not name.startswith(prefix):
                prefix, root = next((pair for pair in self._roots if name.startswith(pair[0])), ("", ""))
                table = table_of(root) if root else ""
                size = self._size(table, root, name)
                if group is None or group.size is not size:
                    group = _Group(size)
                    self._fresh.append(group)
            group.names.append(name)

    def take(self) -> Batch | None:
        """The next batch: parts of divided ones first, last of all what only the exact session can tell."""
        if self._parts:
            part = self._parts.pop()
            fits = min(size.current for size in part.sizes)
            if len(part.names) > fits:
                self._parts.append(part.part(part.names[fits:]))
            return part.part(part.names[:fits])
        if not self._fresh:
            self._fresh = [_Group(min(sizes, key=_current), names, exact=True) for sizes, names in self._doubtful]
            self._doubtful = []
        return self._packed()

    def many_left(self) -> bool:
        """True when more than one batch is left."""
        left = sum(len(group.names) - group.at for group in self._fresh) + sum(len(part.names) for part in self._parts)
        return left > self.smallest()

    def keep(self, batch: Batch, answer: list[VarBind], octets: int) -> list[str]:
        """Keep what was asked for, and return the names without a value.

        Values count by their name, not by their place: some devices cut an answer, or answer something else.
        """
        asked, values = set(batch.names), self.values
        for bind in answer:
            if bind[0] in asked:
                values[bind[0]] = bind
        rest = [name for name in batch.names if name not in values]
        if not rest:
            for size in batch.sizes:
                size.answered(len(batch.names), octets)
        return rest

    def doubt(self, batch: Batch, rest: list[str]) -> None:
        """A driver that hides why a name has no value: all of them may be an error status, some are likely absent."""
        if len(rest) == len(batch.names):
            self.ask_exactly(batch)
        else:
            self._doubtful.append((batch.sizes, rest))

    def ask_exactly(self, batch: Batch) -> None:
        """The same once more, through the exact session."""
        self._parts.append(Batch(batch.names, batch.sizes, exact=True))

    def again(self, batch: Batch) -> None:
        """The same once more, as it is."""
        self._parts.append(batch)

    def cut(self, batch: Batch, rest: list[str]) -> None:
        """The answer held only some of the names: the others are asked for again."""
        for size in batch.sizes:
            size.cut(len(batch.names), len(batch.names) - len(rest))
        self._parts.append(batch.part(rest))

    def refused(self, batch: Batch, error: SnmpError) -> None:
        """The answer would have been too big."""
        for size in batch.sizes:
            size.refused(len(batch.names))
        self.divide(batch, 2, error)

    def silent(self, batch: Batch, into: int, error: SnmpTimeout) -> None:
        """No answer, from an OLT that lives: a single name is to blame itself, else one of several, or their number."""
        for size in batch.sizes:
            if len(batch.names) == 1:
                size.innocent()
            else:
                size.silent(len(batch.names), into)
        self.divide(batch, into, error)

    def failed_together(self, batch: Batch, into: int, error: SnmpError) -> None:
        """An error status, or an answer that cannot be read: one of the names is to blame, or their number.

        Where the device says which, or does not know one of them, it is not the number.
        """
        if error.place is None and not isinstance(error, SnmpNoSuchObject):
            for size in batch.sizes:
                if len(batch.names) == 1:
                    size.innocent()
                else:
                    size.refused(len(batch.names), SizeOutcome.ERROR)
        self.divide(batch, into, error)

    def divide(self, batch: Batch, into: int, error: SnmpError) -> None:
        """Ask for it in parts; for the one the device blames, where it does, and the rest. A single one has failed."""
        names = batch.names
        if len(names) == 1:
            self._fail(names[0], error)
        elif error.place is not None and 0 <= error.place < len(names):
            place = error.place
            self._parts += [batch.part(names[:place] + names[place + 1 :]), batch.part([names[place]])]
        else:
            size = -(-len(names) // into)
            parts = [batch.part(names[start : start + size]) for start in range(0, len(names), size)]
            self._parts.extend(reversed(parts))

    def give_up(self, kind: ErrorKind) -> None:
        """Nothing more will be asked: what has no value has failed."""
        for name in self._names.values():
            if name not in self.values:
                self.failed.setdefault(name, kind)

    def values_as_asked(self) -> dict[str, VarBind]:
        """Values by OID as it was asked for."""
        return {oid: self.values[name] for oid, name in self._names.items() if name in self.values}

    def failed_as_asked(self) -> dict[str, ErrorKind]:
        """Failures by OID as it was asked for."""
        return {oid: self.failed[name] for oid, name in self._names.items() if name in self.failed}

    def evidence(self) -> tuple[SizeEvidence, ...]:
        """What was learned of each table."""
        return tuple(one for table, size in self._sizes.items() if table for one in size.evidence(GET, table))

    def smallest(self) -> int:
        """The smallest packing in use."""
        return min((size.current for size in self._sizes.values()), default=self._limit)

    def _fail(self, name: str, error: SnmpError) -> None:
        self.failed[name] = error.kind
        self.message = self.message or f"{name}: {error}"

    def _size(self, table: str, root: str, name: str) -> MessageSize:
        if table not in self._sizes:
            octets = first_octets(root) if root else name_octets(name) + _GUESSED_VALUE + OTHER_OCTETS
            self._sizes[table] = MessageSize(self._limit, octets, self._known.get((GET, table)))
        return self._sizes[table]

    def _packed(self) -> Batch | None:
        """Names from the front, across tables, as many as the strictest of their sizes allows."""
        batch, limit = Batch([], []), self._limit
        for group in self._groups():
            limit = min(limit, group.size.current)
            room = limit - len(batch.names)
            if room <= 0 or (batch.names and batch.exact != group.exact):
                break
            batch.names += group.names[group.at : group.at + room]
            batch.exact = group.exact
            group.at += room
            if not any(size is group.size for size in batch.sizes):
                batch.sizes.append(group.size)
        return batch if batch.names else None

    def _groups(self) -> Iterator[_Group]:
        """Groups from the front; one that is used up is dropped when the next is asked for."""
        while self._fresh:
            if self._fresh[0].at >= len(self._fresh[0].names):
                self._fresh.pop(0)
                continue
            yield self._fresh[0]
            if self._fresh[0].at < len(self._fresh[0].names):
                return


def _current(size: MessageSize) -> int:
    return size.current
