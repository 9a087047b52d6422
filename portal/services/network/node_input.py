"""A node as a form gives it, read into columns: of a workflow and of a template alike. No database."""

import re
from collections.abc import Mapping
from typing import Any

from portal.domain import node_fields
from portal.domain.fields import read_all
from portal.services.errors import Invalid

LONGEST_MADE_KEY = 60


def with_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with a key made from the name where none is given."""
    if str(fields.get("key") or "").strip():
        return dict(fields)
    made = re.sub(r"[^a-z0-9]+", "_", str(fields.get("name") or "").lower()).strip("_")
    return {**fields, "key": made[:LONGEST_MADE_KEY]}


def columns(fields: Mapping[str, Any], base: Mapping[str, Any] | None, *, chained: bool) -> dict[str, Any]:
    """All columns; what `fields` leaves out is as in `base`. Invalid names each wrong field."""
    given = {name: value for name, value in fields.items() if name != "master_id"}
    values, errors = read_all(node_fields.READERS, given)
    complete, missing = node_fields.complete(values, base, chained=chained)
    if errors or missing:
        raise Invalid({**missing, **errors})
    return complete
