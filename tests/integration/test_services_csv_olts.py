"""OLTs from a spreadsheet: the effect of each row, what is refused and why; what was shown is what is written."""

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.csv_rows import SheetError
from portal.services.importing import csv_olts, inventory
from portal.services.importing.csv_olts import Effect, Moved, Preview, Row
from portal.services.network import olts
from portal.tables import AuditLog, Olt, WorkflowNode
from testing.builders import make_catalogue, make_credential, make_node, make_olt, make_zte
from testing.cast import ACTOR, NOW
from testing.rows import set_rows
from tests.integration.test_services_inventory import TEMPLATE

HEAD = "Nombre;Dirección;Puerto;Marca;Modelo;Credencial;Plantilla;Sitio;Habilitada\n"
A = "OLT-A;10.0.0.1;;Huawei;SmartAX MA5800;lab;basic;Lima;sí\n"
B = "OLT-B;10.0.0.2;1161;huawei;;lab;;;no\n"


@pytest.fixture(autouse=True)
def stocked(session: Session) -> None:
    make_catalogue()
    make_credential("lab", networks="10.0.0.0/11")
    inventory.load(TEMPLATE, dry_run=False, actor=ACTOR, now=NOW, environ={})


def effects(preview: Preview) -> dict[str, str]:
    return {row.name: row.effect.value for row in preview.rows}


def row_of(text: str, name: str) -> Row:
    return next(row for row in csv_olts.preview(text, NOW).rows if row.name == name)


def reasons(text: str) -> dict[int, list[tuple[str, str]]]:
    found = csv_olts.preview(text, NOW).of(Effect.REFUSED)
    return {row.number: [(field, str(reason)) for field, reason in row.reasons] for row in found}


def load(text: str) -> Preview:
    return csv_olts.load(text, csv_olts.preview(text, NOW).mark, ACTOR, NOW)


def olt(session: Session, name: str) -> Olt:
    session.expire_all()
    return session.scalars(select(Olt).where(Olt.name == name, Olt.deleted_at.is_(None))).one()


def count(session: Session, table: Any) -> int:
    session.rollback()
    return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_preview_says_what_each_row_would_do_and_writes_nothing(session: Session) -> None:
    load(HEAD + A + B)
    before = count(session, AuditLog)
    more = "OLT-C;10.0.0.3;;zte;C320;lab;;;\nOLT-D;nowhere!;;zte;C320;lab;;;\n"
    shown = csv_olts.preview(HEAD + A + B.replace(";no", ";sí") + more, NOW)
    assert effects(shown) == {"OLT-A": "unchanged", "OLT-B": "changed", "OLT-C": "created", "OLT-D": "refused"}
    assert shown.rows[1].changes == {"enabled": [False, True]}
    assert (count(session, AuditLog), count(session, Olt)) == (before, 2)


def test_what_is_confirmed_is_written_as_it_was_shown(session: Session) -> None:
    load(HEAD + A + B)
    first, second = olt(session, "OLT-A"), olt(session, "OLT-B")
    assert (first.address, first.port, first.brand.key, first.model.key) == ("10.0.0.1", 161, "huawei", "MA5800")
    assert (first.credential.name, first.site, first.enabled) == ("lab", "Lima", True)
    assert {node.key for node in first.workflow.nodes} == {"discovery", "rx", "description"}
    assert (second.port, second.model, second.enabled, second.workflow) == (1161, None, False, None)
    actions = session.execute(select(AuditLog.action, AuditLog.actor).where(AuditLog.subject_name == "OLT-A")).all()
    assert ("olt.create", ACTOR) in [tuple(row) for row in actions]


def test_the_first_runs_of_many_olts_are_spread(session: Session) -> None:
    load(HEAD + "".join(f"OLT-{n};10.1.0.{n};;huawei;;lab;basic;;\n" for n in range(1, 21)))
    starts = session.scalars(select(WorkflowNode.next_run_at).where(WorkflowNode.master_id.is_(None))).all()
    assert len(set(starts)) > 10
    assert all(start and NOW + timedelta(seconds=60) <= start < NOW + timedelta(seconds=121) for start in starts)


