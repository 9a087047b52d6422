"""Quotas and violations over the API: lists, one of each, filters, pages, roles."""

from typing import Any

import pytest
from flask import Flask

from portal import clock
from portal.domain.quota import Counts
from portal.domain.statuses import QuotaStatus, Severity
from portal.extensions import db
from testing import seed_quotas
from testing.api import Client, by_token, error_of
from testing.builders import make_node, make_olt
from testing.cast import HOUR, TEN
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
        db.session.remove()
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
    whole, seen = ids(client.get(path).get_json()), list[int]()
    following: str | None = f"{path}{'&' if '?' in path else '?'}limit=1"
    while following:
        body = client.get(following).get_json()
        seen, following = seen + ids(body), body["next"]
    assert seen == whole


def test_a_quota_adds_up_and_says_all_of_itself(client: Client) -> None:
    one = client.get("/quotas/?olt=1&status=QUOTA_NOT_MET").get_json()["items"][0]
    assert one["required"] == one["completed"] + one["failed"] + one["skipped"] + one["pending"] == 4
    assert (one["olt_name"], one["period_start"], one["at_risk"]) == ("OLT-LIMA", "2026-11-27T10:00:00.000Z", False)


def test_one_quota_and_one_violation_show_their_slots(app: Flask) -> None:
    with app.app_context():
        seed_quotas.fill_one(db.session(), make_node(make_olt()), clock.now())
        db.session.commit()
        db.session.remove()
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
        answer = client.get(path)
        assert answer.status_code == 400, path
        assert list(error_of(answer)["fields"]) == [path.partition("?")[2].partition("=")[0]], path


def test_a_cursor_of_another_list_is_refused(client: Client) -> None:
    following = client.get("/violations/?olt=1&limit=1").get_json()["next"]
    cursor = following.partition("cursor=")[2].partition("&")[0]
    assert client.get(f"/violations/?cursor={cursor}").status_code == 400


def test_a_cursor_of_a_list_in_another_order_is_refused(client: Client) -> None:
    following = client.get("/quotas/?limit=1").get_json()["next"]
    cursor = following.partition("cursor=")[2].partition("&")[0]
    assert client.get(f"/quotas/?olt=1&cursor={cursor}").status_code == 200
    error = error_of(client.get(f"/quotas/?status=COMPLETED&cursor={cursor}"))
    assert "other arguments" in error["fields"]["cursor"]


def test_a_bounded_list_says_since_when_and_keeps_to_it(client: Client) -> None:
    body = client.get("/quotas/?task_type=get_rx&until=2026-11-27T12:00:00Z&limit=1").get_json()
    assert body["since"] == "2026-11-26T13:00:00.000Z"
    assert client.get(body["next"]).get_json()["since"] == body["since"]
    assert client.get("/quotas/").get_json()["since"] is None


def test_what_never_was_is_not_found(client: Client) -> None:
    assert [client.get(path).status_code for path in ("/quotas/99/", "/violations/99/")] == [404, 404]
