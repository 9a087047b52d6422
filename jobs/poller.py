"""Runs one composite over one SNMP session and hands back its readings. No database, no queue, no lease of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from jobs.snmp.errors import SnmpError
from jobs.snmp.getting import GetResult, get_many
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import SessionFactory, SnmpType, VarBind
from jobs.snmp.walking import WalkedColumn, walk
from portal.domain.composite import (
    ColumnReadings,
    CompositeResult,
    CompositeWork,
    ReadingSpec,
    StepResult,
    StepWork,
)
from portal.domain.readings import Reading, decode
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason, StepStatus

SCALAR_INDEX = "0"

# After these nothing more is asked of this OLT in this composite (design §5.12).
_ENDS_THE_CHAIN = {
    ErrorKind.TIMEOUT: SkipReason.TIMED_OUT_EARLIER,
    ErrorKind.UNREACHABLE: SkipReason.OLT_UNREACHABLE,
    ErrorKind.AUTH: SkipReason.OLT_UNREACHABLE,
}


def run(
    work: CompositeWork,
    open_session: SessionFactory,
    checkpoint: Callable[[], None],
    clock: Callable[[], datetime],
    monotonic: Callable[[], float],
) -> CompositeResult:
    """Run the steps of `work` in order, each with exactly one StepResult, over one session that is always closed.

    * A step fails: the next still runs, because the OLT answered. A time-out, a wrong credential or an address that
      cannot be reached ends the chain: the rest is SKIPPED. `stop_on_failure` ends it after any failure of that step.
      An OLT that never answers costs one request with its retries (two where the first step is a GET: the second is
      the cheap probe).
    * DISCOVERY, WALK, TABLE and BULK walk all columns of the step side by side; scalar specs are read by GET. A step
      whose column is cut short is FAILED; its readings are kept with `complete=False`.
    * GET asks for `work.onu_keys`. A discovery earlier in this composite replaces them by what it found when it was
      complete, and adds to them when it was cut short. A GET step with no ONU to ask for is SUCCESS with no rows where
      a complete discovery of this composite found none, else SKIPPED(NO_ONUS), which does not fail the composite.
    * A GET succeeds when the OLT answered, though some ONUs have no data; it fails when no instance of a column could
      be read, or when it was cut short. `error_message` of a success names the first instance that failed, if any.

    `checkpoint` runs before the session is opened and before every datagram, repeats too; what it raises passes through
    after the session is closed. Faults of the device become results, faults of our own code are raised.
    """
    runner = _Runner(work, open_session, checkpoint, clock, monotonic, keys=work.onu_keys)
    try:
        return CompositeResult(tuple(runner.step(step) for step in work.steps))
    finally:
        runner.close()


@dataclass
class _Outcome:
    """What a step has brought so far; the first error stays."""

    columns: list[ColumnReadings] = field(default_factory=list)
    pdus: int = 0
    timeouts: int = 0
    rows: int = 0
    error_kind: ErrorKind | None = None
    message: str = ""

    def fail(self, kind: ErrorKind, message: str) -> None:
        if self.error_kind is None:
            self.error_kind, self.message = kind, message


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
    ended: SkipReason | None = None
    session: PatientSession | None = None

    def step(self, step: StepWork) -> StepResult:
        if self.ended is not None:
            return StepResult(step.node_id, StepStatus.SKIPPED, skip_reason=self.ended)
        if self._nothing_to_ask(step) and not self.nobody:
            return StepResult(step.node_id, StepStatus.SKIPPED, skip_reason=SkipReason.NO_ONUS)
        started = self.clock()
        outcome = self._read(step)
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
            rows=outcome.rows,
        )

    def close(self) -> None:
        if self.session is not None:
            self.session.close()

    def _nothing_to_ask(self, step: StepWork) -> bool:
        return step.kind is NodeKind.GET and not self.keys and not any(spec.scalar for spec in step.specs)

    def _read(self, step: StepWork) -> _Outcome:
        outcome = _Outcome()
        deadline = self.monotonic() + step.time_limit
        by_get = [spec for spec in step.specs if spec.scalar or step.kind is NodeKind.GET]
        by_walk = [spec for spec in step.specs if spec not in by_get]
        try:
            session = self._opened()
        except SnmpError as error:
            outcome.fail(error.kind, str(error))
            return outcome
        if by_get:
            self._get(session, by_get, deadline, outcome)
        if by_walk and outcome.error_kind not in _ENDS_THE_CHAIN:
            self._walk(session, by_walk, deadline, outcome)
        return outcome

    def _opened(self) -> PatientSession:
        if self.session is None:
            self.checkpoint()
            self.session = PatientSession(self.open_session, self.work.target, self.checkpoint)
        return self.session

    def _get(self, session: PatientSession, specs: list[ReadingSpec], deadline: float, outcome: _Outcome) -> None:
        asked = [(spec, _instances(spec, self.keys)) for spec in specs]
        got = get_many(
            session,
            [oid for _, instances in asked for oid in instances.values()],
            max_varbinds=self.work.target.max_varbinds,
            deadline=deadline,
            checkpoint=self.checkpoint,
            clock=self.monotonic,
        )
        self._count(outcome, session, got.pdus, got.timeouts)
        outcome.rows += sum(not bind.missing for bind in got.values.values())
        outcome.columns += [_got_column(spec, instances, got) for spec, instances in asked]
        _judge_get(asked, got, outcome)

    def _walk(self, session: PatientSession, specs: list[ReadingSpec], deadline: float, outcome: _Outcome) -> None:
        walked = walk(
            session,
            [spec.oid for spec in specs],
            max_repetitions=self.work.target.max_repetitions,
            max_rows=self.work.target.max_rows,
            deadline=deadline,
            checkpoint=self.checkpoint,
            clock=self.monotonic,
            answered=self.answered,
        )
        self._count(outcome, session, walked.pdus, walked.timeouts)
        columns = [_walked_column(spec, column) for spec, column in zip(specs, walked.columns, strict=True)]
        outcome.rows += sum(len(column.readings) for column in columns)
        outcome.columns += columns
        if (bad := walked.first_error) is not None:
            outcome.fail(bad.error_kind or ErrorKind.INCOMPLETE, bad.message)

    def _count(self, outcome: _Outcome, session: PatientSession, pdus: int, timeouts: int) -> None:
        """Each repeat is one more datagram, after one more silence."""
        outcome.pdus += pdus + session.repeats
        outcome.timeouts += timeouts + session.repeats
        session.repeats = 0
        self.answered = self.answered or pdus > timeouts

    def _conclude(self, step: StepWork, outcome: _Outcome) -> None:
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
        if by_onu and all(column.complete for column in by_onu):
            self.keys, self.nobody = tuple(found), not found
        else:
            self.keys = tuple(dict.fromkeys((*self.keys, *found)))


def _suffix(spec: ReadingSpec) -> str:
    return f".{spec.index_suffix.strip('.')}" if spec.index_suffix else ""


def _instances(spec: ReadingSpec, keys: tuple[str, ...]) -> dict[str, str]:
    """Index → OID to ask for."""
    if spec.scalar:
        return {SCALAR_INDEX: spec.oid}
    return {key: f"{spec.oid}.{key}{_suffix(spec)}" for key in keys}


def _got_column(spec: ReadingSpec, instances: dict[str, str], got: GetResult) -> ColumnReadings:
    if _unsupported(instances, got):
        return ColumnReadings(spec, (), complete=False)
    readings = [_reading(spec, key, got.values[oid]) for key, oid in instances.items() if oid in got.values]
    return ColumnReadings(spec, tuple(readings), complete=len(readings) == len(instances))


def _unsupported(instances: dict[str, str], got: GetResult) -> bool:
    """True when the OLT said noSuchObject for every instance. noSuchInstance is the word for one ONU without data."""
    binds = [got.values.get(oid) for oid in instances.values()]
    return bool(binds) and all(bind is not None and bind.type is SnmpType.NO_SUCH_OBJECT for bind in binds)


def _judge_get(asked: list[tuple[ReadingSpec, dict[str, str]]], got: GetResult, outcome: _Outcome) -> None:
    if got.error_kind is not None:
        outcome.fail(got.error_kind, got.message)
    for spec, instances in asked:
        failed = [got.failed[oid] for oid in instances.values() if oid in got.failed]
        if _unsupported(instances, got):
            outcome.fail(
                ErrorKind.NO_SUCH_OBJECT,
                f"{spec.oid} is not supported by this OLT (noSuchObject for all {len(instances)} instances): check the "
                "OID against model and firmware; an SNMP view on the OLT may also hide it",
            )
        elif failed and len(failed) == len(instances):
            outcome.fail(failed[0], f"no instance of {spec.oid} could be read; first: {got.message}")
    if got.failed and outcome.error_kind is None:
        outcome.message = f"{len(got.failed)} instances could not be read; first: {got.message}"


def _walked_column(spec: ReadingSpec, column: WalkedColumn) -> ColumnReadings:
    """Rows as readings. Rows with another suffix belong to something else (a further port of the ONU): left out."""
    suffix, readings = _suffix(spec), []
    for index, value in column.rows:
        if index.endswith(suffix) and len(index) > len(suffix):
            readings.append(decode(spec.value, index.removesuffix(suffix), value))
    return ColumnReadings(spec, tuple(readings), column.complete)


def _reading(spec: ReadingSpec, index: str, bind: VarBind) -> Reading:
    return decode(spec.value, index, bind.value)
