"""Who holds an OLT, asking it to stop, and what happened to the OLT: on its page, with a real Redis."""

from datetime import timedelta

import pytest
from flask import Flask
from redis import Redis
from sqlalchemy import select

from jobs import claim as claims
from portal import clock
from portal.domain.messages import N_
from portal.domain.statuses import OltState
from portal.extensions import db
from portal.services.dispatch import reachability
from portal.services.network import olts
from portal.tables import AuditLog, Olt, Probe, Trial, TrialMode
from testing.cast import ACTOR
from testing.pages import Visitor, element, missing, soup, text_of, texts
from testing.web import english, written

HELD = 30.0  # seconds


def holder(person: Visitor) -> str:
    """What the page says of who holds the OLT, "" when it says nothing."""
    found = soup(person.get("/olts/1")).select_one("#holder")
    return text_of(found) if found else ""


def trial(app: Flask) -> int:
    with written(app) as session:
        now = clock.now()
        row = Trial(olt_id=1, oid="huawei.onu_state", mode=TrialMode.WALK, requested_by=ACTOR, created_at=now,
                    started_at=now)  # fmt: skip
        session.add(row)
        session.flush()
        return row.id


def test_nobody_holds_an_idle_olt(built: Flask, redis: Redis) -> None:
    assert holder(english(built)) == ""


def test_a_trial_is_named_with_what_it_reads_and_who_asked(built: Flask, redis: Redis) -> None:
    claims.hold(redis, 1, f"trial-{trial(built)}", HELD, 0)
    told = holder(english(built, "viewer"))
    assert missing(told, "A trial holds it: huawei.onu_state", "Asked for by rosa", "lets go by itself within") == []


def test_a_connection_test_a_command_and_a_poller_are_told_apart(built: Flask, redis: Redis) -> None:
    with written(built) as session:
        session.add(Probe(olt_id=1, address="10.0.0.1", port=161, credential_id=1, requested_by="luis",
                          created_at=clock.now()))  # fmt: skip
    person = english(built)
    owners = {"probe-1": "A connection test holds it", "cli-77-1": "A command at a terminal holds it",
              "vm1.1": "A poller holds it", "trial-x": "A poller holds it"}  # fmt: skip
    for owner, words in owners.items():
        redis.flushall()
        claims.hold(redis, 1, owner, HELD, 0)
        assert words in holder(person)


def test_who_holds_it_is_asked_to_stop_and_the_page_says_so(built: Flask, redis: Redis) -> None:
    mine = claims.hold(redis, 1, f"trial-{trial(built)}", HELD, 0)
    assert mine is not None
    person = english(built)
    form = element(person.get("/olts/1"), "#holder form")
    answer = person.post(str(form["action"]), token=str(mine.token))
    assert answer.status_code == 303
    with pytest.raises(claims.LeaseLost):
        claims.Lease(redis, mine, HELD).checkpoint()
    assert "It was asked to stop, and does so before its next request" in holder(person)
    assert soup(person.get("/olts/1")).select("#holder form") == []
    with built.app_context():
        assert "olt.break" in db.session.scalars(select(AuditLog.action)).all()


def test_one_that_has_ended_is_not_confused_with_the_next(built: Flask, redis: Redis) -> None:
    old = claims.hold(redis, 1, "trial-1", HELD, 0)
    assert old is not None
    claims.release(redis, old)
    new = claims.hold(redis, 1, "trial-2", HELD, 0)
    assert new is not None
    person = english(built)
    person.post("/olts/1/break", token=str(old.token))
    assert "It had ended already: nothing was stopped" in text_of(person.get("/olts/1"))
    claims.Lease(redis, new, HELD).checkpoint()


def test_a_viewer_breaks_nothing(built: Flask, redis: Redis) -> None:
    mine = claims.hold(redis, 1, "trial-1", HELD, 0)
    assert mine is not None
    person = english(built, "viewer")
    assert soup(person.get("/olts/1")).select("#holder form") == []
    assert person.post("/olts/1/break", token=str(mine.token)).status_code == 403


def test_the_page_works_without_redis(built: Flask) -> None:
    person = english(built)
    assert holder(person) == ""
    person.post("/olts/1/break", token="1")
    assert "The queue (Redis) does not answer" in text_of(person.get("/olts/1"))


# --------------------------------------------------------------------------------------------------------------- events


def events(person: Visitor) -> list[str]:
    return texts(person.get("/olts/1/past"), ".oe-text")


def test_states_pauses_and_changes_by_people_are_listed_newest_first(built: Flask) -> None:
    now = clock.now()
    with built.app_context():
        olts.pause([1], "power works", None, ACTOR, now - timedelta(hours=3))
        olts.resume([1], "luis", now - timedelta(hours=2))
        olts.update(1, {"address": "10.99.0.1"}, ACTOR, now - timedelta(hours=1))
    with written(built) as session:
        reachability.change_state(session, session.get_one(Olt, 1), OltState.UNREACHABLE, now, "3 runs timed out")
    found = events(english(built, "viewer"))
    assert "unreachable" in found[0].lower()
    assert found[1] == "OLT changed: Address: 10.20.0.2 → 10.99.0.1 by rosa"
    assert found[2].endswith("by luis")
    assert "power works" in found[3]
    assert found[3].endswith("by rosa")


def test_what_the_machine_decided_is_told_in_the_readers_language(built: Flask) -> None:
    now = clock.now()
    with written(built) as session:
        olt = session.get_one(Olt, 1)
        reachability.change_state(session, olt, OltState.UNREACHABLE, now, N_("it answered"))
    person = english(built, "viewer")
    person.post("/language", language="es")
    assert events(person)[0] == "OLT-LIMA: Aún sin leer → No responde: respondió"


def test_an_olt_without_events_says_what_would_stand_there(built: Flask) -> None:
    with written(built) as session:
        session.query(AuditLog).delete()
    assert "Nothing happened to it lately" in text_of(english(built).get("/olts/1/past"))
