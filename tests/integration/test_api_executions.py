"""Executions over the API: the list, one with its tries, cancelling, and running a node now (S18)."""

import base64
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from portal import clock
from portal.domain.statuses import ErrorKind, ExecutionStatus, Trigger
from portal.extensions import db
from portal.queries import api as queries
from portal.queries import keyset
from portal.services.dispatch import run_requests
from portal.tables import AuditLog, Execution, Olt, WorkflowNode
from testing.api import Client, by_session, by_token, ended, error_of, furnished, make_token, refused_fields
from testing.builders import make_chained, make_execution, make_node, make_olt
from testing.cast import ACTOR, TEN
from testing.statements import statements_in
from testing.web import update_rows, written


def ids(answer_body: dict[str, Any]) -> list[int]:
    return [one["id"] for one in answer_body["items"]]


@pytest.fixture
def lima(app: Flask) -> Flask:
    """OLT-LIMA with nodes 1 and 2, OLT-CUSCO with node 3; ten executions one minute apart, node after node."""
    with app.app_context():
        olt, other = make_olt("OLT-LIMA"), make_olt("OLT-CUSCO")
        nodes = [make_node(olt, "a"), make_node(olt, "b"), make_node(other, "c")]
        for number in range(10):
            fields: dict[str, Any] = {"status": ExecutionStatus.SUCCESS, "error_kind": None} if number % 2 else {}
            fields |= {"trigger": Trigger.MANUAL, "requested_by": ACTOR} if number == 4 else {}
            ended(nodes[number % 3], TEN + timedelta(minutes=number), **fields)
            db.session.flush()
        db.session.commit()
    return app


@pytest.fixture
def client(lima: Flask) -> Client:
    return by_token(lima)


@pytest.fixture
def filled(app: Flask) -> Flask:
    """OLT 1 with node 1 and its failed execution 1."""
    return furnished(app)


def wait(app: Flask, **fields: Any) -> int:
    """The id of one more execution of node 1, which waits unless `fields` say otherwise."""
    with written(app) as session:
        return make_execution(session.get_one(WorkflowNode, 1), clock.now(), **fields).id


