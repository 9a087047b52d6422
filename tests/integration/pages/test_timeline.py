"""The timeline of an OLT: outlines, bars, waits and gaps where they belong, each gap with its explanation; light."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from portal import clock
from portal.domain import plans
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode
from portal.domain.statuses import AttemptStatus, ErrorKind, EventType, ExecutionStatus, PlanStatus, SkipReason, Trigger
from portal.extensions import db, transaction
from portal.queries import timeline as query
from portal.services import decisions
from portal.tables import ExecutionAttempt, ExecutionPlan, Olt, WorkflowNode
from portal.web import timeline
from testing import builders, seed
from testing.builders import make_execution
from testing.pages import element, missing, soup
from testing.web import english, statements, update_rows

NINE = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
NOW = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)


class Cast:
    """OLT 1 with rx each 10 min since 8:00; what the tests write of it."""

    def __init__(self) -> None:
        self.olt = builders.make_olt("OLT-7", NINE)
        rx = builders.make_node(self.olt, "rx", NINE, kind="get", oid="huawei.onu_rx_power", interval="10m")
        self.rx = self.clock(rx.id, NINE - timedelta(hours=1))

    def clock(self, node_id: int, anchor: datetime, next_run: datetime = NOW, seconds: int = 600) -> int:
        with transaction() as session:
            node = session.get_one(WorkflowNode, node_id)
            node.anchor_at, node.next_run_at, node.interval_seconds = anchor, next_run, seconds
        return node_id

    def run(self, slot: datetime, start: float | None = 0, took: float = 60, **fields: Any) -> int:
        status = fields.pop("status", ExecutionStatus.SUCCESS)
        begun = slot + timedelta(seconds=start or 0)
        with transaction() as session:
            node = session.get_one(WorkflowNode, fields.pop("node", self.rx))
            end = begun + timedelta(seconds=took)
            row = make_execution(node, slot, status=status, attempt=1, finished_at=end, **fields)
            if start is not None:
                builders.make_attempt(row, started_at=begun, status=AttemptStatus(status.value))
            return row.id

    def skip(self, first: datetime, last: datetime, count: int = 1, **details: Any) -> None:
        """So many slots in a row, for a reason that is the OLT's unless it is among the details."""
        reason = details.pop("reason", SkipReason.OLT_PAUSED)
        told = {"slots": count, "first": first.isoformat(), "last": last.isoformat()} | details
        with transaction() as session:
            decisions.record(session, EventType.SLOT_SKIPPED, "skipped", last, olt_id=1, node_id=self.rx, reason=reason,
                             scheduled_for=last, details=told)  # fmt: skip

    def by_cron(self, line: str) -> None:
        with transaction() as session:
            node = session.get_one(WorkflowNode, self.rx)
            node.interval_seconds, node.cron = None, line

    def picture(self, start: datetime = NINE, now: datetime = NOW) -> timeline.Picture:
        olt = db.session.get_one(Olt, 1)
        return timeline.picture(query.of_olt(olt, start, now), 0, now)

    def row(self, *args: datetime) -> timeline.Row:
        return self.picture(*args).rows[0]


@pytest.fixture
def cast(app: Flask) -> Iterator[Cast]:
    with app.test_request_context("/", headers={"Accept-Language": "en"}):
        for prepare in app.before_request_funcs[None][:1]:
            prepare()
        yield Cast()
        db.session.remove()


def at(minute: float) -> datetime:
    return NINE + timedelta(minutes=minute)


def marks(row: timeline.Row, kind: str) -> list[timeline.Mark]:
    """Those of a kind; of which nothing is recorded is a kind of its own."""
    return [mark for mark in row.marks if mark.kind == kind or (kind == "bar" and mark.kind.startswith("bar "))]


def test_without_a_plan_the_slots_are_those_of_the_clock(cast: Cast) -> None:
    picture = cast.picture()
    xs = [mark.x for mark in marks(picture.rows[0], "outline")]
    assert (picture.planned, xs) == (False, [0, 200, 400, 600, 800, 1000])
    assert marks(cast.row(NINE + timedelta(hours=2)), "outline")[0].x == 0


