"""`flask whatif run`: from rows to two columns of figures, and clear words where there is nothing to show."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from sqlalchemy import event
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import WorkflowNode
from scheduler.timemachine import loading
from testing.builders import make_chained, make_execution, make_node, make_olt

NOW = datetime.now(UTC).replace(microsecond=0)


def add_runs(node: WorkflowNode, count: int, milliseconds: int) -> None:
    """So many runs that took so long, the latest a minute ago."""
    for number in range(count):
        slot = NOW - timedelta(minutes=1 + number)
        make_execution(node, slot, started_at=slot, finished_at=slot, status=ExecutionStatus.SUCCESS,
                       duration_ms=milliseconds)  # fmt: skip


@pytest.fixture
def two_olts(app: Flask) -> Flask:
    """OLT-A and OLT-B: a discovery of 4 s and a GET of 20 s on each, both with runs on record."""
    with app.app_context():
        for name in ("OLT-A", "OLT-B"):
            olt = make_olt(name, NOW)
            add_runs(make_node(olt, "discovery", NOW, interval="5m"), 3, 4_000)
            add_runs(make_node(olt, "text", NOW, kind="get", oid="huawei.onu_description", interval="60s"), 3, 20_000)
    return app


def run(app: Flask, *arguments: str) -> Result:
    return app.test_cli_runner().invoke(args=["whatif", "run", "--hours", "2", *arguments])


def told(app: Flask, *arguments: str) -> Any:
    result = run(app, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_present_and_changed_settings_stand_side_by_side(two_olts: Flask) -> None:
    result = run(two_olts, "--pollers", "1", "--interval", "text=2m")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 h of 2 OLTs with 4 masters, seed 1\n")
    assert "present settings" in result.stdout and "changed settings" in result.stdout


def test_recorded_durations_are_lived_again(two_olts: Flask) -> None:
    present = told(two_olts)["present"]
    assert present["olt_busiest"] == pytest.approx(100 * (20 / 60 + 4 / 300), abs=1)
    assert present["pool_busy"] == pytest.approx(2 * present["olt_busiest"] / 10, abs=0.5)  # ten pollers (POLLERS)
    assert present["violations"] == 0 and present["met"] == present["quotas"]


def test_a_pool_too_small_shows_in_the_changed_column_only(two_olts: Flask) -> None:
    both = told(two_olts, "--pollers", "1", "--interval", "discovery=30s", "--interval", "text=30s")
    assert both["changed"]["losses"] and not both["present"]["losses"]
    assert both["changed"]["pool_busy"] > 90


def test_only_the_named_olts_and_without_what_is_disabled(two_olts: Flask) -> None:
    both = told(two_olts, "--olts", "OLT-B", "--disable", "text")
    assert both["present"]["quotas"] > both["changed"]["quotas"] > 0
    head = "2 h of 1 OLTs with 2 masters (beside 1 others on the same pollers)"
    assert head in run(two_olts, "--olts", "OLT-B").stdout


def test_named_olts_are_shown_with_what_the_others_leave_them_of_the_pool(two_olts: Flask) -> None:
    with two_olts.app_context():
        for number in range(6):
            olt = make_olt(f"OLT-C{number}", NOW)
            add_runs(make_node(olt, "text", NOW, kind="get", oid="huawei.onu_description", interval="60s"), 3, 50_000)
    both = told(two_olts, "--olts", "OLT-B", "--pollers", "2")
    assert both["present"]["required"] == both["changed"]["required"] == 2 * (60 + 12)
    assert both["present"]["losses"] == {} and both["changed"]["losses"]["pool_full"] > 10


def test_a_cron_line_that_is_due_at_this_moment_is_lived(two_olts: Flask) -> None:
    with two_olts.app_context():
        node = make_node(make_olt("OLT-C", NOW), "discovery", NOW, cron="*/5 * * * *")
        node.next_run_at = NOW.replace(minute=NOW.minute - NOW.minute % 5, second=0)
        add_runs(node, 3, 4_000)
    present = told(two_olts, "--olts", "OLT-C")["present"]
    assert present["required"] == present["completed"] == 24


def test_a_recorded_success_is_lived_as_one_however_long_it_took(two_olts: Flask) -> None:
    with two_olts.app_context():
        add_runs(make_node(make_olt("OLT-C", NOW), "discovery", NOW, interval="30m"), 3, 660_000)
    present = told(two_olts, "--olts", "OLT-C")["present"]
    assert (present["required"], present["completed"]) == (4, 4)


def test_chained_nodes_are_known_but_cannot_be_tried(two_olts: Flask) -> None:
    with two_olts.app_context():
        master = make_node(make_olt("OLT-C", NOW), "discovery", NOW)
        add_runs(master, 3, 4_000)
        make_chained(master, "description", NOW)
    words = "description is chained to discovery; only masters can be tried"
    assert words in run(two_olts, "--interval", "description=10m").output
    assert words in run(two_olts, "--olts", "OLT-C", "--disable", "description").output
    assert "no node has the key description" in run(two_olts, "--olts", "OLT-A", "--disable", "description").output


def test_the_same_seed_says_the_same_and_nothing_is_written(two_olts: Flask) -> None:
    writes: list[str] = []
    with two_olts.app_context():
        event.listen(db.engine, "before_cursor_execute", lambda c, cur, sql, *rest: writes.append(sql))
    first, again = told(two_olts, "--seed", "7"), told(two_olts, "--seed", "7")
    assert first["present"]["completed"] == pytest.approx(again["present"]["completed"], abs=4)  # begins at another now
    assert writes and not [sql for sql in writes if sql.split()[0] in ("INSERT", "UPDATE", "DELETE")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--olts", "OLT-A,OLT-Z"), "there is no enabled OLT OLT-Z"),
        (("--olts", " , "), "name at least one OLT"),
        (("--interval", "power=60s"), "no node has the key power; there are: discovery, text"),
        (("--interval", "text=often"), "is no duration"),
        (("--interval", "text=5s"), "an interval is at least 30 s"),
        (("--interval", "text"), "write key=interval"),
        (("--interval", "text=400d"), "text: an interval is at most 31d"),
        (("--interval", "text=9999999d"), "text: an interval is at most 31d"),
        (("--interval", "text=2m", "--interval", "text=3m"), "text is given twice"),
        (("--disable", "gone"), "no node has the key gone"),
        (("--disable", "discovery", "--disable", "text"), "would be switched off"),
        (("--pollers", "0"), "0 is not in the range"),
        (("--hours", "0"), "0 is not in the range"),
    ],
)
def test_nonsense_is_refused_in_clear_words(two_olts: Flask, arguments: tuple[str, ...], words: str) -> None:
    result = run(two_olts, *arguments)
    assert result.exit_code != 0 and words in result.output


def test_without_nodes_or_without_runs_it_says_so(app: Flask) -> None:
    assert "no node of these OLTs runs" in run(app).output
    with app.app_context():
        make_node(make_olt("OLT-A", NOW), "discovery", NOW)
    assert "none of these nodes has a successful run on record" in run(app).output


def test_of_each_node_its_last_runs_are_read_and_failures_are_left_out(session: Session) -> None:
    add_runs(make_node(make_olt("OLT-A", NOW), "discovery", NOW), loading.LAST_RUNS + 50, 3_000)
    assert loading.load(session, NOW).nodes[0].durations == (3.0,) * loading.LAST_RUNS
