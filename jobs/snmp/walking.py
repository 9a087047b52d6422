"""Walking of columns over any session: complete or cut short, never endless. No decoding, no database.

Every returned OID must come after the last one of its column; rows and time are bounded; a walk is complete only when
the device itself said so, by leaving the column or by endOfMibView.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.snmp.errors import (
    SnmpBadOid,
    SnmpDeviceError,
    SnmpError,
    SnmpNoSuchObject,
    SnmpNotIncreasing,
    SnmpTimeout,
    SnmpTooBig,
)
from jobs.snmp.session import MAX_REPETITIONS, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.oid_text import as_tuple, index_of
from portal.domain.readings import RawValue
from portal.domain.statuses import ErrorKind

MAX_ANSWER_VALUES = 100  # rows * columns asked for in one request; many columns get fewer rows each
TIMEOUT_DIVISOR = 4  # a time-out is dear (it blocks for all retries), so the request shrinks faster than after tooBig


@dataclass(frozen=True)
class WalkedColumn:
    """One column. `complete` means: these rows and no others. `supported` False: the device has no such column.

    A row is its index (what follows the column's root in the name, such as "4194312448.2") and its value.
    """

    root: str  # canonical OID
    rows: Sequence[tuple[str, RawValue]]
    complete: bool
    supported: bool = True
    error_kind: ErrorKind | None = None
    message: str = ""


@dataclass(frozen=True)
class WalkResult:
    """The columns in the order asked for. `pdus` counts requests, `timeouts` those without an answer."""

    columns: tuple[WalkedColumn, ...]
    pdus: int
    timeouts: int

    @property
    def rows(self) -> int:
        """Values read, over all columns."""
        return sum(len(column.rows) for column in self.columns)

    @property
    def complete(self) -> bool:
        """True when every column is."""
        return all(column.complete for column in self.columns)

    @property
    def first_error(self) -> WalkedColumn | None:
        """The first column that is not complete, or None."""
        return next((column for column in self.columns if not column.complete), None)


def walk(
    session: SnmpSession,
    roots: Sequence[str],
    *,
    max_repetitions: int,
    max_rows: int,
    deadline: float,
    checkpoint: Callable[[], None],
    clock: Callable[[], float],
    answered: bool = False,
) -> WalkResult:
    """Walk the columns side by side. Never raises SnmpError: what went wrong stands at the column, beside its rows.

    `max_rows` holds for each column. `deadline` is a reading of `clock` (seconds); no request starts at or after it.
    `checkpoint` runs before every request and may raise to stop everything. `answered` says that this OLT answered a
    moment ago: without it, a first request without answer means a dead OLT and ends the walk at once.
    A column without rows is asked for by GET once: noSuchObject there means *not supported*, which is not *empty*. An
    SNMPv1 device cannot tell the two apart and then counts as not supported, so that nobody is marked missing in error.
    """
    repetitions = min(max(max_repetitions, 1), MAX_REPETITIONS)
    walker = _Walker(session, repetitions, max_rows, deadline, checkpoint, clock, answered)
    columns = [_started(root) for root in roots]
    walker.run(columns)
    return WalkResult(tuple(column.result() for column in columns), walker.pdus, walker.timeouts)


@dataclass
class _Column:
    root: str
    rows: list[tuple[str, RawValue]] = field(default_factory=list)
    done: bool = False
    complete: bool = False
    supported: bool = True
    error: SnmpError | None = None
    error_kind: ErrorKind | None = None
    last_oid: str = ""

    def __post_init__(self) -> None:
        self.last_oid = self.root
        self._root = self._last = as_tuple(self.root)

    def take(self, bind: VarBind, max_rows: int) -> None:
        """Judge the next value of this column: a row, the end, or a fault."""
        if bind.type is SnmpType.END_OF_MIB_VIEW:
            self.finish()
        elif bind.missing:
            self._absent(bind)
        elif (place := as_tuple(bind.oid)) <= self._last:
            self.stop(SnmpNotIncreasing(f"{bind.oid} came after {self.last_oid}: the OLT's names do not increase"))
        elif place[: len(self._root)] != self._root:
            self.finish()
        elif len(self.rows) >= max_rows:
            self.stop(SnmpDeviceError(f"{self.root} has more than {max_rows} rows: cut there"), ErrorKind.INCOMPLETE)
        else:
            self.rows.append((index_of(bind.oid, self.root), bind.value))
            self._last, self.last_oid = place, bind.oid

    def finish(self) -> None:
        self.done = self.complete = True

    def stop(self, error: SnmpError, kind: ErrorKind | None = None) -> None:
        self.done, self.complete = True, False
        self.error, self.error_kind = error, kind or error.kind

    def unsupported(self, bind_type: str) -> None:
        self.supported = False
        self.stop(
            SnmpNoSuchObject(
                f"{self.root} is not supported by this OLT ({bind_type}): check the OID against model and firmware; "
                "an SNMP view on the OLT may also hide it"
            )
        )

    def _absent(self, bind: VarBind) -> None:
        """A marker that GETNEXT must not return; seen from agents that hide a subtree by a view."""
        if self.rows:
            text = f"{bind.type} after {self.last_oid}, in the middle of a walk"
            self.stop(SnmpDeviceError(text), ErrorKind.INCOMPLETE)
        else:
            self.unsupported(bind.type)

    def result(self) -> WalkedColumn:
        message = str(self.error) if self.error else ""
        return WalkedColumn(self.root, tuple(self.rows), self.complete, self.supported, self.error_kind, message)


def _started(asked: str) -> _Column:
    try:
        return _Column(checked_oid(asked))
    except SnmpBadOid as error:
        column = _Column("0.0")
        column.root = asked
        column.stop(error)
        return column


@dataclass
class _Walker:
    session: SnmpSession
    repetitions: int
    max_rows: int
    deadline: float
    checkpoint: Callable[[], None]
    clock: Callable[[], float]
    answered: bool
    together: bool = True  # all columns in one request, until that fails
    ceiling: int = 0  # rows a column starts with
    pdus: int = 0
    timeouts: int = 0

    def run(self, columns: list[_Column]) -> None:
        self.ceiling = self.repetitions
        while active := [column for column in columns if not column.done]:
            asked = active if self.together else active[:1]
            self._advance(asked, active)
            if not self.together and asked[0].done:
                self.repetitions = self.ceiling  # what one column could not take says nothing about the next
        empty = [column for column in columns if column.complete and not column.rows]
        if empty:
            self._tell_empty_from_unsupported(empty)

    def _advance(self, asked: list[_Column], active: list[_Column]) -> None:
        rows = max(1, min(self.repetitions, MAX_ANSWER_VALUES // len(asked)))
        if self._late(active):
            return
        try:
            answer = self.session.next_rows([column.last_oid for column in asked], rows)
        except SnmpError as error:
            self._retreat(error, rows, asked, active)
        else:
            self.answered = True
            self._take(asked, answer)

    def _late(self, columns: list[_Column]) -> bool:
        """True at the deadline, with the columns stopped; else the checkpoint is passed and a request may go out."""
        if self.clock() >= self.deadline:
            for column in columns:
                text = f"time limit reached with {len(column.rows)} rows of {column.root}"
                column.stop(SnmpTimeout(text), ErrorKind.TIME_LIMIT)
            return True
        self.checkpoint()
        self.pdus += 1
        return False

    def _take(self, asked: list[_Column], answer: list[VarBind]) -> None:
        before = [(column.done, column.last_oid) for column in asked]
        for place, bind in enumerate(answer):
            column = asked[place % len(asked)]
            if not column.done:
                column.take(bind, self.max_rows)
        if before == [(column.done, column.last_oid) for column in asked]:
            for column in asked:
                column.stop(SnmpDeviceError(f"the OLT answered the walk of {column.root} without any value"))

    def _retreat(self, error: SnmpError, rows: int, asked: list[_Column], active: list[_Column]) -> None:
        """Ask for less next time, or stop what cannot be read: each branch makes a request smaller or ends a column."""
        if isinstance(error, SnmpTimeout):
            self.timeouts += 1
            if self.answered and rows > 1:
                self.repetitions = self.ceiling = max(1, rows // TIMEOUT_DIVISOR)
            else:
                _stop_all(active, error)
        elif isinstance(error, SnmpTooBig | SnmpDeviceError) and rows > 1:
            self.answered = True
            self.repetitions = rows // 2
        elif isinstance(error, SnmpTooBig | SnmpDeviceError | SnmpNoSuchObject):
            self.answered = True
            if len(asked) > 1:
                self.together, self.repetitions = False, self.ceiling
            else:
                asked[0].stop(error)
        else:
            _stop_all(active, error)

    def _tell_empty_from_unsupported(self, empty: list[_Column]) -> None:
        if self._late(empty):
            return
        try:
            answer = self.session.get([f"{column.root}.0" for column in empty])
        except SnmpNoSuchObject:
            for column in empty:
                column.unsupported("noSuchName")
        except SnmpError as error:
            self.timeouts += isinstance(error, SnmpTimeout)
            _stop_all(empty, error)
        else:
            found = {bind.oid: bind for bind in answer}
            for column in empty:
                _judge_empty(column, found.get(f"{column.root}.0"))


def _stop_all(columns: list[_Column], error: SnmpError) -> None:
    for column in columns:
        column.stop(error)


def _judge_empty(column: _Column, bind: VarBind | None) -> None:
    """The column stays complete and empty only on the device's clear word that it knows the column (noSuchInstance)."""
    if bind is None or bind.type is SnmpType.NO_SUCH_INSTANCE:
        return
    if bind.missing:
        column.unsupported(bind.type)
    else:
        text = f"{column.root}: a GET finds {bind.oid}, GETNEXT does not: read it by GET"
        column.stop(SnmpDeviceError(text), ErrorKind.INCOMPLETE)