LISTS: tuple[tuple[str, list[int]], ...] = (
    ("", [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ("status=SUCCESS", [10, 8, 6, 4, 2]),
    ("status=failed", [9, 7, 5, 3, 1]),
    ("status=pending", []),
    ("olt=2", [9, 6, 3]),
    ("node=2", [8, 5, 2]),
    ("node=2&status=SUCCESS", [8, 2]),
    ("trigger=manual", [5]),
    ("trigger=SCHEDULE&olt=1", [10, 8, 7, 4, 2, 1]),
    ("since=2026-11-27T10:07:00Z", [10, 9, 8]),
    ("until=2026-11-27T10:02:00Z", [2, 1]),
    ("since=2026-11-27T10:03:00Z&until=2026-11-27T10:05:00Z", [5, 4]),
    ("since=2026-11-27T05:08:00-05:00", [10, 9]),
    ("since=2026-11-27T15:38:00+05:30", [10, 9]),  # the + of a URL arrives as a blank
    ("since=2026-11-27T15:38:00%2B05:30", [10, 9]),
    ("olt=2147483647", []),
    ("limit=2", [10, 9]),
)


def test_the_list_is_newest_first_and_filters_add_up(client: Client) -> None:
    for query, found in LISTS:
        answer = client.get(f"/executions/?{query}")
        assert answer.status_code == 200, (query, answer.text)
        assert ids(answer.get_json()) == found, query


@pytest.mark.parametrize("query", ["limit=3", "limit=3&since=2026-11-27T09:00:00Z&trigger=schedule&olt=1"])
def test_next_leads_through_all_pages_and_keeps_the_filters(client: Client, query: str) -> None:
    whole = ids(client.get(f"/executions/?{query.replace('limit=3', 'limit=200')}").get_json())
    path, seen, pages = f"/executions/?{query}", list[int](), 0
    while path:
        body = client.get(path).get_json()
        seen, pages, path = seen + ids(body), pages + 1, body["next"]
    assert seen == whole
    assert pages == -(-len(whole) // 3)


def test_what_comes_meanwhile_neither_repeats_nor_hides_a_row(lima: Flask, client: Client) -> None:
    first = client.get("/executions/?limit=4").get_json()
    wait(lima)
    with written(lima) as session:
        session.delete(session.get(Execution, 7))  # the row that the next page begins after
    assert ids(client.get(first["next"]).get_json()) == [6, 5, 4, 3]


def test_the_list_costs_one_statement_beyond_the_token(lima: Flask, client: Client) -> None:
    client.get("/executions/")
    path = "/executions/?limit=200&status=FAILED&since=2026-11-27T00:00:00Z"
    with lima.app_context():
        seen = statements_in(partial(client.get, path))
    assert len([one for one in seen if one.startswith("SELECT") and one != "SELECT 1"]) == 2


def cursor_of(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(parts)).encode()).decode().rstrip("=")


BY_ID, BY_SLOT = queries.Filter().order.name, queries.Filter(since=TEN).order.name
BAD_CURSORS = (
    "", "x", "%00", "====", "é", "a" * 2000, cursor_of(), cursor_of(0), cursor_of(0, BY_ID), cursor_of(0, 5),
    cursor_of(0, BY_ID, "5"), cursor_of(0, BY_ID, None), cursor_of(0, BY_ID, True), cursor_of(0, BY_ID, 1.5),
    cursor_of(0, BY_ID, -1), cursor_of(0, BY_ID, 2**63), cursor_of(0, BY_ID, 10**300), cursor_of(1, BY_ID, 5),
    cursor_of(2, BY_ID, 5), cursor_of(0, BY_SLOT, 1, 2), cursor_of(0, BY_SLOT, "2026", 5), cursor_of(0, BY_ID, [5]),
    cursor_of(0, BY_SLOT, "\x00t2026-11-27T10:00:00", 5), cursor_of(0, BY_SLOT, "\x00tnever", 5),
    cursor_of(0, BY_SLOT, "\x00t0001-01-01T00:00:00+14:00", 5), cursor_of(0, BY_ID, {"a": 1}),
    base64.urlsafe_b64encode(b"[" * 700).decode(), base64.urlsafe_b64encode(b'[0,"",NaN]').decode(),
    keyset.encode([5], BY_ID, backward=True), keyset.encode([5], "another order"), keyset.encode([5]),
)  # fmt: skip


def test_a_cursor_that_was_not_given_out_is_refused_and_says_what_to_do(client: Client) -> None:
    for cursor, others in product(BAD_CURSORS, ({}, {"since": "2026-11-27T09:00:00Z"})):
        answer = client.get("/executions/", query_string={"cursor": cursor} | others)
        assert answer.status_code == 400, (cursor, answer.text)
        (error,) = error_of(answer)["fields"].items()
        assert error[0] == "cursor" and "follow `next`" in error[1], cursor


def test_a_cursor_of_a_list_in_another_order_is_refused(client: Client) -> None:
    plain, timed = keyset.encode([5], BY_ID), keyset.encode([TEN, 5], BY_SLOT)
    assert client.get(f"/executions/?cursor={plain}").status_code == 200
    assert client.get(f"/executions/?cursor={timed}&since=2026-11-27T09:00:00Z").status_code == 200
    for query in (f"cursor={timed}", f"cursor={plain}&since=2026-11-27T09:00:00Z"):
        assert refused_fields(client, f"/executions/?{query}") == ["cursor"]


WRONG = (
    ("status=done", "status"), ("status=", "status"), ("status=%00", "status"), ("trigger=cron", "trigger"),
    ("olt=0", "olt"), ("olt=-1", "olt"), ("olt=lima", "olt"), ("olt=2147483648", "olt"), ("olt=1.0", "olt"),
    ("olt=9999999999999999999999999", "olt"), ("olt=١", "olt"), ("node=true", "node"), ("node=[]", "node"),
    ("limit=0", "limit"), ("limit=201", "limit"), ("limit=1e6", "limit"), ("since=now", "since"),
    ("until=2026-13-01T00:00:00Z", "until"), ("until=2026-11-27T10:00:00", "until"),
    ("until=9999-12-31T23:59:59-14:00", "until"), ("olt=1&olt=2", "olt"), ("state=FAILED", "state"),
)  # fmt: skip


def test_a_wrong_argument_is_named_and_nothing_breaks(client: Client) -> None:
    for query, field in WRONG:
        assert refused_fields(client, f"/executions/?{query}") == [field], query


def test_all_wrong_arguments_are_named_at_once(client: Client) -> None:
    error = error_of(client.get("/executions/?olt=x&limit=0&nope=1&status=SUCCESS"))
    assert error["fields"].keys() == {"olt", "limit", "nope"}
    assert "PENDING, RUNNING, SUCCESS" in error_of(client.get("/executions/?status=x"))["message"]


def test_one_execution_shows_its_tries_and_their_steps(filled: Flask) -> None:
    one = by_token(filled, "viewer").get("/executions/1/").get_json()
    assert (one["id"], one["status"], one["node_name"], one["olt_name"]) == (1, "FAILED", "ONUs", "OLT-LIMA")
    assert (one["error_kind"], one["error_message"], one["duration_ms"]) == ("timeout", "no answer", 4000)
    assert one["result"] == {"steps": 1, "completed_steps": 0}
    (attempt,) = one["attempts"]
    assert (attempt["number"], attempt["status"], attempt["worker"]) == (1, "FAILED", "w1")
    (step,) = attempt["steps"]
    assert (step["node_key"], step["status"], step["pdus"], step["timeouts"]) == ("discovery", "FAILED", 3, 3)
    assert (step["position"], step["node_id"], step["skip_reason"], step["error_kind"]) == (0, 1, None, "timeout")


def test_an_execution_outlives_its_node(filled: Flask) -> None:
    update_rows(filled, Execution, node_id=None)
    client = by_token(filled)
    assert client.get("/executions/1/").get_json()["node_id"] is None
    assert ids(client.get("/executions/").get_json()) == [1]


NOBODY = (
    "2", "0", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1" * 400, "-1", "abc", "1.0",
)  # fmt: skip


def test_an_id_that_is_no_execution_is_a_404_in_json(filled: Flask) -> None:
    client = by_token(filled)
    for ident in NOBODY:
        for answer in (client.get(f"/executions/{ident}/"), client.post(f"/executions/{ident}/cancel/")):
            assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found"), ident


def test_cancelling_one_that_waits_ends_it_and_names_who_did(filled: Flask) -> None:
    ident = wait(filled)
    answer = by_token(filled).post(f"/executions/{ident}/cancel/")
    one = answer.get_json()
    assert (answer.status_code, one["status"], one["cancelled_by"]) == (200, "INTERRUPTED", "token:operator")
    with filled.app_context():
        row = db.session.scalars(select(AuditLog).where(AuditLog.action == "execution.cancel")).one()
        assert (row.actor, row.subject_id) == ("token:operator", ident)


def test_cancelling_one_that_runs_asks_it_to_stop(filled: Flask) -> None:
    ident = wait(filled, status=ExecutionStatus.RUNNING, token=5, worker="w1", attempt=1)
    client = by_token(filled)
    for _ in range(2):
        answer = client.post(f"/executions/{ident}/cancel")
        one = answer.get_json()
        assert (answer.status_code, one["status"], one["cancelled_by"]) == (202, "RUNNING", "token:operator")


def test_one_that_has_ended_stays_as_it_is(filled: Flask) -> None:
    client = by_token(filled)
    answer = client.post("/executions/1/cancel/")
    assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    one = client.get("/executions/1/").get_json()
    assert (one["status"], one["cancelled_by"]) == ("FAILED", "")


def test_running_a_node_answers_202_with_the_execution_and_its_address(filled: Flask) -> None:
    client = by_token(filled)
    answer = client.post("/pollers/nodes/1/run/")
    body = answer.get_json()
    assert (answer.status_code, body["created"], body["status"], body["trigger"]) == (202, True, "PENDING", "manual")
    assert body["requested_by"] == "token:operator"
    assert answer.headers["Location"] == f"/api/v1/executions/{body['id']}/"
    same = client.get(answer.headers["Location"]).get_json()
    assert same == {name: value for name, value in body.items() if name != "created"}


def test_a_second_request_while_one_waits_returns_the_same_execution(filled: Flask) -> None:
    first = by_token(filled).post("/pollers/nodes/1/run/").get_json()
    session, csrf = by_session(filled, "admin")
    answer = session.post("/pollers/nodes/1/run", headers={"X-CSRFToken": csrf})
    second = answer.get_json()
    assert (answer.status_code, second["id"], second["created"]) == (202, first["id"], False)
    assert second["requested_by"] == "token:operator"


def test_a_hundred_clicks_in_ten_seconds_make_one_execution(filled: Flask) -> None:
    client = by_token(filled)
    answers = [client.post("/pollers/nodes/1/run/") for _ in range(100)]
    assert Counter(answer.status_code for answer in answers) == {202: 60, 429: 40}
    assert len({answer.get_json()["id"] for answer in answers if answer.status_code == 202}) == 1
    assert [answer.get_json().get("created") for answer in answers].count(True) == 1
    with filled.app_context():
        assert db.session.scalar(select(func.count()).where(Execution.status == ExecutionStatus.PENDING)) == 1


def test_clicks_at_the_same_moment_make_one_execution_too(filled: Flask) -> None:
    text = make_token(filled)

    def click(_number: int) -> tuple[int, int, bool]:
        answer = Client(filled, text).post("/pollers/nodes/1/run/")
        return answer.status_code, answer.get_json().get("id", 0), answer.get_json().get("created", False)

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(click, range(30)))
    assert {(code, ident) for code, ident, _created in answers} == {(202, answers[0][1])}
    assert [created for _code, _ident, created in answers].count(True) == 1


def test_the_nodes_schedule_does_not_move(filled: Flask) -> None:
    def next_run() -> datetime | None:
        with filled.app_context():
            return db.session.scalars(select(WorkflowNode.next_run_at)).one()

    before = next_run()
    assert by_token(filled).post("/pollers/nodes/1/run/").status_code == 202
    assert next_run() == before


def test_a_chained_node_runs_too(app: Flask) -> None:
    with app.app_context():
        chained = make_chained(make_node(make_olt())).id
    body = by_token(app).post(f"/pollers/nodes/{chained}/run/").get_json()
    assert (body["node_id"], body["created"]) == (chained, True)


def test_a_node_of_a_disabled_olt_is_refused_with_what_to_do(filled: Flask) -> None:
    update_rows(filled, Olt, enabled=False)
    answer = by_token(filled).post("/pollers/nodes/1/run/")
    assert answer.status_code == 409
    assert error_of(answer) == {"code": "conflict", "message": "OLT-LIMA is disabled: enable it first", "fields": {}}


def test_a_node_that_does_not_exist_is_a_404(filled: Flask) -> None:
    client = by_token(filled)
    for ident in NOBODY:
        answer = client.post(f"/pollers/nodes/{ident}/run/")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found"), ident


def test_one_that_is_cleaned_up_meanwhile_is_a_404_and_no_crash(filled: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_requests, "run_now", lambda *_given: (4711, True))
    answer = by_token(filled).post("/pollers/nodes/1/run/")
    assert (answer.status_code, "4711" in error_of(answer)["message"]) == (404, True)


def test_nothing_secret_is_in_what_an_execution_says(filled: Flask) -> None:
    update_rows(filled, Execution, error_kind=ErrorKind.AUTH)
    text = by_token(filled, "admin").get("/executions/1/").text
    assert not any(word in text for word in ("planted-community", "community", "credential", "10.20."))
