"""What is learned of runs, on both databases: sizes of messages, and paces judged by what was expected."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain import pace
from portal.domain.statuses import ExecutionStatus, Trigger
from portal.domain.table_sizes import GET, KEPT_EVIDENCE, WALK, KnownSize, SizeEvidence, SizeOutcome
from portal.extensions import transaction
from portal.models.table_size import TableSize
from portal.services.collecting import table_sizes
from portal.services.coordinating import paces
from portal.tables import Execution, NodePace, WorkflowNode
from testing.builders import make_catalogue, make_node, make_olt
from testing.cast import MINUTE, NOW
from testing.rows import set_rows

TABLE, OTHER = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1", "1.3.6.1.4.1.2011.6.128.1.1.2.51.1"
FOUND = (
    SizeEvidence(GET, TABLE, 50, SizeOutcome.TOO_BIG),
    SizeEvidence(GET, TABLE, 25, SizeOutcome.TOO_BIG),
    SizeEvidence(GET, TABLE, 20, SizeOutcome.ANSWERED),
)


def olts() -> tuple[int, int]:
    make_catalogue()
    return make_olt("OLT-LIMA").id, make_olt("OLT-CUSCO", address="127.0.0.2").id


def store(olt: int, *evidence: SizeEvidence, at: datetime) -> None:
    with transaction() as session:
        table_sizes.store(session, olt, evidence, at)


def test_the_next_run_is_told_what_was_found_and_a_day_later_to_try_more(session: Session) -> None:
    lima, cusco = olts()
    store(lima, *FOUND, SizeEvidence(WALK, TABLE, 100, SizeOutcome.ANSWERED), at=NOW)
    found = table_sizes.load(session, lima, NOW)
    assert found == {(GET, TABLE): KnownSize(20, too_big=25), (WALK, TABLE): KnownSize(100)}
    later = table_sizes.load(session, lima, NOW + timedelta(days=1))
    assert later[GET, TABLE] == KnownSize(20, too_big=25, retry=True)
    assert table_sizes.load(session, cusco, NOW) == {}


def test_evidence_says_which_sizes_were_tried_what_came_of_them_and_when(session: Session) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=NOW)
    row = session.scalars(select(TableSize)).one()
    found = [(size, outcome) for size, outcome, _ in row.evidence]
    assert found == [(50, "too_big"), (25, "too_big"), (20, "answered")]
    assert {datetime.fromisoformat(at) for *_, at in row.evidence} == {NOW} and row.learned_at == NOW
    for day in range(1, 12):
        store(lima, *FOUND, at=NOW + timedelta(days=day))
    session.expire_all()
    assert len(row.evidence) == KEPT_EVIDENCE


def test_a_run_that_only_confirms_what_is_known_writes_nothing(session: Session) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=NOW)
    store(lima, SizeEvidence(GET, TABLE, 20, SizeOutcome.ANSWERED), at=NOW + timedelta(hours=1))
    store(lima, at=NOW + timedelta(hours=2))
    assert session.scalars(select(TableSize)).one().learned_at == NOW
    store(lima, SizeEvidence(GET, OTHER, 50, SizeOutcome.ANSWERED), at=NOW + timedelta(hours=3))
    assert session.scalar(select(func.count()).select_from(TableSize)) == 2


def test_a_size_that_works_again_is_used_again(session: Session) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=NOW)
    store(lima, SizeEvidence(GET, TABLE, 50, SizeOutcome.ANSWERED), at=NOW + timedelta(days=1))
    assert table_sizes.load(session, lima, NOW + timedelta(days=1)) == {(GET, TABLE): KnownSize(50)}


def ran(node_id: int, olt_id: int, ended: datetime, seconds: float, **fields: object) -> int:
    """A run that has ended; its id."""
    given = {
        "node_id": node_id, "node_name": "rx", "olt_id": olt_id, "device_key": "d", "priority": 40,
        "status": ExecutionStatus.SUCCESS, "scheduled_for": ended - timedelta(seconds=seconds), "attempt": 1,
        "started_at": ended - timedelta(seconds=seconds), "finished_at": ended, "duration_ms": round(seconds * 1000),
    }  # fmt: skip
    with transaction() as session:
        made = Execution(**(given | fields))
        session.add(made)
        session.flush()
        return made.id


@pytest.fixture
def node(session: Session) -> tuple[int, int]:
    """(node id, OLT id) of a discovery."""
    made: WorkflowNode = make_node(make_olt())
    return made.id, made.workflow.olt_id


def learned(session: Session) -> NodePace:
    session.rollback()
    session.expire_all()
    return session.scalars(select(NodePace)).one()


def test_a_run_is_learned_once_however_often_one_looks(session: Session, node: tuple[int, int]) -> None:
    ran(*node, NOW, 10)
    assert [paces.learn(NOW + MINUTE) for _ in range(3)] == [1, 0, 0]
    assert learned(session).durations == [10_000]


def test_a_run_that_was_committed_late_is_not_lost(session: Session, node: tuple[int, int]) -> None:
    other = make_node(make_olt("OLT-B"))
    ran(*node, NOW + 3 * MINUTE, 10)
    paces.learn(NOW + 3 * MINUTE)
    ran(other.id, other.workflow.olt_id, NOW + MINUTE, 20)
    assert paces.learn(NOW + 4 * MINUTE) == 1
    session.expire_all()
    assert session.get_one(NodePace, other.id).durations == [20_000]


def test_where_nothing_was_learned_only_runs_of_the_last_hours_count(session: Session, node: tuple[int, int]) -> None:
    ran(*node, NOW - paces.FIRST_LOOK - MINUTE, 10)
    ran(*node, NOW - paces.FIRST_LOOK, 20)
    assert paces.learn(NOW) == 1
    assert learned(session).durations == [20_000]


def test_only_scheduled_runs_that_succeeded_count(node: tuple[int, int]) -> None:
    ran(*node, NOW, 10, status=ExecutionStatus.FAILED)
    ran(*node, NOW + MINUTE, 10, status=ExecutionStatus.INTERRUPTED)
    ran(*node, NOW + 2 * MINUTE, 10, trigger=Trigger.MANUAL)
    assert paces.learn(NOW + 4 * MINUTE) == 0


def test_each_run_is_judged_by_what_was_expected_before_it(session: Session, node: tuple[int, int]) -> None:
    for number in range(20):
        ran(*node, NOW + number * MINUTE, 10)
    paces.learn(NOW + 20 * MINUTE)
    ran(*node, NOW + 20 * MINUTE, 13)
    paces.learn(NOW + 21 * MINUTE)
    found = learned(session)
    assert (found.predicted, found.covered, found.error_ms) == (16, 15, 3000)
    assert (found.p50_ms, found.p95_ms) == (10_000, 13_000)


def test_runs_in_one_look_or_in_many_are_learned_alike(session: Session, node: tuple[int, int]) -> None:
    other = make_node(make_olt("OLT-B"))
    for number in range(30):
        ran(*node, NOW + number * MINUTE, 10 + number % 7)
        paces.learn(NOW + number * MINUTE)
    for number in range(30):
        ran(other.id, other.workflow.olt_id, NOW + (number + 30) * MINUTE, 10 + number % 7)
    paces.learn(NOW + 61 * MINUTE)
    session.expire_all()
    step_by_step, at_once = session.get_one(NodePace, node[0]), session.get_one(NodePace, other.id)
    for column in ("durations", "p50_ms", "p95_ms", "predicted", "covered", "error_ms"):
        assert getattr(step_by_step, column) == getattr(at_once, column)
    assert len(at_once.durations) == pace.KEPT


def test_what_was_learned_as_a_node_read_something_else_is_forgotten(session: Session, node: tuple[int, int]) -> None:
    for number in range(10):
        ran(*node, NOW + number * MINUTE, 10)
    paces.learn(NOW + 10 * MINUTE)
    set_rows(WorkflowNode, WorkflowNode.id == node[0], oid="huawei.onu_description")
    ran(*node, NOW + 11 * MINUTE, 60)
    paces.learn(NOW + 12 * MINUTE)
    found = learned(session)
    assert (found.durations, found.predicted, found.reads) == ([60_000], 0, "discovery:huawei.onu_description")


def test_a_backlog_is_learned_in_parts_in_order_and_past_any_number_of_failures(
    session: Session, node: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "LIMIT", 4)
    for number in range(10):
        ran(*node, NOW + number * MINUTE, 10 + number)
        ran(*node, NOW + number * MINUTE - timedelta(seconds=30), 1, status=ExecutionStatus.FAILED)
    later = NOW + timedelta(hours=1)
    assert [paces.learn(later) for _ in range(2)] == [10, 0]
    assert learned(session).durations == [1000 * (10 + number) for number in range(10)]


def test_an_end_in_the_future_does_not_stop_the_learning(node: tuple[int, int]) -> None:
    other = make_node(make_olt("OLT-B"))
    ran(*node, NOW + timedelta(days=1), 10)
    paces.learn(NOW)
    ran(other.id, other.workflow.olt_id, NOW + MINUTE, 20)
    assert paces.learn(NOW + MINUTE) == 1
