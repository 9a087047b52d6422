"""A fragment is made once a second for all of the same rights, and nobody is shown what is not theirs or too old."""

import gzip
import re
import threading
from typing import Any

import brotli
import pytest
from flask import Flask

from portal import clock
from portal.domain.statuses import ExecutionStatus, Role
from portal.extensions import db
from portal.services.network import olts
from portal.services.people import users
from portal.tables import Execution, Olt, User
from portal.web import audience, live
from testing.pages import Visitor, element, soup, texts
from testing.web import Clock, copies, english, noted, reader, update_rows

QUEUE = ("/queue/", "queue_live")
MANY = 50


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The blocks that were rendered."""
    blocks: list[str] = []
    original = live.render_block

    def counted(template: Any, block: str, context: dict[str, Any]) -> str:
        blocks.append(block)
        return original(template, block, context)

    monkeypatch.setattr(live, "render_block", counted)
    return blocks


def menu(person: Visitor, shelf_clock: Clock) -> list[str]:
    """Of the first OLT in the live list, a moment later: the label of its menu, then the entries."""
    shelf_clock.now += 10
    button = element(person.fragment("/olts/", "olts_live"), "#olt-1 .fx-kebab button")
    return [str(button["aria-label"]), *(one.get_text(strip=True) for one in button.parent.select(".dropdown-item"))]


def test_the_menu_of_an_olt_offers_what_the_role_may_do_and_follows_every_change(
    shared: Flask, shelf_clock: Clock
) -> None:
    viewer, operator = (reader(shared, shelf_clock, name) for name in ("viewer", "operator"))
    reads = ["Workflow", "ONUs"]
    label, *entries = menu(operator, shelf_clock)
    assert entries == [*reads, "Edit", "Pause…", "Disable"]
    assert menu(viewer, shelf_clock) == [label, *reads]
    with shared.app_context():
        olts.pause([1], "works on the mast", None, "rosa", clock.now())
    assert menu(operator, shelf_clock) == [label, *reads, "Edit", "Change the pause", "Disable"]
    with shared.app_context():
        olts.set_enabled(1, False, "rosa", clock.now())
    assert menu(operator, shelf_clock) == [label, *reads, "Edit", "Enable"]
    update_rows(shared, Olt, Olt.id == 1, name="<b>RENAMED</b>")
    assert menu(operator, shelf_clock)[0] == menu(viewer, shelf_clock)[0] == "Actions for <b>RENAMED</b>"


def nothing_waits(app: Flask) -> None:
    """Written behind the portal's back."""
    update_rows(app, Execution, Execution.status == ExecutionStatus.PENDING, status=ExecutionStatus.SUCCESS)


