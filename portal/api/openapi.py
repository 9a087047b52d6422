"""The OpenAPI 3.1 document, made from the declarations of the views, so that it cannot say anything else."""

import re
from typing import Any

from portal.api import access
from portal.api.bodies import ErrorBody
from portal.api.errors import CODES
from portal.api.operations import OPERATIONS, Operation, Reply, operation
from portal.api.schema import REF, Schema, components
from portal.domain.statuses import Role

VERSION = "1.0"
LARGEST = 2**63 - 1

_PARAMETER = re.compile(r"<int(?:\(max=(\d+)\))?:(\w+)>")
_ABOUT = (
    "Times are ISO 8601 in UTC. Lists are {items, next}: follow next until it is null. Errors are"
    " {error: {code, message, fields}}. Addresses work with and without the slash at their end. Roles:"
    " viewer < operator < admin."
)


@operation("GET", "/openapi.json/", Role.VIEWER, "This document", {200: ("OpenAPI 3.1.", None)}, tag="About")
def openapi() -> Reply:
    """Describes all addresses, their arguments and their answers."""
    return Reply(document())


def document() -> dict[str, Any]:
    """The whole document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(path_of(one), {})[one.method.lower()] = _described(one)
    held = {body for one in OPERATIONS for _text, body in one.answers.values() if body} | {ErrorBody}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Facho Deluxe", "version": VERSION, "description": _ABOUT},
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components(held),
            "headers": {name: {"description": text, "schema": {"type": "integer"}} for name, text in _HEADERS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`flask token add NAME` makes one."},
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "session",
                    "description": "A login; what changes something also needs the header X-CSRFToken.",
                },
            },
        },
    }  # fmt: skip


_HEADERS = {
    "X-RateLimit-Limit": f"Budget of the caller: {access.READS} for reading, {access.WRITES} for the rest.",
    "X-RateLimit-Remaining": "What is left of it.",
    "X-RateLimit-Reset": "When it is full again, in seconds since 1970.",
}


def path_of(one: Operation) -> str:
    """Its address as OpenAPI writes it."""
    path = _PARAMETER.sub(r"{\2}", one.path)
    return path.rstrip("/") if path.endswith(".json/") else path


def _described(one: Operation) -> Schema:
    found: Schema = {
        "operationId": one.name,
        "summary": one.summary,
        "description": f"{one.description} Needs the role {one.role}.",
        "tags": [one.tag],
        "parameters": [*_in_path(one), *_in_query(one)],
        "responses": {str(status): _answer(*one.answers[status]) for status in sorted(one.answers)}
        | {str(status): _error(status) for status in errors_of(one)},
    }
    if one.method not in access.SAFE:
        empty = {"type": "object", "additionalProperties": False}
        found["requestBody"] = {"required": False, "content": {"application/json": {"schema": empty}}}
    return found


def errors_of(one: Operation) -> list[int]:
    """Statuses of the errors it can answer."""
    usual = {400, 401, 429, 500, 503}  # 400: an argument that does not exist is named, not ignored
    for_role = {403} if one.role is not Role.VIEWER else set()
    for_body = {413, 415} if one.method not in access.SAFE else set()
    return sorted(usual | for_role | for_body | set(one.errors))


def _in_path(one: Operation) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _number(int(high or LARGEST))}
        for high, name in _PARAMETER.findall(one.path)
    ]


def _number(high: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": high}


def _in_query(one: Operation) -> list[Schema]:
    return [
        {"name": arg.name, "in": "query", "required": False, "description": arg.description, "schema": arg.schema}
        for arg in one.args
    ]


def _content(schema: Schema) -> Schema:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
    return {"headers": headers, "content": {"application/json": {"schema": schema}}}


def _answer(text: str, body: type[Any] | None) -> Schema:
    schema = {"$ref": REF + body.__name__} if body else {"type": "object"}
    return {"description": text} | _content(schema)


def _error(status: int) -> Schema:
    return {"description": CODES[status][1]} | _content({"$ref": REF + ErrorBody.__name__})
