"""What a composite read ends up in the tables, on both databases; errors never erase what is known."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, StepResult
from portal.domain.readings import Reading
from portal.domain.statuses import EventType, Presence, StepStatus
from portal.services.collecting import onus
from portal.services.dispatch import executions, run_requests
from portal.tables import CoordinatorLog, Execution, Onu, OnuData, OnuEvent, PonPort, WorkflowNode
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, NOW

PORT = 4194312448  # GPON 0/1/1


@pytest.fixture
def discovery(session: Session) -> "Discovery":
    return Discovery(session)


class Discovery:
    """A Huawei OLT whose discovery finds what the test says."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.olt = make_olt()
        self.node = make_node(self.olt)
        self.now = NOW

    def finds(self, states: Mapping[int, str], *, complete: bool = True) -> dict[str, int]:
        """`states`: ONU number on port 0/1/1 → raw state."""
        online = {"1": True, "2": False}
        readings = tuple(
            Reading(f"{PORT}.{number}", {"1": "online", "2": "offline"}[raw], raw, online=online[raw])
            for number, raw in states.items()
        )
        return self.run(readings, complete=complete)

    def run(self, readings: tuple[Reading, ...], *, complete: bool = True) -> dict[str, int]:
        self.now += timedelta(minutes=15)
        execution_id, _ = run_requests.run_now(self.node.id, ACTOR, self.now)
        work = executions.start(execution_id, 1, "poller-1", self.now, self.now)
        assert work is not None
        status = StepStatus.SUCCESS if complete else StepStatus.FAILED
        column = ColumnReadings(work.steps[0].specs[0], readings, complete)
        step = StepResult(self.node.id, status, (column,), finished_at=self.now, pdus=1)
        executions.finish(execution_id, 1, CompositeResult((step,)), self.now)
        self.session.rollback()
        self.session.expire_all()
        result = self.session.get(Execution, execution_id).result  # type: ignore[union-attr]
        assert result is not None
        return result

    def onus(self) -> dict[int | None, Onu]:
        return {onu.onu_number: onu for onu in self.session.scalars(select(Onu))}


def test_discovered_onus_have_their_slot_port_and_number(discovery: Discovery) -> None:
    result = discovery.finds({2: "1", 5: "2"})
    assert (result["onus_seen"], result["onus_new"]) == (2, 2)
    onus = discovery.onus()
    assert {(onu.slot, onu.port, number) for number, onu in onus.items()} == {(1, 1, 2), (1, 1, 5)}
    assert (onus[2].online, onus[5].online) == (True, False)


