"""What holds of every page: it answers, its headers and markup, that texts of devices stay texts, and what it costs."""

import re
from dataclasses import dataclass
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from werkzeug.test import TestResponse

from portal import clock
from portal.extensions import db
from portal.services.people import users
from portal.tables import Execution, Olt, WorkflowNode
from testing import routes, seed
from testing.cast import NOW
from testing.databases import Databases, settings_for
from testing.pages import Visitor, element, soup, title_of
from testing.web import cost, english, noted, update_rows, written

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
LOOKER = "luz-de-luna"
BUDGET = 12
TIGHTER = {"dashboard.pulse": 6, "executions.index": 8, "queue.index": 11}
LIVE = (
    ("/", "dashboard_live"),
    ("/pulse", "pulse"),
    ("/executions/", "executions_live"),
    ("/pollers/", "pollers_live"),
    ("/queue/", "queue_live"),
)
MANY = seed.Size(olts=14, executions=240, onus=40, pollers=8, busy=5, pending=12)


def furnished(app: Flask, size: str) -> list[routes.Address]:
    """All addresses of the app, its database filled."""
    seed.seed(app, size)
    with written(app) as session:
        routes.furnish(session, clock.now())
    seed.keep_alive(app)
    with app.app_context():
        return list(routes.addresses(app, db.session()))


@dataclass
class Tour:
    """Every page once, as an administrator sees it; what is HTML is a tree as well."""

    answers: dict[str, TestResponse]
    costs: dict[str, int]
    trees: dict[str, BeautifulSoup]
    live: list[tuple[str, str]]  # address and id of each part of each page that refreshes itself
    fragments: dict[tuple[str, str], str]

    def unanswered(self) -> list[str]:
        return [name for name, answer in self.answers.items() if answer.status_code not in (200, 302)]


def toured(person: Visitor, found: list[routes.Address]) -> Tour:
    tour = Tour({}, {}, {}, [], {})
    with noted(person.app) as seen:
        for one in found:
            seen.clear()
            tour.answers[one.name] = person.get(one.path or "/no-row-for-it")
            tour.costs[one.name] = cost(seen)
    return tour


@pytest.fixture(scope="module")
def tour(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """A tour of few rows, which have hostile texts of devices, with all that refreshes itself but the audit log."""
    app = databases.app(settings_for(databases.url("sqlite"), tmp_path_factory.mktemp("tour")))
    app.config["LIVE_SHARED"] = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: NOW + timedelta(days=2))
        found = furnished(app, "few")
        update_rows(app, Execution, node_name=EVIL)
        update_rows(app, Execution, Execution.error_message != "", error_message=EVIL)
        update_rows(app, Olt, name=Olt.name + EVIL, paused_reason=EVIL)
        update_rows(app, WorkflowNode, name=EVIL)
        with app.app_context():
            users.create(LOOKER, "a password of luz", "admin", "test", clock.now())
        person = Visitor(app)
        assert person.login(LOOKER, "a password of luz").status_code == 303
        made = toured(person, found)
        for name, answer in made.answers.items():
            if answer.mimetype == "text/html":
                made.trees[name] = soup(answer)
                parts = made.trees[name].select("[data-live]:not(#audit_live)")
                made.live += [(str(part["hx-get"]), str(part["id"])) for part in parts]
        made.fragments |= {part: person.fragment(*part).text for part in set(made.live)}
    return made


def test_every_page_is_known_to_the_tests_and_the_bench(app: Flask) -> None:
    here = {rule.endpoint for rule in routes.rules(app)}
    assert here - set(routes.QUERIES) == set(), "add them to QUERIES in testing/routes.py"
    assert set(routes.QUERIES) - here == set(), "these are no more"


