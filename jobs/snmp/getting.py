"""GET of many instances over any session: packed, split down to the guilty instance on trouble. No decoding."""

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from jobs.snmp.batches import Batch, Batches
from jobs.snmp.errors import (
    NOT_SENT,
    SnmpAuthError,
    SnmpBadAnswer,
    SnmpDeviceError,
    SnmpError,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnclear,
    SnmpUnreadable,
)
from jobs.snmp.pace import Pace
from jobs.snmp.session import PROBE_OID, SnmpSession, VarBind
from jobs.snmp.sizes import average_octets
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import SizeEvidence, Sizes

SPLIT = 5  # 50 → 10 → 2 → 1: few requests to find one guilty instance, each of which may block for a whole time-out
MAX_TIMEOUTS = 10  # then the rest is left alone: an OLT that answers its probe but stalls on data needs rest


@dataclass(frozen=True)
class GetResult:
    """`values` by OID as asked for (markers included); `failed` says why the others have none. Both cover all OIDs.

    `error_kind` is set when the whole run was stopped; single failed instances do not set it. `message` tells of the
    stop, else of the first failed instance. `dead` means that nothing answers any more. `batch_size` is the smallest
    packing in use at the end. `pdus` counts requests, `timeouts` those without an answer, `retries` the repeats of the
    helpers' sessions, which are in neither; the caller counts those of its own session. `octets`: of names and values
    as they were sent, extrapolated from three of each answer. `sizes`: what was learned about the size of messages.
    """

    values: dict[str, VarBind] = field(default_factory=dict)
    failed: dict[str, ErrorKind] = field(default_factory=dict)
    pdus: int = 0
    timeouts: int = 0
    retries: int = 0
    octets: int = 0
    sizes: tuple[SizeEvidence, ...] = ()
    batch_size: int = 0
    dead: bool = False
    error_kind: ErrorKind | None = None
    message: str = ""