def test_an_empty_cell_keeps_and_a_hyphen_empties(session: Session) -> None:
    load(HEAD + A)
    assert row_of("name,site,template\nOLT-A,,\n", "OLT-A").effect is Effect.UNCHANGED
    load("name,site,model\nOLT-A,-,-\n")
    emptied = olt(session, "OLT-A")
    assert (emptied.site, emptied.model, emptied.address) == ("", None, "10.0.0.1")


def test_a_changed_template_tells_its_nodes_and_the_write_does_the_same(session: Session) -> None:
    load(HEAD + B)
    text = "name,template\nOLT-B,basic\n"
    row = row_of(text, "OLT-B")
    assert row.changes == {"template": ["", "basic"]}
    assert sorted(row.nodes.added) == ["description", "discovery", "rx"]
    load(text)
    assert {node.key for node in olt(session, "OLT-B").workflow.nodes} == set(row.nodes.added)
    assert row_of(text, "OLT-B").effect is Effect.UNCHANGED


def test_nodes_that_differ_from_their_template_by_now_are_left_alone(session: Session) -> None:
    load(HEAD + A)
    node = next(one for one in olt(session, "OLT-A").workflow.nodes if one.key == "rx")  # type: ignore[union-attr]
    set_rows(WorkflowNode, WorkflowNode.id == node.id, interval_seconds=600)
    text = HEAD + A.replace("Lima", "Cusco")
    row = row_of(text, "OLT-A")
    assert (dict(row.changes), bool(row.nodes)) == ({"site": ["Lima", "Cusco"]}, False)
    load(text)
    session.expire_all()
    assert session.get_one(WorkflowNode, node.id).interval_seconds == 600


WRONG = {
    "OLT-A;10.0.0.9;;nokka;;lab;;;\n": ("brand", "nokka is unknown"),
    "OLT-A;10.0.0.9;;huawei;C320;lab;;;\n": ("model", "C320 is unknown"),
    "OLT-A;10.0.0.9;;huawei;;nobody;;;\n": ("credential", "nobody is unknown"),
    "OLT-A;10.0.0.9;;huawei;;lab;basico;;\n": ("template", "did you mean basic?"),
    "OLT-A;;;huawei;;lab;;;\n": ("address", "is missing"),
    ";10.0.0.9;;huawei;;lab;;;\n": ("name", "is missing"),
    "OLT-A;10.0.0.9;70000;huawei;;lab;;;\n": ("port", "must be a whole number from 1 to 65535"),
    "OLT-A;10.0.0.9;;huawei;;lab;;;quizás\n": ("enabled", "must be true or false"),
    "OLT-A;10.20.0.1;;huawei;;lab;;;\n": ("address", "10.20.0.1:161 belongs to OLT OLD already"),
    "OLD;10.40.0.9;;huawei;;;;;\n": ("address", "outside the networks that this credential may be sent to"),
    "OLT-A;10.40.0.9;;huawei;;lab;;;\n": ("address", "outside the networks that this credential may be sent to"),
    "OLT-A;10.0.0.9;;zte;C320;lab;basic;;\n": ("template", "node discovery: "),
    "OLT-A;10.0.0.9;;huawei;;lab;;;sí;x\n": ("", "more cells than the head"),
}


@pytest.mark.parametrize("row", WRONG)
def test_a_wrong_row_says_which_field_and_why(session: Session, row: str) -> None:
    make_olt("OLD", address="10.20.0.1")
    field, words = WRONG[row]
    found = reasons(HEAD + row)[2]
    assert any(words in reason for name, reason in found if name == field), found


def test_an_administrator_who_moves_one_outside_the_networks_names_the_credential(session: Session) -> None:
    make_olt("OLD", address="10.20.0.1")
    text = HEAD + "OLD;10.40.0.9;;huawei;;;;;\n"
    refused = csv_olts.preview(text, NOW, by_admin=True).rows[0]
    assert "name the credential too" in refused.reasons[0][1]
    named = text.replace(";huawei;;;", ";huawei;;lab;")
    csv_olts.load(named, csv_olts.preview(named, NOW, by_admin=True).mark, ACTOR, NOW, by_admin=True)
    moved = olt(session, "OLD")
    assert (moved.address, moved.credential_approved) == ("10.40.0.9", True)
    told = session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "credential.approve"))
    assert told.all() == ["lab"]


