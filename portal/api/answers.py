"""How an answer is written: JSON from a dataclass, in the order of its fields."""

import json
from collections.abc import Mapping
from typing import Any

from flask import Response

from portal.api.schema import to_json


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response that holds `body`, a dataclass or plain JSON."""
    text = json.dumps(to_json(body), ensure_ascii=False, allow_nan=False) + "\n"
    # "replace": a name in a request's JSON may hold half a character, which the error repeats.
    return Response(text.encode("utf-8", "replace"), status, dict(headers or {}), mimetype="application/json")
