"""The OpenAPI document says what the routes do: no more, no less, and real answers fit it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from flask import Flask
from limits.storage import MemoryStorage
from sqlalchemy.exc import OperationalError
from werkzeug.test import TestResponse

from portal import clock
from portal.api import openapi, schema
from portal.api.operations import OPERATIONS, Operation
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import limiter
from portal.tables import Poller, PollerStats, WorkflowNode
from testing import seed_quotas
from testing.api import Client, by_token, furnished, problems
from testing.builders import make_execution
from testing.web import written

Document = dict[str, Any]


@pytest.fixture
def filled(app: Flask) -> Flask:
    """Execution 1 has ended, 2 waits, 3 runs; poller 1 is busy; there is a history."""
    with written(furnished(app)) as session:
        now, node = clock.now(), session.get_one(WorkflowNode, 1)
        make_execution(node, now)
        running = {"status": ExecutionStatus.RUNNING, "node_id": None, "token": 9, "started_at": now, "worker": "w1"}
        make_execution(node, now, **running)
        session.query(Poller).update({"status": PollerStatus.BUSY, "current_execution_id": 3, "busy_since": now})
        session.add(PollerStats(timestamp=now, busy_percentage=12.5, queue_size=1))
        session.flush()
        seed_quotas.fill_one(session, node, now)
    return app


@pytest.fixture
def document(filled: Flask) -> Document:
    answer = by_token(filled, "viewer", "reader").get("/openapi.json")
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    found: Document = answer.get_json()
    return found


def operations(document: Document) -> list[tuple[str, str]]:
    return sorted((method.upper(), path) for path, methods in document["paths"].items() for method in methods)


def test_each_route_and_method_is_in_the_document_and_nothing_else(filled: Flask, document: Document) -> None:
    served = {
        (method, re.sub(r"<[^:]+:(\w+)>", r"{\1}", rule.rule).replace(".json/", ".json"))
        for rule in filled.url_map.iter_rules()
        if rule.endpoint.startswith("api.")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert operations(document) == sorted(served)
    assert ("POST", "/api/v1/pollers/nodes/{node_id}/run/") in served
    assert ("GET", "/api/v1/openapi.json") in served


def test_the_document_is_whole(document: Document) -> None:
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= document["info"].keys()
    assert document["security"] == [{"token": []}, {"session": []}]
    assert document["security"][0].keys() <= document["components"]["securitySchemes"].keys()
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))
    for reference in references(document):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        assert target


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        for item in part.values():
            yield from references(item)
    elif isinstance(part, list):
        for item in part:
            yield from references(item)


def test_each_parameter_of_a_path_is_described_with_its_bounds(document: Document) -> None:
    for path, methods in document["paths"].items():
        for one in methods.values():
            described = {part["name"] for part in one["parameters"] if part["in"] == "path"}
            assert described == {word.partition("}")[0] for word in path.split("{")[1:]}, path
            assert all(part["required"] for part in one["parameters"] if part["in"] == "path")
            assert all(part["description"] for part in one["parameters"] if part["in"] == "query")
    run = document["paths"]["/api/v1/pollers/nodes/{node_id}/run/"]["post"]
    assert run["parameters"][0]["schema"] == {"type": "integer", "minimum": 0, "maximum": 2147483647}
    limit = document["paths"]["/api/v1/executions/"]["get"]["parameters"][6]
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}


def fitting(document: Document, one: Operation, answer: TestResponse) -> None:
    """The answer is documented for the operation, and fits."""
    described = document["paths"][openapi.path_of(one)][one.method.lower()]["responses"]
    assert str(answer.status_code) in described, (one.name, answer.status_code, answer.text)
    wanted = described[str(answer.status_code)]["content"]
    assert answer.mimetype in wanted
    found = list(problems(wanted[answer.mimetype]["schema"], answer.get_json(), document))
    assert found == [], (one.name, answer.status_code)
    for name in described[str(answer.status_code)]["headers"]:
        assert int(answer.headers[name]) >= 0, (one.name, name)


SUCCESS: dict[tuple[str, int], str] = {
    ("list_pollers", 200): "/pollers/",
    ("show_queue", 200): "/pollers/queue/",
    ("show_stats", 200): "/pollers/stats/?points=20",
    ("list_executions", 200): "/executions/?limit=2",
    ("show_execution", 200): "/executions/1/",
    ("cancel_execution", 200): "/executions/2/cancel/",
    ("cancel_execution", 202): "/executions/3/cancel/",
    ("run_node", 202): "/pollers/nodes/1/run/",
    ("list_plans", 200): "/plans/?olt=1",
    ("show_feasibility", 200): "/feasibility/?olt=1",
    ("list_quotas", 200): "/quotas/",
    ("show_quota", 200): "/quotas/1/",
    ("list_violations", 200): "/violations/",
    ("show_violation", 200): "/violations/1/",
    ("list_decisions", 200): "/logs/",
    ("explain_slot", 200): "/explain/?node=1",
    ("show_ledger", 200): "/ledger/",
    ("openapi", 200): "/openapi.json",
}
GOOD = {name: path for (name, _status), path in SUCCESS.items()} | {"cancel_execution": "/executions/1/cancel/"}


def test_every_documented_success_is_answered_like_that(filled: Flask, document: Document) -> None:
    assert SUCCESS.keys() == {(one.name, status) for one in OPERATIONS for status in one.answers}
    client, known = by_token(filled, "operator"), {one.name: one for one in OPERATIONS}
    for (name, status), path in SUCCESS.items():
        answer = client.call(known[name].method, path)
        assert answer.status_code == status, (name, answer.text)
        fitting(document, known[name], answer)


def broken(*_given: object, **_more: object) -> None:
    raise RuntimeError("planted")


def refused(*_given: object, **_more: object) -> None:
    raise OperationalError("SELECT 1", {}, Exception("planted"))


def test_every_documented_error_is_answered_like_that(
    filled: Flask, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, viewer, stranger = by_token(filled), by_token(filled, "viewer"), Client(filled)
    tries: dict[int, Callable[[Operation, str], TestResponse]] = {
        400: lambda one, path: client.call(one.method, path.partition("?")[0] + "?surprise=1"),
        401: lambda one, path: stranger.call(one.method, path),
        403: lambda one, path: viewer.call(one.method, path),
        404: lambda one, path: client.call(one.method, re.sub(r"(?<=[/=])1(?=/|$)", "999999", path)),
        409: lambda one, path: conflict(filled, client, one, path),
        413: lambda one, path: client.call(one.method, path, data="x" * 70_000, content_type="application/json"),
        415: lambda one, path: client.call(one.method, path, data="x", content_type="text/plain"),
        429: lambda one, path: exhausted(filled, client, one, path),
        500: lambda one, path: faulty(monkeypatch, client, one, path, broken),
        503: lambda one, path: faulty(monkeypatch, client, one, path, refused),
    }
    for one in OPERATIONS:
        documented = document["paths"][openapi.path_of(one)][one.method.lower()]["responses"]
        for status in (int(code) for code in documented if code >= "400"):
            with filled.app_context():
                limiter.reset()
            answer = tries[status](one, GOOD[one.name])
            assert answer.status_code == status, (one.name, status, answer.text)
            fitting(document, one, answer)


def conflict(app: Flask, client: Client, one: Operation, path: str) -> TestResponse:
    """Execution 1 has ended; node 1 cannot run while its OLT is disabled."""
    with written(app) as session:
        session.get_one(WorkflowNode, 1).workflow.olt.enabled = False
    return client.call(one.method, path)


def exhausted(app: Flask, client: Client, one: Operation, path: str) -> TestResponse:
    """The answer once the caller's budget is spent: it is spent in the store, as 600 requests would."""
    client.call(one.method, path)
    with app.app_context():
        store = limiter.storage
        assert isinstance(store, MemoryStorage)
        (key,) = [key for key in store.storage if "api-" in key]
        store.incr(key, 60, 1000)
    return client.call(one.method, path)