def test_duplicates_inside_the_file_are_refused_and_named(session: Session) -> None:
    twin, same_address = A.replace("10.0.0.1", "10.0.0.3"), "OLT-E;10.0.0.1;;huawei;;lab;;;\n"
    found = reasons(HEAD + A + B + twin + same_address)
    assert found == {
        4: [("name", "OLT OLT-A is in the file twice (first in line 2)")],
        5: [("address", "10.0.0.1:161 belongs to OLT OLT-A already")],
    }


def test_a_right_row_that_needs_a_wrong_one_is_refused_too(session: Session) -> None:
    make_olt("OLD", address="10.0.0.1")
    text = HEAD + "OLD;10.0.0.77;;nokka;;lab;;;\n" + A
    ((field, reason),) = reasons(text)[3]
    assert (field, reason[:29]) == ("address", "10.0.0.1:161 still belongs to")
    assert count(session, Olt) == 1


def test_wrong_rows_are_left_out_and_the_others_written(session: Session) -> None:
    load(HEAD + A + "OLT-X;nowhere!;;huawei;;lab;;;\n" + B)
    assert session.scalars(select(Olt.name).order_by(Olt.name)).all() == ["OLT-A", "OLT-B"]


def test_what_changed_since_it_was_shown_is_shown_again_instead_of_written(session: Session) -> None:
    mark = csv_olts.preview(HEAD + A + B, NOW).mark
    make_olt("SOMEBODY", address="10.0.0.2", port=1161)
    with pytest.raises(Moved) as caught:
        csv_olts.load(HEAD + A + B, mark, ACTOR, NOW)
    assert effects(caught.value.preview) == {"OLT-A": "created", "OLT-B": "refused"}
    session.expire_all()
    assert session.scalars(select(Olt.name)).all() == ["SOMEBODY"]


def test_another_text_than_the_one_shown_is_not_written(session: Session) -> None:
    mark = csv_olts.preview(HEAD + A, NOW).mark
    with pytest.raises(Moved):
        csv_olts.load(HEAD + A.replace("10.0.0.1", "10.0.0.2"), mark, ACTOR, NOW)
    assert count(session, Olt) == 0


def test_a_template_that_was_changed_since_counts_as_a_change(session: Session) -> None:
    mark = csv_olts.preview(HEAD + A, NOW).mark
    inventory.load(TEMPLATE.replace("15m", "20m"), dry_run=False, actor=ACTOR, now=NOW, environ={})
    with pytest.raises(Moved):
        csv_olts.load(HEAD + A, mark, ACTOR, NOW)


def test_one_failure_while_writing_writes_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = csv_olts.preview(HEAD + A + B, NOW)
    monkeypatch.setattr(olts, "shown", lambda olt: {"broken": 1 / (olt.name != "OLT-B")})
    with pytest.raises(ZeroDivisionError):
        csv_olts.load(HEAD + A + B, shown.mark, ACTOR, NOW)
    assert count(session, Olt) == 0


def test_disabling_by_a_table_ends_what_waits(app: Flask, session: Session) -> None:
    node = make_node(make_zte(now=NOW), now=NOW)
    load("name,enabled\nOLT-CUSCO,no\n")
    session.expire_all()
    assert not olt(session, "OLT-CUSCO").enabled
    assert session.get_one(WorkflowNode, node.id).next_run_at is None


def test_the_name_of_a_deleted_olt_makes_a_new_one(session: Session) -> None:
    olts.delete(make_olt("OLT-A").id, "replaced", ACTOR, NOW)
    assert row_of(HEAD + A, "OLT-A").effect is Effect.CREATED


def test_limits_are_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_olts, "MOST_ROWS", 1)
    with pytest.raises(SheetError, match="more than 1 rows"):
        csv_olts.preview(HEAD + A + B, NOW)
    with pytest.raises(SheetError, match="larger than 512 KB"):
        csv_olts.preview("x" * (csv_olts.LARGEST + 1), NOW)
    with pytest.raises(SheetError, match="no row below"):
        csv_olts.preview(HEAD, NOW)


def test_addresses_that_move_in_a_circle_are_refused(session: Session) -> None:
    make_olt("A", address="10.0.0.1")
    make_olt("B", address="10.0.0.2")
    found = csv_olts.preview("name,address,credential\nA,10.0.0.2,lab\nB,10.0.0.1,lab\n", NOW)
    assert effects(found) == {"A": "refused", "B": "refused"}
