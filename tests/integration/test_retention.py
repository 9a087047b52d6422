"""The clean-up lets others write: short transactions in turn, rests between them, and no step that starves another."""

import threading
import time
from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus, NotificationStatus, Presence
from portal.extensions import transaction
from portal.services import retention
from portal.services.retention import clean_up, take_turns
from portal.tables import CoordinatorLog, Execution, ExecutionAttempt, Notification, Onu, PollerStats
from testing.builders import make_attempt, make_execution, make_node, make_olt, make_onus
from testing.cast import DAY, MINUTE, NOW, SECOND
from testing.seed import add_alerts

pytestmark = pytest.mark.integration


class Clock:
    """Time that passes when somebody works or rests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests: list[float] = []

    def work(self, name: str, transactions: int, seconds: float, done: list[str]) -> Iterator[int]:
        for _ in range(transactions):
            self.now += seconds
            done.append(name)
            yield 1

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


def test_after_each_transaction_comes_a_rest_as_long_as_it_took() -> None:
    clock, done = Clock(), list[str]()
    steps = {name: clock.work(name, 2, seconds, done) for name, seconds in (("a", 0.25), ("b", 0.5))}
    assert take_turns(steps, 60, clock=lambda: clock.now, rest=clock.rest) == 4
    assert clock.rests == [0.25, 0.5, 0.25, 0.5]


def test_each_run_begins_with_another_step_and_ends_when_its_time_is_over() -> None:
    began = []
    for hour in range(3):
        clock, done = Clock(), list[str]()
        steps = {name: clock.work(name, 10**6, 1, done) for name in "abc"}
        take_turns(steps, 10, first=hour, clock=lambda clock=clock: clock.now, rest=clock.rest)  # type: ignore[misc]
        assert clock.now <= 12
        assert set(done) == set("abc")  # none waits for the end of another
        began.append(done[0])
    assert began == ["a", "b", "c"]


def test_a_step_that_fails_starves_no_other_and_is_told_at_the_end() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("a trigger refuses it")

    clock, done = Clock(), list[str]()
    steps = {"broken": broken(), "b": clock.work("b", 5, 1, done)}
    with pytest.raises(ExceptionGroup) as told:
        take_turns(steps, 60, clock=lambda: clock.now, rest=clock.rest)
    assert len(done) == 5
    assert told.group_contains(RuntimeError, match="trigger")


def test_what_is_past_its_time_goes_and_what_is_not_stays_beside_it(session: Session) -> None:
    node = make_node(make_olt())
    for age in range(0, 40, 2):
        for second, status in enumerate((ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED)):
            slot = NOW - age * DAY - second * SECOND
            make_attempt(make_execution(node, slot, status=status, finished_at=slot + MINUTE))
        session.add(PollerStats(timestamp=NOW - age * DAY, total_pollers=1))
    waiting = make_execution(node, NOW - 39 * DAY)
    add_alerts(session, NOW - 40 * DAY)
    session.commit()
    clean_up(NOW, 14, 30)
    kept = session.execute(select(Execution.status, func.count()).group_by(Execution.status))
    assert dict(kept.tuples().all()) == {
        ExecutionStatus.SUCCESS: 8, ExecutionStatus.INTERRUPTED: 8, ExecutionStatus.FAILED: 16,
        ExecutionStatus.PENDING: 1,
    }  # fmt: skip
    assert session.get(Execution, waiting.id) is not None
    assert session.scalar(select(func.count()).select_from(ExecutionAttempt)) == 32
    assert session.scalar(select(func.count()).select_from(PollerStats)) == 4
    assert list(session.scalars(select(Notification.status))) == [NotificationStatus.PENDING]


def test_more_than_one_look_is_taken_in_and_rows_that_stay_are_passed_over(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LOOK", 7)
    rows = [{"event_type": EventType.REQUEUED, "message": "old", "level": "INFO", "timestamp": NOW - days * DAY}
            for days in (200,) * 30 + (1,) * 3 + (200,) + (-400,) * 20 + (200,) + (1,) * 30]  # fmt: skip
    session.execute(insert(CoordinatorLog), rows)
    session.commit()
    clean_up(NOW, 14, 30)
    assert session.scalar(select(func.count()).select_from(CoordinatorLog)) == 53


def test_an_onu_that_came_back_while_it_was_looked_for_stays(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"presence": Presence.DISABLED, "presence_since": NOW - 400 * DAY}
    back, _away = (onu.id for onu in make_onus(make_olt().id, [gone, gone]))
    read = retention._read

    def as_it_comes_back(query: object) -> object:
        rows = read(query)  # type: ignore[arg-type]
        with transaction() as writing:
            writing.get_one(Onu, back).presence = Presence.ENABLED
        return rows

    monkeypatch.setattr(retention, "_read", as_it_comes_back)
    clean_up(NOW, 14, 30, gone_days=365)
    assert list(session.scalars(select(Onu.id))) == [back]


def test_nobody_waits_long_for_the_lock_while_thousands_of_executions_go(app: Flask, session: Session) -> None:
    node = make_node(make_olt())
    old = {"node_id": node.id, "olt_id": node.workflow.olt_id, "node_name": "n", "device_key": "k", "priority": 40,
           "status": ExecutionStatus.SUCCESS, "finished_at": NOW - 20 * DAY}  # fmt: skip
    slots = (NOW - 20 * DAY + n * SECOND for n in range(4000))
    session.execute(insert(Execution), [old | {"scheduled_for": slot} for slot in slots])
    session.commit()
    cleaning = threading.Thread(target=_in_app, args=(app,))
    cleaning.start()
    writes = 0
    while cleaning.is_alive():
        with transaction() as writing:
            writing.add(PollerStats(timestamp=NOW, total_pollers=1))
        writes += 1
        time.sleep(0.001)
    cleaning.join()
    assert session.scalar(select(func.count()).select_from(Execution)) == 0
    assert writes > 10  # they get in between: each of its transactions is followed by a rest


def _in_app(app: Flask) -> None:
    with app.app_context():
        clean_up(NOW, 14, 30)
