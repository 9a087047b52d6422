"""When nodes run, what an hour promises, what follows from a click that disables: examples on a running stack.

Scheduler, pollers, coordinator and close are the product's processes; the wall clock that they see is set from slot to
slot (host_clock.c), so that two hours pass in a minute.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from portal import queueing
from portal.domain.statuses import EventType, ExecutionStatus, PlanStatus, QuotaStatus, Severity, SkipReason
from portal.extensions import db
from portal.models.poller import SchedulerState
from portal.services.network import olts, workflows
from portal.tables import CoordinatorLog, Execution, ExecutionPlan, Olt, QuotaTracker, QuotaViolation, WorkflowNode
from testing.cast import ACTOR, HOUR, MINUTE, SECOND
from testing.live import Live, polled
from testing.stack import StackError

pytestmark = [pytest.mark.integration, pytest.mark.live, pytest.mark.timeout(240)]

PROCESSES = ("scheduler", "pollers", "maintenance", "upkeep")
SUCCESS, FAILED = ExecutionStatus.SUCCESS, ExecutionStatus.FAILED
EARLY = 2 * SECOND  # the clock is set so long before a slot
FREE_PORT = 1  # nothing answers there


@dataclass
class Site:
    """A running stack whose clock stands where the test says."""

    live: Live
    ten: datetime  # 10:00 of the day on which all happens

    def set(self, moment: datetime) -> None:
        """All processes see this moment from now on; when it returns, the scheduler has ticked there."""
        ahead = round((moment - datetime.now(UTC)).total_seconds())
        for name in PROCESSES:
            self.live.stack.clocks[name].step(ahead)
        if self.live.stack.processes:
            self.wait(lambda: self._ticked_at() >= moment - SECOND, f"a tick at {moment:%H:%M:%S}")

    def _ticked_at(self) -> datetime:
        db.session.rollback()
        return db.session.scalar(select(SchedulerState.last_tick_at)) or datetime.min.replace(tzinfo=UTC)

    def wait(self, true: Callable[[], object], what: str, instead: Callable[[], str] = str) -> None:
        """Until `true()`; else what `instead` tells is in the complaint."""
        try:
            self.live.stack.wait_until(true, what, 60)
        except StackError as error:
            raise StackError(f"{error}\n{instead()}") from None

    def add(self, olt_id: int, key: str, kind: str, interval: str, now: datetime, **fields: object) -> int:
        """A node, as a person adds it at `now`."""
        oid = "huawei.onu_state" if kind == "discovery" else "huawei.onu_description"
        given = {"key": key, "kind": kind, "oid": oid, "interval": interval, "override_reason": "test"}
        return workflows.add_node(olt_id, given | {"max_retries": 0} | fields, ACTOR, now)

    def ran(self, node_id: int, slot: datetime, status: ExecutionStatus = SUCCESS) -> Execution:
        """Go to a slot of a node, and see it run."""
        self.set(slot - EARLY)
        found: list[Execution] = []

        def ended() -> bool:
            found[:] = [one for one in self.live.executions() if one.node_id == node_id and one.scheduled_for == slot]
            return bool(found) and found[0].status is status

        self.wait(ended, f"the run of {slot:%H:%M}")
        return found[0]

    def slots(self, node_id: int) -> list[str]:
        return [f"{one.scheduled_for:%H:%M:%S}" for one in self.live.executions()
                if one.node_id == node_id and one.status is SUCCESS]  # fmt: skip

    def tracker(self, olt_id: int, task_type: str, hour: datetime) -> QuotaTracker | None:
        db.session.rollback()
        query = select(QuotaTracker).filter_by(olt_id=olt_id, task_type=task_type, period_start=hour)
        return db.session.scalars(query.execution_options(populate_existing=True)).first()


@pytest.fixture
def site(tmp_path: Path, database_url: str) -> Iterator[Callable[..., Site]]:
    """Makes a site whose day begins at five to ten tomorrow."""
    with ExitStack() as exits:

        def make(**options: object) -> Site:
            live = exits.enter_context(polled(tmp_path, database_url, clocks=PROCESSES, timezone="UTC", **options))
            for node in db.session.scalars(select(WorkflowNode.id)).all():
                workflows.delete_node(node, ACTOR, datetime.now(UTC))
            tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(hour=10, minute=0, second=0, microsecond=0)
            made = Site(live, tomorrow)
            made.set(tomorrow - 5 * MINUTE)
            live.start(*PROCESSES)
            made.set(tomorrow - 5 * MINUTE)
            return made

        yield make


def olt_ids() -> list[int]:
    """In the order in which polled() made them."""
    return list(db.session.scalars(select(Olt.id).order_by(Olt.id)))


def test_new_and_enabled_nodes_run_by_the_rules_of_time_and_each_olt_by_its_clock(site: Callable[..., Site]) -> None:
    here = site(olts=3, microseconds=2_000)
    first, second, third = olt_ids()
    ten = here.ten
    here.set(ten)
    new = here.add(first, "state", "discovery", "10m", ten)
    here.ran(new, ten + MINUTE)  # created 10:00: a minute later
    other = here.add(second, "state", "discovery", "5m", ten + 6 * MINUTE)
    here.ran(other, ten + 7 * MINUTE)  # OLT-B by its own clock: 10:07, 10:12
    here.ran(new, ten + 11 * MINUTE)
    here.ran(other, ten + 12 * MINUTE)
    workflows.set_node_enabled(other, False, ACTOR, ten + 13 * MINUTE)
    workflows.set_node_enabled(new, False, ACTOR, ten + 13 * MINUTE)
    here.set(ten + 50 * MINUTE)
    workflows.set_node_enabled(new, True, ACTOR, ten + 50 * MINUTE)  # a full interval from now
    here.ran(new, ten + HOUR)
    here.ran(new, ten + 70 * MINUTE)
    assert here.slots(new) == ["10:01:00", "10:11:00", "11:00:00", "11:10:00"]
    assert here.slots(other) == ["10:07:00", "10:12:00"]
    here.set(ten + 80 * MINUTE)
    get = here.add(third, "names", "get", "10m", ten + 80 * MINUTE)  # both at 11:21, the GET was there first
    discovery = here.add(third, "state", "discovery", "10m", ten + 80 * MINUTE)
    later, sooner = here.ran(get, ten + 81 * MINUTE), here.ran(discovery, ten + 81 * MINUTE)
    assert timedelta() <= later.started_at - sooner.finished_at < 3 * SECOND
    nodes = {one.id: one for one in db.session.scalars(select(WorkflowNode))}
    assert nodes[get].next_run_at == nodes[discovery].next_run_at == ten + 91 * MINUTE


def test_a_partial_hour_promises_what_fits_the_next_all_and_two_of_four_violate(site: Callable[..., Site]) -> None:
    here = site(olts=2, microseconds=2_000)
    good, bad = olt_ids()
    ten = here.ten
    node = here.add(good, "names", "discovery", "5m", ten - 5 * MINUTE)
    workflows.set_node_enabled(node, False, ACTOR, ten - 4 * MINUTE)
    here.set(ten + 50 * MINUTE)
    workflows.set_node_enabled(node, True, ACTOR, ten + 50 * MINUTE)  # two slots are left of the hour
    for minute in (55, 60):
        here.ran(node, ten + minute * MINUTE)
    failing = here.add(bad, "state", "discovery", "15m", ten + 64 * MINUTE)  # 11:05, 11:20, 11:35, 11:50
    port = db.session.get_one(Olt, bad).port
    for minute in range(65, 125, 5):
        slot = ten + minute * MINUTE
        if minute in (80, 110):
            olts.update(bad, {"port": FREE_PORT if minute == 80 else port}, ACTOR, slot)
        here.ran(node, slot)
        if minute in (65, 80, 95, 110):
            here.ran(failing, slot, FAILED if minute in (80, 95) else SUCCESS)
    here.set(ten + 2 * HOUR + 30 * SECOND)
    partial, full = (lambda hour=hour: here.tracker(good, "discovery", hour) for hour in (ten, ten + HOUR))
    here.wait(lambda: full() is not None and full().status is QuotaStatus.COMPLETED, "the close of the full hour")
    assert [(row.quota_required, row.quota_completed) for row in (partial(), full()) if row] == [(2, 2), (12, 12)]
    violation = db.session.scalars(select(QuotaViolation)).one()
    assert (violation.olt_id, violation.severity, violation.report["lost"]) == (bad, Severity.HIGH, {"timeout": 2})
    assert (violation.report["completed"], violation.report["required"]) == (2, 4)


def test_what_follows_a_click_that_disables_a_task_or_an_olt(site: Callable[..., Site]) -> None:
    here = site(olts=1, microseconds=400_000)
    (olt,) = olt_ids()
    olts.update(olt, {"timeout": 5}, ACTOR, datetime.now(UTC))  # it is slow, and a busy machine makes it slower
    ten = here.ten
    here.set(ten - 2 * MINUTE)
    discovery = here.add(olt, "state", "discovery", "5m", ten - 2 * MINUTE)
    get = here.add(olt, "descripcion", "get", "5m", ten - 2 * MINUTE)
    here.set(ten - MINUTE - EARLY)
    here.wait(lambda: _status(here, discovery) == ["RUNNING"] and _status(here, get) == ["PENDING"], "a run and a wait")
    here.wait(lambda: (row := here.tracker(olt, "get_descripcion", ten - HOUR)) and row.quota_required, "the promise")

    clicked = time.monotonic()
    workflows.set_node_enabled(get, False, ACTOR, ten - MINUTE)
    here.wait(lambda: EventType.PLAN_ADJUSTED in _events(get, "descripcion"), "the task to leave the plan")
    print(f"a task disabled: {time.monotonic() - clicked:.1f} s")  # noqa: T201
    aborted = next(one for one in here.live.executions() if one.node_id == get)
    assert (aborted.status, aborted.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.NODE_DISABLED)
    assert _status(here, discovery) == ["RUNNING"]
    row = here.tracker(olt, "get_descripcion", ten - HOUR)
    assert (row.quota_required, row.quota_skipped, row.quota_pending) == (1, 1, 0)
    plans = list(db.session.scalars(select(ExecutionPlan).order_by(ExecutionPlan.id)))
    assert [one.status for one in plans][-2:] == [PlanStatus.SUPERSEDED, PlanStatus.ACTIVE]

    clicked = time.monotonic()
    olts.set_enabled(olt, False, ACTOR, ten - MINUTE + 10 * SECOND)

    def left() -> list[object]:
        """What still tells of the OLT."""
        with here.live.stack.redis.client() as redis:
            prefixes = (f"{queueing.LEASE_PREFIX}{olt}", f"rq:queue:olt-{olt}", f"facho:waiting:{olt}")
            keys = [key.decode() for key in redis.scan_iter() if key.decode().startswith(prefixes)]
        db.session.rollback()
        trackers = [(row.task_type, row.period_start, row.status) for row in db.session.scalars(select(QuotaTracker))]
        going = [one for one in trackers if one[2] is not QuotaStatus.INTERRUPTED]
        return [*keys, *going, *(status for status in _status(here, discovery) if status != "INTERRUPTED")]

    here.wait(lambda: not left(), "the OLT to be cleared", lambda: str(left()))
    print(f"an OLT disabled: {time.monotonic() - clicked:.1f} s")  # noqa: T201
    assert EventType.OLT_DISABLED in {row.event_type for row in db.session.scalars(select(CoordinatorLog))}
    left_over = {one.status for one in db.session.scalars(select(ExecutionPlan))}
    assert left_over <= {PlanStatus.ABORTED, PlanStatus.SUPERSEDED}


def _status(here: Site, node_id: int) -> list[str]:
    return [one.status.value for one in here.live.executions() if one.node_id == node_id]


def _events(node_id: int, key: str) -> set[EventType]:
    """Events since the task was removed."""
    db.session.rollback()
    rows = list(db.session.scalars(select(CoordinatorLog).order_by(CoordinatorLog.id)))
    gone = [row.event_type is EventType.TASK_REMOVED and row.details["key"] == key for row in rows]
    return {row.event_type for row in rows[gone.index(True) :]} if any(gone) else set()
