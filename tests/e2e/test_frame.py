"""The portal's frame in a real browser: what lives, what must not be lost, and what works on a phone."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from portal.domain.statuses import ExecutionStatus, Trigger
from portal.tables import Execution, Olt, Poller, User
from testing.cast import password_of
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e


def add_execution(portal: Portal, name: str) -> None:
    with portal.writing() as session:
        moment = datetime.now(UTC) - timedelta(seconds=3)
        session.add(
            Execution(
                node_name=name,
                olt_id=1,
                device_key="e2e",
                status=ExecutionStatus.SUCCESS,
                trigger=Trigger.SCHEDULE,
                priority=40,
                scheduled_for=moment,
                started_at=moment,
                finished_at=moment,
                duration_ms=10,
                delay_ms=5,
                attempt=1,
            )
        )


def hide(page: Page, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def test_a_person_logs_in_and_sees_what_happens(visit: Visit) -> None:
    page = visit("/login", username="")
    page.fill("[name=username]", "viewer")
    page.fill("[name=password]", "wrong password")
    page.press("[name=password]", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("no son correctos")
    page.fill("[name=password]", password_of("viewer"))
    page.press("[name=password]", "Enter")
    expect(page.locator("h1")).to_have_text("2 OLTs responden, 0 inalcanzables")


def test_every_page_of_the_rail_opens_without_a_complaint_of_the_browser(visit: Visit) -> None:
    page = visit("/")
    links = [link.get_attribute("href") for link in page.locator(".fx-rail > nav a").all()]
    assert links == [
        "/", "/olts/", "/workflows/", "/executions/", "/pollers/", "/queue/", "/quotas/", "/violations/", "/log/",
        "/onus/", "/catalogue/", "/alerts/", "/settings/account/",
    ]  # fmt: skip
    for link in links:
        page.locator(f'.fx-rail > nav a[href="{link}"]').click()
        expect(page.locator(".fx-rail > nav [aria-current=page]")).to_have_attribute("href", str(link))
        expect(page.locator("h1")).to_be_visible()


def test_something_new_appears_by_itself_and_nothing_of_the_reader_is_lost(portal: Portal, visit: Visit) -> None:
    page = visit("/executions/")
    link = page.locator("tbody tr").nth(20).locator("a").first
    link.scroll_into_view_if_needed()
    link.focus()
    page.evaluate("window.scrollBy(0, 150)")
    focused = """() => [document.activeElement.getAttribute('href'),
                        Math.round(document.activeElement.getBoundingClientRect().top)]"""
    before = page.evaluate(focused)
    add_execution(portal, "Recién llegada")
    expect(page.locator("tbody")).to_contain_text("Recién llegada")
    assert page.evaluate(focused) == before


def test_an_unchanged_fragment_changes_nothing_in_the_page(portal: Portal, visit: Visit) -> None:
    page = visit("/queue/")
    with page.expect_response(lambda answer: "/queue/" in answer.url and answer.status == 204):
        pass
    page.evaluate("() => { document.querySelector('#queue_live h1').dataset.mine = 'yes'; }")
    with page.expect_response(lambda answer: "/queue/" in answer.url and answer.status == 204):
        pass
    expect(page.locator("#queue_live h1")).to_have_attribute("data-mine", "yes")


def test_what_is_half_typed_in_a_live_part_stays_and_so_does_the_place_in_it(portal: Portal, visit: Visit) -> None:
    page = visit("/pollers/")
    size = page.locator("#pollers_live input[name=size]").first
    size.click()
    size.press("End")
    size.press("0")
    typed = size.input_value()
    with page.expect_response(lambda answer: "/pollers/" in answer.url and answer.status == 200):
        with portal.writing() as session:
            session.execute(update(Poller).where(Poller.poller_id == 1).values(tasks_completed=4321))
    expect(page.locator("#pollers_live")).to_contain_text("4 321")
    assert (size.input_value(), page.evaluate("document.activeElement.name")) == (typed, "size")


def test_a_form_in_a_part_that_was_refreshed_still_belongs_to_its_reader(portal: Portal, visit: Visit) -> None:
    """Fragments are made for many and hold no token: the page puts in its own."""
    page = visit("/pollers/")
    with page.expect_response(lambda answer: "/pollers/" in answer.url and answer.status == 200):
        with portal.writing() as session:
            session.execute(update(Poller).where(Poller.poller_id == 1).values(tasks_completed=1234))
    expect(page.locator("#pollers_live")).to_contain_text("1 234")
    tokens = page.locator("#pollers_live [name=csrf_token]").evaluate_all("all => all.map(one => one.value)")
    assert set(tokens) == {page.locator("meta[name=csrf-token]").get_attribute("content")}


def test_an_answer_older_than_what_was_sent_is_not_shown(visit: Visit) -> None:
    page = visit("/queue/")
    shown = page.evaluate(
        """() => {
            const target = document.querySelector('#queue_live');
            const swap = (verb, xhr) => {
                const detail = {elt: target, target: target, xhr: xhr, serverResponse: '', shouldSwap: true,
                                requestConfig: {verb: verb}};
                target.dispatchEvent(new CustomEvent('htmx:beforeSwap', {bubbles: true, detail: detail}));
                return detail.shouldSwap;
            };
            const begin = (verb) => {
                const xhr = {getResponseHeader: () => null};
                const detail = {elt: target, target: target, xhr: xhr, requestConfig: {verb: verb}};
                target.dispatchEvent(new CustomEvent('htmx:beforeRequest', {bubbles: true, detail: detail}));
                return xhr;
            };
            const poll = begin('get'), click = begin('post');
            return [swap('post', click), swap('get', poll), swap('get', begin('get'))];
        }"""
    )
    assert shown == [True, False, True]


def test_the_tab_is_named_after_the_answer_and_follows_it(portal: Portal, visit: Visit) -> None:
    page = visit("/")
    expect(page).to_have_title("2 OLTs responden, 0 inalcanzables · Facho Deluxe")
    with portal.writing() as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state="unreachable"))
    expect(page).to_have_title("1 OLT responde, 1 inalcanzable · Facho Deluxe")


def test_ages_go_on_while_nothing_is_swapped(visit: Visit) -> None:
    page = visit("/executions/1")
    page.evaluate(
        """() => {
            const tag = document.createElement('time');
            tag.id = 'probe'; tag.dataset.tick = 'age';
            tag.dateTime = new Date(Date.now() - 40000).toISOString();
            document.querySelector('main').append(tag);
        }"""
    )
    expect(page.locator("#probe")).to_have_text(re.compile("hace 4[0-9].s"))


def test_a_hidden_tab_asks_nothing_and_catches_up_when_it_is_seen_again(visit: Visit) -> None:
    page = visit("/queue/")
    with page.expect_request(lambda request: "/queue/" in request.url and "hx-request" in request.headers):
        pass
    hide(page, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('wake'))")  # what a timer would do
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert asked == []
    with page.expect_request(lambda request: request.url.endswith("/queue/")):
        hide(page, False)


def test_a_lost_server_is_told_quietly_and_found_again_alone(visit: Visit) -> None:
    page = visit("/executions/")
    rows = page.locator("tbody tr").count()
    page.context.set_offline(True)
    expect(page.locator("#lost")).to_be_visible()
    here = [(datetime.now(UTC) - timedelta(hours=5, minutes=n)).strftime("%H:%M") for n in (0, 1)]  # Lima
    expect(page.locator("#lost")).to_contain_text(re.compile(f"Sin conexión desde ({here[0]}|{here[1]})"))
    assert page.locator("tbody tr").count() == rows
    page.context.set_offline(False)
    expect(page.locator("#lost")).to_be_hidden()


def test_a_fragment_waits_while_a_menu_in_it_is_open(visit: Visit) -> None:
    page = visit("/olts/")
    page.locator("#olts_live .fx-kebab button").first.click()
    expect(page.locator("#olts_live .fx-kebab .dropdown-menu.show")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('wake'))")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert [url for url in asked if "/olts/" in url] == []
    page.keyboard.press("Escape")
    with page.expect_request(lambda request: "/olts/" in request.url):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('wake'))")


def test_a_session_that_was_ended_leads_to_the_login_and_back(portal: Portal, visit: Visit) -> None:
    page = visit("/queue/", username="viewer")
    with portal.writing() as session:
        session.execute(update(User).where(User.username == "viewer").values(session_epoch=User.session_epoch + 1))
    page.wait_for_url("**/login?next=/queue/")
    assert page.locator("table").count() == 0
    page.fill("[name=username]", "viewer")
    page.fill("[name=password]", password_of("viewer"))
    page.press("[name=password]", "Enter")
    page.wait_for_url("**/queue/")


def test_the_theme_is_chosen_once_and_is_there_before_the_first_paint(visit: Visit) -> None:
    page = visit("/", color_scheme="light")
    assert page.evaluate("document.documentElement.dataset.bsTheme") == "light"
    page.get_by_role("button", name="Cuenta de admin").click()
    page.get_by_role("button", name="Oscuro").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.add_init_script(
        "new MutationObserver((_, o) => { if (document.body) { o.disconnect();"
        " window.early = document.documentElement.dataset.bsTheme; } })"
        ".observe(document, {childList: true, subtree: true});"
    )
    page.reload()
    assert page.evaluate("window.early") == "dark"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_primary_button_can_be_read_in_both_themes(visit: Visit, theme: str) -> None:
    page = visit("/", color_scheme=theme)
    ratio = page.evaluate(
        """() => {
            const style = getComputedStyle(document.querySelector('.fx-actions .btn-primary'));
            const light = text => text.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
                .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
                .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
            const pair = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
            return (pair[0] + .05) / (pair[1] + .05);
        }"""
    )
    assert ratio >= 4.5


def test_the_language_is_switched_in_the_account_menu(visit: Visit) -> None:
    page = visit("/queue/", username="operator")
    page.get_by_role("button", name="Cuenta de operator").click()
    page.get_by_role("button", name="English").click()
    expect(page.locator(".fx-rail > nav [aria-current=page]")).to_have_text("Queue")
    page.get_by_role("button", name="Account of operator").click()
    page.get_by_role("button", name="Español").click()
    expect(page.locator(".fx-rail > nav [aria-current=page]")).to_have_text("Cola")


def test_letters_lead_to_pages_and_slash_to_the_search(portal: Portal, visit: Visit) -> None:
    page = visit("/")
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.wait_for_url("**/onus/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.matches('[data-search]')")
    page.keyboard.type("gq")
    assert page.url.endswith("/onus/")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_a_filter_applies_itself_and_stays_in_the_url(visit: Visit) -> None:
    page = visit("/executions/")
    page.select_option("[name=status]", "FAILED")
    page.wait_for_url("**/executions/?status=FAILED")
    page.locator(".fx-chip").click()
    page.wait_for_url("**/executions/")


def test_a_click_anywhere_on_a_row_opens_it(visit: Visit) -> None:
    page = visit("/executions/")
    page.locator("tbody tr").first.locator("td").nth(5).click()
    page.wait_for_url(re.compile(r"/executions/\d+$"))


def test_hostile_names_run_nothing(portal: Portal, visit: Visit) -> None:
    evil = "\"><img src=x onerror=alert(1)><b hx-get='/pulse' hx-trigger='load'>x</b>"
    add_execution(portal, evil)
    page = visit("/executions/")
    expect(page.locator("tbody")).to_contain_text("onerror=alert(1)")
    assert page.locator("main img, main b[hx-get]").count() == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_the_palette_leads_to_an_olt_and_to_a_customer_by_keyboard(visit: Visit, width: int) -> None:
    page = visit("/", width=width)
    page.keyboard.press("Control+k")
    field = page.locator("dialog#palette input")
    expect(field).to_be_focused()
    expect(page.locator("#palette_found [role=option]").first).to_contain_text("Inicio")
    first = page.locator("#palette_found [aria-selected=true]")
    expect(first).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(first).to_contain_text("OLTs")
    with page.expect_response(re.compile("/palette")):
        field.press_sequentially("olt")
    hit = page.locator("#palette_found a[href^='/olts/']", has_text="OLT").last
    name = hit.inner_text().split("\n")[0].split(" ")[0]
    with page.expect_response(re.compile("/palette")):
        field.fill(name)
    expect(first).to_contain_text(name)
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/olts/\d*"))


def test_escape_closes_the_palette_and_it_opens_empty_again(visit: Visit) -> None:
    page = visit("/olts/")
    page.locator("[data-palette]").click()
    page.locator("dialog#palette input").fill("zzzzzz")
    expect(page.locator("#palette_found")).to_contain_text("Nada coincide")
    page.keyboard.press("Escape")
    expect(page.locator("dialog#palette")).not_to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.locator("dialog#palette input")).to_have_value("")
    expect(page.locator("#palette_found [role=option]").first).to_contain_text("Inicio")