def test_the_reading_of_the_discovery_itself_is_kept_as_latest_value(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    data = discovery.session.scalars(select(OnuData)).one()
    assert (data.metric, data.text, data.raw) == ("onu_state", "online", "1")


def test_a_second_discovery_changes_and_adds_without_doubling(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    discovery.finds({2: "2", 3: "1"})
    onus = discovery.onus()
    assert sorted(onus) == [2, 3] and onus[2].online is False
    assert [(event.kind, event.after) for event in discovery.session.scalars(select(OnuEvent))] == [
        ("state", "offline")
    ]


def test_an_onu_missing_from_a_complete_walk_is_disabled(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1", 4: "1"})
    discovery.finds({2: "1", 3: "1"})
    assert discovery.onus()[4].presence is Presence.DISABLED


def test_an_onu_missing_from_a_cut_walk_is_left_alone(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1", 4: "1"})
    discovery.finds({2: "1"}, complete=False)
    assert {onu.presence for onu in discovery.onus().values()} == {Presence.ENABLED}


def test_an_onu_that_comes_back_is_enabled_again(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1"})
    discovery.finds({3: "1"})
    discovery.finds({2: "1", 3: "1"})
    assert discovery.onus()[2].presence is Presence.ENABLED
    events = discovery.session.scalars(select(OnuEvent).where(OnuEvent.kind == "presence").order_by(OnuEvent.id))
    assert [event.after for event in events] == ["DISABLED", "ENABLED"]


def test_a_table_that_loses_more_than_half_is_held_until_a_second_walk_agrees(discovery: Discovery) -> None:
    discovery.finds(dict.fromkeys(range(12), "1"))
    discovery.finds(dict.fromkeys(range(3), "1"))
    assert {onu.presence for onu in discovery.onus().values()} == {Presence.ENABLED}
    logged = discovery.session.scalars(
        select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SUSPECT_TABLE)
    )
    assert [(row.details["missing"], row.details["present"]) for row in logged] == [(9, 12)]
    discovery.finds(dict.fromkeys(range(3), "1"))
    gone = [number for number, onu in discovery.onus().items() if onu.presence is Presence.DISABLED]
    assert len(gone) == 9


def test_no_value_is_kept_as_no_reading_and_never_erases_the_state(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    discovery.run((Reading(f"{PORT}.2", None, "-1", reason="sentinel -1"),))
    assert discovery.onus()[2].online is True
    data = discovery.session.scalars(select(OnuData)).one()
    assert (data.number, data.text, data.reason) == (None, None, "sentinel -1")


def test_an_index_that_no_formula_fits_is_kept_with_its_raw_key(discovery: Discovery) -> None:
    discovery.run((Reading("12.85.66", "online", "1", online=True),))
    onu = discovery.session.scalars(select(Onu)).one()
    assert (onu.index_key, onu.slot, onu.port) == ("12.85.66", None, None)


def test_a_table_walk_lists_the_ports(session: Session, now: datetime) -> None:
    node = make_node(make_olt(), "ports", kind="table", oid="huawei.onu_state")
    execution_id, _ = run_requests.run_now(node.id, ACTOR, now)
    work = executions.start(execution_id, 1, "poller-1", now, now)
    assert work is not None
    column = ColumnReadings(work.steps[0].specs[0], (Reading(str(PORT), "GPON 0/1/1", "GPON 0/1/1"),), True)
    step = StepResult(node.id, StepStatus.SUCCESS, (column,), finished_at=now, pdus=1)
    executions.finish(execution_id, 1, CompositeResult((step,)), now)
    port = session.scalars(select(PonPort)).one()
    assert (port.name, port.slot, port.port) == ("GPON 0/1/1", 1, 1)


def listed(
    session: Session, node: WorkflowNode, at: datetime, names: Mapping[str, str], complete: bool = True
) -> set[str]:
    """A table node walks; the interfaces that are stored then."""
    execution_id, _ = run_requests.run_now(node.id, ACTOR, at)
    work = executions.start(execution_id, 1, "poller-1", at, at)
    assert work is not None
    readings = tuple(Reading(index, name, name) for index, name in names.items())
    column = ColumnReadings(work.steps[0].specs[0], readings, complete)
    status = StepStatus.SUCCESS if complete else StepStatus.FAILED
    step = StepResult(node.id, status, (column,), finished_at=at, pdus=1)
    executions.finish(execution_id, 1, CompositeResult((step,)), at)
    session.expire_all()
    return {port.index_key for port in session.scalars(select(PonPort))}


def test_interfaces_that_a_whole_walk_lists_no_more_are_forgotten(session: Session, now: datetime) -> None:
    """The names of a card that was pulled out would speak against the formula that fits the new one."""
    olt, minute = make_olt(), timedelta(minutes=1)
    node = make_node(olt, "ports", kind="table", oid="huawei.onu_state", max_retries=0)
    other = make_node(olt, "others", kind="table", oid="huawei.onu_state", max_retries=0)
    assert listed(session, other, now, {"9": "ether 9"}) == {"9"}
    assert listed(session, node, now + minute, {"1": "GPON 0/1/1", "2": "GPON 0/1/2"}) == {"1", "2", "9"}
    assert listed(session, node, now + 2 * minute, {"1": "GPON 0/1/1"}, complete=False) == {"1", "2", "9"}
    assert listed(session, node, now + 3 * minute, {}) == {"1", "2", "9"}, "an empty table is no proof"
    assert listed(session, node, now + 4 * minute, {"3": "GPON 0/1/3", "1" * 80: "x"}) == {"3", "9"}


def test_interfaces_that_no_node_answers_for_are_forgotten_after_seven_days(session: Session, now: datetime) -> None:
    olt, week = make_olt(), timedelta(days=7)
    node = make_node(olt, "ports", kind="table", oid="huawei.onu_state", max_retries=0)
    for index, seen in (("7", now - week), ("8", now - week - timedelta(seconds=1))):
        session.add(PonPort(olt_id=olt.id, index_key=index, name=f"GPON 0/1/{index}", last_seen=seen))
    session.commit()
    assert listed(session, node, now, {"1": "GPON 0/1/1"}) == {"1", "7"}


def test_the_known_onus_are_read_once_whatever_the_number_of_steps(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = onus.load
    olt = make_olt()
    master = make_node(olt)
    for key in ("a", "b", "c"):
        make_chained(master, key)
    execution_id, _ = run_requests.run_now(master.id, ACTOR, now)
    work = executions.start(execution_id, 1, "poller-1", now, now)
    assert work is not None
    steps = tuple(
        StepResult(
            step.node_id,
            StepStatus.SUCCESS,
            (ColumnReadings(step.specs[0], (Reading(f"{PORT}.2", "1", "1"),), True),),
            finished_at=now,
            pdus=1,
        )
        for step in work.steps
    )
    loads: list[int] = []

    def noted(session: Session, olt_id: int) -> dict[int, onus.Row]:
        loads.append(olt_id)
        return load(session, olt_id)

    monkeypatch.setattr(onus, "load", noted)
    executions.finish(execution_id, 1, CompositeResult(steps), now)
    assert loads == [olt.id]
