"""A tab's second look is answered without Flask, and only as long as nothing about its answer can differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal.queries import people
from portal.tables import User
from portal.web import audience, polls
from portal.web.audience import Board
from testing import seed
from testing.databases import Databases, settings_for
from testing.pages import Visitor, soup
from testing.web import Clock, copies, reader, stored, update_rows

QUEUE = ("/queue/", "queue_live")
SELF_MADE = {"Content-Length", "Content-Type", "Content-Encoding", "X-Digest"}


def watching(app: Flask, shelf_clock: Clock, username: str = "viewer") -> Visitor:
    """Somebody whose page has been open for a while."""
    person = reader(app, shelf_clock, username)
    person.fragment("/pulse", "pulse")
    return person


@pytest.fixture
def person(shared: Flask, shelf_clock: Clock) -> Visitor:
    return watching(shared, shelf_clock)


@pytest.fixture
def served(shared: Flask, person: Visitor, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that Flask was asked for."""
    seen: list[str] = []
    original = shared.full_dispatch_request

    def noted() -> Any:
        from flask import request  # noqa: PLC0415  (only inside of a request)

        seen.append(request.path)
        return original()

    monkeypatch.setattr(shared, "full_dispatch_request", noted)
    return seen


def looks(person: Visitor, count: int, digest: str = "") -> list[TestResponse]:
    return [person.fragment(*QUEUE, digest) for _ in range(count)]


def test_the_second_look_is_answered_without_flask_by_the_same_words_and_headers(
    person: Visitor, served: list[str]
) -> None:
    first, *later = looks(person, 3)
    assert served == ["/queue/"]
    for one in later:
        assert (one.status_code, one.text, dict(one.headers)) == (200, first.text, dict(first.headers))


def test_an_unchanged_one_is_told_so_without_flask(person: Visitor, served: list[str]) -> None:
    first = person.fragment(*QUEUE)
    served.clear()
    (same,) = looks(person, 1, first.headers["X-Digest"])
    assert (same.status_code, same.data, served) == (204, b"", [])
    before, after = (set(dict(one.headers)) for one in (first, same))
    assert before - after == SELF_MADE & before


def test_flask_sees_a_tab_again_after_ten_minutes_for_a_session_may_be_too_old(
    shared: Flask, shelf_clock: Clock, person: Visitor, served: list[str]
) -> None:
    other = watching(shared, shelf_clock, "operator")
    looks(person, 1)
    for passed, asked in ((polls.LOOK_LIFE - 1, []), (1.0, ["/queue/"])):
        shelf_clock.now += passed
        looks(other, 1)
        person.fragment("/pulse", "pulse")
        served.clear()
        looks(person, 1)
        assert served == asked


def test_a_packed_answer_is_the_same_to_whoever_takes_it(person: Visitor, served: list[str]) -> None:
    headers = {"HX-Request": "true", "HX-Target": "queue_live", "Accept-Encoding": "gzip, deflate"}
    first, again = (person.client.get("/queue/", headers=headers) for _ in range(2))
    assert first.headers["Content-Encoding"] == again.headers["Content-Encoding"] == "gzip"
    assert (first.data, served) == (again.data, ["/queue/"])


def test_whatever_may_change_the_answer_is_judged_by_flask(person: Visitor, served: list[str]) -> None:
    looks(person, 2)
    served.clear()
    odd = {"HX-Boosted": "true", "HX-History-Restore-Request": "true", "Accept-Encoding": "gzip;q=0"}
    for name, value in (odd | {"User-Agent": "another browser", "Accept-Language": "en"}).items():
        person.client.get("/queue/", headers={"HX-Request": "true", "HX-Target": "queue_live", name: value})
    assert served == ["/queue/"] * 5


def test_nobody_is_taken_for_another(shared: Flask, shelf_clock: Clock, person: Visitor) -> None:
    operator = watching(shared, shelf_clock, "operator")
    seen = [soup(one.fragment("/olts/1", "olt_live")).select("form") != [] for one in (person, operator) * 2]
    assert seen == [False, True] * 2
    assert looks(Visitor(shared), 1)[0].status_code == 401


