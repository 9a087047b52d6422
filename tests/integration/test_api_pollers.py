"""Pollers, queue and numbers over the API: the facts of the pages, under the documents' names."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from portal import clock
from portal.api.waiting import WHY
from portal.domain.statuses import ExecutionStatus, OltState, PollerStatus
from portal.extensions import db
from portal.queries.queue import Cause
from portal.tables import PollerStats, Pool
from testing.api import Client, by_token, error_of, furnished, make_token, refused_fields
from testing.builders import make_execution, make_node, make_olt, make_poller, make_pool
from testing.web import written


def get(app: Flask, path: str) -> dict[str, Any]:
    answer = Client(app, make_token(app, "viewer", f"v{clock.now().timestamp()}")).get(path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.get_json()
    return found


@pytest.fixture
def busy(app: Flask) -> Flask:
    """Pool north (site Lima) with poller 1 on OLT-LIMA since 20 s and poller 2 lost; something waits behind it."""
    now = clock.now()
    with app.app_context():
        olt = make_olt(now=now, site="Lima")
        rx = make_node(olt, "rx", now, name="Power", kind="get", oid="huawei.onu_rx_power")
        found = make_node(olt, "discovery", now, name="ONUs")
        running = make_execution(rx, now - timedelta(seconds=21), status=ExecutionStatus.RUNNING,
                                 started_at=now - timedelta(seconds=20), attempt=1, token=1, worker="w1")  # fmt: skip
        make_execution(found, now - timedelta(seconds=9), overdue_at=now - timedelta(seconds=1))
        pool = make_pool(now, name="north", site="Lima", size=2, started_at=now - timedelta(minutes=10))
        holds = {"status": PollerStatus.BUSY, "current_node_id": rx.id, "current_olt_id": olt.id,
                 "current_execution_id": running.id, "busy_since": now - timedelta(seconds=20)}  # fmt: skip
        make_poller(pool, 1, busy_last_minute=57.0, busy_time=280.0, tasks_completed=12, tasks_delayed=3, **holds)
        make_poller(pool, 2, seen_at=now - timedelta(minutes=5), tasks_completed=100)
    return app


def test_each_poller_says_what_it_holds_since_when_and_how_busy_it_is(busy: Flask) -> None:
    first, second = get(busy, "/pollers/")["items"]
    assert (first["poller_id"], first["status"], first["alive"]) == (1, "BUSY", True)
    assert first["pool"] == {"id": 1, "name": "north", "host": "vm1", "site": "Lima"}
    assert (first["current_node_name"], first["current_olt_name"]) == ("Power", "OLT-LIMA")
    assert (first["current_node_id"], first["current_olt_id"], first["current_execution_id"]) == (1, 1, 1)
    since = datetime.fromisoformat(first["busy_since"])
    assert 20 <= (clock.now() - since).total_seconds() < 60
    assert first["busy_percentage"] == 95.0
    assert first["busy_time"] == pytest.approx(first["total_time"] / 2, rel=0.02)  # 300 s of 600 s, and both go on
    assert first["busy_percentage_since_start"] == pytest.approx(50, abs=1.5)
    assert (first["tasks_completed"], first["tasks_delayed"]) == (12, 3)
    found = (second["alive"], second["status"], second["current_node_id"], second["busy_since"])
    assert found == (False, "FREE", None, None)


def test_without_any_poller_the_list_is_empty_and_the_numbers_say_what_to_start(app: Flask) -> None:
    assert get(app, "/pollers/") == {"items": [], "next": None}
    stats = get(app, "/pollers/stats/")
    assert (stats["total_pollers"], stats["pools"], stats["history"]) == (0, [], [])
    assert "`flask work`" in stats["advice"]


def test_the_queue_says_what_each_one_waits_for(busy: Flask) -> None:
    queue = get(busy, "/pollers/queue/")
    assert (queue["size"], queue["is_overload"]) == (1, True)
    (one,) = queue["next_nodes"]
    assert (one["execution_id"], one["node_id"], one["node_name"], one["olt_name"]) == (2, 2, "ONUs", "OLT-LIMA")
    assert (one["cause"], one["waits_for"]) == ("olt_busy", {"execution_id": 1, "node_name": "Power"})
    assert one["why"] == "OLT-LIMA is being read (Power); one composite at a time runs on an OLT."
    assert (one["delayed"], one["lane"], one["trigger"], one["attempt"]) == (True, "normal", "schedule", 0)
    assert 9 <= one["waiting_seconds"] < 60


def test_a_free_poller_means_no_overload(busy: Flask) -> None:
    with written(busy) as session:
        make_poller(session.get_one(Pool, 1), 3)
    assert get(busy, "/pollers/queue/")["is_overload"] is False


def test_the_queue_is_cut_to_the_limit_and_its_size_is_not(app: Flask) -> None:
    now = clock.now()
    with app.app_context():
        nodes = [make_node(make_olt(f"OLT-{number:02}", now), now=now) for number in range(12)]
        for number, node in enumerate(nodes):
            make_execution(node, now - timedelta(seconds=12 - number))
        db.session.commit()
    queue = get(app, "/pollers/queue/")
    assert (queue["size"], len(queue["next_nodes"])) == (12, 10)
    assert [one["olt_name"] for one in queue["next_nodes"][:2]] == ["OLT-00", "OLT-01"]
    assert {one["cause"] for one in queue["next_nodes"]} == {"no_pollers"}
    assert len(get(app, "/pollers/queue/?limit=200")["next_nodes"]) == 12
    assert len(get(app, "/pollers/queue?limit=1")["next_nodes"]) == 1


def test_every_cause_that_there_is_has_a_sentence() -> None:
    assert {cause for cause in Cause if cause not in WHY} == set()


def test_an_olt_that_is_paused_or_put_off_says_so(app: Flask) -> None:
    now = clock.now()
    with app.app_context():
        paused, later = (make_node(make_olt(name, now), now=now) for name in ("OLT-PAUSED", "OLT-LATER"))
        paused.workflow.olt.state = OltState.PAUSED
        due = now + timedelta(minutes=5)
        make_execution(paused, now)
        make_execution(later, now, not_before=due, attempt=1)
        db.session.commit()
    found = {one["olt_name"]: one for one in get(app, "/pollers/queue/")["next_nodes"]}
    assert found["OLT-PAUSED"]["why"] == "OLT-PAUSED is paused: resume it."
    assert found["OLT-LATER"]["why"] == f"The try before failed; the next one is made at {due:%Y-%m-%d %H:%M:%S} UTC."
    assert found["OLT-LATER"]["waiting_seconds"] == 0


def test_the_numbers_have_the_documents_names_and_count_living_pollers(busy: Flask) -> None:
    stats = get(busy, "/pollers/stats/")
    assert (stats["total_pollers"], stats["free_pollers"], stats["busy_pollers"]) == (1, 0, 1)
    assert (stats["busy_percentage"], stats["is_saturated"], stats["queue_size"]) == (95.0, True, 1)
    assert (stats["total_tasks_completed"], stats["total_tasks_delayed"], stats["history"]) == (12, 3, [])
    (pool,) = stats["pools"]
    assert (pool["name"], pool["site"], pool["size"], pool["total_pollers"]) == ("north", "Lima", 2, 1)
    assert (pool["is_saturated"], pool["busy_percentage"]) == (True, 95.0)


def test_a_saturated_pool_comes_with_the_command_that_helps(busy: Flask) -> None:
    with written(busy) as session:
        make_poller(session.get_one(Pool, 1), 3, busy_last_minute=57.0)
    advice = get(busy, "/pollers/stats/")["advice"]
    assert "95 % of the last minute" in advice
    assert "`flask pollers scale 4 --pool north`" in advice


def test_a_pool_with_room_gets_no_advice(app: Flask) -> None:
    stats = get(furnished(app), "/pollers/stats/")
    assert (stats["advice"], stats["is_saturated"], stats["free_pollers"]) == (None, False, 1)


@pytest.fixture
def remembered(app: Flask) -> Flask:
    """Four hours of history, a row each minute: 10 % busy, and 90 % in the last 30 minutes."""
    now = clock.now()
    with written(app) as session:
        for minute in range(240, 0, -1):
            session.add(PollerStats(timestamp=now - timedelta(minutes=minute), queue_size=minute,
                                    busy_percentage=90 if minute <= 30 else 10))  # fmt: skip
            session.flush()
    return app


def test_the_history_begins_where_it_is_asked_to_and_is_drawn_together(remembered: Flask) -> None:
    since = (clock.now() - timedelta(minutes=100)).isoformat().replace("+00:00", "Z")
    points = get(remembered, f"/pollers/stats/?since={since}")["history"]
    assert len(points) in (99, 100)
    assert points == sorted(points, key=lambda point: point["timestamp"])
    assert (points[0]["busy_percentage"], points[-1]["busy_percentage"]) == (10, 90)
    few = get(remembered, f"/pollers/stats/?since={since}&points=5")["history"]
    assert 2 <= len(few) <= 5
    assert few[0]["queue_size"] >= 95


def test_points_alone_give_the_last_hour(remembered: Flask) -> None:
    assert len(get(remembered, "/pollers/stats/?points=1000")["history"]) in (59, 60)


NO_TIMES = ("yesterday", "2026-11-27T10:00:00", "2026-11-27", "", "0001-01-01T00:00:00%2B05:00", "%00")
WRONG = [
    ("since=99999-01-01T00:00:00Z", "since"),
    *((f"since={time}", "since") for time in NO_TIMES),
    *((f"points={number}", "points") for number in ("1", "1001", "1e3", "99999999999999999999999", "5&points=6")),
    ("pionts=5", "pionts"),
    ("%00=1", "\x00"),
]


def test_a_wrong_argument_is_named(app: Flask) -> None:
    client = by_token(app)
    for query, field in WRONG:
        assert refused_fields(client, f"/pollers/stats/?{query}") == [field], query


def test_the_queues_limit_is_checked_and_a_near_miss_is_recognised(app: Flask) -> None:
    client = by_token(app)
    for query in ("limit=0", "limit=201", "limit=-1", "limit=ten", "limit=", "limit=1.5", "limit=%F0%9F%92%A9"):
        assert refused_fields(client, f"/pollers/queue/?{query}") == ["limit"], query
    assert "did you mean limit?" in error_of(client.get("/pollers/queue/?limt=5"))["fields"]["limt"]
    assert "takes no arguments" in error_of(client.get("/pollers/?page=2"))["fields"]["page"]