def test_every_answer_carries_the_security_headers(people: Flask, tour: Tour) -> None:
    stranger = Visitor(people)
    for name, answer in (tour.answers | {path: stranger.get(path) for path in ("/nowhere", "/logout")}).items():
        assert "script-src 'self';" in answer.headers["Content-Security-Policy"], name
        assert "unsafe" not in answer.headers["Content-Security-Policy"], name
        told = [answer.headers[head] for head in ("X-Content-Type-Options", "Cache-Control")]
        assert (told, "HX-Request" in answer.headers["Vary"]) == (["nosniff", "no-store"], True), name


def test_no_page_has_inline_scripts_or_styles_or_reaches_for_another_host(tour: Tour) -> None:
    for name, tree in tour.trees.items():
        assert tree.select("script:not([src]), style, [style]") == [], name
        shouting = [tag for tag in tree.find_all() if any(key.startswith(("on", "hx-on")) for key in tag.attrs)]
        assert shouting == [], name
        links = [tag.get("src") or tag.get("href") for tag in tree.select("script, link, img, use")]
        assert [link for link in links if not str(link).startswith("/static/")] == [], name


def test_hostile_text_from_devices_is_shown_as_text(tour: Tour) -> None:
    """What else it could do is looked for above."""
    assert {name for name, tree in tour.trees.items() if tree.select("[onerror], img[src=x]")} == set()
    shown = {name.partition("?")[0] for name, tree in tour.trees.items() if EVIL in tree.get_text()}
    assert shown >= {"dashboard.index", "executions.detail", "executions.index", "olts.detail", "workflows.detail"}


def test_every_icon_that_pages_use_is_in_the_sprite(app: Flask, tour: Tour) -> None:
    sprite = app.test_client().get("/static/vendor/tabler-icons/icons.svg").text
    used = {str(tag["href"]).partition("#")[2] for tree in tour.trees.values() for tag in tree.select("use")}
    assert used - set(re.findall(r'id="([a-z0-9-]+)"', sprite)) == set()


def test_ids_are_unique_on_each_page(tour: Tour) -> None:
    for name, tree in tour.trees.items():
        ids = [str(tag["id"]) for tag in tree.select("[id]")]
        assert len(ids) == len(set(ids)), (name, sorted({one for one in ids if ids.count(one) > 1}))


def test_no_live_fragment_says_who_reads_it(tour: Tour) -> None:
    """The audit log tells everybody of what she did herself."""
    assert len(tour.live) > len(tour.answers), "each page has the strip at least"
    assert [part for part, text in tour.fragments.items() if "<html" in text or LOOKER in text] == []


def test_the_same_url_serves_the_page_and_its_fragment_and_an_unchanged_one_is_answered_with_204(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    seed.keep_alive(seeded)
    for path, target in LIVE:
        whole, part = person.get(path), person.fragment(path, target)
        assert whole.text.lstrip().startswith("<!doctype html>") or path == "/pulse"
        root = element(part, "*")
        assert (root["id"], str(root["hx-trigger"])[:6], "<html" in part.text) == (target, "every ", False)
        same = person.fragment(path, target, part.headers["X-Digest"])
        assert (same.status_code, same.data) == (204, b""), path


@pytest.mark.timeout(300)
def test_no_page_costs_more_than_twelve_statements_or_more_with_many_rows(
    app: Flask, tour: Tour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(seed.SIZES, "some", MANY)
    found = furnished(app, "some")
    many, few = toured(english(app, "admin"), found), tour.costs
    assert [*tour.unanswered(), *many.unanswered()] == []
    assert {name: cost for name, cost in many.costs.items() if cost > TIGHTER.get(name, BUDGET)} == {}
    assert {name: (few[name], cost) for name, cost in many.costs.items() if cost > few[name]} == {}


def test_every_page_and_fragment_works_on_postgresql(postgresql: Flask) -> None:
    found = furnished(postgresql, "few")
    person = english(postgresql, "admin")
    assert {one.path: code for one in found if (code := person.get(one.path).status_code) >= 400} == {}
    assert title_of(person.get("/queue/")) != ""
    assert {path: code for path, target in LIVE if (code := person.fragment(path, target).status_code) != 200} == {}
