"""Who may call what of the API, how a refusal looks, and how often one may ask."""

import json
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError
from werkzeug.test import TestResponse

from portal import clock
from portal.api.operations import OPERATIONS, Operation
from portal.domain.roles import allows
from portal.domain.statuses import Role
from portal.queries import pollers, pulse
from portal.services.people import tokens
from portal.tables import ApiToken, User, WorkflowNode
from testing import seed_quotas
from testing.api import Client, by_session, by_token, error_of, furnished, make_token
from testing.web import update_rows, written

SAMPLES: dict[str, object] = {"execution_id": 1, "node_id": 1, "quota_id": 1, "violation_id": 1}
NEEDED = {"explain_slot": "?node=1", "list_plans": "?olt=1", "show_feasibility": "?olt=1"}  # arguments


@pytest.fixture
def filled(app: Flask) -> Flask:
    with written(furnished(app)) as session:
        seed_quotas.fill_one(session, session.get_one(WorkflowNode, 1), clock.now())
    return app


def address(app: Flask, one: Operation) -> str:
    endpoint = f"api.{one.name}"
    (rule,) = (rule for rule in app.url_map.iter_rules() if rule.endpoint == endpoint)
    with app.test_request_context():
        values = {name: SAMPLES[name] for name in rule.arguments}
        return app.url_map.bind("localhost").build(endpoint, values, one.method)


def allowed(answer: TestResponse) -> bool:
    """False where access was refused; an answer such as 404 or 409 comes from behind the guard."""
    return answer.status_code not in (401, 403)


