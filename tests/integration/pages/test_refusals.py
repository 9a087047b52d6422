"""What services refuse, as people read it: in their language, with what they typed, and never as a broken program."""

from typing import Any

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from portal import clock
from portal.domain.messages import N_, joined
from portal.extensions import db, keyring
from portal.services.network import olts, placing
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Credential, ExecutionStep, Olt, WorkflowNode
from portal.web import metrics
from portal.web.forms import said
from testing import builders
from testing.pages import Visitor, text_of
from testing.web import complaints, english, form_values, written


def spanish(app: Flask, username: str = "operator") -> Visitor:
    made = english(app, username)
    made.post("/language", language="es")
    return made


def in_spanish(app: Flask, message: str) -> str:
    with app.test_request_context(headers={"Accept-Language": "es"}):
        app.preprocess_request()
        return said(message)


def lose_the_key(app: Flask) -> None:
    keyring.load(app, [Fernet.generate_key().decode()])


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_somebody_was_faster_at_is_a_conflict_and_no_fault_of_the_program(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def race(*_args: object) -> None:
        with unique_or_invalid({}):
            raise IntegrityError("INSERT", {}, Exception("FOREIGN KEY constraint failed"))

    monkeypatch.setattr(placing, "move_node", race)
    person = english(built)
    answer = person.post("/workflow-nodes/1/move", direction="up")
    assert answer.status_code == 409
    assert "Somebody else changed what this depends on at the same moment" in text_of(answer)
    assert "fault of the program" not in text_of(answer)
    person.post("/language", language="es")
    answer = person.post("/workflow-nodes/1/move", direction="up")
    assert "Somebody else" not in text_of(answer)
    hasty = person.client.post(
        "/workflow-nodes/1/move", data={"csrf_token": person.token}, headers={"HX-Request": "true"}
    )
    assert hasty.status_code == 409


def test_a_credential_that_only_a_deleted_olt_has_says_which_one_holds_it(built: Flask) -> None:
    person = english(built, "admin")
    with built.app_context():
        olts.delete(1, "gone", "ana", clock.now())
    page = text_of(person.get("/credentials/1"))
    assert "Used by 0 OLTs" in page
    person.post("/credentials/1/delete")
    told = text_of(person.get("/credentials/1"))
    assert "1 OLTs use it" not in told
    assert "OLT-LIMA" in told


# ----------------------------------------------------------------------------------------------------------- a lost key


def test_a_credential_whose_key_was_lost_can_be_entered_again(built: Flask) -> None:
    person = english(built, "admin")
    lose_the_key(built)
    values = form_values(person.get("/credentials/1"))
    answer = person.post("/credentials/1", **{key: value for key, value in values.items() if key != "csrf_token"})
    assert answer.status_code == 422
    assert "enter it again" in complaints(answer)["community"]
    values |= {"community": "fresh", "csrf_token": person.token}
    assert person.post("/credentials/1", **values).status_code == 303
    with built.app_context():
        assert db.session.scalars(select(Credential)).one().community == "fresh"


def test_an_olt_can_be_changed_though_the_key_of_its_credential_was_lost(built: Flask) -> None:
    person = english(built)
    values = form_values(person.get("/olts/1/edit"))
    lose_the_key(built)
    assert person.post("/olts/1/edit", **{**values, "site": "Piura", "csrf_token": person.token}).status_code == 303
    with built.app_context():
        assert db.session.scalars(select(Olt)).one().site == "Piura"


def test_a_credential_whose_key_was_lost_can_be_deleted(built: Flask) -> None:
    with built.app_context():
        unused = builders.make_credential("unused").id
    person = english(built, "admin")
    lose_the_key(built)
    assert person.post(f"/credentials/{unused}/delete").status_code == 303
    with built.app_context():
        assert [row.name for row in db.session.scalars(select(Credential))] == ["lab"]


def test_a_secret_that_cannot_be_read_says_what_to_do(built: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_args: object) -> None:
        _ = db.session.scalars(select(Credential)).one().community

    monkeypatch.setattr(placing, "move_node", read)
    person = english(built)
    lose_the_key(built)
    answer = person.post("/workflow-nodes/1/move", direction="up")
    assert answer.status_code == 503
    assert "fernet_keys" in text_of(answer)


# ----------------------------------------------------------------------------------------------- the reader's language


def test_a_message_inside_a_message_is_said_in_the_same_language(app: Flask) -> None:
    inner = N_("is missing")
    whole = N_("node %(node)s: %(reason)s", node="a", reason=inner)
    assert "missing" not in in_spanish(app, whole)
    both = N_("%(node)s: %(reason)s", node="a", reason=joined([inner, N_("must be text"), inner]))
    told = in_spanish(app, both)
    assert "missing" not in told and "text" not in told.replace("texto", "")
    assert str(both) == "a: is missing; must be text; is missing"


def test_a_wrong_oid_is_explained_in_the_readers_language(built: Flask) -> None:
    person = spanish(built)
    values = form_values(person.get("/workflow-nodes/1/edit"))
    answer = person.post("/workflow-nodes/1/edit", **{**values, "oid": "1.3..6", "csrf_token": person.token})
    assert answer.status_code == 422
    assert "1.3..6" in complaints(answer)["oid"]
    assert "write numbers" not in complaints(answer)["oid"]


def test_another_nodes_mistake_is_told_in_the_readers_language(built: Flask) -> None:
    with built.app_context():
        master = db.session.scalars(select(WorkflowNode)).one()
        builders.make_chained(master)
    person = spanish(built)
    with written(built) as session:
        session.get_one(WorkflowNode, 2).oid = "huawei.nonsense"
    values = form_values(person.get("/workflow-nodes/1/edit"))
    answer = person.post("/workflow-nodes/1/edit", **{**values, "priority": "77", "csrf_token": person.token})
    assert answer.status_code == 422
    told = complaints(answer)["override_reason"]
    assert "nonsense" in told
    assert "did you mean" not in told and "catalogue" not in told


def test_a_test_with_a_credential_that_is_gone_is_refused_in_the_readers_language(built: Flask) -> None:
    person = spanish(built)
    answer = person.post("/probes/", address="10.0.0.9", port="161", credential="99")
    assert answer.status_code == 422
    assert "does not exist" not in text_of(answer)


def test_a_thin_column_of_a_step_is_named_in_words(seeded: Flask) -> None:
    with written(seeded) as session:
        step = session.scalars(select(ExecutionStep).where(ExecutionStep.error_kind.is_(None))).first()
        assert step is not None
        step.sparse = {"onu_rx_power": [1, 9]}
        execution_id = step.attempt.execution_id
    told = text_of(english(seeded, "viewer").get(f"/executions/{execution_id}"))
    assert "Received by the ONU: only 1 of 9" in told


@pytest.mark.parametrize(
    "reason", ["no serial", "no MAC address", "no state number", "no date and time", "no number in 'x'"]
)
def test_why_there_is_no_value_is_said_in_the_readers_language(app: Flask, reason: str) -> None:
    with app.test_request_context(headers={"Accept-Language": "es"}):
        app.preprocess_request()
        told: Any = str(metrics.reason(reason))
        assert told != reason
        assert not told.lower().startswith("no number") and " in it" not in told


def test_octets_are_a_word_like_others(app: Flask) -> None:
    with app.test_request_context(headers={"Accept-Language": "es"}):
        app.preprocess_request()
        assert str(metrics.metric("onu_traffic_up").unit) == "octetos"
