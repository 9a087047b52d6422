"""Why something waits: OLTs held back, sites without pollers, spread starts, people's wishes; rule and page."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from portal import clock
from portal.domain.statuses import ExecutionStatus, OltState, Trigger
from portal.queries import queue
from portal.queries.pollers import PoolRow
from portal.queries.queue import Cause, Holder, Lane, Waiting
from portal.tables import Execution, Olt, Poller, Pool, WorkflowNode
from testing import seed
from testing.builders import make_execution
from testing.cast import NOW
from testing.pages import element, missing, text_of
from testing.web import add_olts, english, update_rows, written

LATE = NOW - timedelta(seconds=30)
ONE = Waiting(
    id=1, olt_id=1, olt_name="OLT", olt_enabled=True, olt_state=OltState.UP, paused_reason="", paused_until=None,
    probe_at=None, site="", node_name="Power", trigger=Trigger.SCHEDULE, priority=40, scheduled_for=LATE,
    overdue_at=None, not_before=None, queued_at=LATE, attempt=0, requested_by="", cancelled_by="",
)  # fmt: skip


def pool(number: int, site: str | None, alive: int = 2, busy: int = 0) -> PoolRow:
    return PoolRow(number, f"p{number}", "h", site, alive, alive, busy, 0.0, False, True, 1, NOW, NOW)


EVERY = [pool(1, None)]


def cause(one: Waiting, pools: list[PoolRow] = EVERY, holder: Holder | None = None) -> Cause:
    return queue.explain([one], {one.olt_id: holder} if holder else {}, pools, NOW)[0].cause


# ----------------------------------------------------------------------------------------------------------------- rule

CAUSES: list[tuple[dict[str, Any], Cause]] = [
    ({}, Cause.NEXT),
    ({"cancelled_by": "ana"}, Cause.CANCELLED),
    ({"olt_enabled": False}, Cause.OLT_DISABLED),
    ({"olt_state": OltState.PAUSED}, Cause.OLT_PAUSED),
    ({"olt_state": OltState.UNREACHABLE}, Cause.OLT_UNREACHABLE),
    ({"not_before": NOW + timedelta(seconds=9), "attempt": 1}, Cause.RETRY),
    ({"not_before": NOW + timedelta(seconds=9)}, Cause.SPREAD),
    ({"not_before": NOW - timedelta(seconds=1)}, Cause.NEXT),
    ({"queued_at": None}, Cause.NOT_QUEUED),
]


@pytest.mark.parametrize(("change", "expected"), CAUSES)
def test_the_first_cause_that_holds_is_told(change: dict[str, Any], expected: Cause) -> None:
    assert cause(replace(ONE, **change)) is expected


@pytest.mark.parametrize("state", [OltState.PAUSED, OltState.UNREACHABLE])
@pytest.mark.parametrize("wish", [{"trigger": Trigger.MANUAL}, {"requested_by": "ana"}])
def test_what_a_person_wants_is_not_held_back_by_a_pause_or_a_silent_olt(state: OltState, wish: dict[str, Any]) -> None:
    assert cause(replace(ONE, olt_state=state, **wish)) is Cause.NEXT


def test_a_slot_that_a_person_moved_to_the_front_goes_before_a_more_urgent_one() -> None:
    wished = replace(ONE, id=2, priority=1, requested_by="ana")
    urgent = replace(ONE, priority=100)
    found = queue.explain([urgent, wished], {}, EVERY, NOW)
    assert [(row.cause, row.waiting.lane) for row in found] == [(Cause.BEHIND, Lane.NORMAL), (Cause.NEXT, Lane.HIGH)]


def test_a_busy_olt_is_told_with_who_holds_it() -> None:
    holder = Holder(7, "Discovery", LATE, "w", "ana")
    (found,) = queue.explain([ONE], {1: holder}, EVERY, NOW)
    assert (found.cause, found.holder) == (Cause.OLT_BUSY, holder)


SITES: list[tuple[str, list[PoolRow], Cause]] = [
    ("lima", [pool(1, None)], Cause.NEXT),
    ("lima", [pool(1, "lima")], Cause.NEXT),
    ("lima", [pool(1, "cusco")], Cause.NO_POLLERS_AT_SITE),
    ("lima", [pool(1, "")], Cause.NO_POLLERS_AT_SITE),
    ("", [pool(1, "")], Cause.NEXT),
    ("", [pool(1, "lima")], Cause.NO_POLLERS_AT_SITE),
    ("lima", [pool(1, "cusco"), pool(2, "lima", alive=0)], Cause.NO_POLLERS_AT_SITE),
    ("lima", [pool(1, None, alive=0)], Cause.NO_POLLERS),
    ("lima", [], Cause.NO_POLLERS),
    ("lima", [pool(1, "lima", busy=2), pool(2, "cusco")], Cause.NO_FREE_POLLER),
    ("lima", [pool(1, "lima", busy=2), pool(2, None, busy=1)], Cause.NEXT),
]


@pytest.mark.parametrize(("site", "pools", "expected"), SITES)
def test_only_pollers_that_serve_the_site_of_the_olt_count(site: str, pools: list[PoolRow], expected: Cause) -> None:
    assert cause(replace(ONE, site=site), pools) is expected


def test_the_busy_pollers_of_other_sites_are_not_counted() -> None:
    pools = [pool(1, "lima", alive=3, busy=3), pool(2, "cusco", alive=5, busy=5), pool(3, None, alive=2, busy=2)]
    (found,) = queue.explain([replace(ONE, site="lima")], {}, pools, NOW)
    assert (found.cause, found.busy, found.pollers) == (Cause.NO_FREE_POLLER, 5, 5)


def test_pollers_of_the_site_are_taken_before_those_that_serve_every_olt() -> None:
    here, elsewhere = replace(ONE, site="lima"), replace(ONE, id=2, olt_id=2, site="cusco")
    third = replace(ONE, id=3, olt_id=3, site="cusco")
    pools = [pool(1, None, alive=1), pool(2, "lima", alive=1)]
    found = queue.explain([here, elsewhere, third], {}, pools, NOW)
    assert [row.cause for row in found] == [Cause.NEXT, Cause.NEXT, Cause.NO_FREE_POLLER]


# ----------------------------------------------------------------------------------------------------------------- page


@pytest.fixture
def waiting(seeded: Flask) -> Flask:
    """OLT 2, of site Cusco, has one composite waiting and nothing running; a pool of three serves every OLT."""
    seed.keep_alive(seeded)
    update_rows(seeded, Execution, Execution.status == ExecutionStatus.PENDING, status=ExecutionStatus.SUCCESS)
    enqueue(seeded, "rx", seconds_ago=30, node_name="Power")
    return seeded


def enqueue(app: Flask, key: str, seconds_ago: int, **values: Any) -> None:
    """One composite of that node of OLT 2 waits since then."""
    with written(app) as session:
        node = session.query(WorkflowNode).filter_by(workflow_id=2, key=key).one()
        make_execution(node, clock.now() - timedelta(seconds=seconds_ago), **values)


def change(app: Flask, **values: Any) -> None:
    update_rows(app, Execution, Execution.node_name == "Power", **values)


def shown(app: Flask) -> str:
    return text_of(english(app).get("/queue/"))


SOON = NOW + timedelta(days=2, seconds=90)  # 90 seconds from now


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"attempt": 0}, "Next to be taken"),
        ({"attempt": 1, "not_before": SOON}, "Try 1 failed; tried again in 1 min"),
        ({"not_before": SOON}, "Starts are spread after a restart; this one comes in 1 min"),
        ({"queued_at": None}, "Not handed to the queue yet"),
        ({"cancelled_by": "ana"}, "Cancelled by ana; it is about to end"),
        ({"status": ExecutionStatus.SUCCESS}, "The queue is empty"),
    ],
)
def test_a_composite_says_why_it_waits(waiting: Flask, values: dict[str, Any], words: str) -> None:
    change(waiting, **values)
    assert words in shown(waiting)


def test_pollers_that_are_busy_or_away_are_told(waiting: Flask) -> None:
    update_rows(waiting, Poller, status="BUSY")
    assert "Waits for a free poller: 3 of 3 busy" in shown(waiting)
    update_rows(waiting, Poller, seen_at=clock.now() - timedelta(minutes=2))
    assert "What waits here will not start until the pollers are started." in shown(waiting)


def test_a_site_without_pollers_is_named(waiting: Flask) -> None:
    update_rows(waiting, Pool, site="Lima")
    assert "No poller serves the site Cusco" in shown(waiting)
    update_rows(waiting, Olt, site="")
    assert "No poller serves OLTs without a site" in shown(waiting)


def test_an_unreachable_olt_is_told_with_the_time_of_its_next_probe(waiting: Flask) -> None:
    update_rows(waiting, Olt, state=OltState.UNREACHABLE, probe_at=clock.now() + timedelta(seconds=150))
    assert "The OLT does not answer; asked again in 2 min" in shown(waiting)
    change(waiting, trigger=Trigger.MANUAL, requested_by="ana")
    assert "Next to be taken" in shown(waiting)


def test_a_paused_olt_is_told_with_reason_and_end(waiting: Flask) -> None:
    end = datetime(2100, 1, 2, 17, 30, tzinfo=UTC)  # 12:30 in Lima
    update_rows(waiting, Olt, Olt.id == 2, state=OltState.PAUSED, paused_reason="new rectifier", paused_until=end)
    assert missing(shown(waiting), "The OLT is paused until 2 Jan 2100 12:30", "new rectifier") == []


def test_a_composite_waits_for_the_one_that_has_its_olt_and_is_asked_to_stop(waiting: Flask) -> None:
    update_rows(waiting, Execution, Execution.status == ExecutionStatus.RUNNING, olt_id=2, cancelled_by="ana")
    assert missing(shown(waiting), "The OLT is busy with Potencia RX for", "(asked to stop by ana)") == []


def test_a_composite_goes_behind_the_more_urgent_one_of_its_olt(waiting: Flask) -> None:
    enqueue(waiting, "discovery", seconds_ago=5, node_name="Urgent", priority=90)
    assert missing(shown(waiting), "Behind Urgent on the same OLT", "Behind Power") == ["Behind Power"]


def test_a_run_that_a_person_wants_carries_the_name(waiting: Flask) -> None:
    change(waiting, requested_by="ana")
    row = element(english(waiting).get("/queue/"), "tbody tr")
    assert ("ana" in text_of(element(row, ".c-a")), "first" in text_of(row)) == (True, True)


def test_others_that_go_first_are_told_when_a_poller_is_free(waiting: Flask) -> None:
    for olt_id in add_olts(waiting, 2):  # the two free pollers
        enqueue(waiting, "rx", seconds_ago=300, node_id=None, olt_id=olt_id, device_key=f"x{olt_id}")
    assert "Waits for a free poller: 1 of 3 busy, and others go first" in shown(waiting)
