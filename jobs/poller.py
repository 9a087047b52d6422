"""Runs one composite over one SNMP session and hands back its readings. No database, no queue, no lease of its own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from jobs.identifying import identify, uptime
from jobs.outcomes import Outcome, instances
from jobs.snmp.errors import NOT_SENT, SnmpError
from jobs.snmp.getting import get_many
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import SessionFactory
from jobs.snmp.walking import HUGE_ROWS, walk
from portal.domain import device
from portal.domain.composite import (
    ColumnReadings,
    CompositeResult,
    CompositeWork,
    Progress,
    ReadingSpec,
    StepResult,
    StepWork,
)
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason, StepStatus

# After these nothing more is asked of this OLT in this composite: it would say the same, or has just been hurt.
_ENDS_THE_CHAIN = {
    ErrorKind.TIMEOUT: SkipReason.TIMED_OUT_EARLIER,
    ErrorKind.UNREACHABLE: SkipReason.OLT_UNREACHABLE,
    ErrorKind.AUTH: SkipReason.OLT_UNREACHABLE,
    ErrorKind.OTHER_DEVICE: SkipReason.OTHER_DEVICE,
}


def run(
    work: CompositeWork,
    open_session: SessionFactory,
    checkpoint: Callable[[], None],
    clock: Callable[[], datetime],
    monotonic: Callable[[], float],
    keep: Callable[[StepResult], None] = lambda _step: None,
) -> CompositeResult:
    """Run the steps of `work` in order, each with exactly one StepResult, over one session that is always closed.

    * Who answers is asked first, where `work.device` says who is to: another device ends the chain before anything is
      read. One that restarted lately is read, and each step says so. A discovery during which it restarts is cut short.
    * A step fails: the next still runs, because the OLT answered. A time-out, a wrong credential or an address that
      cannot be reached ends the chain: the rest is SKIPPED. `stop_on_failure` ends it after any failure of that step.
      An OLT that never answers costs one request with its retries.
    * DISCOVERY, WALK, TABLE and BULK walk all columns of the step side by side; scalar specs are read by GET. A step
      whose column is cut short is FAILED; its readings are kept with `complete=False`. Where the time limit cut it, the
      node's next run goes on there (`StepResult.progress`).
    * GET asks for `work.onu_keys`. A discovery earlier in this composite replaces them by what it found when it was
      complete, and adds to them when it was cut short. A GET step with no ONU to ask for is SUCCESS with no rows where
      a complete discovery of this composite found none, else SKIPPED(NO_ONUS), which does not fail the composite.
    * A GET succeeds when the OLT answered, though some ONUs have no data; it fails when no instance of a column could
      be read, or when it was cut short. `error_message` of a success names the first instance that failed, if any.

    `checkpoint` runs before the session is opened and before every datagram, repeats too; what it raises passes through
    after the session is closed. Faults of the device become results, faults of our own code are raised.
    `keep` gets each step but the last as soon as it has ended, before the next begins: what a long chain has read so
    far outlives its process. What it raises passes through too.
    """
    one_by_one = PatientSession.one_at_a_time(checkpoint)
    runner = _Runner(work, open_session, one_by_one, clock, monotonic, keys=work.onu_keys)
    results: list[StepResult] = []
    try:
        for step in work.steps:
            if results:
                keep(results[-1])
            results.append(runner.step(step))
        return CompositeResult(tuple(results), runner.answer)
    finally:
        runner.close()


@dataclass
class _Runner:
    work: CompositeWork
    open_session: SessionFactory
    checkpoint: Callable[[], None]
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    keys: tuple[str, ...]
    nobody: bool = False  # a complete discovery of this composite found no ONU
    answered: bool = False
    answer: device.Answer | None = None
    restarted_at: datetime | None = None
    ended: SkipReason | None = None
    session: PatientSession | None = None

    def step(self, step: StepWork) -> StepResult:
        if self.ended is not None:
            return StepResult(step.node_id, StepStatus.SKIPPED, skip_reason=self.ended)
        started, outcome = self.clock(), Outcome()
        self._meet(outcome)
        if outcome.error_kind is None:
            if self._nothing_to_ask(step) and not self.nobody:
                return StepResult(
                    step.node_id, StepStatus.SKIPPED, skip_reason=SkipReason.NO_ONUS, pdus=outcome.pdus,
                    timeouts=outcome.timeouts, retries=outcome.retries,
                )  # fmt: skip
            self._read(step, outcome)
        self._conclude(step, outcome)
        return StepResult(
            step.node_id,
            StepStatus.FAILED if outcome.error_kind else StepStatus.SUCCESS,
            columns=tuple(outcome.columns),
            error_kind=outcome.error_kind,
            error_message=outcome.message,
            started_at=started,
            finished_at=self.clock(),
            pdus=outcome.pdus,
            timeouts=outcome.timeouts,
            retries=outcome.retries,
            rows=outcome.rows,
            octets=outcome.octets,
            sizes=tuple(outcome.sizes),
            progress=self._progress(step, outcome, started),
            restarted_at=self.restarted_at,
            continues=step.progress.since if any(column.continued for column in outcome.columns) else None,
        )

    def close(self) -> None:
        if self.session is not None:
            self.session.close()

    def _nothing_to_ask(self, step: StepWork) -> bool:
        return not self.keys and all(_by_get(step, spec) and not spec.scalar for spec in step.specs)

    def _meet(self, outcome: Outcome) -> None:
        """Once in a composite: who answers, and since when it runs."""
        known = self.work.device
        if known is None or self.answer is not None:
            return
        try:
            session = self._opened()
            self.checkpoint()
            self.answer, requests = identify(session, self.work.target, known, self.checkpoint, self.clock)
        except SnmpError as error:
            self._fail(outcome, error)
            return
        self._count(outcome, session, requests, 0, 0)
        restarted_at = device.restart(known, self.answer) or known.restarted_at
        if device.may_grow(restarted_at, self.answer.at):
            self.restarted_at = restarted_at
        if device.is_other(known, self.answer, onus=bool(self.work.onu_keys)):
            outcome.fail(ErrorKind.OTHER_DEVICE, _other(known, self.answer))

    def _fail(self, outcome: Outcome, error: SnmpError) -> None:
        if self.session is not None and not isinstance(error, NOT_SENT):
            self._count(outcome, self.session, 1, int(error.kind is ErrorKind.TIMEOUT), 0)
        outcome.fail(error.kind, str(error))

    def _check_uptime(self, session: PatientSession, outcome: Outcome) -> None:
        """A table that was read while the device restarted is not whole, whatever its end looks like."""
        if self.answer is None or self.answer.uptime is None or outcome.error_kind is not None:
            return
        before = device.Device(uptime=self.answer.uptime, read_at=self.answer.at)
        try:
            self.checkpoint()
            ticks = uptime(session)
        except SnmpError:  # what comes next meets it
            self._count(outcome, session, 1, 1, 0)
            return
        self._count(outcome, session, 1, 0, 0)
        began = device.restart(before, device.Answer("", "", ticks, self.clock()))
        if began is None:
            return
        self.restarted_at = began
        outcome.columns = [replace(column, complete=False) for column in outcome.columns]
        outcome.fail(ErrorKind.INCOMPLETE, "the OLT restarted while its table was read: none of its ONUs is gone by it")

    def _read(self, step: StepWork, outcome: Outcome) -> None:
        deadline = self.monotonic() + step.time_limit
        by_get = [spec for spec in step.specs if _by_get(step, spec)]
        by_walk = [spec for spec in step.specs if not _by_get(step, spec)]
        try:
            session = self._opened()
        except SnmpError as error:
            outcome.fail(error.kind, str(error))
            return
        if by_get:
            self._get(session, step, by_get, deadline, outcome)
        if by_walk and outcome.error_kind not in _ENDS_THE_CHAIN:
            self._walk(session, step, by_walk, deadline, outcome)
        if step.kind is NodeKind.DISCOVERY:
            self._check_uptime(session, outcome)

    def _opened(self) -> PatientSession:
        if self.session is None:
            self.checkpoint()
            self.session = PatientSession(self.open_session, self.work.target, self.checkpoint)
        return self.session

    def _open_more(self) -> PatientSession:
        """One of several: they are opened once the OLT has answered."""
        return PatientSession(self.open_session, self.work.target, self.checkpoint, heard=True)

    def _get(
        self, session: PatientSession, step: StepWork, specs: list[ReadingSpec], deadline: float, outcome: Outcome
    ) -> None:
        asked = [(spec, instances(spec, self.keys, step.progress.stopped.get(spec.oid, ""))) for spec in specs]
        got = get_many(
            session,
            [oid for _, wanted in asked for oid in wanted.values()],
            max_varbinds=self.work.target.max_varbinds,
            deadline=deadline,
            checkpoint=self.checkpoint,
            clock=self.monotonic,
            roots=[spec.oid for spec in specs if not spec.scalar],
            sizes=self.work.sizes,
            max_inflight=self.work.target.max_inflight,
            open_more=self._open_more,
        )
        self._count(outcome, session, got.pdus, got.timeouts, got.retries)
        outcome.take_got(asked, got)

    def _walk(
        self, session: PatientSession, step: StepWork, specs: list[ReadingSpec], deadline: float, outcome: Outcome
    ) -> None:
        walked = walk(
            session,
            [spec.oid for spec in specs],
            max_repetitions=self.work.target.max_repetitions,
            max_rows=self.work.target.max_rows,
            deadline=deadline,
            checkpoint=self.checkpoint,
            clock=self.monotonic,
            answered=self.answered,
            sizes=self.work.sizes,
            below=_ports_of(self.keys) if step.progress.by_port else (),
            resume=step.progress.stopped,
        )
        self._count(outcome, session, walked.pdus, walked.timeouts, 0)
        outcome.octets += walked.octets
        outcome.sizes += walked.sizes
        outcome.take_walked(specs, walked.columns)
        outcome.message = outcome.message or walked.note

    def _count(self, outcome: Outcome, session: PatientSession, pdus: int, timeouts: int, retries: int) -> None:
        """Each repeat is one more datagram, after one more silence; each check one more datagram."""
        repeats, checks = session.repeats + retries, session.checks
        session.repeats = session.checks = 0
        outcome.retries += repeats
        outcome.pdus += pdus + repeats + checks
        outcome.timeouts += timeouts + repeats
        self.answered = self.answered or pdus > timeouts or checks > 0

    def _progress(self, step: StepWork, outcome: Outcome, started: datetime) -> Progress:
        """A table that is huge, or broke off once, is walked port by port from then on."""
        huge = any(len(column.readings) >= HUGE_ROWS for column in outcome.columns)
        since = (step.progress.since or started) if outcome.stopped else None
        return Progress(outcome.stopped, since, step.progress.by_port or huge or outcome.broke_off)

    def _conclude(self, step: StepWork, outcome: Outcome) -> None:
        """What this step means for the ones after it."""
        if step.kind is NodeKind.DISCOVERY:
            self._learn_keys(outcome.columns)
        if outcome.error_kind in _ENDS_THE_CHAIN:
            self.ended = _ENDS_THE_CHAIN[outcome.error_kind]
        elif outcome.error_kind is not None and step.stop_on_failure:
            self.ended = SkipReason.STOPPED_ON_FAILURE

    def _learn_keys(self, columns: list[ColumnReadings]) -> None:
        by_onu = [column for column in columns if not column.spec.scalar]
        found = dict.fromkeys(reading.index for column in by_onu for reading in column.readings)
        if by_onu and all(column.whole for column in by_onu):
            self.keys, self.nobody = tuple(found), not found
        else:
            self.keys = tuple(dict.fromkeys((*self.keys, *found)))


def _other(known: device.Device, answer: device.Answer) -> str:
    if answer.other:
        return (
            f"another device answers: of {answer.other} ONUs that stand on this OLT none is there; it calls itself "
            f"“{answer.name}” ({answer.object_id})"
        )
    return (
        f"another device answers: it calls itself “{answer.name}” ({answer.object_id}); this OLT is “{known.name}” "
        f"({known.object_id})"
    )


def _by_get(step: StepWork, spec: ReadingSpec) -> bool:
    """Whether a column is read by GET: its own way first, then its node's."""
    return spec.scalar or spec.access == "get" or (step.kind is NodeKind.GET and spec.access != "walk")


def _ports_of(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The port indexes under which known ONUs stand."""
    return tuple(dict.fromkeys(port for port in (key.rpartition(".")[0] for key in keys) if port))
