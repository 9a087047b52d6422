"""Deleted OLTs: what is listed of them, how one comes back when its name or address is taken, the same by command."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from portal.queries import deleted_olts
from portal.services.dispatch import clock
from portal.services.errors import Invalid, NotFound
from portal.services.network import olts
from portal.tables import AuditLog, Olt, WorkflowNode
from testing.builders import make_node, make_olt
from testing.cast import ACTOR


def deleted(name: str, now: datetime, reason: str = "replaced", **fields: Any) -> Olt:
    olt = make_olt(name, **fields)
    olts.delete(olt.id, reason, ACTOR, now)
    return olt


def test_the_list_says_why_when_by_whom_and_who_has_name_and_address_now(session: Session, now: datetime) -> None:
    deleted("OLT-OLD", now, "burnt", address="10.0.0.1")
    deleted("OLT-FREE", now + timedelta(hours=1), address="10.0.0.2")
    make_olt("OLT-OLD", address="10.0.0.3")
    make_olt("OLT-NEW", address="10.0.0.1")
    free, old = deleted_olts.page().rows
    assert (free.name, free.name_taken, free.address_taken) == ("OLT-FREE", False, "")
    assert (old.reason, old.deleted_at, old.by) == ("burnt", now, ACTOR)
    assert (old.name_taken, old.address_taken) == (True, "OLT-NEW")
    assert [row.name for row in deleted_olts.page("burnt").rows] == ["OLT-OLD"]
    assert deleted_olts.count() == 2


def test_every_deleted_olt_is_listed_once_page_after_page(session: Session, now: datetime) -> None:
    for number in range(5):
        deleted(f"OLT-{number}", now, address=f"10.0.0.{number + 1}")
    first = deleted_olts.page(size=2)
    second = deleted_olts.page(cursor=first.next, size=2)
    assert [row.name for row in (*first.rows, *second.rows)] == ["OLT-4", "OLT-3", "OLT-2", "OLT-1"]
    assert len(deleted_olts.everything()) == 5


def test_it_comes_back_under_another_name_and_address(session: Session, now: datetime) -> None:
    old = deleted("OLT-OLD", now, address="10.0.0.1")
    make_olt("OLT-OLD", address="10.0.0.1")
    with pytest.raises(Invalid) as caught:
        olts.restore(old.id, ACTOR, now, {"name": "OLT-BACK", "address": "10.0.0.9"})
    assert caught.value.errors.keys() == {"credential_confirmed"}
    olts.restore(old.id, ACTOR, now, {"name": "OLT-BACK", "address": "10.0.0.9", "credential_confirmed": True})
    session.expire_all()
    assert (old.name, old.address, old.enabled, old.deleted_at) == ("OLT-BACK", "10.0.0.9", False, None)
    told = session.query(AuditLog).filter_by(action="olt.restore").one()
    assert told.changes == {"name": ["OLT-OLD", "OLT-BACK"], "address": ["10.0.0.1", "10.0.0.9"]}


def test_an_address_that_is_none_brings_nothing_back(session: Session, now: datetime) -> None:
    old = deleted("OLT-OLD", now)
    with pytest.raises(Invalid) as caught:
        olts.restore(old.id, ACTOR, now, {"address": "not an address"})
    assert "address" in caught.value.errors
    session.expire_all()
    assert old.deleted_at == now


def test_an_olt_in_service_is_not_restored(session: Session, now: datetime) -> None:
    with pytest.raises(NotFound):
        olts.restore(make_olt().id, ACTOR, now)


def test_commands_list_and_restore(app: Flask, session: Session, now: datetime) -> None:
    runner = app.test_cli_runner()
    assert "no OLT was deleted" in runner.invoke(args=["olt", "deleted"]).output
    old = deleted("OLT-OLD", now, "burnt", address="10.0.0.1")
    other = make_olt("OLT-OLD", address="10.0.0.2")
    assert "burnt" in runner.invoke(args=["olt", "deleted"]).output
    (told,) = json.loads(runner.invoke(args=["olt", "deleted", "--json"]).output)
    assert (told["name"], told["by"], told["name_taken"]) == ("OLT-OLD", ACTOR, True)
    refused = runner.invoke(args=["olt", "restore", "OLT-OLD"])
    assert (refused.exit_code, "another OLT has this name" in refused.output) == (1, True)
    assert runner.invoke(args=["olt", "restore", "OLT-OLD", "--name", "OLT-BACK"]).exit_code == 0
    session.expire_all()
    assert (old.name, old.deleted_at) == ("OLT-BACK", None)
    assert runner.invoke(args=["olt", "restore", "nobody"]).exit_code == 1
    for one in (old, other):
        olts.update(one.id, {"name": f"X{one.id}"}, ACTOR, now)
        olts.delete(one.id, "x", ACTOR, now)
    assert runner.invoke(args=["olt", "restore", str(other.id)]).exit_code == 0


def test_a_name_that_several_have_is_told_with_their_numbers(app: Flask, session: Session, now: datetime) -> None:
    first = deleted("TWICE", now, address="10.0.0.1")
    second = deleted("TWICE", now, address="10.0.0.2")
    answer = app.test_cli_runner().invoke(args=["olt", "restore", "TWICE"])
    assert answer.exit_code == 1
    assert f"numbers {second.id}, {first.id}" in answer.output


def test_a_node_of_a_deleted_olt_has_no_clock_whatever_else_is_switched_on(session: Session, now: datetime) -> None:
    node = make_node(make_olt())
    node.workflow.olt.deleted_at = now
    clock.settle(session, WorkflowNode.id == node.id, now)
    session.commit()
    assert (node.runs, node.next_run_at) == (False, None)
