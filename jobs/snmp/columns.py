"""One column of a walk: judges what arrives as rows, end or fault, and knows where to go on. Sends nothing."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.snmp.errors import (
    SnmpBadAnswer,
    SnmpBadOid,
    SnmpDeviceError,
    SnmpError,
    SnmpNoSuchObject,
    SnmpNotIncreasing,
)
from jobs.snmp.session import MARKERS, SnmpType, VarBind, checked_oid
from portal.domain.oid_text import as_tuple
from portal.domain.readings import RawValue
from portal.domain.statuses import ErrorKind

Row = tuple[str, RawValue]


@dataclass(frozen=True)
class WalkedColumn:
    """One column. `complete` means: from where it began to its end, these rows and no others.

    A row is its index (what follows the column's root in the name, such as "4194312448.2") and its value.
    `supported` False: the device has no such column. `started_at`: the index after which the walk was told to begin, ""
    for the beginning; `stopped_at`: the last index read, "" for none.
    """

    root: str  # canonical OID
    rows: Sequence[Row]
    complete: bool
    supported: bool = True
    error_kind: ErrorKind | None = None
    message: str = ""
    started_at: str = ""
    stopped_at: str = ""


class Column:
    """What is known so far of one column. `ports`: indexes below it at which the walk can go on after a failure."""

    def __init__(self, root: str, start: str = "", ports: Sequence[tuple[int, ...]] = ()) -> None:
        self.root = root
        self.rows: list[Row] = []
        self.done = self.complete = False
        self.supported = True
        self.error: SnmpError | None = None
        self.error_kind: ErrorKind | None = None
        self.started_at = start
        self.last_oid = f"{root}.{start}" if start else root
        self._prefix = f"{root}."
        self._last: tuple[int, ...] = as_tuple(start) if start else ()
        self._stopped_at = start
        self._ports = ports
        self._holes = False

    def take(self, binds: Sequence[VarBind], max_rows: int) -> None:
        """Judge the next values of this column, in order, until it is done or must go on elsewhere."""
        prefix, skip, last, rows = self._prefix, len(self._prefix), self._last, self.rows
        room = max_rows - len(rows)
        odd: VarBind | None = None
        index = head = ""
        number = -1  # the last arc of the row before, whose others are `head`: most rows need no other comparison
        try:
            for bind in binds[: room + 1]:
                oid, kind, value = bind
                if oid[:skip] != prefix or (value is None and kind in MARKERS) or room <= 0:
                    odd = bind
                    break
                name = oid[skip:]
                above, _, tail = name.rpartition(".")
                arc = int(tail)
                if above == head and index:
                    increases = arc > number
                else:
                    before = (*last[:-1], number) if index else last
                    last = tuple(map(int, name.split(".")))
                    increases, head = last > before, above
                if not increases:
                    odd = bind
                    break
                rows.append((name, value))
                index, number, room = name, arc, room - 1
            if index:
                self._last, self._stopped_at, self.last_oid = as_tuple(index), index, prefix + index
            if odd is not None:
                self._judge(odd, max_rows)
        except ValueError:
            self.stop(SnmpBadAnswer(f"{self.root} was answered with a name that is no OID"))

    def _judge(self, odd: VarBind, max_rows: int) -> None:
        """What is not simply the next row: the end of the column, or a fault."""
        if odd.type is SnmpType.END_OF_MIB_VIEW:
            self.finish()
        elif odd.missing:
            self._absent(odd.type)
        elif as_tuple(odd.oid) <= as_tuple(self.root) + self._last:
            text = f"{odd.oid} came after {self.last_oid}: the OLT's names do not increase"
            self.fail(SnmpNotIncreasing(text))
        elif odd.oid.startswith(self._prefix):
            self.stop(SnmpDeviceError(f"{self.root} has more than {max_rows} rows: cut there"), ErrorKind.INCOMPLETE)
        else:
            self.finish()

    def _absent(self, kind: SnmpType) -> None:
        """A marker that GETNEXT must not return; seen from agents that hide a subtree by a view."""
        if self.rows:
            text = f"{kind} after {self.root}.{self.rows[-1][0]}, in the middle of a walk"
            self.stop(SnmpDeviceError(text), ErrorKind.INCOMPLETE)
        else:
            self.unsupported(kind)

    def finish(self) -> None:
        """The device said that nothing more comes. Whole only if no port was left out on the way."""
        self.done, self.complete = True, not self._holes

    def stop(self, error: SnmpError, kind: ErrorKind | None = None) -> None:
        """Nothing more is read of this column. The first error stays."""
        self.done, self.complete = True, False
        if self.error is None or kind is ErrorKind.TIME_LIMIT:
            self.error, self.error_kind = error, kind or error.kind

    def fail(self, error: SnmpError) -> bool:
        """Go on at the next known port, as one that could not be read; True then. Without one this is the end."""
        place = bisect_right(self._ports, self._last)
        if place >= len(self._ports):
            self.stop(error)
            return False
        self._holes = True
        if self.error is None:  # a silent port does not make the OLT silent: nothing but this column is concerned
            self.error = error
            self.error_kind = ErrorKind.INCOMPLETE if error.kind is ErrorKind.TIMEOUT else error.kind
        self._last = self._ports[place]
        self.last_oid = self._prefix + ".".join(map(str, self._last))
        return True

    def unsupported(self, word: str) -> None:
        """The device does not have this column, which is not the same as an empty one."""
        self.supported = False
        self.stop(
            SnmpNoSuchObject(
                f"{self.root} is not supported by this OLT ({word}): check the OID against model and firmware; "
                "an SNMP view on the OLT may also hide it"
            )
        )

    def judge_empty(self, bind: VarBind | None) -> None:
        """What a GET of `root.0` says of a column without rows: it stays complete and empty only on the device's clear

        word that it knows the column (noSuchInstance).
        """
        if bind is None or bind.type is SnmpType.NO_SUCH_INSTANCE:
            return
        if bind.missing:
            self.unsupported(bind.type)
        else:
            text = f"{self.root}: a GET finds {bind.oid}, GETNEXT does not: read it by GET"
            self.stop(SnmpDeviceError(text), ErrorKind.INCOMPLETE)

    def result(self) -> WalkedColumn:
        """The column as the caller sees it."""
        return WalkedColumn(
            self.root,
            self.rows,
            self.complete,
            self.supported,
            self.error_kind,
            str(self.error) if self.error else "",
            self.started_at,
            self._stopped_at,
        )


def started(asked: str, start: str, ports: Sequence[tuple[int, ...]]) -> Column:
    """The column `asked` before the first request; stopped at once where that is no OID."""
    try:
        root = checked_oid(asked)
        return Column(root, checked_oid(f"{root}.{start}")[len(root) + 1 :] if start else "", ports)
    except SnmpBadOid as error:
        column = Column("0.0")
        column.root = asked
        column.stop(error)
        return column
