"""The page of the decision log: filters, paging, JSON that opens, live; explanations of slots and the links to them."""

from datetime import timedelta
from typing import Any

import pytest
from bs4 import Tag
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.messages import N_
from portal.domain.statuses import EventType, ExecutionStatus, SkipReason, Trigger
from portal.queries import decision_log
from portal.services import decisions
from portal.tables import Execution
from portal.web import words
from testing import builders, seed
from testing.databases import Databases
from testing.pages import Visitor, element, missing, soup, text_of, texts, title_of
from testing.web import english, noted, row_of, statements, stored, update_rows, written


def an_hour_of_skips(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_node(builders.make_olt("OLT-A"), name="ONUs")
        builders.make_olt("OLT-B")
    skip = {"olt_id": 1, "node_id": 1, "level": "WARNING", "reason": SkipReason.OLT_PAUSED}
    for number in range(60, 0, -1):
        decide(app, number, "ONUs: skipped, the OLT is paused", **skip)
    decide(app, 0, "lost: <b>é%_</b>", EventType.WORKER_LOST, olt_id=2, level="ERROR", details={"why": "<script>"})


@pytest.fixture
def built(app: Flask, databases: Databases) -> Flask:
    """OLT-A and OLT-B; 60 skips of the first each minute, then one error of the second."""
    return databases.prepare(app, an_hour_of_skips)


def decide(app: Flask, minutes: float, message: str, event: EventType = EventType.SLOT_SKIPPED, **fields: Any) -> None:
    moment = clock.now() - timedelta(minutes=minutes)
    if event is EventType.SLOT_SKIPPED:
        details = {"slots": 1, "first": moment.isoformat(), "last": moment.isoformat()}
        fields = {"scheduled_for": moment, "details": details} | fields
    with written(app) as session:
        decisions.record(session, event, message, moment, **fields)


def rows(person: Visitor, query: str = "") -> list[str]:
    return texts(person.get(f"/log/{query}"), "tbody tr")


def test_the_newest_decision_comes_first_with_its_words_and_its_json(built: Flask) -> None:
    page = english(built, "viewer").get("/log/")
    first = element(page, "tbody tr")
    assert (title_of(page), "<b>é" in page.text, len(first.select("details pre"))) == ("Decision log", False, 1)
    assert missing(first, "Error Poller lost OLT-B", '"why": "<script>"') == []


def test_a_decision_is_told_in_the_language_of_the_reader_and_stored_in_english(built: Flask) -> None:
    told = N_("given up after %(count)d lost workers; last: %(message)s", count=3, message=N_("its OLT was disabled"))
    decide(built, 0, told, EventType.POISONED, olt_id=1, details={"losses": 3})
    words_ = ("given up after 3 lost workers; last: its OLT was disabled", '"msgid"')
    assert missing(english(built).get("/log/"), *words_) == ['"msgid"']
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


NONSENSE = "olt=x&level=LOUD&type=NONE&window=9y&since=when&until="
SEARCHES = ("olt=2&q=LOST", "q=lost", "q=é%25_", "q=%25")
FILTERS = {
    50: ("", "type=SLOT_SKIPPED&level=WARNING", "olt=1", "node=1", NONSENSE),
    1: ("level=ERROR", "type=WORKER_LOST", "olt=2", "window=1h&level=ERROR", *SEARCHES),
    0: ("level=WARNING&olt=2", "type=WORKER_LOST&level=INFO", "q=nothing", "node=2"),
}


def test_filters_leave_what_they_name(built: Flask) -> None:
    person, wanted = english(built), {query: count for count, queries in FILTERS.items() for query in queries}
    assert {query: len(rows(person, f"?{query}")) for query in wanted} == wanted


def window(*minutes_ago: float) -> str:
    since, until = (f"{clock.now() - timedelta(minutes=ago):%Y-%m-%dT%H:%M:%SZ}" for ago in minutes_ago)
    return f"since={since}&until={until}"


def test_a_window_of_time_holds_what_happened_in_it(built: Flask) -> None:
    person = english(built)
    assert [len(rows(person, f"?{window(20.5, 10.5)}{more}")) for more in ("", "&olt=1")] == [10, 10]
    for nothing in ("since=2001-01-01T00:00:00Z&until=2001-01-02T00:00:00Z", "since=2099-01-01T00:00:00Z"):
        assert rows(person, f"?{nothing}") == []


def test_a_row_that_was_committed_late_is_in_its_window_though_its_id_is_not(built: Flask) -> None:
    decide(built, 15, "late")
    assert len(rows(english(built), f"?{window(20.5, 10.5)}")) == 11


@pytest.mark.parametrize("query", ["?", "?olt=1&", "?level=WARNING&"])
def test_pages_follow_each_other_without_a_gap_and_back(built: Flask, query: str) -> None:
    person = english(built)
    first = soup(person.get(f"/log/{query}"))
    second = soup(person.get(str(element(first, "a[rel=next]")["href"])))
    ids = [row["id"] for page in (first, second) for row in page.select("tbody tr")]
    assert len(ids) == len(set(ids)) == (61 if query == "?" else 60)
    newer = soup(person.get(str(element(second, "a[rel=prev]")["href"])))
    assert [row["id"] for row in newer.select("tbody tr")] == ids[:50]


def test_the_page_stands_still_until_it_is_followed(built: Flask) -> None:
    person = english(built, "viewer")
    still = soup(person.get("/log/?olt=1"))
    toggle = element(still, "[data-follow]")
    assert (still.select("#log_live[hx-get]"), toggle.get_text(strip=True)) == ([], "Follow")
    followed = soup(person.get(str(toggle["href"])))
    toggle = element(followed, "[data-follow]")
    assert followed.select("#log_live[hx-get*='olt=1']")
    assert (toggle.get_text(strip=True), toggle["href"]) == ("Stop following", "/log/?olt=1")


def test_paging_back_ends_the_following(built: Flask) -> None:
    person = english(built)
    older = element(person.get("/log/?follow=1"), "a[rel=next]")
    assert "follow" not in str(older["href"])
    assert soup(person.get(f"{older['href']}&follow=1")).select("#log_live[hx-get], #log_new") == []


def test_a_followed_page_answers_204_while_nothing_happens(built: Flask) -> None:
    person = english(built)
    again = person.watch("/log/?follow=1", "log_live")
    assert again() == 204
    decide(built, 0, "new")
    assert again() == 200


def test_whoever_knows_the_newest_decision_costs_no_look_at_the_rows(built: Flask) -> None:
    person = english(built)
    path, headers = "/log/?follow=1&q=nothing", {"HX-Request": "true", "HX-Target": "log_live"}
    known = person.client.get(path, headers=headers).headers["X-Newest"]
    with noted(built) as seen:
        answer = person.client.get(path, headers=headers | {"X-Newest": known})
    assert answer.status_code == 204
    newest = "SELECT max(coordinator_logs.id) AS max_1 \nFROM coordinator_logs"
    assert [one for one in seen if "coordinator_logs" in one] == [newest]
    decide(built, 0, "new")
    assert person.client.get(path, headers=headers | {"X-Newest": known}).status_code == 200


def test_a_search_over_all_olts_says_how_far_back_it_went(built: Flask) -> None:
    decide(built, 60 * 30, "ONUs: long ago", olt_id=1)
    until = f"{clock.now() - timedelta(hours=29):%Y-%m-%dT%H:%M:%SZ}"
    person = english(built)
    for query in ("?q=ago", "?q=ago&window=7d"):
        page = person.get(f"/log/{query}")
        assert (missing(page, "Searched back to"), texts(page, "tbody tr")) == ([], [])
    assert len(rows(person, "?q=ago&olt=1")) == len(rows(person, f"?q=ago&until={until}")) == 1


def test_the_page_costs_the_same_statements_whatever_the_rows(built: Flask) -> None:
    person = english(built)
    assert statements(built, person, "/log/?level=ERROR") == statements(built, person, "/log/")


def test_every_event_has_its_face() -> None:
    assert [event for event in EventType if not words.face(event).label] == []


def test_an_empty_log_says_what_will_be_here(people: Flask) -> None:
    assert "Nothing had to be decided yet" in text_of(english(people).get("/log/"))


# -- the page of an explanation


def test_an_explanation_is_a_page_and_the_body_of_a_dialog_and_leads_to_the_decisions_of_its_time(built: Flask) -> None:
    person = english(built, "viewer")
    path = f"/explain/?node=1&at={clock.now() - timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"
    page = person.get(path)
    assert (title_of(page), missing(page, "did not run at")) == ("ONUs on OLT-A", [])
    link = element(page, '#explain_body a[href^="/log/?olt=1&since="]')
    assert 1 <= len(texts(person.get(str(link["href"])), "tbody tr")) <= 4
    part = person.fragment(path, "explain_body")
    assert (part.status_code, "<html" in part.text, "did not run at" in part.text) == (200, False, True)


FAR = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")


def test_there_is_no_explanation_of_a_node_that_is_not_there_and_a_time_that_means_nothing_is_now(built: Flask) -> None:
    person = english(built)
    for node in ("99", "x", 2**40):
        assert person.get(f"/explain/?node={node}").status_code == 404
    for at in ("", "now", "2026-99-99T00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00", *FAR):
        assert person.get(f"/explain/?node=1&at={at}").status_code == 200


def test_a_filter_far_outside_of_the_calendar_is_left_out(built: Flask) -> None:
    person = english(built)
    for query in (f"{name}={at}" for name in ("since", "until") for at in FAR):
        assert len(rows(person, f"?{query}")) == 50
        assert person.get(f"/log/?q=x&{query}").status_code == 200


def test_without_a_node_the_decision_log_is_shown(built: Flask) -> None:
    assert english(built).get("/explain/").headers["Location"] == "/log/"


# -- links to it: wherever a run is missing, late or broken


@pytest.fixture
def failed(seeded: Flask) -> int:
    """The id of the newest execution, which failed."""
    ident = max(stored(seeded, select(Execution.id)))
    change(seeded, ident, ExecutionStatus.FAILED)
    return ident


def change(app: Flask, ident: int, status: ExecutionStatus, trigger: Trigger = Trigger.SCHEDULE) -> None:
    values = {"status": status, "trigger": trigger, "finished_at": Execution.scheduled_for, "requested_by": ""}
    update_rows(app, Execution, Execution.id == ident, **values)


def shown(app: Flask, path: str, selector: str) -> Tag:
    return element(english(app, "viewer").get(path), selector)


def places(ident: int) -> list[tuple[str, str]]:
    """Where an execution is told of: its line, and its own page."""
    return [("/executions/", f"#x{ident}"), (f"/executions/{ident}", "#execution_live")]


@pytest.mark.parametrize("status", [ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED])
def test_a_run_that_came_to_nothing_is_explained_from_its_line_and_its_page(
    seeded: Flask, failed: int, status: ExecutionStatus
) -> None:
    change(seeded, failed, status)
    one = row_of(seeded, Execution, failed)
    for path, selector in places(failed):
        link = str(element(shown(seeded, path, selector), "a[data-explain]")["href"])
        address = f"/explain/?node={one.node_id}&at={one.scheduled_for.isoformat()}"
        assert link.replace("%3A", ":").replace("%2B", "+") == address
        assert english(seeded, "viewer").get(link).status_code == 200
    assert shown(seeded, "/executions/", "dialog#explain")


@pytest.mark.parametrize(
    ("status", "trigger"), [(ExecutionStatus.SUCCESS, Trigger.SCHEDULE), (ExecutionStatus.FAILED, Trigger.MANUAL)]
)
def test_a_success_and_a_run_by_hand_have_no_slot_to_explain(
    seeded: Flask, failed: int, status: ExecutionStatus, trigger: Trigger
) -> None:
    change(seeded, failed, status, trigger)
    assert [shown(seeded, *place).select("[data-explain]") for place in places(failed)] == [[], []]


def test_what_waits_is_explained_from_the_queue(seeded: Flask, failed: int) -> None:
    change(seeded, failed, ExecutionStatus.PENDING)
    link = shown(seeded, "/queue/", f"#q{failed} a[data-explain]")
    assert text_of(english(seeded, "viewer").get(str(link["href"]))).count("Pending")


def test_home_explains_its_latest_failures(seeded: Flask, failed: int) -> None:
    assert row_of(seeded, Execution, failed).finished_at
    link = shown(seeded, "/", ".fx-list a.fx-list-more[data-explain]")
    assert english(seeded, "viewer").get(str(link["href"])).status_code == 200