def test_every_route_under_api_is_declared_and_nothing_else_is_there(filled: Flask) -> None:
    served = {
        (method, rule.rule)
        for rule in filled.url_map.iter_rules()
        if rule.rule.startswith("/api")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert served == {(one.method, one.path) for one in OPERATIONS}


def test_a_stranger_is_refused_everywhere(filled: Flask) -> None:
    for one in OPERATIONS:
        answer = Client(filled).call(one.method, address(filled, one))
        assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated"), one
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert "Location" not in answer.headers


@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_do_what_the_route_declares_and_no_more(filled: Flask, role: Role) -> None:
    token, (session, csrf) = by_token(filled, role.value), by_session(filled, role.value)
    for one in OPERATIONS:
        path = address(filled, one)
        answers = [token.call(one.method, path), session.call(one.method, path, headers={"X-CSRFToken": csrf})]
        assert [allowed(answer) for answer in answers] == [allows(role, one.role)] * 2, (role, one)
        for answer in answers:
            if not allowed(answer):
                assert (answer.status_code, error_of(answer)["code"]) == (403, "forbidden")


def test_a_view_without_a_role_is_denied_to_the_administrator(filled: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    (endpoint,) = {rule.endpoint for rule in filled.url_map.iter_rules() if rule.rule == "/api/v1/pollers/"}
    monkeypatch.setitem(filled.view_functions, endpoint, lambda: "secret")
    answer = by_token(filled, "admin").get("/pollers/")
    assert (answer.status_code, "secret" in answer.text) == (403, False)
    assert error_of(answer)["code"] == "forbidden"


def test_a_refusal_names_the_role_that_is_needed_and_the_one_that_is_held(filled: Flask) -> None:
    message = error_of(by_token(filled, "viewer").post("/pollers/nodes/1/run/"))["message"]
    assert message == "This needs the role operator, token:viewer has viewer. Nothing was changed."


def test_a_token_that_is_not_valid_is_refused_even_beside_a_session(filled: Flask) -> None:
    session, _csrf = by_session(filled)
    assert session.get("/pollers/").status_code == 200
    for text in ("facho_wrong", "", "x" * 5000, "ñ\x80", "a b c", "' OR 1=1 --"):
        answer = session.get("/pollers/", headers={"Authorization": f"Bearer {text}"})
        assert (answer.status_code, text) == (401, text)
        assert "unknown, expired or revoked" in error_of(answer)["message"]


def test_another_scheme_in_the_header_leaves_the_session_in_charge(filled: Flask) -> None:
    basic = {"Authorization": "Basic Zm9vOmJhcg=="}  # what a proxy in front may add
    session, _csrf = by_session(filled, "viewer")
    assert session.get("/pollers/", headers=basic).status_code == 200
    assert Client(filled).get("/pollers/", headers=basic).status_code == 401


def test_the_word_bearer_is_taken_in_any_case(filled: Flask) -> None:
    text = make_token(filled)
    for header in (f"bearer {text}", f"BEARER  {text} "):
        assert Client(filled).get("/pollers/", headers={"Authorization": header}).status_code == 200


def test_a_revoked_token_is_refused_at_the_next_request(filled: Flask) -> None:
    client = by_token(filled)
    assert client.get("/pollers/").status_code == 200
    with filled.app_context():
        tokens.revoke("operator", "cli", clock.now())
    assert client.get("/pollers/").status_code == 401


def test_a_token_ends_when_it_expires_and_loses_at_once_what_its_role_loses(filled: Flask) -> None:
    client = by_token(filled)
    update_rows(filled, ApiToken, role=Role.VIEWER)
    assert client.post("/executions/1/cancel/").status_code == 403
    update_rows(filled, ApiToken, expires_at=clock.now() - timedelta(seconds=1))
    assert client.get("/pollers/").status_code == 401


def test_a_user_who_is_switched_off_is_out_at_once(filled: Flask) -> None:
    client, _csrf = by_session(filled, "viewer")
    assert client.get("/pollers/").status_code == 200
    update_rows(filled, User, User.username == "viewer", active=False)
    assert client.get("/pollers/").status_code == 401


def test_a_session_that_changes_something_needs_the_csrf_header_and_a_token_does_not(filled: Flask) -> None:
    session, csrf = by_session(filled)
    for headers in ({}, {"X-CSRFToken": "wrong"}):
        answer = session.post("/pollers/nodes/1/run/", headers=headers)
        assert (answer.status_code, error_of(answer)["code"]) == (400, "csrf")
    assert session.post("/pollers/nodes/1/run/", headers={"X-CSRFToken": csrf}).status_code == 202
    assert by_token(filled).post("/pollers/nodes/1/run/").status_code == 202


def test_a_form_on_another_site_cannot_press_a_button_here(filled: Flask) -> None:
    session, csrf = by_session(filled)
    answer = session.post("/pollers/nodes/1/run/", data={"csrf_token": csrf})
    assert (answer.status_code, error_of(answer)["code"]) == (415, "unsupported_media_type")
    assert session.post("/pollers/nodes/1/run/", data="{}", content_type="text/plain").status_code == 415


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nowhere", "/api/v2/pollers/"])
def test_an_address_that_does_not_exist_is_answered_in_json_with_the_way_to_the_document(app: Flask, path: str) -> None:
    answer = Client(app).get(path)
    assert answer.status_code == 404
    assert "/api/v1/openapi.json" in error_of(answer)["message"]


def test_pages_keep_their_own_way_of_saying_that_there_is_nothing(app: Flask) -> None:
    for path in ("/nowhere", "/apiary", "/olts/api"):
        assert app.test_client().get(path).mimetype == "text/html"


def test_a_method_that_is_not_taken_names_those_that_are(app: Flask) -> None:
    answer = Client(app).call("DELETE", "/pollers/")
    assert (answer.status_code, error_of(answer)["code"]) == (405, "method_not_allowed")
    assert {"GET", "HEAD", "OPTIONS"} == set(answer.headers["Allow"].split(", "))


def test_every_address_works_with_and_without_the_slash_at_its_end(filled: Flask) -> None:
    client = by_token(filled, "admin")
    for one in OPERATIONS:
        path, needed = address(filled, one).rstrip("/"), NEEDED.get(one.name, "")
        codes = [client.call(one.method, path + end + needed).status_code for end in ("", "/")]
        assert codes[0] == codes[1], path
        assert codes[0] in (200, 202, 409), path


BODIES: tuple[tuple[dict[str, Any], int, str | None], ...] = (
    ({"json": {"surprise": 1}}, 400, "surprise"),
    ({"json": {"\ud800": 1}}, 400, "?"),
    ({"json": []}, 400, "body"),
    ({"json": "text"}, 400, "body"),
    ({"data": "{", "content_type": "application/json"}, 400, "body"),
    ({"data": b"\xff\xfe\x00", "content_type": "application/json"}, 400, "body"),
    ({"data": "[" * 60_000, "content_type": "application/json"}, 400, "body"),
    ({"data": "1" * 60_000, "content_type": "application/json"}, 400, "body"),
    ({"data": "<a/>", "content_type": "application/xml"}, 415, None),
    ({"data": b"x"}, 415, None),
    ({"data": {"a": "b"}}, 415, None),
    ({"data": " " * (64 * 1024 + 1), "content_type": "application/json"}, 413, None),
    ({"json": {}}, 202, None),
    ({"data": "", "content_type": "application/x-www-form-urlencoded"}, 202, None),
)


def test_a_body_that_means_nothing_is_refused_by_name_and_an_empty_one_is_taken(filled: Flask) -> None:
    client = by_token(filled)
    for options, status, field in BODIES:
        answer = client.post("/pollers/nodes/1/run/", **options)
        assert answer.status_code == status, (options, answer.text)
        if status != 202:
            assert list(error_of(answer)["fields"]) == ([field] if field else [])


def test_a_body_in_chunks_is_measured_and_read_like_any_other(filled: Flask) -> None:
    client = by_token(filled)
    chunked = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    for text, status in ((b"{}", 202), (b'{"a": 1}', 400), (b" " * (64 * 1024), 202), (b"x" * 200_000, 413)):
        answer = client.post("/pollers/nodes/1/run/", input_stream=BytesIO(text), headers=chunked,
                             environ_overrides={"wsgi.input_terminated": True})  # fmt: skip
        assert answer.status_code == status, text[:10]
    plain = chunked | {"Content-Type": "text/plain"}
    answer = client.post("/pollers/nodes/1/run/", input_stream=BytesIO(b"x"), headers=plain,
                         environ_overrides={"wsgi.input_terminated": True})  # fmt: skip
    assert answer.status_code == 415


def test_a_fault_of_the_program_is_told_in_json_with_a_reference_that_the_log_holds(
    filled: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_now: datetime) -> None:
        raise RuntimeError("planted fault")

    monkeypatch.setattr(pollers, "rows", broken)
    text = make_token(filled)
    answer = Client(filled, text).get("/pollers/")
    error = error_of(answer)
    assert (answer.status_code, error["code"], "planted" in answer.text) == (500, "internal", False)
    reference = error["message"].rpartition(": ")[2].rstrip(".")
    assert f"reference={reference}" in caplog.text
    assert text not in caplog.text


def test_a_refusing_database_is_a_503_that_says_when_to_return(filled: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_now: datetime) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setattr(pulse, "read", full)
    answer = by_token(filled).get("/pollers/stats/")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "database_unavailable")
    assert int(answer.headers["Retry-After"]) > 0


def test_answers_are_never_stored_and_carry_the_security_headers(filled: Flask) -> None:
    client = by_token(filled)
    for path in ("/pollers/", "/executions/1/", "/executions/999999/", "/nowhere"):
        answer = client.get(path)
        assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
        assert "Set-Cookie" not in answer.headers


def test_the_budget_is_in_the_headers_and_shared_by_all_addresses(filled: Flask) -> None:
    client = by_token(filled)
    answers = [client.get(path) for path in ("/pollers/", "/executions/", "/pollers/queue/", "/executions/1/")]
    assert [answer.headers["X-RateLimit-Limit"] for answer in answers] == ["600"] * 4
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["599", "598", "597", "596"]
    assert client.post("/executions/1/cancel/").headers["X-RateLimit-Remaining"] == "59"
    assert int(answers[0].headers["X-RateLimit-Reset"]) >= clock.now().timestamp() - 1


def test_the_sixty_first_write_in_a_minute_waits_and_reading_goes_on(filled: Flask) -> None:
    client, other = by_token(filled), by_token(filled, "admin")
    assert [client.post("/executions/1/cancel/").status_code for _ in range(61)] == [409] * 60 + [429]
    answer = client.post("/executions/1/cancel/")
    assert error_of(answer)["code"] == "rate_limited"
    assert 1 <= int(answer.headers["Retry-After"]) <= 61
    assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("60", "0")
    assert client.get("/executions/1/").status_code == 200
    assert other.post("/executions/1/cancel/").status_code == 409


def test_a_user_has_one_budget_for_all_sessions(filled: Flask) -> None:
    (first, csrf), (second, other_csrf) = by_session(filled), by_session(filled)
    first.post("/executions/1/cancel/", headers={"X-CSRFToken": csrf})
    answer = second.post("/executions/1/cancel/", headers={"X-CSRFToken": other_csrf})
    assert answer.headers["X-RateLimit-Remaining"] == "58"


def test_tries_with_wrong_tokens_are_counted_by_address(filled: Flask) -> None:
    answers = [Client(filled, f"facho_{number}").get("/pollers/") for number in range(3)]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["599", "598", "597"]
    assert by_token(filled).get("/pollers/").headers["X-RateLimit-Remaining"] == "599"


def test_what_is_told_is_json_to_its_last_byte(filled: Flask) -> None:
    client = by_token(filled)
    for path in ("/pollers/", "/pollers/queue/", "/pollers/stats/?points=10", "/executions/", "/openapi.json"):
        answer = client.get(path)
        assert (answer.status_code, answer.mimetype) == (200, "application/json")
        json.loads(answer.data.decode())
