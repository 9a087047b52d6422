"""Goes once through the path of a composite on rows that are rolled back. Nothing of it stays but prepared statements.

Each composite runs in a fresh fork. What the object-relational mapper works out at first use (mappers, statements,
loaders) it would work out again in every fork, inside the transactions that hold up all others: 110 ms of CPU of 150 a
composite (bench.dispatch --unrehearsed). Rehearsed before the fork, it is inherited.
"""

import logging
from datetime import datetime, timedelta
from itertools import product

from sqlalchemy.orm import Session

from portal import clock
from portal.domain import quota
from portal.domain.composite import ColumnReadings, CompositeResult, CompositeWork, StepResult
from portal.domain.quota import Settlement, TrackerKey
from portal.domain.readings import Reading
from portal.domain.statuses import ErrorKind, ExecutionStatus, LossCause, NodeKind, StepStatus, Trigger
from portal.extensions import transaction
from portal.services.accounting import quotas
from portal.services.dispatch import executions, work
from portal.services.dispatch.tickets import tickets_for
from portal.tables import Brand, Credential, Execution, Oid, Olt, Workflow, WorkflowNode

log = logging.getLogger(__name__)

_NAME = "(rehearsal)"
_COLUMN = "1.3.6.1.4.1.99999"


class _Over(Exception):
    """Ends the rehearsal's transaction by rolling it back."""


def rehearse() -> None:
    """A discovery with a chained GET and one alone, each to success and to failure. Raises what the database raises.

    One row and several are two statements.
    """
    try:
        with transaction() as session:
            now = clock.now()
            olt_id, masters = _rows(session, now)
            outcomes = product(masters, (StepStatus.SUCCESS, StepStatus.FAILED))
            for minute, (node_id, status) in enumerate(outcomes):
                _run(session, node_id, olt_id, now + timedelta(minutes=minute), status)
            key = TrackerKey(olt_id, "discovery", quota.hour_of(now))
            quotas.settle(session, [Settlement(key, ExecutionStatus.FAILED, LossCause.DEVICE)], now)
            quotas.write_now(session, now)
            raise _Over
    except _Over:
        log.debug("event=rehearsed")


def _rows(session: Session, now: datetime) -> tuple[int, list[int]]:
    """Ids of an OLT and of its masters: one with a chain, one without."""
    brand = Brand(key=_NAME, name=_NAME)
    credential = Credential(name=_NAME, version="2c", community=_NAME)
    session.add_all([brand, credential])
    session.flush()
    session.add(Oid(brand=brand, name="state", oid=_COLUMN, kind="discovery", shape="onu", value_type="number"))
    olt = Olt(name=_NAME, address="192.0.2.1", port=1, brand=brand, credential=credential, created_at=now)
    workflow = Workflow(olt=olt)
    common = {"workflow": workflow, "oid": _COLUMN, "priority": 50}
    master = WorkflowNode(key="master", name=_NAME, kind=NodeKind.DISCOVERY, interval_seconds=300, **common)
    chained = WorkflowNode(key="chained", name=_NAME, kind=NodeKind.GET, master=master, **common)
    alone = WorkflowNode(key="alone", name=_NAME, kind=NodeKind.DISCOVERY, interval_seconds=300, **common)
    session.add_all([olt, workflow, master, chained, alone])
    session.flush()
    return olt.id, [master.id, alone.id]


def _run(session: Session, node_id: int, olt_id: int, now: datetime, status: StepStatus) -> None:
    execution = Execution(
        node_id=node_id, node_name=_NAME, olt_id=olt_id, device_key=_NAME, priority=50,
        scheduled_for=now, queued_at=now, trigger=Trigger.MANUAL,
    )  # fmt: skip
    session.add(execution)
    session.flush()
    tickets_for(session, [execution])
    ident = execution.id
    session.expunge_all()  # as in a fork: nothing is loaded yet
    found = session.scalar(work.loaded(ident))
    assert found is not None  # noqa: S101  (inserted above)
    composed = work.compose(session, found, 1, now)
    executions.take(session, ident, composed, _NAME, now, now)
    executions.write_result(session, ident, 1, _result(composed, now, status), now)


def _result(composed: CompositeWork, now: datetime, status: StepStatus) -> CompositeResult:
    failed = {} if status is StepStatus.SUCCESS else {"error_kind": ErrorKind.DEVICE, "error_message": _NAME}
    steps = []
    for step in composed.steps:
        readings = tuple(Reading(index, 1, "1") for index in ("1.1", "1.2"))
        columns = tuple(ColumnReadings(spec, readings, complete=True) for spec in step.specs)
        steps.append(
            StepResult(step.node_id, status, columns, started_at=now, finished_at=now, pdus=1, rows=2, **failed)  # type: ignore[arg-type]
        )
    return CompositeResult(tuple(steps))