def test_a_clock_says_nothing_of_the_time_before_its_anchor(cast: Cast) -> None:
    cast.clock(cast.rx, at(30))
    assert [mark.x for mark in marks(cast.row(), "outline")] == [600, 800, 1000]


def test_a_cron_line_has_its_firings(cast: Cast) -> None:
    cast.by_cron("*/20 * * * *")
    assert [mark.x for mark in marks(cast.row(), "outline")] == [0, 400, 800]


def test_with_a_plan_the_slots_stand_where_it_expects_them(cast: Cast) -> None:
    pace = Pace(60_000, 90_000)
    node = PlanNode(cast.rx, "rx", "get_rx", 40, at(20), 1200, pace)
    plan = plans.as_json(plans.make([node], NINE, NINE, plans.Occupied(None, at(22))))
    hour = {"olt_id": 1, "period_start": NINE, "period_end": at(60), "created_at": NINE, "updated_at": NINE}
    with transaction() as session:
        for status, data in ((PlanStatus.ACTIVE, plan), (PlanStatus.SUPERSEDED, {"why": "", "nodes": []})):
            session.add(ExecutionPlan(status=status, plan_data=data, **hour))
    picture = cast.picture()
    outlines = marks(picture.rows[0], "outline")
    assert (picture.planned, [(mark.x, mark.width) for mark in outlines]) == (True, [(440, 20), (800, 20)])
    assert "usually 1\u202fmin, seldom more than 1\u202fmin 30\u202fs" in outlines[0].title


def test_a_run_is_a_bar_and_its_wait_a_hatch_that_names_who_held_the_olt(cast: Cast) -> None:
    other = cast.clock(builders.make_node(cast.olt, now=NINE).id, NINE)
    cast.run(at(10), took=120, node=other)
    cast.run(at(10), start=120, took=60)
    row = next(row for row in cast.picture().rows if row.node_id == cast.rx)
    (bar,), (wait,) = marks(row, "bar"), marks(row, "wait")
    assert [(wait.x, wait.width), (bar.x, bar.width)] == [(200, 40), (240, 20)]
    assert "waited 2\u202fmin (the OLT was with" in bar.title
    assert bar.url.startswith(f"/explain/?node={cast.rx}&at=2026-11-27T09")


def test_a_run_as_it_should_be_is_no_stop_for_the_keyboard_a_failed_one_is(cast: Cast) -> None:
    cast.run(at(10))
    cast.run(at(20), status=ExecutionStatus.FAILED, error_kind=ErrorKind.TIMEOUT)
    good, bad = marks(cast.row(), "bar")
    assert (good.kind, good.url) == ("bar tl-done", "")
    assert (bad.kind, bool(bad.url)) == ("bar tl-failed", True)
    assert "The OLT did not answer in time" in bad.title


def test_each_skipped_slot_is_a_gap_that_explains_itself(cast: Cast) -> None:
    cast.skip(at(20), at(40), 3)
    gaps = marks(cast.row(), "gap")
    assert [gap.x for gap in gaps] == [400, 600, 800]
    assert "skipped: The OLT was paused" in gaps[0].title
    assert [gap.url.partition("at=")[2][:16] for gap in gaps] == [f"2026-11-27T09:{minute}" for minute in (20, 30, 40)]


def test_a_skip_that_reaches_beyond_the_hour_is_drawn_inside_it(cast: Cast) -> None:
    """Its row stands at 10:20; the hour is 9 to 10."""
    cast.skip(at(40), at(80), 5)
    assert [gap.x for gap in marks(cast.row(), "gap")] == [800, 1000]
    assert [gap.x for gap in marks(cast.row(at(60)), "gap")][:3] == [0, 200, 400]


