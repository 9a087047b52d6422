"""Several OLTs at once: ticking, enabling, disabling, pausing and resuming; the same way for one from its page."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import Tag
from flask import Flask, request
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from portal import clock
from portal.domain.statuses import ExecutionStatus, OltState
from portal.extensions import db
from portal.queries import olts
from portal.tables import AuditLog, Execution, Olt
from portal.web import olt_picks
from testing import builders, seed
from testing.cast import at
from testing.pages import Visitor, path_of, soup, text_of, title_of
from testing.web import complaints, english, update_rows, written

LIST = "/olts/?state=up"
GUNICORN_LINE = 4094  # octets of a request's first line that gunicorn takes


@pytest.fixture
def three(app: Flask) -> Flask:
    """OLT-A (1), OLT-B (2) and OLT-C (3), each with a discovery."""
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_three()
    return app


def olts_of(app: Flask) -> list[Olt]:
    with app.app_context():
        found = db.session.query(Olt).order_by(Olt.id).all()
        db.session.expunge_all()
        return found


def bulk(person: Visitor, action: str, *ids: object, **values: str) -> TestResponse:
    """The form of the list, sent with these OLTs ticked."""
    given = [("csrf_token", person.token), ("action", action), *(("olt", str(one)) for one in ids), *values.items()]
    return person.client.post("/olts/bulk", data=MultiDict(given))


def test_each_row_has_a_box_that_belongs_to_the_form_outside_of_the_live_part(three: Flask) -> None:
    page = soup(english(three).get("/olts/"))
    boxes = page.select("#olts_live [data-pick]")
    assert [(box["form"], box["name"], box["value"]) for box in boxes] == [("bulk", "olt", str(n)) for n in (1, 2, 3)]
    assert [str(box["aria-label"]) for box in boxes] == ["Choose OLT-A", "Choose OLT-B", "Choose OLT-C"]
    form = page.select_one("form#bulk")
    assert form.find_parent(id="olts_live") is None
    actions = [button["value"] for button in form.select("button[name=action]")]
    assert actions == ["pause", "resume", "enable", "disable", "template"]


def test_applying_a_template_goes_on_with_the_chosen_olts(three: Flask) -> None:
    person = english(three)
    place = path_of(bulk(person, "template", 1, 3, next=LIST).headers["Location"])
    assert urlsplit(place).path == "/workflows/templates/apply"
    assert parse_qs(urlsplit(place).query)["olts"] == ["1.3"]
    assert person.get(place).status_code == 200


@pytest.mark.parametrize("action", ["pause", "disable", "template"])
@pytest.mark.parametrize("step", [1, 2, 97])
def test_a_thousand_olts_fit_into_the_request_line_that_follows(three: Flask, action: str, step: int) -> None:
    ids = list(range(1, 1000 * step + 1, step))
    place = path_of(bulk(english(three), action, *ids, next=LIST).headers["Location"])
    assert len(f"GET {place} HTTP/1.1\r\n") < GUNICORN_LINE
    with three.test_request_context(place):
        assert olt_picks.chosen(request.args) == ids


@given(st.lists(st.integers(1, 2**31 - 1), max_size=300, unique=True))
def test_packed_numbers_come_back(ids: list[int]) -> None:
    assert olt_picks.unpacked(olt_picks.packed(ids)) == sorted(ids)


@pytest.mark.parametrize("text", ["~", "~_", "~__________", "~é", "~a", "~" + "B" * 5000, "~" + "b" * 5000])
def test_a_packed_text_of_somebody_else_is_no_error(text: str) -> None:
    assert len(olt_picks.unpacked(text)) <= olt_picks.MOST


def test_a_viewer_has_neither_boxes_nor_bar_and_may_do_nothing(three: Flask) -> None:
    person = english(three, "viewer")
    assert soup(person.get("/olts/")).select("[data-pick], #pick-all, #bulk") == []
    assert bulk(person, "enable", 1).status_code == 403
    assert person.get("/olts/pause?olt=1").status_code == 403
    assert person.post("/olts/disable?olt=1").status_code == 403
    assert all(olt.enabled for olt in olts_of(three))


def test_the_form_returns_to_the_list_as_it_was_filtered(three: Flask) -> None:
    person = english(three)
    back = soup(person.get("/olts/?q=OLT&sort=-name")).select_one("#bulk [name=next]")
    answer = bulk(person, "enable", 1, next=str(back["value"]))
    assert path_of(answer.headers["Location"]) == "/olts/?q=OLT&sort=-name"


def test_no_other_host_is_returned_to(three: Flask) -> None:
    person = english(three)
    for evil in ("//evil.example", "https://evil.example/", "\\\\evil.example"):
        assert path_of(bulk(person, "enable", 1, next=evil).headers["Location"]) == "/olts/"
        page = soup(person.client.get("/olts/pause", query_string={"olt": 1, "next": evil}))
        assert page.select("a[href*=evil]") == []
        form = {"csrf_token": person.token}
        answer = person.client.post("/olts/disable", query_string={"olt": 1, "next": evil}, data=form)
        assert path_of(answer.headers["Location"]) == "/olts/"


def test_several_are_enabled_at_once_and_the_number_is_told(three: Flask) -> None:
    update_rows(three, Olt, enabled=False)
    person = english(three)
    assert bulk(person, "enable", 1, 3, next=LIST).status_code == 303
    assert [olt.enabled for olt in olts_of(three)] == [True, False, True]
    assert "2 OLTs are enabled." in text_of(person.get("/olts/"))
    bulk(person, "enable", 1)
    assert "Nothing to do: enabled already." in text_of(person.get("/olts/"))


def question(person: Visitor, action: str, *ids: object) -> str:
    answer = bulk(person, action, *ids, next=LIST)
    assert answer.status_code == 303
    return path_of(answer.headers["Location"])


def test_disabling_asks_first_and_names_how_many_and_which(three: Flask) -> None:
    with three.app_context():
        due = clock.now()
        db.session.add(Execution(node_id=1, node_name="x", olt_id=1, device_key="d", priority=1, scheduled_for=due))
        db.session.commit()
    person = english(three)
    path = question(person, "disable", 1, 2)
    assert all(olt.enabled for olt in olts_of(three))
    page = person.get(path)
    assert title_of(page) == "Disable 2 OLTs"
    assert [tag.get_text() for tag in soup(page).select(".fx-chosen li")] == ["OLT-A", "OLT-B"]
    answer = person.post(path)
    assert (answer.status_code, path_of(answer.headers["Location"])) == (303, LIST)
    assert [olt.enabled for olt in olts_of(three)] == [False, False, True]
    assert "2 OLTs are disabled." in text_of(person.get("/olts/"))
    with three.app_context():
        assert db.session.scalars(select(Execution.status)).all() == [ExecutionStatus.INTERRUPTED]
        assert db.session.query(AuditLog).filter_by(action="olt.disable", actor="operator").count() == 2


def test_a_bulk_without_a_choice_says_so(three: Flask) -> None:
    person = english(three)
    for ids in ((), ("x",), (0,), (-4,), (2**40,)):
        bulk(person, "enable", *ids)
        assert "Choose at least one OLT." in text_of(person.get("/olts/"))


def test_an_action_that_does_not_exist_is_a_bad_request(three: Flask) -> None:
    person = english(three)
    person.get("/olts/")
    assert bulk(person, "explode", 1).status_code == 400


def test_one_that_was_deleted_meanwhile_stops_the_whole_and_is_named(three: Flask) -> None:
    update_rows(three, Olt, enabled=False)
    person = english(three)
    person.get("/olts/")
    bulk(person, "enable", 1, 77)
    assert "Nothing was changed: there are no OLTs of the numbers 77" in text_of(person.get("/olts/"))
    assert not any(olt.enabled for olt in olts_of(three))


def test_pausing_asks_for_the_reason_and_takes_an_end_in_the_portals_zone(three: Flask) -> None:
    person = english(three)
    path = question(person, "pause", 2, 3)
    page = person.get(path)
    assert title_of(page) == "Pause 2 OLTs"
    assert "America/Lima" in text_of(page)
    answer = person.post(path, reason="new rectifier", until="2100-01-02T12:30")
    assert (answer.status_code, path_of(answer.headers["Location"])) == (303, LIST)
    free, *paused = [(olt.state, olt.paused_reason, olt.paused_until) for olt in olts_of(three)]
    assert paused == [(OltState.PAUSED, "new rectifier", datetime(2100, 1, 2, 17, 30, tzinfo=UTC))] * 2
    assert free[0] is not OltState.PAUSED
    assert "2 OLTs are paused." in text_of(person.get("/olts/"))


def test_a_pause_without_end_lasts_until_somebody_resumes(three: Flask) -> None:
    person = english(three)
    person.get("/olts/1")
    assert person.post("/olts/pause?olt=1", reason="work").status_code == 303
    assert (olts_of(three)[0].state, olts_of(three)[0].paused_until) == (OltState.PAUSED, None)
    assert "until somebody resumes it" in text_of(person.get("/olts/1"))


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"reason": "", "until": ""}, "reason", "required"),
    ({"reason": "x" * 256, "until": ""}, "reason", "255"),
    ({"reason": "work", "until": "2001-01-01T00:00"}, "until", "future"),
    ({"reason": "work", "until": "soon"}, "until", "Not a valid"),
]


def test_a_wrong_pause_is_told_beside_its_field(three: Flask) -> None:
    person = english(three)
    person.get("/olts/1")
    for typed, field, word in WRONG:
        answer = person.post("/olts/pause?olt=1&olt=2", **typed)
        assert (answer.status_code, word in complaints(answer)[field]) == (422, True), typed
    assert all(olt.state is not OltState.PAUSED for olt in olts_of(three))


def test_the_ends_that_are_offered_lie_in_the_future(three: Flask) -> None:
    person = english(three)
    for button in soup(person.get("/olts/pause?olt=1")).select("[data-fill=f-until]"):
        assert person.post("/olts/pause?olt=1", reason="x", until=str(button["data-value"])).status_code == 303
    assert olts_of(three)[0].state is OltState.PAUSED


def test_several_are_resumed_and_an_unreachable_one_is_asked_at_once(three: Flask) -> None:
    later = clock.now() + timedelta(minutes=15)
    with written(three) as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state=OltState.PAUSED, paused_reason="x"))
        session.execute(update(Olt).where(Olt.id == 2).values(state=OltState.UNREACHABLE, probe_at=later))
    person = english(three)
    person.get("/olts/")
    bulk(person, "resume", 1, 2, 3)
    first, second, _third = olts_of(three)
    assert (first.state, first.paused_reason) == (OltState.UNKNOWN, "")
    assert second.state is OltState.UNREACHABLE and second.probe_at < later
    assert "2 OLTs go on." in text_of(person.get("/olts/"))
    bulk(person, "resume", 3)
    assert "Nothing to do: neither paused nor unreachable." in text_of(person.get("/olts/"))


def test_questions_about_nothing_lead_back_to_the_list(three: Flask) -> None:
    person = english(three)
    for path in ("/olts/pause", "/olts/disable?olt=99", "/olts/pause?olt=x&next=/olts/1"):
        assert path_of(person.get(path).headers["Location"]) in ("/olts/", "/olts/1")


def notice(person: Visitor) -> Tag:
    return soup(person.get("/olts/1")).select_one("#olt_live > .fx-notice")  # type: ignore[return-value]


def words(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").replace("\u202f", " ").split())


def send(person: Visitor, form: Tag) -> TestResponse:
    values = {str(tag["name"]): str(tag["value"]) for tag in form.select("input")}
    return person.client.post(str(form["action"]), data=values)


def test_an_unreachable_olt_says_since_when_how_often_asked_and_when_next(three: Flask) -> None:
    now = clock.now()
    update_rows(three, Olt, state=OltState.UNREACHABLE, state_since=now - timedelta(minutes=12), consecutive_failures=3,
           probes_sent=9, probe_at=now + timedelta(seconds=130))  # fmt: skip
    person = english(three)
    text = words(notice(person))
    told = ("did not answer 3 times in a row", "it has never answered", "( 12 min )", "asked 9 times meanwhile")
    for part in (*told, "asked again in 2 min", "Ask now"):
        assert part in text
    assert path_of(send(person, notice(person).select_one("form")).headers["Location"]) == "/olts/1"
    assert "it is being asked now" in words(notice(person))
    assert notice(person).select_one("form") is None


def test_a_paused_olt_says_why_and_until_when_and_is_resumed_from_its_page(three: Flask) -> None:
    told = {"paused_reason": "new <rectifier>", "paused_until": datetime(2100, 1, 2, 17, 30, tzinfo=UTC)}
    update_rows(three, Olt, state=OltState.PAUSED, state_since=clock.now(), **told)
    person = english(three)
    text = words(notice(person))
    assert "new <rectifier>" in text and "until 2 Jan 2100 12:30" in text
    send(person, notice(person).select_one("form"))
    assert olts_of(three)[0].state is OltState.UNKNOWN


def test_the_menu_of_an_olt_leads_to_its_pause_and_back(three: Flask) -> None:
    person = english(three)
    link = next(tag for tag in soup(person.get("/olts/1")).select("a.dropdown-item") if "Pause" in tag.get_text())
    parts = urlsplit(str(link["href"]))
    assert (parts.path, parse_qs(parts.query)) == ("/olts/pause", {"olt": ["1"], "next": ["/olts/1"]})
    assert title_of(person.get(str(link["href"]))) == "Pause OLT-A"
    assert path_of(person.post(str(link["href"]), reason="work").headers["Location"]) == "/olts/1"


NOON = at("12:00")
HELD: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"enabled": False}, False),
    ({"state": OltState.UNREACHABLE}, False),
    ({"state": OltState.PAUSED}, False),
    ({"state": OltState.PAUSED, "paused_until": NOON + timedelta(seconds=1)}, False),
    ({"state": OltState.PAUSED, "paused_until": NOON - timedelta(seconds=1)}, True),
]


@pytest.mark.parametrize(("values", "shown"), HELD)
def test_a_next_run_that_would_be_skipped_is_not_shown(values: dict[str, Any], shown: bool) -> None:
    olt = Olt(**({"enabled": True, "state": OltState.UP} | values))
    assert olts.expected(olt, NOON) == (NOON if shown else None)
    assert olts.expected(olt, None) is None


def test_the_start_page_leads_to_the_olts_that_are_held_back(three: Flask) -> None:
    with written(three) as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state=OltState.UNREACHABLE))
        session.execute(update(Olt).where(Olt.id == 2).values(state=OltState.PAUSED))
        session.execute(update(Olt).where(Olt.id == 3).values(enabled=False))
    links = soup(english(three).get("/")).select(".fx-lead a")
    assert [(str(link["href"]), link.get_text()) for link in links] == [
        ("/olts/?state=unreachable", "1 unreachable"),
        ("/olts/?state=paused", "1 paused"),
        ("/olts/?state=disabled", "1 disabled"),
    ]
