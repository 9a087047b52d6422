"""The decision log and explanations through the API: filters, paging, both languages, refusals, the document."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote

import pytest
from flask import Flask

from portal import clock
from portal.api import openapi
from portal.domain.statuses import EventType, SkipReason
from portal.services import decisions
from testing.api import Client, by_token, error_of, furnished, problems
from testing.web import written


@pytest.fixture
def api(app: Flask) -> Iterator[Client]:
    """Five skips of node 1, a minute apart, the last just now; and a loss without an OLT. As a viewer."""
    with written(furnished(app)) as session:
        now = clock.now().replace(microsecond=0)
        for minute in range(5, 0, -1):
            slot = now - timedelta(minutes=minute)
            details = {"slots": 1, "first": slot.isoformat(), "last": slot.isoformat()}
            decisions.record(
                session, EventType.SLOT_SKIPPED, "ONUs: skipped", slot, olt_id=1, node_id=1, scheduled_for=slot,
                reason=SkipReason.OLT_PAUSED, level="WARNING", details=details,
            )  # fmt: skip
        decisions.record(session, EventType.SYSTEM, "clock set back", now)
    yield by_token(app, "viewer")


def found(api: Client, query: str = "") -> list[str]:
    answer = api.get(f"/logs/{query}")
    assert answer.status_code == 200, answer.text
    assert list(problems(openapi.document()["components"]["schemas"]["DecisionList"], answer.get_json(),
                         openapi.document())) == []  # fmt: skip
    return [item["message"] for item in answer.get_json()["items"]]


def test_decisions_come_newest_first(api: Client) -> None:
    assert found(api) == ["clock set back", *["ONUs: skipped"] * 5]


@pytest.mark.parametrize(
    ("query", "count"),
    [("?level=warning", 5), ("?type=SYSTEM", 1), ("?olt=1", 5), ("?node=1", 5), ("?olt=2", 0), ("?text=CLOCK", 1),
     ("?since=2099-01-01T00:00:00Z", 0), ("?until=2099-01-01T00:00:00Z", 6), ("?type=SLOT_SKIPPED&level=info", 0)],
)  # fmt: skip
def test_filters(api: Client, query: str, count: int) -> None:
    assert len(found(api, query)) == count


@pytest.mark.parametrize("query", ["?limit=2", "?limit=2&level=warning", "?limit=2&text=skipped"])
def test_next_leads_through_all_of_them(api: Client, query: str) -> None:
    path, ids = f"/logs/{query}", []
    while path:
        body = api.get(path).get_json()
        ids += [item["id"] for item in body["items"]]
        path = body["next"]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) == (6 if query == "?limit=2" else 5)


@pytest.mark.parametrize("query", ["?level=loud", "?type=x", "?cursor=x", "?text=%07", "?since=10:05", "?other=1",
                                   "?until=0001-01-01T00:00:00Z"])  # fmt: skip
def test_what_is_wrong_is_named(api: Client, query: str) -> None:
    answer = api.get(f"/logs/{query}")
    assert (answer.status_code, list(error_of(answer)["fields"])) == (400, [query[1:].partition("=")[0]])


def test_an_explanation_in_english_and_spanish(api: Client) -> None:
    moment = quote((clock.now() - timedelta(minutes=2, seconds=30)).isoformat())
    answer = api.get(f"/explain/?node=1&at={moment}")
    body = answer.get_json()
    document = openapi.document()
    assert list(problems(document["components"]["schemas"]["Explanation"], body, document)) == []
    assert (body["verdict"], body["cause"], body["node_name"]) == ("skipped", "paused", "ONUs")
    assert "The OLT was paused. Since when is not recorded." in body["text"]
    assert [link["kind"] for link in body["links"]] == ["log"]
    assert api.get(body["links"][0]["url"]).get_json()["items"]
    assert "La OLT estaba en pausa." in api.get(f"/explain/?node=1&at={moment}&language=es").get_json()["text"]


def test_without_a_time_the_slot_before_now_is_explained(api: Client) -> None:
    assert api.get("/explain/?node=1").get_json()["verdict"] == "skipped"


@pytest.mark.parametrize(("query", "status"), [("", 400), ("?node=99", 404), ("?node=x", 400), ("?node=1&at=x", 400),
                                              ("?node=1&at=9999-12-31T23:59:59Z", 400)])  # fmt: skip
def test_what_cannot_be_explained_is_refused(api: Client, query: str, status: int) -> None:
    assert api.get(f"/explain/{query}").status_code == status
    error_of(api.get(f"/explain/{query}"))
