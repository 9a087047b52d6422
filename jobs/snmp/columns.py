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
    SnmpUnreadable,
)
from jobs.snmp.session import MARKERS, SnmpType, VarBind, checked_oid
from portal.domain.oid_text import as_tuple
from portal.domain.readings import RawValue
from portal.domain.statuses import ErrorKind

Row = tuple[str, RawValue]
MAX_NUMBER = 2**32 - 1


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
    """What is known so far of one column. `ports`: indexes below it at which the walk can go on after a failure.

    `unordered`: the OLT is known to have an order of its own, so only a name that comes again ends the walk.
    """

    def __init__(
        self, root: str, start: str = "", ports: Sequence[tuple[int, ...]] = (), unordered: bool = False
    ) -> None:
        self.root = root
        self.rows: list[Row] = []
        self.done = self.complete = False
        self.supported = True
        self.error: SnmpError | None = None
        self.error_kind: ErrorKind | None = None
        self.started_at = start
        self.last_oid = f"{root}.{start}" if start else root  # what comes after it is asked for
        self._prefix = f"{root}."
        self._last: tuple[int, ...] = as_tuple(start) if start else ()
        self._stopped_at = start
        self._ports = ports
        self._holes = False
        self._passed = 0  # names without a row
        self._stepped_to: tuple[int, ...] = ()  # the index that an unreadable row was taken to have
        self.unordered = unordered
        self._seen: set[str] = set()  # indexes so far, once one has come out of order
        self.disorder = False  # a name that was not seen before has come after a later one

    def take(self, binds: Sequence[VarBind], max_rows: int) -> None:
        """Judge the next values of this column, in order, until it is done or must go on elsewhere."""
        try:
            while binds:
                binds = self._take_as_they_come(binds, max_rows) if self._seen else self._take_in_order(binds, max_rows)
        except ValueError:
            self.stop(SnmpBadAnswer(f"{self.root} was answered with a name that is no OID"))

    def _take_in_order(self, binds: Sequence[VarBind], max_rows: int) -> Sequence[VarBind]:
        """What is left behind a value that is not simply the next row; nothing where the column does not go on."""
        prefix, skip, last, rows = self._prefix, len(self._prefix), self._last, self.rows
        before = len(rows)
        room = max_rows - before - self._passed
        odd: VarBind | None = None
        index = head = ""
        number = -1  # the last arc of the row before, whose others are `head`: most rows need no other comparison
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
                latest = (*last[:-1], number) if index else last
                last = tuple(map(int, name.split(".")))
                increases, head = last > latest, above
            if not increases:
                odd = bind
                break
            rows.append((name, value))
            index, number, room = name, arc, room - 1
        if index:
            self._stopped_at = index
            self._move(index)
        return () if odd is None else self._judge(odd, binds[len(rows) - before + 1 :], max_rows)

    def _take_as_they_come(self, binds: Sequence[VarBind], max_rows: int) -> Sequence[VarBind]:
        """The same where names do not increase: a row is one that has not been seen."""
        for place, bind in enumerate(binds):
            index = bind.oid[len(self._prefix) :]
            room = len(self.rows) + self._passed < max_rows
            if bind.missing or not bind.oid.startswith(self._prefix) or index in self._seen or not room:
                return self._judge(bind, binds[place + 1 :], max_rows)
            self._seen.add(index)
            self.rows.append((index, bind.value))
            self._stopped_at = index
            self._move(index)
        return ()

    def _judge(self, odd: VarBind, behind: Sequence[VarBind], max_rows: int) -> Sequence[VarBind]:
        """A hole, the end of the column, a row out of order, or a fault.

        `behind`: what came after it in the same answer, which is returned to be looked at where the column goes on. It
        has not ended while rows of it come.
        """
        below = odd.oid.startswith(self._prefix)
        at_end = odd.type is SnmpType.END_OF_MIB_VIEW or not (odd.missing or below)
        if (at_end and self._goes_on(behind)) or (odd.missing and not at_end and below and self._is_new(odd.oid)):
            self._pass_over(odd)
            return behind
        if odd.type is SnmpType.END_OF_MIB_VIEW:
            self.finish()
        elif odd.missing:
            self._absent(odd.type)
        elif self._comes_back(odd.oid):
            self.disorder = below and not any(self._index(odd.oid) == index for index, _ in self.rows)
            if self.disorder and self.unordered:
                self._seen = {index for index, _ in self.rows} or {""}
                return (odd, *behind)
            again = ". From the next walk on only one that comes again ends it" if self.disorder else ""
            text = f"{odd.oid} came after {self.last_oid}: the OLT's names do not increase{again}"
            self.fail(SnmpNotIncreasing(text))
        elif below:
            self.stop(SnmpDeviceError(f"{self.root} has more than {max_rows} rows: cut there"), ErrorKind.INCOMPLETE)
        else:
            self.finish()
        return ()

    def _index(self, oid: str) -> str:
        return oid[len(self._prefix) :]

    def _move(self, index: str) -> None:
        self._last, self.last_oid = as_tuple(index), self._prefix + index

    def _is_new(self, oid: str) -> bool:
        index = self._index(oid)
        return index not in self._seen if self._seen else as_tuple(index) > self._last

    def _comes_back(self, oid: str) -> bool:
        if self._seen and oid.startswith(self._prefix):
            return self._index(oid) in self._seen
        return as_tuple(oid) <= as_tuple(self.root) + (() if self._seen else self._last)

    def _goes_on(self, behind: Sequence[VarBind]) -> bool:
        return any(bind.oid.startswith(self._prefix) and not bind.missing and self._is_new(bind.oid) for bind in behind)

    def _pass_over(self, hole: VarBind) -> None:
        """Something else stands where a row should be, of which nothing is known now: whole the column is not."""
        self._passed += 1
        what = hole.type if hole.missing else hole.oid
        self._spoil(SnmpDeviceError(f"{what} after {self.last_oid}, in the middle of a walk"), ErrorKind.INCOMPLETE)
        if hole.oid.startswith(self._prefix) and self._is_new(hole.oid):
            self._move(self._index(hole.oid))

    def _spoil(self, error: SnmpError, kind: ErrorKind) -> None:
        """The walk goes on, and will not be complete. The first error stays."""
        self._holes = True
        if self.error is None:
            self.error, self.error_kind = error, kind

    def _absent(self, kind: SnmpType) -> None:
        """A marker that GETNEXT must not return; seen from agents that hide a subtree by a view."""
        if self.rows:
            text = f"{kind} after {self.root}.{self.rows[-1][0]}, in the middle of a walk"
            self.stop(SnmpDeviceError(text), ErrorKind.INCOMPLETE)
        else:
            self.unsupported(kind)

    def finish(self) -> None:
        """The device said that nothing more comes. Whole only if nothing was left out on the way."""
        self.done, self.complete = True, not self._holes

    def stop(self, error: SnmpError, kind: ErrorKind | None = None) -> None:
        """Nothing more is read of this column. The first error stays."""
        self.done, self.complete = True, False
        if self.error is None or kind is ErrorKind.TIME_LIMIT:
            self.error, self.error_kind = error, kind or error.kind

    def fail(self, error: SnmpError) -> bool:
        """Go on behind what could not be read, True then; without a place to go on this is the end.

        That is the next known port, as one that could not be read; where a single row is unreadable, the next number.
        """
        over = self._behind_the_next() if isinstance(error, SnmpUnreadable) else None
        place = bisect_right(self._ports, self._last)
        if self._seen or (over is None and place >= len(self._ports)):
            self.stop(error)
            return False
        # A silent port does not make the OLT silent: nothing but this column is concerned.
        self._spoil(error, ErrorKind.INCOMPLETE if error.kind is ErrorKind.TIMEOUT else error.kind)
        self._move(".".join(map(str, over or self._ports[place])))
        return True

    def _behind_the_next(self) -> tuple[int, ...] | None:
        """The index that the next row most likely has; None without a row, or where it was not that one last time."""
        if not self._last or self._last == self._stepped_to or self._last[-1] >= MAX_NUMBER:
            return None
        self._stepped_to = (*self._last[:-1], self._last[-1] + 1)
        return self._stepped_to

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


def started(asked: str, start: str, ports: Sequence[tuple[int, ...]], unordered: bool = False) -> Column:
    """The column `asked` before the first request; stopped at once where that is no OID."""
    try:
        root = checked_oid(asked)
        return Column(root, checked_oid(f"{root}.{start}")[len(root) + 1 :] if start else "", ports, unordered)
    except SnmpBadOid as error:
        column = Column("0.0")
        column.root = asked
        column.stop(error)
        return column
