"""Walking of columns over any session: complete or cut short, never endless. No decoding, no database.

Every returned OID must come after the last one of its column; rows and time are bounded; a walk is complete only when
the device itself said so, by leaving the column or by endOfMibView.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.snmp.columns import Column, WalkedColumn, started
from jobs.snmp.errors import (
    NOT_SENT,
    SnmpDeviceError,
    SnmpError,
    SnmpNoSuchObject,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnclear,
    SnmpUnreadable,
)
from jobs.snmp.pace import Pace
from jobs.snmp.session import MAX_REPETITIONS, SnmpSession, VarBind
from jobs.snmp.sizes import MessageSize, average_octets, first_octets, known_for
from portal.domain.oid_text import as_tuple
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import WALK, SizeEvidence, SizeOutcome, Sizes, manners_of, table_of

__all__ = ["HUGE_ROWS", "WalkResult", "WalkedColumn", "walk"]

# Rows * columns asked for in one request: two frames. More makes the walk of a slow OLT little faster, while our own
# work on an answer, which the OLT waits for, begins to count (12 us a value against 20 ms a request).
MAX_ANSWER_VALUES = 80
TIMEOUT_DIVISOR = 4  # a time-out is dear (it blocks for all retries), so the request shrinks faster than after tooBig
NOTES = {
    SizeOutcome.NO_BULK: "This OLT does not answer GETBULK: it is walked by GETNEXT, row by row.",
    SizeOutcome.UNORDERED: "The names of this OLT do not increase: only one that comes again ends a walk.",
}
HUGE_ROWS = 5_000  # rows of one column from which on its ports are worth being known (`below`)
MAX_UNREADABLE = 10  # answers; each has cost a time-out
MAX_SILENT_PORTS = 3  # in a row; then the OLT is left alone


@dataclass(frozen=True)
class WalkResult:
    """The columns in the order asked for. `pdus` counts requests, `timeouts` those without an answer.

    `octets`: of names and values as they were sent, extrapolated from three values of each answer. `sizes`: what this
    walk learned about the size of messages, and of the OLT's manners; `note`: how such manners changed the walk.
    """

    columns: tuple[WalkedColumn, ...]
    pdus: int
    timeouts: int
    octets: int = 0
    sizes: tuple[SizeEvidence, ...] = ()
    note: str = ""

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
    sizes: Sizes | None = None,
    below: Sequence[str] = (),
    resume: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> WalkResult:
    """Walk the columns side by side. Never raises SnmpError: what went wrong stands at the column, beside its rows.

    `max_rows` holds for each column. `deadline` is a reading of `clock` (seconds); no request starts at or after it.
    `checkpoint` runs before every request and may raise to stop everything. `answered` says that this OLT answered a
    moment ago: without it, a first request without answer means a dead OLT and ends the walk at once.
    A column without rows is asked for by GET once: noSuchObject there means *not supported*, which is not *empty*. An
    SNMPv1 device cannot tell the two apart and then counts as not supported, so that nobody is marked missing in error.

    `sizes`: message sizes of earlier runs. `below`: indexes of the PON ports known under these columns: where a port
    cannot be read the walk goes on at the next one, and the column is not complete; ports that are not in the list are
    read all the same. `resume`: for a root (as given in `roots`) the index after which to begin. `pause` sleeps the
    given seconds, after a time-out.
    """
    ports = sorted(as_tuple(port) for port in below)
    manners = manners_of(sizes or {})
    unordered, no_bulk = SizeOutcome.UNORDERED in manners, SizeOutcome.NO_BULK in manners
    columns = [started(root, (resume or {}).get(root, ""), ports, unordered) for root in roots]
    known = known_for(sizes or {}, WALK, _tables(columns))
    repetitions = 1 if no_bulk else min(max(max_repetitions, 1), MAX_REPETITIONS)
    octets = max((first_octets(column.root) for column in columns if not column.done), default=1)
    side = max(1, min(len(columns), session.columns_per_request))
    size = MessageSize(min(repetitions * side, MAX_ANSWER_VALUES), octets, known)
    walker = _Walker(session, repetitions, max_rows, deadline, checkpoint, clock, answered, size, Pace(1, pause))
    walker.run(columns)
    found = tuple(column.result() for column in columns)
    evidence = tuple(one for table in sorted(_tables(columns)) for one in size.evidence(WALK, table))
    shown = _manners_seen(columns, walker)
    seen = tuple(
        SizeEvidence(WALK, table, max(1, size.proven), manner)
        for manner, those in shown.items() for table in sorted(_tables(those))
    )  # fmt: skip
    note = " ".join(NOTES[manner] for manner in sorted({*manners, *shown}))
    return WalkResult(found, walker.pdus, walker.timeouts, walker.octets, evidence + seen, note)


def _manners_seen(columns: Sequence[Column], walker: "_Walker") -> dict[SizeOutcome, list[Column]]:
    """Manners that were not known before, and the columns that showed them."""
    shown = {SizeOutcome.UNORDERED: [column for column in columns if column.disorder and not column.unordered]}
    if walker.silent_bulks > 1 and not walker.bulks and walker.answered:
        shown[SizeOutcome.NO_BULK] = [column for column in columns if column.rows or column.complete]
    return {manner: those for manner, those in shown.items() if those}


def _tables(columns: Sequence[Column]) -> set[str]:
    return {table_of(column.root) for column in columns if not (column.done and column.error and not column.rows)}


@dataclass
class _Walker:
    session: SnmpSession
    repetitions: int
    max_rows: int
    deadline: float
    checkpoint: Callable[[], None]
    clock: Callable[[], float]
    answered: bool
    size: MessageSize
    pace: Pace
    together: bool = True  # all columns in one request, until that fails
    rows_limit: int = 0  # rows a request may ask for while a row the device fails on is being looked for; 0: no limit
    silent_ports: int = 0
    unreadable: int = 0
    bulks: int = 0  # GETBULKs that were answered
    silent_bulks: int = 0  # … and those that were not, by an OLT that lives
    pdus: int = 0
    timeouts: int = 0
    octets: int = 0
    exact: set[str] = field(default_factory=set)  # columns whose next question only the exact session can answer

    def run(self, columns: list[Column]) -> None:
        while active := [column for column in columns if not column.done]:
            asked = active[: self._side(len(active))]
            self._advance(asked, active)
            if not self.together and asked[0].done:
                self.rows_limit = 0  # what one column could not take says nothing about the next
        empty = [column for column in columns if column.complete and not column.rows and not column.started_at]
        if empty:
            self._tell_empty_from_unsupported(empty)

    def _side(self, active: int) -> int:
        """How many columns to ask for at once."""
        return min(active, self.session.columns_per_request, self.size.current) if self.together else 1

    def _advance(self, asked: list[Column], active: list[Column]) -> None:
        rows = max(1, min(self.repetitions, self.rows_limit or self.repetitions, self.size.current // len(asked)))
        doubtful = any(column.last_oid in self.exact for column in asked)
        if self._late(active):
            return
        try:
            session = self.session.exact if doubtful else self.session
            answer = session.next_rows([column.last_oid for column in asked], rows)
        except SnmpUnclear:
            self.exact.update(column.last_oid for column in asked)
        except SnmpError as error:
            self._retreat(error, rows, asked, active)
        else:
            self.pace.answered()
            self.answered, self.silent_ports = True, 0
            self.bulks += rows > 1
            self._take(asked, answer, rows)

    def _late(self, columns: list[Column]) -> bool:
        """True at the deadline, with the columns stopped; else the checkpoint is passed and a request may go out."""
        self.pace.wait()
        if self.clock() >= self.deadline:
            for column in columns:
                text = f"time limit reached with {len(column.rows)} rows of {column.root}"
                column.stop(SnmpTimeout(text), ErrorKind.TIME_LIMIT)
            return True
        self.checkpoint()
        self.pdus += 1
        return False

    def _take(self, asked: list[Column], answer: list[VarBind], rows: int) -> None:
        before = [column.last_oid for column in asked]
        for place, column in enumerate(asked):
            column.take(answer[place :: len(asked)], self.max_rows)
        self._measure(asked, answer, rows * len(asked))
        if not any(column.done for column in asked) and before == [column.last_oid for column in asked]:
            for column in asked:
                column.stop(SnmpDeviceError(f"the OLT answered the walk of {column.root} without any value"))

    def _measure(self, asked: list[Column], answer: list[VarBind], values: int) -> None:
        average = average_octets(answer)
        self.octets += average * len(answer)
        if len(answer) >= values:
            self.size.answered(values, average, whole=values + len(asked) > self.size.current)
        elif answer and not any(column.done for column in asked):
            self.size.truncated(values, len(answer))

    def _retreat(self, error: SnmpError, rows: int, asked: list[Column], active: list[Column]) -> None:
        """Ask for less next time, or stop what cannot be read: each branch makes a request smaller or ends a column."""
        values = rows * len(asked)
        if isinstance(error, SnmpTimeout):
            self.timeouts += 1
            self.pace.silent()
            self.answered |= bool(error.lives)
            self.silent_bulks += rows > 1 and self.answered
            self._after_silence(error, values, asked, active)
        elif isinstance(error, SnmpTooBig) and values > 1:
            self.answered = True
            self.size.refused(values)
        elif isinstance(error, SnmpTooBig | SnmpDeviceError | SnmpNoSuchObject):
            self.answered = True
            self._after_error(error, rows, asked, active)
        else:
            self.pdus -= isinstance(error, NOT_SENT)
            _stop_all(active, error)

    def _after_error(self, error: SnmpError, rows: int, asked: list[Column], active: list[Column]) -> None:
        """One row the device fails on, or too many of them. What cannot be read is known only after a time-out."""
        dear = isinstance(error, SnmpUnreadable)
        self.unreadable += dear
        if self.unreadable >= MAX_UNREADABLE:
            _stop_all(active, error)
            return
        if isinstance(error, SnmpDeviceError) and rows * len(asked) > 1:
            self.size.refused(rows * len(asked), SizeOutcome.ERROR)
        if rows > 1:
            self.rows_limit = max(1, rows // (TIMEOUT_DIVISOR if dear else 2))
        elif len(asked) > 1:
            self.together, self.rows_limit = False, 0
        else:
            self.size.innocent()
            if asked[0].fail(error):
                self.rows_limit = 0

    def _after_silence(self, error: SnmpTimeout, values: int, asked: list[Column], active: list[Column]) -> None:
        if error.lives is False:
            _stop_all(active, error)
            return
        if self.answered and values > 1:
            self.size.silent(values, TIMEOUT_DIVISOR)
            return
        self.silent_ports += 1
        went_on = [column.fail(error) for column in asked] if self.answered else [False]
        if not any(went_on) or self.silent_ports >= MAX_SILENT_PORTS:
            _stop_all([column for column in active if not column.done], error)

    def _tell_empty_from_unsupported(self, empty: list[Column]) -> None:
        if self._late(empty):
            return
        try:
            answer = self.session.exact.get([f"{column.root}.0" for column in empty])
        except SnmpNoSuchObject:
            for column in empty:
                column.unsupported("noSuchName")
        except SnmpError as error:
            self.timeouts += isinstance(error, SnmpTimeout)
            self.pdus -= isinstance(error, NOT_SENT)
            _stop_all(empty, error)
        else:
            found = {bind.oid: bind for bind in answer}
            for column in empty:
                column.judge_empty(found.get(f"{column.root}.0"))


def _stop_all(columns: list[Column], error: SnmpError) -> None:
    for column in columns:
        column.stop(error)
