"""Planning from outside the portal: the REST API and the commands."""

import json
from datetime import UTC, datetime

import pytest
from flask import Flask

from portal.domain import quota
from portal.extensions import db
from portal.services.coordinating import plans
from portal.tables import NodePace, WorkflowNode
from testing import builders
from testing.api import by_token
from testing.web import written


@pytest.fixture
def built(app: Flask) -> Flask:
    """OLT-LIMA with `rx`: 100 s each five minutes, planned for this hour."""
    now = datetime.now(UTC)
    with app.app_context():
        olt = builders.make_olt(now=now)
        builders.make_node(olt, "rx", kind="get", oid="huawei.onu_description", interval="5m", now=now)
        db.session.remove()
    with written(app) as session:
        session.add(NodePace(node_id=1, durations=[100_000] * 25, p50_ms=100_000, p95_ms=100_000, updated_at=now))
        session.flush()
        hour = quota.hour_at(now) + quota.HOUR
        plans.make(session, [1], hour, now, "task_added")
    return app


def test_the_api_tells_how_the_work_of_an_olt_fits(built: Flask) -> None:
    client = by_token(built, "viewer")
    (found,) = client.get("/feasibility/?olt=1").get_json()["items"]
    assert (found["olt_name"], found["verdict"], found["busy_percentage"]) == ("OLT-LIMA", "fits", 33.33)
    assert (found["nodes"][0]["node_key"], found["nodes"][0]["guessed"]) == ("rx", False)
    assert client.get("/feasibility/").get_json()["total"] == 1
    assert client.get("/feasibility/?olt=9").status_code == 404


def test_the_api_gives_the_plans_of_an_olt_with_their_slots(built: Flask) -> None:
    client = by_token(built, "viewer")
    (found,) = client.get("/plans/?olt=1").get_json()["items"]
    assert (found["status"], found["why"], found["total_tasks"]) == ("ACTIVE", "task_added", 12)
    assert (len(found["slots"]), found["slots"][0]["node_key"]) == (12, "rx")
    hour = found["period_start"].replace("+00:00", "Z")
    assert client.get(f"/plans/?olt=1&hour={hour}").get_json()["items"] == [found]
    assert client.get("/plans/?olt=1&hour=2026-01-01T00:00:00Z").get_json()["items"] == []
    assert client.get("/plans/").status_code == 400
    assert client.get("/plans/?olt=9").status_code == 404


def said(app: Flask, *arguments: str) -> str:
    return app.test_cli_runner().invoke(args=["plan", *arguments]).output


def test_the_command_says_what_would_be_if_a_node_ran_more_often_and_changes_nothing(built: Flask) -> None:
    assert "fits: busy 33.3 % of the hour" in said(built, "feasibility", "OLT-LIMA")
    changed = said(built, "feasibility", "OLT-LIMA", "--set", "rx=60s")
    assert "impossible: busy 166.7 % of the hour" in changed
    assert "get_rx will not keep its promise" in changed
    assert "nothing is planned" in said(built, "feasibility", "OLT-LIMA", "--without", "rx")
    with built.app_context():
        assert db.session.get_one(WorkflowNode, 1).interval_seconds == 300


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("feasibility", "OLT-X"), "there is no OLT OLT-X"),
        (("feasibility", "OLT-LIMA", "--set", "tx=60s"), "there is no master tx; there are: rx"),
        (("feasibility", "OLT-LIMA", "--set", "rx=soon"), "the interval of rx must be a duration"),
        (("feasibility", "OLT-LIMA", "--set", "rx=0"), "the interval of rx must be from 1s to 31d"),
        (("feasibility", "OLT-LIMA", "--set", "rx=999999999d"), "the interval of rx must be from 1s to 31d"),
        (("feasibility", "OLT-LIMA", "--set", "rx="), "--without"),
        (("feasibility", "OLT-LIMA", "--without", "tx"), "there is no master tx"),
        (("feasibility", "--set", "rx=60s"), "name the OLT"),
        (("pool",), "too little ran in the last hour"),
        (("phases",), "no clock would be moved"),
        (("phases", "OLT-LIMA", "--apply"), "clocks moved: 0"),
    ],
)
def test_what_cannot_be_done_is_said(built: Flask, arguments: tuple[str, ...], told: str) -> None:
    assert told in said(built, *arguments)


def test_the_api_looks_at_as_many_olts_as_it_is_asked_for(built: Flask) -> None:
    with built.app_context():
        for name in ("OLT-B", "OLT-C"):
            node = builders.make_node(
                builders.make_olt(name), "rx", kind="get", oid="huawei.onu_description", interval="5m"
            )
            db.session.merge(NodePace(node_id=node.id, durations=[250_000] * 25, p50_ms=250_000, p95_ms=250_000,
                                      updated_at=datetime.now(UTC)))  # fmt: skip
            db.session.commit()
    client = by_token(built, "viewer")
    assert [one["detailed"] for one in client.get("/feasibility/?limit=3").get_json()["items"]] == [True] * 3
    (first,) = client.get("/feasibility/?limit=1").get_json()["items"]
    assert (first["olt_name"], first["detailed"], len(first["nodes"])) == ("OLT-B", True, 1)
    assert client.get("/feasibility/?olt=99999999999999999999").status_code == 400


def test_the_command_shows_a_plan(built: Flask) -> None:
    assert "ACTIVE plan of 12 runs" in said(built, "show", "OLT-LIMA")
    assert len(json.loads(said(built, "show", "OLT-LIMA", "--json"))[0]["plan"]["slots"]) == 12


def test_all_olts_are_listed_without_a_name(built: Flask) -> None:
    assert json.loads(said(built, "feasibility", "--json"))[0]["fit"]["verdict"] == "fits"
    assert "OLT-LIMA" in said(built, "feasibility")
