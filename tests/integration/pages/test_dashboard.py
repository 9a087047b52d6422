"""The start page: what is wrong now and where it leads, charts, first steps, and what it costs."""

from datetime import timedelta

from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.statuses import OltState
from portal.extensions import db
from portal.tables import AuditLog, Olt, OltDevice, Poller, QuotaTracker, QuotaViolation, SchedulerState, WorkflowNode
from testing import builders, seed
from testing.pages import Visitor, element, missing, path_of, soup, text_of, texts
from testing.web import add_olts, delete_rows, english, statements, stored, update_rows, written


def wrong(person: Visitor) -> dict[str, str]:
    """What is wrong now: the words of each line → where it leads."""
    lines = soup(person.get("/")).select(".ds-line")
    return {text_of(line): str(line["href"]) for line in lines}


def calm(app: Flask) -> None:
    """Nothing is wrong any more."""
    seed.keep_alive(app)
    delete_rows(app, QuotaViolation, QuotaTracker)
    update_rows(app, Poller, busy_last_minute=10)


def test_a_calm_system_says_so(seeded: Flask) -> None:
    calm(seeded)
    person = english(seeded, "viewer")
    assert [line for line in wrong(person) if "waits" not in line] == []


def test_olts_that_do_not_answer_come_with_since_and_why_and_lead_to_their_page(seeded: Flask) -> None:
    calm(seeded)
    ago = clock.now() - timedelta(minutes=12)
    update_rows(seeded, Olt, Olt.id == 1, state=OltState.UNREACHABLE, state_since=ago, consecutive_failures=5)
    update_rows(seeded, Olt, Olt.id == 2, state=OltState.PAUSED, state_since=ago, paused_reason="power works")
    found = wrong(english(seeded, "viewer"))
    assert found["OLT-LIMA-01 does not answer: 5 times in a row 12 min"] == "/olts/1"
    assert found["OLT-CUSCO-02 paused: power works 12 min"] == "/olts/2"


def test_more_olts_than_can_be_named_lead_to_the_list(seeded: Flask) -> None:
    ids = add_olts(seeded, 15, state=OltState.UNREACHABLE, state_since=clock.now())
    update_rows(seeded, Olt, Olt.id.in_(ids[:2]), refused=True)
    update_rows(seeded, Olt, Olt.id == ids[2], state=OltState.UP, stale_at=clock.now() + timedelta(hours=1))
    with written(seeded) as session:
        session.add(OltDevice(olt_id=ids[2], witnesses={}, other={"name": "MA5800-X7", "since": "", "onus": 0}))
    person = english(seeded)
    found, lead = wrong(person), soup(person.get("/")).select_one(".fx-lead")
    assert found["4 more do not answer"] == "/olts/?state=unreachable"
    assert found["2 more with a refused credential"] == "/olts/?state=refused"
    assert found["1 more with another device"] == "/olts/?state=other_device"
    assert lead and "2 with a refused credential · 1 with another device" in text_of(lead)


def test_a_silent_scheduler_is_the_first_line(seeded: Flask) -> None:
    update_rows(seeded, SchedulerState, last_tick_at=clock.now() - timedelta(seconds=6))
    assert next(iter(wrong(english(seeded)))).startswith("The scheduler is silent")
    seed.keep_alive(seeded)
    assert not any("silent" in line for line in wrong(english(seeded)))


def test_no_poller_and_a_saturated_pool_are_told(seeded: Flask) -> None:
    update_rows(seeded, Poller, busy_last_minute=58, seen_at=clock.now())
    assert any("The pool is saturated: 97 % busy" in line for line in wrong(english(seeded)))
    update_rows(seeded, Poller, seen_at=clock.now() - timedelta(minutes=5))
    assert any(line.startswith("No poller runs") for line in wrong(english(seeded)))


def test_violations_count_until_somebody_acknowledges_them(seeded: Flask) -> None:
    person = english(seeded)
    (line,) = [text for text in wrong(person) if "violations are open" in text]
    assert "Critical" in line
    assert wrong(person)[line] == "/violations/?seen=no&window=24h"
    update_rows(seeded, QuotaViolation, acknowledged_at=clock.now(), acknowledged_by="rosa")
    assert not any("violations are open" in text for text in wrong(person))


def test_the_runs_of_a_day_are_drawn_from_the_promises(seeded: Flask) -> None:
    page = soup(english(seeded).get("/"))
    since = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
    done = sum(stored(seeded, select(QuotaTracker.quota_completed).where(QuotaTracker.period_start >= since)))
    assert (len(page.select(".ds-runs g")), missing(element(page, ".ds-key"), f"runs done {done}")) == (25, [])


def test_the_page_costs_no_more_for_many_olts(seeded: Flask) -> None:
    person = english(seeded)
    few = statements(seeded, person, "/")
    test_more_olts_than_can_be_named_lead_to_the_list(seeded)
    assert statements(seeded, person, "/") <= few <= 12


# ---------------------------------------------------------------------------------------------------------- first steps


def steps(person: Visitor) -> list[str]:
    """Titles of the steps that are done, then of the one that is next with where its button leads."""
    card = soup(person.get("/")).select_one("#first-steps")
    if card is None:
        return []
    button = card.select_one(".is-next a")
    title = text_of(element(card, ".is-next strong"))
    return [*texts(card, ".is-done strong"), f"→ {title}", str(button["href"]) if button else ""]


def test_the_first_steps_lead_from_a_credential_to_a_live_onu(people: Flask) -> None:
    person = english(people, "admin")
    assert steps(person)[-2:] == ["→ Store an SNMP credential", "/credentials/new"]
    with people.app_context():
        olt_id = builders.make_olt().id
    assert steps(person)[-2:] == ["→ Test the connection", f"/olts/{olt_id}"]
    with people.app_context():
        builders.make_node(db.session.get_one(Olt, olt_id))
    update_rows(people, WorkflowNode, last_success_at=clock.now())
    assert steps(person)[-2:] == ["→ See the first ONU live", "/onus/"]
    with people.app_context():
        builders.make_onus(olt_id, [{"online": True}])
    assert steps(person) == []


def test_the_first_steps_are_put_away_for_everybody(people: Flask) -> None:
    person = english(people)
    answer = person.post("/first-steps/hide")
    assert (answer.status_code, path_of(answer)) == (303, "/")
    assert steps(english(people, "viewer")) == []
    assert stored(people, select(AuditLog.action)).count("first_run.dismiss") == 1
    assert english(people, "viewer").post("/first-steps/hide").status_code == 403


def test_an_operator_is_told_who_can_store_the_credential(people: Flask) -> None:
    assert "An administrator can do that" in text_of(english(people).get("/"))
