"""Fields of the catalogue as a form gives them → entries of a catalogue document, or what is wrong with them. Pure.

The document's own rules (portal.domain.catalogue_data.parse) come after: here text becomes numbers and lists.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from portal.domain import fields, oid_text, units
from portal.domain.catalogue_data import MAX_SAFE_INTERVAL, Access, Confidence, OidData, Shape, is_secret
from portal.domain.fields import FieldError, Reader, shown
from portal.domain.formulas import KINDS
from portal.domain.messages import N_, Message
from portal.domain.readings import ValueType
from portal.domain.statuses import NodeKind

FARTHEST = 1e15  # of any number in a decoding
LONGEST_DEFINITION = 10_000

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)


def name(value: object) -> str:
    """Lower-case letters, digits and _."""
    text = str(value or "").strip()
    if not _NAME.fullmatch(text):
        raise FieldError(N_("must be lower-case letters, digits and _, such as onu_rx_power, not %(given)s",
                            given=shown(text or "nothing")))  # fmt: skip
    return text


def words(value: object) -> list[str]:
    """Names with commas between."""
    return [part.strip() for part in str(value or "").split(",") if part.strip()]


def column(value: object) -> str:
    """A dotted OID in its normal form, that is no secret."""
    try:
        oid = oid_text.normalise(str(value or ""))
    except ValueError as error:
        raise FieldError(error.args[0]) from None
    if is_secret(oid):
        raise FieldError(N_("%(oid)s is or contains a column of customers' passwords, which is never read", oid=oid))
    return oid


def _numbers(value: object) -> list[int]:
    read = fields.whole(-(1 << 63), (1 << 64) - 1)
    return [_long(part) if _is_long(part) else read(part) for part in words(value)]


def _is_long(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{19,20}", text) is not None


def _long(text: str) -> int:
    """18446744073709551615 is a usual "no value" of 64-bit counters (quirk 47)."""
    return int(text)


_access = fields.choice(Access)

OID_READERS: Mapping[str, Reader] = {
    "name": name,
    "models": words,
    "oid": column,
    "shape": fields.choice(Shape),
    "kind": fields.choice(NodeKind),
    "type": fields.choice(ValueType),
    "scale": fields.number(-FARTHEST, FARTHEST),
    "offset": fields.number(-FARTHEST, FARTHEST),
    "signed_bits": fields.whole(0, 64),
    "sentinels": _numbers,
    "minimum": fields.optional(fields.number(-FARTHEST, FARTHEST)),
    "maximum": fields.optional(fields.number(-FARTHEST, FARTHEST)),
    "unit": fields.one_line(20),
    "states": fields.one_line(60),
    "formula": fields.one_line(60),
    "formulas": words,
    "by_name": fields.flag,
    "dead_band": fields.optional(fields.number(0, FARTHEST)),
    "access": lambda value: _access(value or ""),  # a field that was not sent means "any"
    "metric": fields.optional(name),
    "zero_unsupported": fields.flag,
    "index_suffix": fields.one_line(40),
    "safe_interval": fields.optional(fields.duration(1, MAX_SAFE_INTERVAL)),
    "source": fields.one_line(255, required=True),
    "confidence": fields.choice(Confidence),
    "description": fields.one_line(255),
}


def _kind(value: object) -> str:
    if value not in KINDS:
        raise FieldError(
            N_("must be one of %(accepted)s, not %(given)s", accepted=", ".join(KINDS), given=shown(value))
        )
    return str(value)


def _definition(value: object) -> dict[str, Any]:
    text = str(value or "")
    if len(text) > LONGEST_DEFINITION:
        raise FieldError(N_("is longer than %(longest)d characters", longest=LONGEST_DEFINITION))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(N_("is no JSON: %(reason)s", reason=str(error))) from None
    if not isinstance(found, dict):
        raise FieldError(N_("must be a JSON object: { ... }"))
    return found


FORMULA_READERS: Mapping[str, Reader] = {"name": name, "kind": _kind, "definition": _definition}


def entry_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """What OID_READERS gave, as an entry of a document's `oids`."""
    entry = {key: value for key, value in values.items() if key != "access" and value is not None}
    if (access := values.get("access", Access.ANY)) is not Access.ANY:
        entry[f"{access.value}_only"] = True
    return entry


def entry_of_data(data: OidData) -> dict[str, Any]:
    """A row as an entry of a document's `oids`: what reading it again gives."""
    entry: dict[str, Any] = {
        "name": data.name, "models": list(data.models), "oid": data.oid, "shape": data.shape, "kind": data.kind,
        "type": data.type, "scale": data.scale, "offset": data.offset, "signed_bits": data.signed_bits,
        "sentinels": list(data.sentinels), "minimum": data.minimum, "maximum": data.maximum, "unit": data.unit,
        "states": data.states, "formula": data.formula, "formulas": list(data.candidates), "by_name": data.by_name,
        "dead_band": data.dead_band, "access": data.access, "metric": data.metric or None,
        "zero_unsupported": data.zero_unsupported, "index_suffix": data.index_suffix,
        "safe_interval": data.safe_interval, "source": data.source, "confidence": data.confidence,
        "description": data.description,
    }  # fmt: skip
    return entry_of(entry)


def wrong_unit(values: Mapping[str, Any]) -> Message | None:
    """Why numbers in the unit that OID_READERS gave cannot be kept under their name; None where they can."""
    metric, given = values.get("metric") or values["name"], values["unit"]
    kept = units.kept_in(metric, given)
    if values["type"] != ValueType.NUMBER or units.convertible(given, kept):
        return None
    return N_("%(metric)s is kept in %(unit)s: give %(accepted)s, and the scale that makes it so, not %(given)s",
              metric=metric, unit=kept, accepted=", ".join(units.accepted(kept)), given=shown(given))  # fmt: skip


def misplaced(message: str, prefix: str) -> tuple[str, Message]:
    """(field, what is wrong) from the words of a CatalogueError, without the place that a form has no use for."""
    text = message.removeprefix(prefix).split("): ", 1)[-1].removeprefix(": ")
    first = text.replace("'", "").split(" ", 1)[0]
    field = "formulas" if first == "formulas" else first
    return (field if field in OID_READERS else ""), N_("%(reason)s", reason=text)


def states_of(codes: list[str], labels: list[str], online: list[str]) -> tuple[dict[str, Any], dict[str, Message]]:
    """Rows of a form → the `states` of a state map. A row without a code is left out. Returns (states, errors)."""
    states: dict[str, Any] = {}
    errors: dict[str, Message] = {}
    for place, code in enumerate(codes):
        label, lit = (column[place] if place < len(column) else "" for column in (labels, online))
        if not code.strip() and not label.strip():
            continue
        try:
            number = str(fields.whole(-(1 << 31), (1 << 31) - 1)(code))
            text = fields.one_line(40, required=True)(label)
        except FieldError as error:
            errors[f"state-{place}"] = error.message
            continue
        if number in states:
            errors[f"state-{place}"] = N_("%(code)s is there twice, keep one", code=number)
        states[number] = {"label": text} | ({"online": lit == "yes"} if lit in ("yes", "no") else {})
    if not states and not errors:
        errors[""] = N_("give at least one state")
    return states, errors
