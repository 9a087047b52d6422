"""Quotas, violations, decisions and explanations over the API: lists, one of each, filters, pages, refusals."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from portal import clock
from portal.api import openapi
from portal.domain.quota import Counts
from portal.domain.statuses import EventType, LossCause, QuotaStatus, Severity, SkipReason
from portal.extensions import db
from portal.services import decisions
from portal.web.words import face
from testing import seed_quotas
from testing.api import Client, by_token, error_of, every_page, furnished, problems, refused_fields
from testing.builders import make_node, make_olt
from testing.cast import HOUR, TEN
from testing.web import written
from tests.integration.test_quota_queries import add, add_violation


@pytest.fixture
def filled(app: Flask) -> Flask:
    """Quotas 1 to 4 and violations 1 to 3 of two OLTs in two hours."""
    with app.app_context():
        lima, cusco = make_olt().id, make_olt("OLT-CUSCO").id
        add(lima, "get_rx", TEN, Counts(completed=2, failed=2), QuotaStatus.QUOTA_NOT_MET)
        add(lima, "discovery", TEN + HOUR, Counts(completed=4), QuotaStatus.COMPLETED)
        add(cusco, "get_rx", TEN, Counts(completed=12), QuotaStatus.COMPLETED)
        add(cusco, "get_rx", TEN + HOUR, Counts(pending=12))
        add_violation(lima, "get_rx", TEN, Severity.HIGH, notified=True, notified_at=TEN + HOUR)
        add_violation(cusco, "get_rx", TEN - HOUR, Severity.LOW)
        add_violation(lima, "discovery", TEN - 2 * HOUR, Severity.CRITICAL)
    return app


@pytest.fixture
def client(filled: Flask) -> Client:
    """The lowest role: it may read all of it."""
    return by_token(filled, "viewer")


def ids(body: dict[str, Any]) -> list[int]:
    return [one["id"] for one in body["items"]]


LISTS: tuple[tuple[str, list[int]], ...] = (
    ("/quotas/", [4, 2, 3, 1]),
    ("/quotas/?olt=1", [2, 1]),
    ("/quotas/?status=completed", [2, 3]),
    ("/quotas/?status=COMPLETED&olt=2", [3]),
    ("/quotas/?task_type=get_rx&since=2026-11-27T00:00:00Z", [4, 3, 1]),
    ("/quotas/?task_type=get_rx&until=2026-11-27T11:00:00Z", [3, 1]),
    ("/quotas/?task_type=get_rx&olt=1", [1]),
    ("/quotas/?since=2026-11-27T11:00:00Z", [4, 2]),
    ("/quotas/?until=2026-11-27T11:00:00Z", [3, 1]),
    ("/violations/", [3, 2, 1]),
    ("/violations/?severity=high", [1]),
    ("/violations/?olt=1", [1, 3]),
    ("/violations/?notified=false", [3, 2]),
    ("/violations/?notified=true&olt=1", [1]),
    ("/violations/?acknowledged=true", []),
    ("/violations/?acknowledged=false", [3, 2, 1]),
    ("/violations/?since=2026-11-27T09:00:00Z&until=2026-11-27T10:00:00Z", [2]),
    ("/violations/?task_type=discovery", [3]),
)


def test_the_lists_are_newest_first_and_filters_add_up(client: Client) -> None:
    for path, wanted in LISTS:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert ids(answer.get_json()) == wanted, path


@pytest.mark.parametrize("path", ["/quotas/", "/quotas/?status=COMPLETED", "/violations/", "/violations/?olt=1"])
def test_next_leads_through_all_pages_and_keeps_the_filters(client: Client, path: str) -> None:
    assert every_page(client, f"{path}{'&' if '?' in path else '?'}limit=1") == ids(client.get(path).get_json())


def test_a_quota_adds_up_and_says_all_of_itself(client: Client) -> None:
    one = client.get("/quotas/?olt=1&status=QUOTA_NOT_MET").get_json()["items"][0]
    assert one["required"] == one["completed"] + one["failed"] + one["skipped"] + one["pending"] == 4
    assert (one["olt_name"], one["period_start"], one["at_risk"]) == ("OLT-LIMA", "2026-11-27T10:00:00.000Z", False)


def test_one_quota_and_one_violation_show_their_slots(app: Flask) -> None:
    with app.app_context():
        seed_quotas.fill_one(db.session(), make_node(make_olt()), clock.now())
        db.session.commit()
    client = by_token(app, "viewer")
    quota, broken = client.get("/quotas/1/").get_json(), client.get("/violations/1/").get_json()
    assert [one["lost_to"] for one in quota["slots"]] == [None, None, "timeout", "olt_busy"]
    assert (quota["violation_id"], broken["quota_id"]) == (1, 1)
    assert quota["basis"][0]["interval_seconds"] == 900
    assert broken["lost"] == quota["lost"] == {"timeout": 1, "olt_busy": 1}
    assert sum(broken["lost"].values()) == broken["required"] - broken["completed"] == len(broken["lost_slots"])


BAD = (
    "/quotas/?status=GONE", "/quotas/?olt=x", "/quotas/?task_type=", "/quotas/?task_type=%00", "/quotas/?since=now",
    "/quotas/?limit=0", "/quotas/?cursor=x", "/quotas/?surprise=1", "/violations/?notified=perhaps",
    "/violations/?severity=BAD", "/violations/?cursor=WzAsNSw1XQ", "/violations/?acknowledged=1",
)  # fmt: skip


def test_what_is_wrong_is_named(client: Client) -> None:
    for path in BAD:
        assert refused_fields(client, path) == [path.partition("?")[2].partition("=")[0]], path


def test_a_cursor_of_another_list_is_refused(client: Client) -> None:
    following = client.get("/violations/?olt=1&limit=1").get_json()["next"]
    cursor = following.partition("cursor=")[2].partition("&")[0]
    assert client.get(f"/violations/?cursor={cursor}").status_code == 400


def test_a_cursor_of_a_list_in_another_order_is_refused(client: Client) -> None:
    cursor = client.get("/quotas/?limit=1").get_json()["next"].partition("cursor=")[2].partition("&")[0]
    assert client.get(f"/quotas/?olt=1&cursor={cursor}").status_code == 200
    assert "other arguments" in error_of(client.get(f"/quotas/?status=COMPLETED&cursor={cursor}"))["fields"]["cursor"]


def test_a_bounded_list_says_since_when_and_keeps_to_it(client: Client) -> None:
    body = client.get("/quotas/?task_type=get_rx&until=2026-11-27T12:00:00Z&limit=1").get_json()
    assert body["since"] == "2026-11-26T13:00:00.000Z"
    assert client.get(body["next"]).get_json()["since"] == body["since"]
    assert client.get("/quotas/").get_json()["since"] is None


def test_each_cause_has_a_word_of_its_own() -> None:
    assert len({face(one).label for one in LossCause}) == len(LossCause)


def test_what_never_was_is_not_found(client: Client) -> None:
    assert [client.get(path).status_code for path in ("/quotas/99/", "/violations/99/")] == [404, 404]


@pytest.fixture
def api(app: Flask) -> Client:
    """Five skips of node 1, a minute apart, the last just now; and a loss without an OLT. As a viewer."""
    with written(furnished(app)) as session:
        now = clock.now().replace(microsecond=0)
        for minute in range(5, 0, -1):
            slot = now - timedelta(minutes=minute)
            details = {"slots": 1, "first": slot.isoformat(), "last": slot.isoformat()}
            decisions.record(session, EventType.SLOT_SKIPPED, "ONUs: skipped", slot, olt_id=1, node_id=1,
                             scheduled_for=slot, reason=SkipReason.OLT_PAUSED, level="WARNING",
                             details=details)  # fmt: skip
        decisions.record(session, EventType.SYSTEM, "clock set back", now)
    return by_token(app, "viewer")


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
def test_filters_of_decisions(api: Client, query: str, count: int) -> None:
    assert len(found(api, query)) == count


@pytest.mark.parametrize("query", ["?limit=2", "?limit=2&level=warning", "?limit=2&text=skipped"])
def test_next_leads_through_all_decisions(api: Client, query: str) -> None:
    ids = every_page(api, f"/logs/{query}")
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) == (6 if query == "?limit=2" else 5)


@pytest.mark.parametrize("query", ["?level=loud", "?type=x", "?cursor=x", "?text=%07", "?since=10:05", "?other=1",
                                   "?until=0001-01-01T00:00:00Z"])  # fmt: skip
def test_what_is_wrong_with_a_look_at_decisions_is_named(api: Client, query: str) -> None:
    assert refused_fields(api, f"/logs/{query}") == [query[1:].partition("=")[0]]


def test_an_explanation_in_english_and_spanish(api: Client) -> None:
    moment = quote((clock.now() - timedelta(minutes=2, seconds=30)).isoformat())
    body = api.get(f"/explain/?node=1&at={moment}").get_json()
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