def test_whoever_has_just_changed_something_is_answered_by_flask(
    shared: Flask, shelf_clock: Clock, served: list[str]
) -> None:
    person = watching(shared, shelf_clock, "operator")
    looks(person, 2)
    person.post("/olts/1/enabled", enabled="0")
    served.clear()
    looks(person, 2)
    assert served == ["/queue/", "/queue/"]


def test_a_change_of_rights_by_anybody_here_ends_it_at_once(shared: Flask, shelf_clock: Clock, person: Visitor) -> None:
    admin = reader(shared, shelf_clock, "admin")
    looks(person, 2)
    (found,) = stored(shared, select(User.id).where(User.username == "viewer"))
    assert admin.post(f"/settings/users/{found}/active", active="0").status_code == 303
    looks(admin, 1)  # and so it is known again who everybody is
    assert looks(person, 1)[0].status_code == 401


def test_a_change_of_rights_elsewhere_is_seen_after_a_second(
    shared: Flask, shelf_clock: Clock, person: Visitor
) -> None:
    shelf_clock.now += 0.9
    looks(person, 2)  # it could be shown for a second from now
    update_rows(shared, User, User.username == "viewer", session_epoch=User.session_epoch + 1)
    shelf_clock.now += 0.2
    assert looks(person, 1)[0].status_code == 401


def test_who_logs_out_in_one_tab_is_out_in_all(shared: Flask, person: Visitor) -> None:
    (other,) = copies(person, shared, 1)
    assert [one.status_code for one in looks(other, 2)] == [200, 200]
    person.post("/logout")
    assert looks(other, 1)[0].status_code == 401


def test_an_answer_with_a_header_of_its_own_is_not_given_to_the_next_look(
    shared: Flask, person: Visitor, served: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def personal(response: Any) -> Any:
        response.headers["X-Only-Now"] = "1"
        return response

    monkeypatch.setitem(shared.after_request_funcs, None, [*shared.after_request_funcs[None], personal])
    looks(person, 3)
    assert served == ["/queue/"] * 3


def test_the_header_of_a_followed_log_goes_to_all_who_share_it(person: Visitor) -> None:
    answers = [person.fragment("/log/?follow=1", "log_live") for _ in range(3)]
    assert len({one.headers["X-Newest"] for one in answers}) == 1


def test_looks_that_nobody_repeats_do_not_pile_up(
    shared: Flask, person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polls, "MOST_LOOKS", 5)
    for number in range(12):
        person.fragment(f"/queue/?n={number}", "queue_live")
    assert 0 < len(shared.wsgi_app._looks) <= 5  # type: ignore[attr-defined]


def test_behind_a_proxy_a_stolen_cookie_is_no_look_that_was_answered_before(
    databases: Databases, tmp_path: Path
) -> None:
    app = databases.app(replace(settings_for(databases.own("sqlite", tmp_path), tmp_path), proxies=1))
    seed.seed(app, "few")
    person = Visitor(app)
    person.client.environ_base["HTTP_X_FORWARDED_FOR"] = "203.0.113.5"
    assert person.login("viewer").status_code == 303
    person.client.delete_cookie("wrote")
    person.fragment("/pulse", "pulse")
    assert [one.status_code for one in looks(person, 2)] == [200, 200]
    (thief,) = copies(person, app, 1)
    thief.client.environ_base["HTTP_X_FORWARDED_FOR"] = "198.51.100.9"
    assert looks(thief, 1)[0].status_code == 401


def test_a_write_that_changes_nobodys_rights_costs_one_question_and_no_tab_its_place(
    shared: Flask, shelf_clock: Clock, person: Visitor, served: list[str]
) -> None:
    operator = reader(shared, shelf_clock, "operator")
    looks(person, 2)
    operator.post("/olts/1/enabled", enabled="0")
    served.clear()
    looks(person, 3)
    assert served == ["/queue/"]


def test_a_write_while_the_database_is_being_asked_is_not_missed(
    shared: Flask, shelf_clock: Clock, person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: Board = shared.extensions["live"]
    asked: list[int] = []

    def slow() -> Any:
        asked.append(1)
        if len(asked) == 1:
            board.doubt_people()  # somebody else's write is committed after these rows were read
        return people.standing()

    monkeypatch.setattr(audience, "standing", slow)
    shelf_clock.now += 2
    looks(person, 2)
    assert len(asked) == 2
