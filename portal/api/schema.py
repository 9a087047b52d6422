"""Answers as data: a dataclass becomes JSON, and its annotations become its JSON Schema. Knows no route."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

REF = "#/components/schemas/"

_PLAIN: Mapping[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
}


def to_json(value: Any) -> Any:
    """`value` in the types of JSON: times as ISO 8601 in UTC with milliseconds, words as their value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def schema_of(kind: Any) -> Schema:
    """Schema of an annotation. A dataclass is referred to by name; `components` writes it out.

    TypeError for an annotation that no answer may have.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return schema_of(parts[0]) | {"description": parts[1]}
    if origin in (Union, UnionType):
        return _nullable(schema_of(next(part for part in parts if part is not NoneType)))
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1])}
    return _named(kind)


def _named(kind: Any) -> Schema:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if kind is Any:
        return {}
    if is_dataclass(kind) and isinstance(kind, type):
        return {"$ref": REF + kind.__name__}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"type": "string", "enum": [word.value for word in kind]}
    raise TypeError(f"no JSON Schema for {kind!r}")


def _nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    found = schema | {"type": [schema["type"], "null"]}
    return found | {"enum": [*schema["enum"], None]} if "enum" in schema else found


def component(kind: type[Any]) -> Schema:
    """A dataclass as an object whose fields are all there in each answer."""
    hints = get_type_hints(kind, include_extras=True)
    names = [item.name for item in fields(kind)]
    text = " ".join((kind.__doc__ or "").split())
    return {
        "type": "object",
        "description": text,
        "required": names,
        "additionalProperties": False,
        "properties": {name: schema_of(hints[name]) for name in names},
    }


def components(kinds: set[type[Any]]) -> dict[str, Schema]:
    """Name → schema of these dataclasses and of all that they hold."""
    found: dict[str, Schema] = {}
    todo = sorted(kinds, key=lambda kind: kind.__name__)
    while todo:
        kind = todo.pop()
        if kind.__name__ not in found:
            found[kind.__name__] = component(kind)
            todo += [part for hint in get_type_hints(kind, include_extras=True).values() for part in _held(hint)]
    return dict(sorted(found.items()))


def _held(hint: Any) -> list[type[Any]]:
    if isinstance(hint, type) and is_dataclass(hint):
        return [hint]
    return [kind for part in get_args(hint) for kind in _held(part)]
