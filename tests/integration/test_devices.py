"""Which device answered, and since when it runs: what is kept of it, and what nobody is taken away by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, ReadingSpec, StepResult
from portal.domain.device import Answer
from portal.domain.readings import StateLabel, ValueSpec, ValueType, decoder
from portal.domain.statuses import (
    AlertKind,
    ErrorKind,
    EventType,
    ExecutionStatus,
    LossCause,
    Presence,
    SkipReason,
    StepStatus,
)
from portal.services import retention
from portal.services.dispatch import executions, run_requests
from portal.services.errors import NotFound
from portal.services.network import olts
from portal.tables import (
    AuditLog,
    Channel,
    Execution,
    Notification,
    Olt,
    OltDevice,
    Onu,
    OnuData,
    QuotaLoss,
    WorkflowNode,
)
from testing.builders import make_execution, make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW, SECOND
from testing.rows import logged

STATE = ReadingSpec("onu_state", "1.1", ValueSpec(ValueType.STATE, states={1: StateLabel("online", True)}))
SERIAL = ReadingSpec("onu_serial", "1.2", ValueSpec(ValueType.SERIAL))
POWER = ReadingSpec("onu_rx_power", "1.3", ValueSpec(ValueType.NUMBER, 0.01))
HOUR = timedelta(hours=1)
ALL = range(1, 13)


@dataclass
class Line:
    """An OLT whose discovery lists what the test says, and reads the serial and the light of each."""

    session: Session
    node: WorkflowNode
    now: datetime = NOW

    @property
    def olt(self) -> Olt:
        return self.node.workflow.olt

    @property
    def device(self) -> OltDevice:
        return self.session.get_one(OltDevice, self.olt.id)

    def answer(self, uptime: timedelta = 30 * 24 * HOUR, name: str = "LIM-01", **seen: int) -> Answer:
        return Answer("1.3.6.1.4.1.2011.2.248", name, round(uptime.total_seconds() * 100), self.now, **seen)

    def run(
        self, onus: Collection[int], answer: Answer | None = None, restarted_at: datetime | None = None
    ) -> Execution:
        columns = (
            column(STATE, dict.fromkeys(onus, 1)),
            column(SERIAL, {number: f"HWTC{number:04d}".encode() for number in onus}),
            column(POWER, dict.fromkeys(onus, -2000)),
        )
        step = StepResult(
            self.node.id, StepStatus.SUCCESS, columns, finished_at=self.now, pdus=2, restarted_at=restarted_at
        )
        return self.finish(CompositeResult((step,), answer or self.answer()))

    def other(self, answer: Answer) -> Execution:
        step = StepResult(self.node.id, StepStatus.FAILED, error_kind=ErrorKind.OTHER_DEVICE, error_message="?", pdus=1)
        return self.finish(CompositeResult((step,), answer))

    def finish(self, result: CompositeResult) -> Execution:
        execution_id, _ = run_requests.run_now(self.node.id, ACTOR, self.now)
        assert executions.start(execution_id, 1, "poller-1", self.now, self.now) is not None
        executions.finish(execution_id, 1, result, self.now)
        self.session.rollback()
        self.session.expire_all()
        self.now += 5 * MINUTE
        return self.session.get_one(Execution, execution_id)

    def gone(self) -> set[int]:
        query = select(Onu.index_key).where(Onu.presence == Presence.DISABLED)
        return {int(index or 0) for index in self.session.scalars(query)}


def column(spec: ReadingSpec, rows: Mapping[int, int | bytes]) -> ColumnReadings:
    return ColumnReadings(spec, decoder(spec.value)([(str(index), raw) for index, raw in rows.items()]), complete=True)


@pytest.fixture
def line(session: Session) -> Line:
    return Line(session, make_node(make_olt(), max_retries=0))


def test_a_composite_keeps_what_the_device_said_of_itself(line: Line) -> None:
    line.run(ALL)
    line.run(ALL)
    kept = line.device
    assert (kept.object_id, kept.name, kept.restarted_at, kept.other) == (
        "1.3.6.1.4.1.2011.2.248",
        "LIM-01",
        None,
        None,
    )
    assert kept.read_at == line.now - 5 * MINUTE
    assert kept.witnesses["1.2.7"] == "HWTC0007" and len(kept.witnesses) == len(ALL)


def test_a_restart_is_one_event(line: Line) -> None:
    line.run(ALL)
    began = line.now - MINUTE
    for _ in range(3):
        line.run(ALL, line.answer(line.now - began))
    (event,) = logged(EventType.OLT_RESTARTED)
    assert event.message == "OLT-LIMA restarted" and event.details["restarted_at"] == began.isoformat()
    assert line.device.restarted_at == began


def test_nobody_is_gone_by_the_tables_of_an_olt_that_starts(line: Line) -> None:
    """It lists nobody, then some, then more; only what does not come back once all is still is gone."""
    line.run(ALL)
    began = line.now - MINUTE
    steps = [(), (1, 2, 3), range(1, 8), range(1, 11), range(1, 11)]
    missing = []
    for listed in steps:
        line.run(listed, line.answer(line.now - began), restarted_at=began)
        missing.append(line.gone())
    assert missing == [set(), set(), set(), set(), {11, 12}]
    assert not logged(EventType.SUSPECT_TABLE)


def test_readings_are_not_emptied_by_an_olt_that_starts(line: Line) -> None:
    line.run(ALL)
    began = line.now - MINUTE
    line.run((1,), line.answer(MINUTE), restarted_at=began)
    kept = {
        data.number for onu in line.session.scalars(select(Onu)) for data in onu.data if data.metric == "onu_rx_power"
    }
    assert kept == {-20.0}


def test_an_hour_after_its_restart_an_olt_is_believed(line: Line) -> None:
    line.run(ALL)
    line.run(range(1, 12), restarted_at=line.now - HOUR)
    assert line.gone() == {12}


def test_another_device_is_told_once_and_until_the_olt_answers_again(line: Line) -> None:
    line.session.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.OTHER_DEVICE]))
    line.session.commit()
    line.run(ALL)
    failed = [line.other(line.answer(name="ICA-01", other=12)) for _ in range(2)]
    assert {one.error_kind for one in failed} == {ErrorKind.OTHER_DEVICE}
    assert line.device.name == "LIM-01" and line.device.other is not None and line.device.other["name"] == "ICA-01"
    (told,) = line.session.scalars(select(Notification))
    assert "another device" in told.subject and "ICA-01" in told.body
    assert line.gone() == set()
    line.run(ALL)
    assert line.device.other is None
    assert [row.message for row in logged(EventType.OTHER_DEVICE)] == [
        "OLT-LIMA: another device answers at 10.20.0.2:161", "OLT-LIMA: its own device answers again"
    ]  # fmt: skip


def test_a_new_name_of_the_same_device_is_kept_and_logged(line: Line) -> None:
    line.run(ALL)
    line.run(ALL, line.answer(name="LIM-02", same=5))
    (event,) = logged(EventType.OTHER_DEVICE)
    assert "LIM-02" in event.message and "LIM-01" in event.message and line.device.name == "LIM-02"


def test_a_person_says_that_the_other_device_is_the_olt(line: Line) -> None:
    line.run(ALL)
    with pytest.raises(NotFound):
        olts.accept_device(line.olt.id, ACTOR, line.now)
    line.other(line.answer(name="LIM-NEW", other=12))
    olts.accept_device(line.olt.id, ACTOR, line.now)
    kept = line.device
    assert (kept.name, kept.other, kept.witnesses, kept.uptime) == ("LIM-NEW", None, {}, None)
    audit = line.session.scalars(select(AuditLog).where(AuditLog.action == "olt.accept_device")).one()
    assert audit.actor == ACTOR


def test_who_is_gone_for_long_enough_is_forgotten_with_what_was_read_of_it(line: Line) -> None:
    line.run(ALL)
    line.run(range(1, 12))
    gone = line.now - 5 * MINUTE
    for days, left in ((0, 12), (366, 12), (365, 11)):
        retention.clean_up(gone + timedelta(days=365, seconds=1), 14, 30, gone_days=days)
        assert len(line.session.scalars(select(Onu.id)).all()) == left
        line.session.rollback()
    assert {data.onu.index_key for data in line.session.scalars(select(OnuData))} == {str(n) for n in range(1, 12)}


def test_a_run_that_had_nothing_to_ask_for_is_no_success_and_keeps_no_promise(session: Session) -> None:
    node = make_node(make_olt(), max_retries=2)
    execution = make_execution(node, NOW, task_type="DISCOVERY:onu_state")
    assert executions.start(execution.id, 1, "poller", NOW, NOW + 15 * SECOND)
    step = StepResult(node.id, StepStatus.SKIPPED, skip_reason=SkipReason.NO_ONUS, pdus=1)
    executions.finish(execution.id, 1, CompositeResult((step,)), NOW + SECOND)
    session.rollback()
    assert (execution.status, execution.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.NO_ONUS)
    (lost,) = session.scalars(select(QuotaLoss))
    assert (lost.cause, lost.skipped, lost.failed) == (LossCause.NO_ONUS, 1, 0)
    assert node.last_success_at is None