def test_fifty_who_look_at_once_cause_one_rendering(
    shared: Flask, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tabs = copies(english(shared, "viewer"), shared, MANY)
    made.clear()
    shelf, all_there, answers = shared.extensions["live"].shelf, threading.Event(), list[str]()
    arrived, held = list[int](), list[int]()
    look, render = shelf.get, live.render_block

    def get(key: Any, since: float) -> Any:
        arrived.append(1)
        if len(arrived) == MANY:
            all_there.set()
        return look(key, since)

    def slow(*given: Any) -> str:
        assert all_there.wait(30)
        held.append(db.engine.pool.checkedout())  # type: ignore[attr-defined]
        return render(*given)

    monkeypatch.setattr(shelf, "get", get)
    monkeypatch.setattr(live, "render_block", slow)
    threads = [threading.Thread(target=lambda tab=tab: answers.append(tab.fragment(*QUEUE).text)) for tab in tabs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=50)
    assert (made, len(answers), len(set(answers))) == (["queue_live"], MANY, 1)
    assert held == [1], "who waits holds a connection"


def test_two_people_of_one_role_share_and_a_viewer_gets_no_operators_buttons(
    shared: Flask, shelf_clock: Clock, made: list[str]
) -> None:
    with shared.app_context():
        users.create("luz", "a password of luz", "operator", "test", clock.now())
    people = [english(shared, "operator"), Visitor(shared), english(shared, "viewer")]
    assert people[1].login("luz", "a password of luz").status_code == 303
    people[1].post("/language", language="en")
    shelf_clock.now += 10  # their logging in is long ago
    made.clear()
    operator, luz, viewer = (person.fragment("/olts/1", "olt_live") for person in people)
    assert made == ["olt_live", "olt_live"]
    assert luz.data == operator.data
    assert (soup(operator).select("form") != [], soup(viewer).select("form")) == (True, [])


def test_languages_and_arguments_do_not_share(shared: Flask, made: list[str]) -> None:
    english_one, spanish_one = english(shared, "viewer"), Visitor(shared)
    spanish_one.login("viewer")
    spanish_one.client.post("/language", data={"csrf_token": spanish_one.token, "language": "es"})
    made.clear()
    texts = [english_one.fragment(*QUEUE).text, spanish_one.fragment(*QUEUE).text]
    texts += [english_one.fragment("/executions/" + query, "executions_live").text for query in ("", "?status=FAILED")]
    assert len(made) == len(set(texts)) == 4


def test_an_unchanged_fragment_that_is_there_costs_no_statement_at_all(shared: Flask, shelf_clock: Clock) -> None:
    person = reader(shared, shelf_clock)
    mark = person.fragment(*QUEUE).headers["X-Digest"]
    with noted(shared) as seen:
        again = person.fragment(*QUEUE, digest=mark)
    assert (again.status_code, again.data, seen) == (204, b"", [])


def test_what_others_did_is_seen_after_the_second(shared: Flask, shelf_clock: Clock) -> None:
    again = reader(shared, shelf_clock).watch(*QUEUE)
    nothing_waits(shared)
    assert again() == 204
    shelf_clock.now += 1.01
    assert again() == 200


def test_a_person_sees_their_own_click_at_once_and_so_do_all_who_share_with_them(
    shared: Flask, shelf_clock: Clock
) -> None:
    tabs = copies(reader(shared, shelf_clock, "operator"), shared, 2)
    mark = tabs[0].fragment("/olts/1", "olt_live").headers["X-Digest"]
    assert tabs[1].fragment("/olts/1", "olt_live", digest=mark).status_code == 204
    tabs[0].get("/olts/1")
    shelf_clock.now += 0.1
    assert tabs[0].post("/olts/1/enabled", enabled="0").status_code == 303
    shelf_clock.now += 0.1
    seen = [tab.fragment("/olts/1", "olt_live", digest=mark) for tab in tabs]
    assert [one.status_code for one in seen] == [200, 200]
    assert "Disabled" in soup(seen[0]).get_text()


def test_a_click_that_another_process_served_counts_in_the_browser_that_clicked(
    shared: Flask, shelf_clock: Clock
) -> None:
    person, other = reader(shared, shelf_clock), reader(shared, shelf_clock)
    mine, theirs = person.watch(*QUEUE), other.watch(*QUEUE)
    shelf_clock.now += 0.1
    nothing_waits(shared)
    person.client.set_cookie("wrote", str(audience.wall_clock()))
    shelf_clock.now += 0.1
    assert (theirs(), mine()) == (204, 200)


def test_a_forged_cookie_is_no_error(shared: Flask) -> None:
    for cookie in ("", "nonsense", "nan", "inf", "-1", "1e400", "99999999999999"):
        person = english(shared, "viewer")
        person.client.set_cookie("wrote", cookie)
        assert person.fragment(*QUEUE).status_code == 200, cookie


def test_fragments_hold_no_token_and_whole_pages_hold_the_readers_own(shared: Flask) -> None:
    first, second = english(shared), english(shared)
    for person in (first, second):
        fields = soup(person.fragment("/olts/1", "olt_live")).select("[name=csrf_token]")
        assert {field["value"] for field in fields} == {""}
    first.get("/olts/1")
    mixed = second.client.post("/olts/1/enabled", data={"csrf_token": first.token, "enabled": "0"})
    assert mixed.status_code == 400
    assert first.post("/olts/1/enabled", enabled="0").status_code == 303


def test_the_token_is_written_in_another_way_in_each_page(shared: Flask) -> None:
    person = english(shared, "operator")
    tokens = set()
    for _ in range(3):
        page = person.get("/olts/1").text
        tokens.add(person.token)
        assert set(re.findall(r'name="csrf_token" value="([^"]*)"', page)) == {person.token}
        assert person.post("/olts/1/enabled", enabled="1").status_code == 303
    assert len(tokens) == 3


def test_messages_wait_for_a_whole_page(shared: Flask) -> None:
    person = english(shared, "operator")
    person.get("/olts/1")
    person.post("/olts/1/enabled", enabled="0")
    assert texts(person.fragment("/olts/1", "olt_live"), "[data-flash]") == []
    assert "is disabled" in texts(person.get("/olts/1"), "[data-flash]")[0]


def test_whoever_was_switched_off_is_out_after_a_second(shared: Flask, shelf_clock: Clock) -> None:
    person = reader(shared, shelf_clock)
    assert person.fragment(*QUEUE).status_code == 200
    update_rows(shared, User, User.username == "viewer", active=False)
    shelf_clock.now += 1.01
    assert person.fragment(*QUEUE).status_code == 401


def test_a_stranger_gets_nothing_that_is_there(shared: Flask) -> None:
    english(shared, "viewer").fragment(*QUEUE)
    assert Visitor(shared).fragment(*QUEUE).status_code == 401


def test_what_only_a_higher_role_may_see_is_not_given_from_the_shelf(shared: Flask) -> None:
    english(shared, "admin").fragment("/credentials/1", "form")
    assert english(shared, "viewer").fragment("/credentials/1", "form").status_code == 403


def test_a_rendering_that_fails_keeps_nobody_waiting(shared: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    person = english(shared, "viewer")
    monkeypatch.setattr(live, "digest", lambda _html: 1 / 0)
    assert person.fragment(*QUEUE).status_code == 500
    monkeypatch.undo()
    assert person.fragment(*QUEUE).status_code == 200


# ------------------------------------------------------------------------------------------------------------- weight


def test_a_fragment_is_packed_for_whoever_takes_it(shared: Flask) -> None:
    person = english(shared, "viewer")
    plain = person.fragment(*QUEUE)
    headers = {"HX-Request": "true", "HX-Target": "queue_live", "Accept-Encoding": "gzip"}
    packed = person.client.get("/queue/", headers=headers)
    assert (packed.headers["Content-Encoding"], gzip.decompress(packed.data)) == ("gzip", plain.data)
    assert "Accept-Encoding" in packed.headers["Vary"]


@pytest.mark.parametrize(("accepted", "unpack"), [("br", brotli.decompress), ("gzip", gzip.decompress)])
def test_pages_and_files_are_packed_as_the_browser_takes_them(seeded: Flask, accepted: str, unpack: Any) -> None:
    person = english(seeded, "viewer")
    for path in ("/queue/", "/static/vendor/tabler/tabler.min.css", "/static/js/live.js"):
        packed, plain = (person.client.get(path, headers=headers) for headers in ({"Accept-Encoding": accepted}, {}))
        assert packed.headers["Content-Encoding"] == accepted, path
        assert len(unpack(packed.data)) > len(packed.data) * 2, path
        assert "Content-Encoding" not in plain.headers


def test_the_first_page_weighs_less_than_350_kilobytes(seeded: Flask) -> None:
    """With all that it names, as gzip: what a browser without brotli fetches."""
    person = english(seeded, "viewer")
    page = person.client.get("/", headers={"Accept-Encoding": "gzip"})
    tags = soup(person.get("/")).select("link[href], script[src], img[src]")
    files = {str(tag.get("href") or tag.get("src")) for tag in tags}
    weights = {file: len(person.client.get(file, headers={"Accept-Encoding": "gzip"}).data) for file in files}
    assert sum(weights.values()) + len(page.data) < 350_000, weights


def test_a_file_with_its_version_is_kept_for_good_and_one_without_is_asked_for_again(seeded: Flask) -> None:
    client = seeded.test_client()
    assert "immutable" in client.get("/static/js/live.js?v=1").headers["Cache-Control"]
    first = client.get("/static/js/live.js", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Cache-Control"] == "no-cache"
    headers = {"Accept-Encoding": "gzip", "If-None-Match": first.headers["ETag"]}
    again = client.get("/static/js/live.js", headers=headers)
    assert (again.status_code, again.data) == (304, b"")
    font = client.get("/static/vendor/inter/inter-latin-wght-normal.woff2")
    assert (font.headers["Cache-Control"], "Content-Encoding" in font.headers) == ("public, max-age=2592000", False)


def test_people_of_two_roles_share_what_looks_the_same_for_both(
    shared: Flask, shelf_clock: Clock, made: list[str]
) -> None:
    people = [reader(shared, shelf_clock, name) for name in ("viewer", "operator", "admin")]
    for one in people:  # now it is known what these fragments ask of their readers
        one.fragment("/pulse", "pulse")
        one.fragment("/olts/1", "olt_live")
    shelf_clock.now += 10
    made.clear()
    strips = {one.fragment("/pulse", "pulse").data for one in people}
    olts = [one.fragment("/olts/1", "olt_live") for one in people]
    assert (made, len(strips)) == (["pulse", "olt_live", "olt_live"], 1)
    assert [soup(one).select("form") != [] for one in olts] == [False, True, True]


def test_a_fragment_that_asks_for_more_than_before_is_shown_to_nobody_else(shared: Flask, shelf_clock: Clock) -> None:
    """As when what it shows for the first time has a button for some."""
    operator, viewer = (reader(shared, shelf_clock, name) for name in ("operator", "viewer"))
    shared.extensions["live"].asked[("olts.detail", "olt_live")] = frozenset()
    forms = [soup(one.fragment("/olts/1", "olt_live")).select("form") != [] for one in (operator, viewer)]
    assert forms == [True, False]
    assert shared.extensions["live"].asked[("olts.detail", "olt_live")] == {Role.OPERATOR}
