"""The page of the decision log: filters, paging, JSON that opens; live; untrusted text stays text. And explanations."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event

from portal import clock
from portal.domain.messages import N_
from portal.domain.statuses import EventType, SkipReason
from portal.extensions import db
from portal.queries import decision_log
from portal.services import decisions
from portal.web import words
from testing import builders, seed
from testing.pages import Visitor, element, missing, soup, text_of, texts, title_of
from testing.web import english, statements, written


@pytest.fixture
def built(app: Flask) -> Iterator[Flask]:
    """OLT-A and OLT-B; 60 skips of the first each minute, then one error of the second."""
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_node(builders.make_olt("OLT-A"), name="ONUs")
        builders.make_olt("OLT-B")
    for number in range(60, 0, -1):
        decide(app, number, "ONUs: skipped, the OLT is paused", olt_id=1, node_id=1, level="WARNING",
               reason=SkipReason.OLT_PAUSED)  # fmt: skip
    decide(app, 0, "lost: <b>é%_</b>", EventType.WORKER_LOST, olt_id=2, level="ERROR", details={"why": "<script>"})
    yield app


def decide(app: Flask, minutes: float, message: str, event: EventType = EventType.SLOT_SKIPPED, **fields: Any) -> None:
    moment = clock.now() - timedelta(minutes=minutes)
    if event is EventType.SLOT_SKIPPED:
        details = {"slots": 1, "first": moment.isoformat(), "last": moment.isoformat()}
        fields = {"scheduled_for": moment, "details": details} | fields
    with written(app) as session:
        decisions.record(session, event, message, moment, **fields)


@contextmanager
def watched(seen: list[str]) -> Iterator[None]:
    """SQL statements are noted in `seen`."""

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    yield
    event.remove(db.engine, "before_cursor_execute", note)


def rows(person: Visitor, query: str = "") -> list[str]:
    return texts(person.get(f"/log/{query}"), "tbody tr")


def test_the_newest_decision_comes_first_with_its_words_and_its_json(built: Flask) -> None:
    page = english(built, "viewer").get("/log/")
    first = soup(page).select("tbody tr")[0]
    text = text_of(first)
    assert title_of(page) == "Decision log"
    assert missing(text, "Error Poller lost OLT-B", '"why": "<script>"') == []
    assert "<b>é" not in page.text
    assert first.select("details pre")


def test_a_decision_is_told_in_the_language_of_the_reader_and_stored_in_english(built: Flask) -> None:
    told = N_("given up after %(count)d lost workers; last: %(message)s", count=3, message=N_("its OLT was disabled"))
    decide(built, 0, told, EventType.POISONED, olt_id=1, details={"losses": 3})
    text = text_of(english(built).get("/log/"))
    assert "given up after 3 lost workers; last: its OLT was disabled" in text
    assert '"msgid"' not in text
    with built.test_request_context(headers={"Accept-Language": "es"}):
        built.preprocess_request()
        row = decision_log.page(decision_log.Filter(event=EventType.POISONED)).rows[0]
        assert (row.message, row.details) == (str(told), {"losses": 3})
        assert words.decided(row) == "abandonada tras 3 pollers perdidos; el último: su OLT se deshabilitó"
        skip = decision_log.page(decision_log.Filter(event=EventType.SLOT_SKIPPED)).rows[0]
        assert words.decided(skip).startswith("ONUs: ")
        assert "skipped" not in words.decided(skip)


def test_a_skip_is_told_by_its_reason_and_can_be_explained(built: Flask) -> None:
    person = english(built)
    row = soup(person.get("/log/")).select("tbody tr")[1]
    assert "The OLT was paused" in row.get_text()
    link = element(row, "a[data-explain]")
    assert "The OLT was paused. Since when is not recorded." in text_of(person.get(str(link["href"])))


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 50),
        ("?level=ERROR", 1),
        ("?level=WARNING&olt=2", 0),
        ("?type=WORKER_LOST", 1),
        ("?type=SLOT_SKIPPED&level=WARNING", 50),
        ("?type=WORKER_LOST&level=INFO", 0),
        ("?olt=1", 50),
        ("?olt=2", 1),
        ("?olt=2&q=LOST", 1),
        ("?q=lost", 1),
        ("?q=é%25_", 1),
        ("?q=%25", 1),
        ("?q=nothing", 0),
        ("?node=1", 50),
        ("?node=2", 0),
        ("?window=1h&level=ERROR", 1),
        ("?olt=x&level=LOUD&type=NONE&window=9y&since=when&until=", 50),
    ],
)
def test_filters_leave_what_they_name(built: Flask, query: str, count: int) -> None:
    assert len(rows(english(built), query)) == count


def test_a_window_of_time_holds_what_happened_in_it(built: Flask) -> None:
    now = clock.now()
    since, until = (f"{now - timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}" for m in (20.5, 10.5))
    person = english(built)
    assert len(rows(person, f"?since={since}&until={until}")) == 10
    assert len(rows(person, f"?since={since}&until={until}&olt=1")) == 10
    assert rows(person, "?since=2001-01-01T00:00:00Z&until=2001-01-02T00:00:00Z") == []
    assert rows(person, "?since=2099-01-01T00:00:00Z") == []


def test_a_row_that_was_committed_late_is_in_its_window_though_its_id_is_not(built: Flask) -> None:
    decide(built, 15, "late")
    now = clock.now()
    since, until = (f"{now - timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}" for m in (20.5, 10.5))
    assert len(rows(english(built), f"?since={since}&until={until}")) == 11


@pytest.mark.parametrize("query", ["?", "?olt=1&", "?level=WARNING&"])
def test_pages_follow_each_other_without_a_gap_and_back(built: Flask, query: str) -> None:
    person = english(built)
    first = soup(person.get(f"/log/{query}"))
    older = element(first, "a[rel=next]")
    second = soup(person.get(str(older["href"])))
    ids = [row["id"] for page in (first, second) for row in page.select("tbody tr")]
    assert len(ids) == len(set(ids)) == (61 if query == "?" else 60)
    newer = element(second, "a[rel=prev]")
    assert [row["id"] for row in soup(person.get(str(newer["href"]))).select("tbody tr")] == ids[:50]


def test_the_page_stands_still_until_it_is_followed(built: Flask) -> None:
    person = english(built, "viewer")
    still = soup(person.get("/log/?olt=1"))
    toggle = element(still, "[data-follow]")
    assert (still.select("#log_live[hx-get]"), toggle.get_text(strip=True)) == ([], "Follow")
    followed = soup(person.get(str(toggle["href"])))
    toggle = element(followed, "[data-follow]")
    assert followed.select_one("#log_live[hx-get*='olt=1']")
    assert (toggle.get_text(strip=True), toggle["href"]) == ("Stop following", "/log/?olt=1")


def test_paging_back_ends_the_following(built: Flask) -> None:
    person = english(built)
    older = element(person.get("/log/?follow=1"), "a[rel=next]")
    assert "follow" not in str(older["href"])
    assert soup(person.get(f"{older['href']}&follow=1")).select("#log_live[hx-get], #log_new") == []


def test_a_followed_page_answers_204_while_nothing_happens(built: Flask) -> None:
    person = english(built)
    answer = person.fragment("/log/?follow=1", "log_live")
    same = person.fragment("/log/?follow=1", "log_live", answer.headers["X-Digest"])
    assert (answer.status_code, same.status_code) == (200, 204)
    decide(built, 0, "new")
    assert person.fragment("/log/?follow=1", "log_live", answer.headers["X-Digest"]).status_code == 200


def test_whoever_knows_the_newest_decision_costs_no_look_at_the_rows(built: Flask) -> None:
    built.config["LIVE_SHARED"] = False
    person = english(built)
    path, headers = "/log/?follow=1&q=nothing", {"HX-Request": "true", "HX-Target": "log_live"}
    known = person.client.get(path, headers=headers).headers["X-Newest"]
    seen: list[str] = []
    with built.app_context(), watched(seen):
        answer = person.client.get(path, headers=headers | {"X-Newest": known})
    assert answer.status_code == 204
    assert [one for one in seen if "coordinator_logs" in one] == [
        "SELECT max(coordinator_logs.id) AS max_1 \nFROM coordinator_logs"
    ]
    decide(built, 0, "new")
    assert person.client.get(path, headers=headers | {"X-Newest": known}).status_code == 200


def test_a_search_over_all_olts_says_how_far_back_it_went(built: Flask) -> None:
    decide(built, 60 * 30, "ONUs: long ago", olt_id=1)
    until = f"{clock.now() - timedelta(hours=29):%Y-%m-%dT%H:%M:%SZ}"
    person = english(built)
    assert "Searched back to" in text_of(person.get("/log/?q=ago"))
    assert len(rows(person, "?q=ago")) == 0
    assert len(rows(person, "?q=ago&window=7d")) == 0
    assert "Searched back to" in text_of(person.get("/log/?q=ago&window=7d"))
    assert len(rows(person, "?q=ago&olt=1")) == len(rows(person, f"?q=ago&until={until}")) == 1


def test_the_page_costs_the_same_statements_whatever_the_rows(built: Flask) -> None:
    person = english(built)
    assert statements(built, person, "/log/?level=ERROR") == statements(built, person, "/log/")


@pytest.mark.parametrize("event", EventType)
def test_every_event_has_its_face(event: EventType) -> None:
    assert words.face(event).label


def test_an_empty_log_says_what_will_be_here(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
    assert "Nothing had to be decided yet" in text_of(english(app).get("/log/"))


# -- the page of an explanation


def test_an_explanation_is_a_page_and_the_body_of_a_dialog(built: Flask) -> None:
    person = english(built, "viewer")
    moment = f"{clock.now() - timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"
    page = person.get(f"/explain/?node=1&at={moment}")
    assert title_of(page) == "ONUs on OLT-A"
    assert "did not run at" in text_of(page)
    assert soup(page).select_one('#explain_body a[href^="/log/?olt=1&since="]')
    part = person.fragment(f"/explain/?node=1&at={moment}", "explain_body")
    assert (part.status_code, "<html" in part.text, "did not run at" in part.text) == (200, False, True)


def test_the_link_to_the_log_of_that_time_leads_to_its_decisions(built: Flask) -> None:
    person = english(built)
    moment = f"{clock.now() - timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"
    link = element(person.get(f"/explain/?node=1&at={moment}"), '#explain_body a[href^="/log/"]')
    found = soup(person.get(str(link["href"]))).select("tbody tr")
    assert 1 <= len(found) <= 4


@pytest.mark.parametrize("query", ["?node=99", "?node=x", f"?node={2**40}"])
def test_there_is_no_explanation_of_a_node_that_is_not_there(built: Flask, query: str) -> None:
    assert english(built).get(f"/explain/{query}").status_code == 404


@pytest.mark.parametrize("at", ["", "now", "2026-99-99T00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00",
                                "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])  # fmt: skip
def test_a_time_that_means_nothing_is_now(built: Flask, at: str) -> None:
    assert english(built).get(f"/explain/?node=1&at={at}").status_code == 200


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_filter_far_outside_of_the_calendar_is_left_out(built: Flask, name: str, at: str) -> None:
    assert len(rows(english(built), f"?{name}={at}")) == len(rows(english(built)))
    assert english(built).get(f"/log/?q=x&{name}={at}").status_code == 200


def test_without_a_node_the_decision_log_is_shown(built: Flask) -> None:
    assert english(built).get("/explain/").headers["Location"] == "/log/"