def faulty(
    monkeypatch: pytest.MonkeyPatch, client: Client, one: Operation, path: str, fault: Callable[..., None]
) -> TestResponse:
    """The answer while what the view asks is broken."""
    places = {
        "list_pollers": "portal.queries.pollers.rows", "show_queue": "portal.queries.queue.next_up",
        "show_stats": "portal.queries.pulse.read", "list_executions": "portal.queries.api.executions",
        "show_execution": "portal.queries.executions.get",
        "cancel_execution": "portal.services.dispatch.run_requests.cancel",
        "list_quotas": "portal.queries.quota_list.page", "show_quota": "portal.queries.quota_slots.get",
        "list_plans": "portal.queries.plans.of_olt", "show_feasibility": "portal.queries.feasibility.of_olt",
        "list_decisions": "portal.queries.decision_log.page", "explain_slot": "portal.queries.explain.explain",
        "show_ledger": "portal.queries.ledger.period",
        "list_violations": "portal.queries.violations.page", "show_violation": "portal.queries.violations.get",
        "run_node": "portal.services.dispatch.run_requests.run_now", "openapi": "portal.api.openapi.document",
    }  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(places[one.name], fault)
        return client.call(one.method, path)


@dataclass(frozen=True)
class Inner:
    """Inside."""

    at: datetime | None
    word: ExecutionStatus | None


@dataclass(frozen=True)
class Outer:
    """Outside."""

    inner: Inner | None
    many: Annotated[list[Inner], "Several."]
    loose: dict[str, Any] | None


def test_annotations_become_a_schema_and_values_fit_it() -> None:
    document = {"components": {"schemas": schema.components({Outer})}}
    outer = document["components"]["schemas"]["Outer"]
    assert document["components"]["schemas"].keys() == {"Inner", "Outer"}
    assert outer["properties"]["many"]["description"] == "Several."
    value = Outer(None, [Inner(datetime(2026, 1, 1, tzinfo=UTC), None)], {"x": 1})
    assert list(problems(outer, schema.to_json(value), document)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"inner": None, "many": []},
        {"inner": None, "many": None, "loose": None},
        {"inner": 5, "many": [], "loose": None},
        {"inner": None, "many": [], "loose": None, "more": 1},
        {"inner": None, "many": [{"at": "2026-01-01", "word": None}], "loose": None},
        {"inner": None, "many": [{"at": None, "word": "DONE"}], "loose": None},
    ],
)
def test_the_check_that_these_tests_use_finds_what_does_not_fit(wrong: dict[str, Any]) -> None:
    document = {"components": {"schemas": schema.components({Outer})}}
    assert list(problems(schema.component(Outer), wrong, document)) != []


def test_an_annotation_that_json_does_not_know_is_refused_when_the_document_is_made() -> None:
    with pytest.raises(TypeError, match="no JSON Schema"):
        schema.schema_of(bytes)