def get_many(
    session: SnmpSession,
    oids: Sequence[str],
    *,
    max_varbinds: int,
    deadline: float,
    checkpoint: Callable[[], None],
    clock: Callable[[], float],
    roots: Sequence[str] = (),
    sizes: Sizes | None = None,
    max_inflight: int = 1,
    open_more: Callable[[], SnmpSession] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> GetResult:
    """Read all `oids`, at most `max_varbinds` in one request. Never raises SnmpError.

    `deadline` is a reading of `clock` (seconds); no request starts at or after it. `checkpoint` runs before every
    request and may raise to stop everything. After each time-out one cheap probe decides: silence means a dead OLT and
    the end; an answer means that the batch holds a guilty instance, and it is divided.

    `roots`: the columns the instances belong to, and `sizes` the message sizes that earlier runs learned of their
    tables. With `open_more`, up to `max_inflight` requests are under way at once: once the first is answered, threads
    open a session each, use it and close it; `checkpoint` must then bear being called by any of them. `pause` sleeps
    the given seconds, after a time-out.
    """
    batches = Batches(max(1, max_varbinds), roots, sizes or {})
    getter = _Getter(batches, deadline, checkpoint, clock, Pace(max_inflight, pause))
    getter.open_more = open_more if session.parallel else None
    batches.accept(oids)
    getter.run(session)
    return getter.result()


class _Stop(Exception):  # noqa: N818  # a signal inside this module, not an error of its own
    """The rest of the run is not worth asking."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Getter:
    """Shared by the threads of one run. What changes, changes under `_turn`; only requests are sent outside of it."""

    def __init__(
        self,
        batches: Batches,
        deadline: float,
        checkpoint: Callable[[], None],
        clock: Callable[[], float],
        pace: Pace,
    ) -> None:
        self.batches, self.pace = batches, pace
        self.deadline, self.checkpoint, self.clock = deadline, checkpoint, clock
        self.open_more: Callable[[], SnmpSession] | None = None
        self.pdus = self.timeouts = self.retries = self.octets = 0
        self.fruitless = 0  # requests without an answer that could be read
        self.dead = False
        self.stopped: BaseException | None = None
        self._turn = threading.Condition()
        self._under_way: list[Batch] = []
        self._silent = 0  # of those in flight: had no answer and wait for their turn to probe
        self._probe = threading.Lock()
        self._helpers: list[threading.Thread] = []

    def run(self, session: SnmpSession) -> None:
        """Ask until nothing is left. What the checkpoint raised is raised here, after all helpers have ended."""
        try:
            self._work(session)
        except BaseException as error:  # a signal's handler may raise anywhere: the helpers must hear of it
            self._end(error)
            raise
        finally:
            for helper in self._helpers:
                helper.join()
        if isinstance(self.stopped, _Stop):
            self.batches.give_up(self.stopped.kind)
        elif self.stopped is not None:
            raise self.stopped

    def result(self) -> GetResult:
        """What came of it."""
        stop = self.stopped if isinstance(self.stopped, _Stop) else None
        return GetResult(
            values=self.batches.values_as_asked(),
            failed=self.batches.failed_as_asked(),
            pdus=self.pdus,
            timeouts=self.timeouts,
            retries=self.retries,
            octets=self.octets,
            sizes=self.batches.evidence(),
            batch_size=self.batches.smallest(),
            dead=self.dead,
            error_kind=stop.kind if stop else None,
            message=str(stop) if stop else self.batches.message,
        )

    def _work(self, session: SnmpSession) -> None:
        """Take batches and ask for them, in whichever thread."""
        while (batch := self._take()) is not None:
            try:
                self._ask(session, batch)
            except SnmpError as error:  # the exact session, which is opened on demand, cannot be had
                self._end(_Stop(error.kind, str(error)))
            except BaseException as error:  # of the checkpoint too: it ends the work of every thread
                self._end(error)
            finally:
                with self._turn:
                    self._under_way.remove(batch)
                    self._turn.notify_all()
            self._call_helpers()

    def _take(self) -> Batch | None:
        with self._turn:
            while self.stopped is None:
                if (
                    not self._silent
                    and len(self._under_way) < self.pace.allowed
                    and (batch := self.batches.take()) is not None
                ):
                    batch.alone = not self._under_way
                    for other in self._under_way:
                        other.alone = False
                    self._under_way.append(batch)
                    return batch
                if not self._under_way:
                    return None
                self._turn.wait()
            return None

    def _end(self, error: BaseException) -> None:
        with self._turn:
            if self.stopped is None or isinstance(self.stopped, _Stop) and not isinstance(error, _Stop):
                self.stopped = error

    def _call_helpers(self) -> None:
        """Once the OLT has answered, and only while there is work for more than one."""
        if self.open_more is None or self._helpers or self.timeouts >= self.pdus or not self.batches.many_left():
            return
        for _ in range(self.pace.most - 1):
            run = contextvars.copy_context().run  # so that a helper finds the settings of the application too
            self._helpers.append(threading.Thread(target=run, args=(self._help, self.open_more), daemon=True))
        for helper in self._helpers:
            helper.start()

    def _help(self, open_more: Callable[[], SnmpSession]) -> None:
        try:
            with closing(open_more()) as session:
                self._work(session)
                with self._turn:
                    self.retries += session.repeats
                    self.pdus += session.checks
        except SnmpError:
            return  # no further session can be had: the others do the work
        except BaseException as error:  # of our own code: it must not vanish in a thread
            self._end(error)

    def _ask(self, session: SnmpSession, batch: Batch) -> None:
        try:
            answer = self._request(session.exact if batch.exact else session, batch.names)
        except (SnmpTimeout, SnmpUnreadable) as error:
            self._after_silence(session, batch, error)
        except SnmpUnclear:
            with self._turn:
                self.batches.ask_exactly(batch)
        except (SnmpAuthError, SnmpBadAnswer, *NOT_SENT) as error:
            raise _Stop(error.kind, str(error)) from None
        except SnmpTooBig as error:
            with self._turn:
                self.batches.refused(batch, error)
        except SnmpError as error:
            with self._turn:
                self.batches.failed_together(batch, SPLIT, error)
        else:
            self.pace.answered()
            self._keep(session, batch, answer)

    def _request(self, session: SnmpSession, names: list[str]) -> list[VarBind]:
        self.pace.wait()
        if self.clock() >= self.deadline:
            text = f"time limit reached with {len(self.batches.values)} of {self.batches.total} instances read"
            raise _Stop(ErrorKind.TIME_LIMIT, text)
        self.checkpoint()
        with self._turn:
            self.pdus += 1
        try:
            return session.get(names)
        except NOT_SENT:
            with self._turn:
                self.pdus -= 1
            raise

    def _keep(self, session: SnmpSession, batch: Batch, answer: list[VarBind]) -> None:
        average = average_octets(answer)
        with self._turn:
            self.octets += average * len(answer)
            rest = self.batches.keep(batch, answer, average)
        if not rest:
            return
        clear = batch.exact or session.exact is session  # it is opened on demand, and what has come is kept by now
        with self._turn:
            if not clear:
                self.batches.doubt(batch, rest)
            elif len(rest) == len(batch.names):
                self.batches.divide(batch, SPLIT, SnmpDeviceError("the answer does not hold what was asked for"))
            else:
                self.batches.cut(batch, rest)

    def _after_silence(self, session: SnmpSession, batch: Batch, error: SnmpTimeout | SnmpUnreadable) -> None:
        """Find out by one cheap request whether the OLT is dead or only this batch is poison for it.

        The probe waits until nothing else is under way, and a batch that was not alone is asked for again as it is: it
        may be two requests at once that the agent cannot serve (Raisecom ISCOM6820-GP). A session that has put such a
        question by itself need not put another. What cannot be read comes as late as silence, and is taken like it.
        """
        lives = error.lives if isinstance(error, SnmpTimeout) else None
        self._count_silence(error)
        try:
            if lives is None:
                self._probe_alone(session)
        except (SnmpTimeout, SnmpUnreadable) as worse:
            self._count_silence(worse)
            lives, error = False, worse
        except SnmpError:
            pass  # an error status is an answer too
        if lives is False:
            self.dead = isinstance(error, SnmpTimeout)
            raise _Stop(error.kind, str(error)) from None
        if self.fruitless >= MAX_TIMEOUTS:
            text = (
                f"{self.fruitless} requests without a readable answer, though the OLT is alive: the rest is left alone"
            )
            raise _Stop(error.kind, text)
        with self._turn:
            if isinstance(error, SnmpUnreadable):
                self.batches.failed_together(batch, SPLIT, error)
            elif batch.alone:
                self.batches.silent(batch, SPLIT, error)
            else:
                self.batches.again(batch)

    def _probe_alone(self, session: SnmpSession) -> None:
        with self._turn:
            self._silent += 1
            self._turn.notify_all()
            while len(self._under_way) > self._silent:
                self._turn.wait()
        try:
            with self._probe:  # several may be silent
                if self.stopped is None:
                    self._probed(session)
        finally:
            with self._turn:
                self._silent -= 1

    def _probed(self, session: SnmpSession) -> None:
        try:
            self._request(session, [PROBE_OID])
        except SnmpUnclear:
            self._request(session.exact, [PROBE_OID])

    def _count_silence(self, error: SnmpError) -> None:
        with self._turn:
            self.fruitless += 1
            if isinstance(error, SnmpTimeout):
                self.pace.silent()
                self.timeouts += 1
