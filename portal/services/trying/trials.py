"""Trials: a node or an OID read once to see what comes back. Asked for here, answered by a job; nothing else is stored.

One transaction each. The row is request and answer, and it is bounded: ROWS_READ and SECONDS bound the reading,
ROWS_SHOWN what is kept of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal import queueing
from portal.domain import node_fields, serials
from portal.domain.catalogue_data import Access, is_secret
from portal.domain.composite import ColumnReadings, CompositeWork, ReadingSpec, SnmpTarget, StepResult, StepWork
from portal.domain.fields import FieldError
from portal.domain.formulas import Position
from portal.domain.messages import N_
from portal.domain.positions import position_of
from portal.domain.readings import Reading
from portal.domain.statuses import ErrorKind, NodeKind, Presence, SkipReason, StepStatus
from portal.extensions import transaction
from portal.models.trial import OF_ONU
from portal.services.cataloguing import catalogue, explaining
from portal.services.collecting import table_sizes
from portal.services.dispatch import work
from portal.services.errors import Invalid, NotFound
from portal.services.trying import onu_columns
from portal.tables import Olt, Onu, PonPort, Trial, TrialMode, TrialStatus, WorkflowNode

ROWS_READ = 500  # of one column
ROWS_SHOWN = 200  # of all columns together
ONUS_ASKED = 50
SECONDS = 30.0
LONGEST_RAW = 120  # characters of a raw value that are kept
TASK_SECONDS = 120  # of the job: waiting for the OLT, reading, and one last request
_FORGOTTEN_AFTER = timedelta(seconds=TASK_SECONDS)
_SHORTEST_COLUMN = 7  # sub-identifiers: 1.3.6.1.2.1.x
_WAITING = (TrialStatus.PENDING, TrialStatus.RUNNING)
BUSY = N_("the OLT is being read right now: try again in a moment")
LOST = N_("the reservation of the OLT was lost, or the OLT was disabled meanwhile: nothing more was sent")
LEASE_AWAY = N_("the queue (Redis) does not answer, so nobody can say whether the OLT is being read now")
FAULT = N_("a fault of the program, not of the OLT: the log of the worker has it")
QUEUE_AWAY = N_("the queue (Redis) does not answer: see that it runs, then test again")
NO_ONUS = N_("no ONU of this OLT is known yet: run its discovery first")
GONE = N_("the ONU is not there any more, or another one has taken its place")
NOTHING_TO_GET = N_("the workflow of this OLT reads nothing of this ONU that can be asked for by GET")
SECRET = N_("this is or contains a column of customers' passwords, which is never read")


@dataclass(frozen=True)
class TrialWork:
    """What a job needs. `exact`: how the single instance of an EXACT trial is to be understood, and its index."""

    trial_id: int
    work: CompositeWork
    named: Mapping[str, Position]
    exact: tuple[ReadingSpec, str] | None = None


@dataclass(frozen=True)
class _What:
    """What is read, and how it is called."""

    oid: str
    mode: TrialMode
    name: str = ""
    node_id: int | None = None


def of_node(node_id: int, actor: str, now: datetime) -> int:
    """Ask for a trial of a node alone; returns its id. One that is still on its way is returned instead of a second.

    NotFound, or Invalid when the OLT is disabled.
    """
    with transaction() as session:
        node = session.get(WorkflowNode, node_id)
        if node is None:
            raise NotFound(N_("the node does not exist any more"))
        mode = TrialMode.GET if node.kind is NodeKind.GET else TrialMode.WALK
        what = _What(node.oid, mode, node.name, node.id)
        trial_id, created = _request(session, node.workflow.olt, what, actor, now)
    return _queued(trial_id, now) if created else trial_id


def of_oid(olt_id: int, oid: str, mode: TrialMode, actor: str, now: datetime) -> int:
    """Ask for a trial of catalogue keys or dotted OIDs (with commas between) on an OLT; returns its id.

    NotFound, or Invalid: the OLT is disabled, the OID is none, is a secret, or is a key that this OLT does not have.
    """
    try:
        text = node_fields.read_oid(oid)
    except FieldError as error:
        raise Invalid({"oid": error.message}) from None
    with transaction() as session:
        olt = session.scalar(select(Olt).where(Olt.id == olt_id, Olt.deleted_at.is_(None)))
        if olt is None:
            raise NotFound(N_("the OLT does not exist any more"))
        _check(session, olt, node_fields.parts_of(text), mode)
        trial_id, created = _request(session, olt, _What(text, mode), actor, now)
    return _queued(trial_id, now) if created else trial_id


def of_onu(onu_id: int, actor: str, now: datetime) -> int:
    """Ask for one GET of all that the OLT's workflow reads of an ONU; returns the trial's id.

    NotFound, or Invalid: the OLT is disabled, or the ONU has no place any more. A paused OLT is asked all the same.
    """
    with transaction() as session:
        onu = session.get(Onu, onu_id)
        if onu is None or onu.olt.deleted_at is not None:
            raise NotFound(GONE)
        if onu.index_key is None:
            raise Invalid({"": GONE})
        name = serials.printed(onu.serial) if onu.serial else onu.index_key
        trial_id, created = _request(session, onu.olt, _What(f"{OF_ONU}{onu_id}", TrialMode.GET, name), actor, now)
    return _queued(trial_id, now) if created else trial_id


def _check(session: Session, olt: Olt, texts: Sequence[str], mode: TrialMode) -> None:
    if mode is TrialMode.EXACT and not (len(texts) == 1 and node_fields.is_dotted(texts[0])):
        raise Invalid({"oid": N_("give one dotted OID: its last numbers name the instance")})
    lookup = catalogue.load_lookup(session, [olt.brand.key])
    model = olt.model.key if olt.model else ""
    for text in texts:
        if not node_fields.is_dotted(text) and lookup.find(olt.brand.key, model, text) is None:
            raise Invalid({"oid": lookup.explain(olt.brand.key, model, text)})


def _request(session: Session, olt: Olt, what: _What, actor: str, now: datetime) -> tuple[int, bool]:
    if not olt.enabled or olt.deleted_at is not None:
        raise Invalid({"": N_("%(olt)s is disabled: enable it first", olt=olt.name)})
    waiting = session.scalar(
        select(Trial.id).where(
            Trial.olt_id == olt.id, Trial.node_id == what.node_id, Trial.oid == what.oid, Trial.mode == what.mode,
            Trial.status.in_(_WAITING), Trial.created_at > now - _FORGOTTEN_AFTER,
        )
    )  # fmt: skip
    if waiting is not None:
        return waiting, False
    trial = Trial(
        olt_id=olt.id, node_id=what.node_id, node_name=what.name, oid=what.oid, mode=what.mode,
        requested_by=actor[:80], created_at=now,
    )  # fmt: skip
    session.add(trial)
    session.flush()
    return trial.id, True


def _queued(trial_id: int, now: datetime) -> int:
    """After the commit. A queue that is away fails the trial at once: nobody would ever take it."""
    try:
        queueing.enqueue_task(queueing.RUN_TRIAL, trial_id, queue=queueing.TRIAL_QUEUE, timeout=TASK_SECONDS)
    except queueing.RedisError:
        fail(trial_id, ErrorKind.INTERNAL, QUEUE_AWAY, now)
    return trial_id


def start(trial_id: int, now: datetime) -> TrialWork | None:
    """PENDING → RUNNING with all that is needed to read; None when it is gone, was started, or may not be read."""
    with transaction() as session:
        trial = session.get(Trial, trial_id)
        if trial is None or trial.status is not TrialStatus.PENDING:
            return None
        trial.status, trial.started_at = TrialStatus.RUNNING, now
        made = _composed(session, trial, now)
        specs = [spec for step in made.work.steps for spec in step.specs]
        if not specs:
            missing = GONE if not made.work.onu_keys else NOTHING_TO_GET
            _end(trial, TrialStatus.FAILED, ErrorKind.INCOMPLETE, missing, now)
            return None
        if any(is_secret(spec.oid) for spec in specs):
            _end(trial, TrialStatus.FAILED, ErrorKind.BAD_OID, SECRET, now)
            return None
        return made


def _composed(session: Session, trial: Trial, now: datetime) -> TrialWork:
    olt = onu_columns.load_olt(session, trial.olt_id)
    exact = _exact_spec(session, olt, trial.oid) if trial.mode is TrialMode.EXACT else None
    if trial.onu_id is not None:
        specs, keys = _of_onu(session, olt, trial.onu_id)
    elif exact:
        specs, keys = (replace(exact[0], oid=trial.oid, index_suffix="", scalar=True),), ()
    else:
        specs, keys = _specs(session, olt, trial), _first_onus(session, olt.id)
    kind = NodeKind.WALK if trial.mode is TrialMode.WALK else NodeKind.GET
    composite = CompositeWork(
        execution_id=0,
        token=0,
        olt_id=olt.id,
        target=bounded(work.target_of(olt, olt.credential)),
        steps=(StepWork(trial.node_id or 0, "trial", kind, specs, SECONDS),),
        onu_keys=keys,
        sizes=table_sizes.load(session, olt.id, now),
    )
    return TrialWork(trial.id, composite, named_positions(session, olt.id), exact)


def _of_onu(session: Session, olt: Olt, onu_id: int) -> tuple[tuple[ReadingSpec, ...], tuple[str, ...]]:
    """The columns that the schedule reads of an ONU, less those that a device answers to a walk only; and its index."""
    onu = session.get(Onu, onu_id)
    if onu is None or onu.index_key is None:
        return (), ()
    columns = onu_columns.of_onu(session, onu, olt, onu_columns.stored_metrics(session, onu_id))
    specs = tuple(one.spec for one in columns if one.runs and one.spec.access != Access.WALK)
    return specs, (onu.index_key,)


def bounded(target: SnmpTarget) -> SnmpTarget:
    """The target with no more rows than a trial reads of a column."""
    return replace(target, max_rows=ROWS_READ)


def _specs(session: Session, olt: Olt, trial: Trial) -> tuple[ReadingSpec, ...]:
    texts = [text.strip() for text in node_fields.parts_of(trial.oid)]
    rows = catalogue.find_all(session, olt, set(texts))
    return explaining.specs_of(session, olt, {text: rows[text] for text in texts})


def _exact_spec(session: Session, olt: Olt, oid: str) -> tuple[ReadingSpec, str]:
    """How to understand one instance: as its column in the catalogue where there is one, else as text."""
    arcs = oid.split(".")
    columns = [".".join(arcs[:length]) for length in range(len(arcs), _SHORTEST_COLUMN, -1)]
    rows = catalogue.find_all(session, olt, set(columns))
    for column in columns:
        if (row := rows[column]) is not None:
            return explaining.specs_of(session, olt, {column: row})[0], oid[len(column) + 1 :] or "0"
    return explaining.specs_of(session, olt, {oid: None})[0], "0"


def _first_onus(session: Session, olt_id: int) -> tuple[str, ...]:
    query = (
        select(Onu.index_key)
        .where(Onu.olt_id == olt_id, Onu.presence == Presence.ENABLED, Onu.index_key.is_not(None))
        .order_by(Onu.id)
        .limit(ONUS_ASKED)
    )
    return tuple(key for key in session.scalars(query) if key is not None)


def named_positions(session: Session, olt_id: int) -> dict[str, Position]:
    """Index of an interface that a table walk stored → where its name says that it is."""
    query = select(PonPort.index_key, PonPort.slot, PonPort.port, PonPort.onu_number, PonPort.frame).where(
        PonPort.olt_id == olt_id, PonPort.slot.is_not(None), PonPort.port.is_not(None)
    )
    return {key: Position(slot, port, onu, frame or 0) for key, slot, port, onu, frame in session.execute(query)}


def finish(mine: TrialWork, step: StepResult, seconds: float, now: datetime) -> None:
    """Store what came back. A reading that only the bounds of a trial cut short is a success."""
    if mine.exact is not None:
        step = replace(step, columns=tuple(_as_instance(column, *mine.exact) for column in step.columns))
    result = summary(step, mine.named, seconds)
    failed = step.status is not StepStatus.SUCCESS and not result["cut"]
    kind, message = step.error_kind, step.error_message
    if step.skip_reason is SkipReason.NO_ONUS:
        kind, message = ErrorKind.INCOMPLETE, NO_ONUS
    with transaction() as session:
        trial = session.get(Trial, mine.trial_id)
        if trial is not None:
            trial.result = result
            _end(trial, TrialStatus.FAILED if failed else TrialStatus.SUCCESS, kind if failed else None,
                 message if failed else "", now)  # fmt: skip


def _as_instance(column: ColumnReadings, spec: ReadingSpec, index: str) -> ColumnReadings:
    return replace(column, spec=spec, readings=tuple(one._replace(index=index) for one in column.readings))


def fail(trial_id: int, kind: ErrorKind, message: str, now: datetime) -> None:
    """Store why there is no answer."""
    with transaction() as session:
        trial = session.get(Trial, trial_id)
        if trial is not None:
            _end(trial, TrialStatus.FAILED, kind, message, now)


def _end(trial: Trial, status: TrialStatus, kind: ErrorKind | None, message: str, now: datetime) -> None:
    trial.status, trial.error_kind, trial.error_message, trial.finished_at = status, kind, str(message)[:500], now


def summary(
    step: StepResult, named: Mapping[str, Position], seconds: float, rows_read: int = ROWS_READ,
    rows_shown: int = ROWS_SHOWN,
) -> dict[str, Any]:  # fmt: skip
    """What is kept of a step: {"rows", "pdus", "timeouts", "ms", "complete", "cut", "columns": [...]}.

    `complete`: every column was read to its end. `cut`: only by the bounds of a trial it was not. A column is
    {"metric", "oid", "unit", "rows", "missing", "complete", "shown"}; `missing` counts the readings without a value; a
    shown row is {"index", "at": [frame, slot, port, onu] or None, "raw", "value", "reason", "online"}.
    """
    share = rows_shown // max(len(step.columns), 1)
    return {
        "rows": sum(len(column.readings) for column in step.columns),
        "pdus": step.pdus,
        "timeouts": step.timeouts,
        "ms": round(seconds * 1000),
        "complete": bool(step.columns) and all(column.complete for column in step.columns),
        "cut": _only_cut(step, rows_read),
        "columns": [_column(column, named, share) for column in step.columns],
    }


def _only_cut(step: StepResult, rows_read: int) -> bool:
    """True when rows came, and what ended the reading is a bound of ours and no fault of the OLT."""
    by_rows = any(len(column.readings) >= rows_read and not column.complete for column in step.columns)
    by_time = step.error_kind is ErrorKind.TIME_LIMIT and any(column.readings for column in step.columns)
    return by_time or (by_rows and step.error_kind is ErrorKind.INCOMPLETE)


def _column(column: ColumnReadings, named: Mapping[str, Position], share: int) -> dict[str, Any]:
    return {
        "metric": column.spec.metric,
        "oid": column.spec.oid,
        "unit": column.spec.value.unit,
        "rows": len(column.readings),
        "missing": sum(reading.value is None for reading in column.readings),
        "complete": column.complete,
        "shown": list(_rows(column.spec, column.readings[:share], named)),
    }


def _rows(spec: ReadingSpec, readings: Iterable[Reading], named: Mapping[str, Position]) -> Iterable[dict[str, Any]]:
    for reading in readings:
        at = None if spec.scalar else position_of(spec, reading, named)
        yield {
            "index": reading.index[:LONGEST_RAW],
            "at": [at.frame, at.slot, at.port, at.onu] if at else None,
            "raw": reading.raw[:LONGEST_RAW],
            "value": reading.value,
            "reason": reading.reason[:80],
            "online": reading.online,
        }
