"""Every page with the eyes of all: light and dark, in both languages, on screens of every width.

Nobody is kept out by contrast, names or order; no word is of the other language, nothing scrolls sideways; the browser
has nothing to complain of, and no other host is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page

from portal import clock
from portal.extensions import db, transaction
from testing import routes, seed
from testing.pages import Visitor
from tests.e2e.axe import CALM, findings, settle
from tests.e2e.conftest import Portal, Tabs
from tests.e2e.words import foreign, given_names, wrong_words

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

# Beside the first of each kind, which routes.addresses finds.
MORE = {
    "not there": "/nowhere", "a chained node": "/workflow-nodes/3/edit", "an execution that succeeded": "/executions/1",
    "an OLT of the other brand": "/olts/1", "its workflow": "/olts/1/workflow",
}  # fmt: skip
ON_A_PHONE = {
    "dashboard.index", "olts.index", "olts.detail", "workflows.detail", "executions.index", "executions.detail",
    "pollers.index", "quotas.index", "onus.index", "onus.detail",
}  # fmt: skip
# How many pixels do not fit, once charts have followed the width.
TOO_WIDE = """async () => {
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
    return Math.max(...[document.documentElement, document.getElementById("main")]
        .map(one => one.scrollWidth - one.clientWidth));
}"""


@dataclass
class Walk:
    """A desktop on which Spanish is read and a phone with English; both stay open from page to page."""

    portal: Portal
    paths: dict[str, str]
    given: set[str]
    tabs: Tabs
    desktop: Page
    phone: Page


@pytest.fixture(scope="module")
def walk(served_portal: Portal, browser: Browser) -> Iterator[Walk]:
    """Through a portal in which each page has something to show, ten minutes before an hour ends: then promises are

    broken and forecasts are made. Nobody changes anything there.
    """
    with pytest.MonkeyPatch.context() as patch:
        behind = timedelta(minutes=(clock.now().minute - 50) % 60)
        patch.setattr(clock, "now", lambda: datetime.now(UTC) - behind)
        yield from _walk(served_portal, browser)


def _walk(served_portal: Portal, browser: Browser) -> Iterator[Walk]:
    served_portal.restore("furnished", partial(furnish, served_portal.app))
    with served_portal.app.app_context():
        paths = {one.name: one.path for one in routes.addresses(served_portal.app, db.session())}
        db.session.remove()
    tabs = Tabs(served_portal, browser)
    desktop, phone = tabs.open(**CALM), tabs.open(width=390, language="en", has_touch=True)
    yield Walk(served_portal, paths | MORE, given_names(served_portal), tabs, desktop, phone)
    tabs.close()


def furnish(app: Flask) -> None:
    seed.seed(app, "few")
    with app.app_context(), transaction() as session:
        routes.furnish(session, clock.now())


def mistakes(page: Page, language: str, given: set[str], widths: tuple[int, ...]) -> list[str]:
    """Words of the other language, and what does not fit."""
    found = [f"{language}: {text}" for text in wrong_words(page, language) - given]
    if page.locator("html").get_attribute("lang") != language:
        found.append(f"the page does not say that it is {language}")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        if (pixels := page.evaluate(TOO_WIDE)) > 0:
            found.append(f"{language}: {pixels} pixels too wide for {width}")
    return found


@pytest.mark.parametrize("name", [*routes.whole(), *MORE])
def test_a_page_is_for_everybody(walk: Walk, name: str) -> None:
    address, status = walk.portal.url + walk.paths[name], 404 if name == "not there" else 200
    desktop, phone, found = walk.desktop, walk.phone, list[str]()
    assert walk.paths[name], "there is no row for it"
    walk.portal.alive()

    desktop.set_viewport_size({"width": 1440, "height": 900})
    answer = desktop.goto(address)
    assert answer and (answer.status, answer.url) == (status, address)
    found += findings(desktop, name)
    found += mistakes(desktop, "es", walk.given, (1920, 1440, 1280, 768, 390))
    if name in ON_A_PHONE:
        found += findings(desktop, f"{name} 390")

    phone.set_viewport_size({"width": 390, "height": 900})
    phone.goto(address)
    settle(phone)
    found += mistakes(phone, "en", walk.given, (390, 1440))

    assert [*found, *walk.tabs.problems()] == []


def test_what_is_not_walked_to_is_no_whole_page(walk: Walk) -> None:
    person = Visitor(walk.portal.app).enter("admin")
    left = {name: path for name, path in walk.paths.items() if name.partition("?")[0] in routes.PARTS}
    assert set(walk.paths) == {*left, *routes.whole(), *MORE}
    answers = {name: person.get(path) for name, path in left.items()}
    assert {name: answer.status for name, answer in answers.items() if answer.status_code >= 400} == {}
    assert [name for name, one in answers.items() if one.status_code == 200 and "</html>" in one.text[-20:]] == []
    assert set(routes.whole()) >= ON_A_PHONE


def test_the_words_of_the_other_language_are_known_when_they_are_seen() -> None:
    assert foreign("es").fullmatch("Run now")
    assert foreign("es").fullmatch("3 OLTs respond")
    assert not foreign("es").fullmatch("Ejecutar ahora")
    assert foreign("en").fullmatch("Ejecutar ahora")
    assert not foreign("en").fullmatch("Run now")
