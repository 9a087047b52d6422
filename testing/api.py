"""What the tests of the API share: a client with a token or a session, seeded rows, and a check of JSON Schemas."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from portal import clock
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus, StepStatus
from portal.extensions import db
from portal.services.people import tokens
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, WorkflowNode
from testing import seed
from testing.builders import make_execution, make_node, make_olt, make_poller, make_pool
from testing.pages import Visitor

ROOT = "/api/v1"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def furnished(app: Flask) -> Flask:
    """The app with users, OLT 1 with node 1 (a master), execution 1 of it (failed), and poller 1 of pool 1."""
    with app.app_context():
        moment = clock.now()
        seed.add_users(moment)
        node = make_node(make_olt(now=moment), now=moment, name="ONUs")
        ended(node, moment - timedelta(minutes=5))
        make_poller(make_pool(moment))
        db.session.remove()
    return app


def ended(node: WorkflowNode, slot: datetime, **fields: Any) -> Execution:
    """An execution of `node` that failed after one try of one step, unless `fields` say otherwise."""
    step = ExecutionStep(position=0, node_id=node.id, node_key=node.key, status=StepStatus.FAILED, started_at=slot,
                         duration_ms=4000, pdus=3, timeouts=3, error_kind=ErrorKind.TIMEOUT,
                         error_message="no answer")  # fmt: skip
    common = {"worker": "w1", "started_at": slot, "finished_at": slot + timedelta(seconds=4), "duration_ms": 4000,
              "error_kind": ErrorKind.TIMEOUT, "error_message": "no answer"}  # fmt: skip
    attempt = ExecutionAttempt(number=1, token=7, status=AttemptStatus.FAILED, steps=[step], **common)
    given = common | {
        "status": ExecutionStatus.FAILED, "attempt": 1, "delay_ms": 20, "attempts": [attempt],
        "result": {"steps": 1, "completed_steps": 0},
    }  # fmt: skip
    return make_execution(node, slot, **given | fields)


class Client:
    """Calls the API below /api/v1, with a token unless `text` is empty."""

    def __init__(self, app: Flask, text: str = "") -> None:
        self.http = app.test_client()
        self.headers = {"Authorization": f"Bearer {text}"} if text else {}

    def call(self, method: str, path: str, **options: Any) -> TestResponse:
        """Any request."""
        headers = self.headers | options.pop("headers", {})
        where = path if path.startswith("/api") else ROOT + path
        return self.http.open(where, method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        """GET."""
        return self.call("GET", path, **options)

    def post(self, path: str, **options: Any) -> TestResponse:
        """POST."""
        return self.call("POST", path, **options)


def make_token(app: Flask, role: str = "operator", name: str = "") -> str:
    """The clear text of a new token."""
    with app.app_context():
        return tokens.create(name or role, role, "cli", clock.now())


def by_token(app: Flask, role: str = "operator", name: str = "") -> Client:
    """A client with a new token of that role; a name (default: the role) is taken once per database."""
    return Client(app, make_token(app, role, name))


def by_session(app: Flask, username: str = "operator") -> tuple[Client, str]:
    """(client that is logged in, its CSRF token)."""
    person = Visitor(app)
    assert person.login(username).status_code == 303
    client = Client(app)
    client.http = person.client
    return client, person.token


def error_of(answer: TestResponse) -> dict[str, Any]:
    """The error in an answer, once its shape is what it must be."""
    assert answer.mimetype == "application/json", answer.text[:200]
    body = answer.get_json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "fields"]
    assert all(isinstance(body["error"][name], str) and body["error"][name] for name in ("code", "message"))
    found: dict[str, Any] = body["error"]
    return found


def refused_fields(client: Client, path: str) -> list[str]:
    """What the API says is wrong with the arguments of a GET."""
    answer = client.get(path)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid"), (path, answer.text)
    return list(error_of(answer)["fields"])


def every_page(client: Client, path: str) -> list[int]:
    """The ids of a whole list, page after page."""
    found: list[int] = []
    following: str | None = path
    while following:
        body = client.get(following).get_json()
        found, following = found + [item["id"] for item in body["items"]], body["next"]
    return found


def problems(schema: dict[str, Any], value: Any, document: dict[str, Any], where: str = "$") -> Iterator[str]:
    """Where `value` breaks `schema`: the part of JSON Schema that the API's document uses, and no more."""
    unknown = set(schema) - {
        "$ref", "anyOf", "type", "enum", "format", "description", "properties", "required", "additionalProperties",
        "items",
    }  # fmt: skip
    if unknown:
        yield f"{where}: the test does not know {unknown}"
    if "$ref" in schema:
        yield from problems(_resolved(schema["$ref"], document), value, document, where)
    if "anyOf" in schema and all(list(problems(one, value, document, where)) for one in schema["anyOf"]):
        yield f"{where}: fits none of anyOf"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{where}: {value!r} is not {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if schema.get("format") == "date-time" and value is not None and not TIME.fullmatch(value):
        yield f"{where}: {value!r} is not a time"
    yield from _inside(schema, value, document, where)


def _is(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    return any(isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)


def _inside(schema: dict[str, Any], value: Any, document: dict[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(schema.get("items", {}), item, document, f"{where}[{number}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        other = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in known:
                yield from problems(known[name], item, document, f"{where}.{name}")
            elif other is False:
                yield f"{where}: {name} is not documented"
            elif isinstance(other, dict):
                yield from problems(other, item, document, f"{where}.{name}")


def _resolved(reference: str, document: dict[str, Any]) -> dict[str, Any]:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, dict)
    return found
