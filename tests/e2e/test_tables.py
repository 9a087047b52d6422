"""Tables as people use them: the decision log followed, columns chosen, a page on paper."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from portal.domain.statuses import EventType
from portal.services import decisions
from testing.browser import wait_until
from tests.e2e.conftest import Portal, Visit

FOLLOWED = "/log/?follow=1&type=WORKER_LOST"


def decide(portal: Portal, *messages: str, minutes: int = 0) -> None:
    moment = datetime.now(UTC) - timedelta(minutes=minutes)
    with portal.writing() as session:
        for message in messages:
            decisions.record(session, EventType.WORKER_LOST, message, moment, olt_id=1, level="ERROR")


@pytest.fixture
def long_log(portal: Portal) -> None:
    """More decisions than a page shows."""
    decide(portal, *(f"old {number}" for number in range(60)), minutes=2)


def test_a_new_decision_comes_in_at_the_top_and_is_marked_once(portal: Portal, visit: Visit, long_log: None) -> None:
    page = visit(FOLLOWED, language="en")
    expect(page.locator("#log_live tbody tr.is-new")).to_have_count(0)
    decide(portal, "first news")
    marked = page.locator("#log_live tbody tr.is-new")
    expect(marked).to_have_count(1)
    expect(page.locator("#log_live tbody tr").first).to_contain_text("first news")
    expect(marked).to_have_count(0)


def test_whoever_reads_further_down_is_told_and_not_moved(portal: Portal, visit: Visit, long_log: None) -> None:
    page = visit(FOLLOWED, language="en")
    page.mouse.move(700, 500)
    page.mouse.wheel(0, 700)
    wait_until(page, "window.scrollY > 500")
    before = page.evaluate("[window.scrollY, document.querySelector('#log_live tbody tr').id]")
    decide(portal, "one", "two")
    told = page.locator("#log_new button")
    expect(told).to_have_text("2 new decisions")
    decide(portal, "three")
    expect(told).to_have_text("3 new decisions")
    assert page.evaluate("[window.scrollY, document.querySelector('#log_live tbody tr').id]") == before
    told.click()
    expect(page.locator("#log_live tbody tr").first).to_contain_text("three")
    expect(page.locator("#log_live tbody tr.is-new")).to_have_count(3)
    expect(told).to_be_hidden()
    assert page.evaluate("window.scrollY") == 0


def test_an_opened_decision_stays_where_it_is(portal: Portal, visit: Visit, long_log: None) -> None:
    page = visit(FOLLOWED, language="en")
    page.locator("#log_live details summary").nth(1).click()
    decide(portal, "meanwhile")
    expect(page.locator("#log_new button")).to_have_text("1 new decision")
    expect(page.locator("#log_live details[open]")).to_have_count(1)


def test_a_key_begins_and_ends_the_following(visit: Visit) -> None:
    page = visit("/log/", language="en")
    page.keyboard.press("f")
    page.wait_for_url("**/log/?follow=1")
    page.keyboard.press("f")
    page.wait_for_url("**/log/")


def test_a_column_that_was_taken_away_stays_away_and_comes_back(visit: Visit) -> None:
    page = visit("/executions/", language="en")
    head = page.get_by_role("columnheader", name="Trigger")
    expect(head).to_be_visible()
    menu = page.get_by_role("button", name="Columns")
    menu.focus()
    page.keyboard.press("Enter")
    boxes = page.locator(".fx-cols input")
    assert "Node" not in page.locator(".fx-cols label").all_inner_texts()
    box = page.get_by_label("Trigger", exact=True).and_(boxes)
    box.focus()
    page.keyboard.press("Space")
    expect(head).to_be_hidden()
    cells = "Array.from(document.querySelector('#executions_live tbody tr').cells).filter(c => c.offsetParent).length"
    assert page.evaluate(cells) == 8
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_role("columnheader", name="Result")).to_be_visible()
    expect(head).to_be_hidden()
    with page.expect_response(lambda answer: "/executions/" in answer.url):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('wake'))")
    expect(head).to_be_hidden()
    menu.click()
    expect(page.locator(".fx-cols input:not(:checked)")).to_have_count(1)
    page.get_by_role("button", name="Show all").click()
    expect(head).to_be_visible()


def test_the_cards_of_a_phone_do_not_care_about_columns(visit: Visit) -> None:
    page = visit("/executions/", language="en", width=390)
    page.evaluate("localStorage.setItem('facho-columns', JSON.stringify({executions: [8, 7, 6]}))")
    page.reload()
    expect(page.locator("#executions_live tbody tr").first.locator("td.c-b")).to_be_visible()
    expect(page.locator("#executions_live tbody tr").first.locator("td.c-c")).to_be_visible()


@pytest.mark.parametrize("path", ["/violations/", "/violations/report", "/olts/1"])
def test_on_paper_there_is_no_frame_and_it_is_light(visit: Visit, path: str) -> None:
    page = visit(path, language="en", color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator(".fx-rail")).to_be_hidden()
    expect(page.locator(".fx-strip")).to_be_hidden()
    expect(page.locator("main form:visible, main .btn:visible")).to_have_count(0)
    expect(page.locator("[data-printed]")).to_contain_text("America/Lima")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf(prefer_css_page_size=True)) > 10_000