def test_the_gaps_of_a_cron_line_stand_where_it_fired(cast: Cast) -> None:
    """At 9:00 and 9:50: evenly spaced there would be one at 9:16, which is no slot."""
    cast.by_cron("0,50 * * * *")
    cast.skip(at(-10), at(60), 4, hours={}, cron="0,50 * * * *", reason=SkipReason.SCHEDULER_DOWN)
    assert [gap.x for gap in marks(cast.row(), "gap")] == [0, 1000]


def test_where_slots_follow_the_end_of_a_run_a_forecast_that_did_not_come_is_no_gap(
    cast: Cast, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(app.config, "NEXTCHECK_MODE", "from_end")
    cast.run(at(0))
    assert marks(cast.row(), "gap tl-unknown") == []


def test_of_a_dense_row_only_slots_of_its_hour_are_gaps(cast: Cast) -> None:
    cast.clock(cast.rx, NINE - timedelta(hours=1), seconds=30)
    gone: dict[str, Any] = {"start": None, "status": ExecutionStatus.INTERRUPTED}
    cast.run(at(-15), **gone, skip_reason=SkipReason.OLT_DISABLED)
    cast.run(at(20), **gone, skip_reason=SkipReason.CANCELLED, trigger=Trigger.MANUAL)
    row = cast.row()
    assert (row.dense, marks(row, "gap")) == (True, [])
    assert marks(row, "gap tl-unknown")  # and those of which nothing is recorded are told here too


def test_a_planned_slot_of_which_nothing_is_recorded_is_a_gap_too(cast: Cast) -> None:
    cast.run(at(0))
    unknown = marks(cast.row(), "gap tl-unknown")
    assert [mark.x for mark in unknown] == [200, 400, 600, 800, 1000]
    assert "nothing is recorded of this slot" in unknown[0].title
    coming = marks(cast.row(at(60)), "gap tl-unknown")
    assert [mark.x for mark in coming] == [0, 200, 400]  # 10:30 is now: it has not been taken yet


def test_what_ended_without_a_try_is_a_gap_and_what_waits_a_hatch_up_to_now(cast: Cast) -> None:
    cast.run(at(10), start=None, status=ExecutionStatus.INTERRUPTED, skip_reason=SkipReason.OLT_DISABLED)
    (gap,) = marks(cast.row(), "gap")
    assert (gap.x, "The OLT was disabled" in gap.title) == (200, True)


def test_a_run_that_a_person_asked_for_leads_to_its_execution(cast: Cast) -> None:
    number = cast.run(at(13), start=30, trigger=Trigger.MANUAL)
    (bar,) = marks(cast.row(), "bar")
    assert (bar.url, bar.explains) == (f"/executions/{number}", False)


def test_how_busy_the_olt_was_is_the_share_of_each_five_minutes(cast: Cast) -> None:
    cast.run(at(14), took=120)
    assert cast.picture().busy[:5] == (0, 0, 0.2, 0.2, 0)


def test_now_is_a_line_in_its_hour_only_and_moves_in_steps(cast: Cast) -> None:
    assert cast.picture().now_x is None
    lines = {cast.picture(at(60), NOW + timedelta(seconds=second)).now_x for second in (0, 3, 9)}
    assert lines == {600.0}


def test_many_slots_become_few_shapes_and_their_gaps_groups(cast: Cast) -> None:
    cast.clock(cast.rx, NINE - timedelta(hours=1), seconds=30)
    for number in range(40):
        cast.run(at(number / 2), took=5)
    for number in range(40, 60):
        cast.skip(at(number / 2), at(number / 2), reason=SkipReason.OLT_UNREACHABLE)
    row = cast.row()
    assert (row.dense, [kind for kind, _d in row.paths]) == (True, ["ticks", "bar tl-done"])
    gap, unknown = row.marks
    assert (gap.x, gap.width, gap.title[:13]) == (400, 190, "20 slots from")
    assert (unknown.kind, unknown.x, unknown.width) == ("gap tl-unknown", 600, 590)
    assert unknown.title.startswith("60 slots from 27 Nov 04:30:00 to 27 Nov 04:59:30: nothing is recorded of them")


# -- the page


@pytest.fixture
def furnished(app: Flask) -> Flask:
    with app.app_context():
        seed.add_users(clock.now())
        cast, hour = Cast(), clock.now().replace(minute=0, second=0, microsecond=0)
        cast.clock(cast.rx, hour - timedelta(hours=3), clock.now() + timedelta(minutes=1))
        cast.skip(hour - timedelta(minutes=40), hour - timedelta(minutes=30), 2)
    return app


def test_the_page_of_an_olt_holds_its_timeline_which_refreshes_itself(furnished: Flask) -> None:
    person = english(furnished)
    part = element(person.get("/olts/1"), "#olt_live #timeline_live")
    assert part["hx-get"] == "/olts/1/timeline?hour=0"
    person.watch("/olts/1/timeline?hour=0", "timeline_live")
    assert person.watch("/olts/1/timeline?hour=-1", "timeline_live")() == 204


def test_a_refresh_of_the_olt_leaves_the_timeline_as_it_is_and_does_not_ask_for_it(furnished: Flask) -> None:
    fragment = english(furnished).fragment("/olts/1", "olt_live")
    assert list(element(fragment, "#timeline_live[data-own]").children) == []


def test_each_gap_is_a_link_with_a_name_that_leads_to_its_explanation(furnished: Flask) -> None:
    person = english(furnished)
    gaps = soup(person.get("/olts/1/timeline?hour=-1")).select("a.tl-link:has(rect.tl-gap:not(.tl-unknown))")
    assert (len(gaps), "The OLT was paused" in str(gaps[0]["aria-label"])) == (2, True)
    told = person.get(str(gaps[0]["href"]))
    assert missing(told, "did not run at", "The OLT was paused. Since when is not recorded.") == []


def test_words_of_a_device_and_of_people_are_text_in_the_picture(furnished: Flask) -> None:
    update_rows(furnished, WorkflowNode, name="<script>alert(1)</script>")
    assert "<script>alert" not in english(furnished).get("/olts/1/timeline?hour=-1").text


def test_any_hour_of_the_address_gives_a_page(furnished: Flask) -> None:
    person = english(furnished, "viewer")
    for hour in ("-1", "0", "1", "99", "x", ""):
        assert person.get(f"/olts/1/timeline?hour={hour}").status_code == 200, hour


def test_an_olt_without_nodes_says_so(furnished: Flask) -> None:
    with furnished.app_context():
        builders.make_olt("OLT-8")
    assert "No node yet" in english(furnished).get("/olts/2/timeline").text


def test_twenty_nodes_of_120_slots_cost_few_statements_and_stay_light(furnished: Flask) -> None:
    hour = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    before = statements(furnished, english(furnished), "/olts/1/timeline?hour=-1")
    with furnished.app_context():
        olt = db.session.get_one(Olt, 1)
        nodes = [builders.make_node(olt, f"n{number}", hour).id for number in range(19)]
        done = {"status": ExecutionStatus.SUCCESS, "attempt": 1}
        tried = {"number": 1, "worker": "w", "token": 1, "status": AttemptStatus.SUCCESS}
        with transaction() as session:
            for node in session.query(WorkflowNode).filter(WorkflowNode.id.in_(nodes)):
                node.anchor_at, node.interval_seconds, node.next_run_at = hour, 30, clock.now()
                for number in range(120):
                    slot = hour + timedelta(seconds=30 * number)
                    attempt = ExecutionAttempt(started_at=slot, finished_at=slot + timedelta(seconds=4), **tried)
                    make_execution(node, slot, attempts=[attempt], **done)
    person = english(furnished)
    assert statements(furnished, person, "/olts/1/timeline?hour=-1") == before
    assert len(person.fragment("/olts/1/timeline?hour=-1", "timeline_live").text) < 150_000
