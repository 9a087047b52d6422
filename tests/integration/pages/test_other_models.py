"""An OLT that answers as another device than it was entered as is noticed where it is read; a click sets it right."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.statuses import ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.tables import AuditLog, Olt, OltDevice, OltModel, Probe, ProbeStatus, WorkflowNode
from testing.builders import make_chained, make_execution, make_node, make_olt
from testing.pages import Visitor, missing, path_of, soup, text_of
from testing.web import english, stored, written

MA5608T, C320 = "1.3.6.1.4.1.2011.2.248", "1.3.6.1.4.1.3902.1082.1001.320.2.1"
SAYS = "Entered as ZTE ZXA10 C320, answers as Huawei SmartAX MA5608T"


@pytest.fixture
def wrong(built: Flask) -> Flask:
    """An OLT that was entered as a ZTE C320, with a discovery and a GET, and is a Huawei MA5608T."""
    with built.app_context():
        catalogue.sync(catalogue.load_shipped(), clock.now())
        olt = make_olt("OLT-ICA", clock.now(), brand="zte", model="C320")
        master = make_node(olt, now=clock.now())
        make_chained(master, "serial", clock.now(), oid="zte.onu_serial,1.3.6.1.2.1.1.5.0")
    with written(built) as session:
        session.add(OltDevice(olt_id=olt_id(built), object_id=MA5608T, witnesses={}))
    return built


def olt_id(app: Flask) -> int:
    (found,) = stored(app, select(Olt.id).where(Olt.name == "OLT-ICA"))
    return int(found)


def page_of(app: Flask, person: Visitor) -> str:
    return text_of(person.get(f"/olts/{olt_id(app)}"))


def test_what_a_composite_was_told_is_compared_with_what_was_entered(wrong: Flask) -> None:
    person = english(wrong)
    assert SAYS in page_of(wrong, person)
    assert any(
        "OLT-ICA entered as ZTE ZXA10 C320" in text_of(line) for line in soup(person.get("/")).select(".ds-line")
    )
    spanish = Visitor(wrong).enter("operator", "es")
    assert "Configurada como ZTE ZXA10 C320, responde como Huawei SmartAX MA5608T" in page_of(wrong, spanish)


def test_a_click_sets_brand_and_model_right_and_its_nodes_read_by_them(wrong: Flask) -> None:
    person, given = english(wrong), {"brand": "huawei", "model": "MA5608T"}
    answer = person.post(f"/olts/{olt_id(wrong)}/model", **given)
    assert (answer.status_code, path_of(answer)) == (303, f"/olts/{olt_id(wrong)}")
    assert stored(wrong, select(OltModel.key).join(Olt).where(Olt.name == "OLT-ICA")) == ["MA5608T"]
    nodes = select(WorkflowNode.oid).order_by(WorkflowNode.id)
    assert stored(wrong, nodes)[-2:] == ["huawei.onu_state", "huawei.onu_serial,1.3.6.1.2.1.1.5.0"]
    assert SAYS not in page_of(wrong, person)
    assert not any("answers as" in text_of(line) for line in soup(person.get("/")).select(".ds-line"))
    assert {"olt.update", "node.update"} <= set(stored(wrong, select(AuditLog.action)))


def test_what_the_other_maker_has_no_column_for_is_said_and_nothing_is_changed(wrong: Flask) -> None:
    with wrong.app_context():
        master = db.session.scalars(select(WorkflowNode).where(WorkflowNode.oid == "zte.onu_state")).one()
        make_node(master.workflow.olt, "omcc", clock.now(), kind="get", oid="zte.onu_omcc_state")
    person = english(wrong)
    person.post(f"/olts/{olt_id(wrong)}/model", brand="huawei", model="MA5608T")
    assert "Node omcc: " in page_of(wrong, person)
    kept = set(stored(wrong, select(WorkflowNode.oid)))
    assert {"zte.onu_state", "zte.onu_omcc_state", "zte.onu_serial,1.3.6.1.2.1.1.5.0"} <= kept


def test_only_an_operator_may(wrong: Flask) -> None:
    viewer = english(wrong, "viewer")
    assert viewer.post(f"/olts/{olt_id(wrong)}/model", brand="huawei", model="MA5608T").status_code == 403
    assert SAYS in page_of(wrong, viewer)
    assert not soup(viewer.get(f"/olts/{olt_id(wrong)}")).select("form[action$='/model']")


def test_what_is_no_model_is_refused(wrong: Flask) -> None:
    person = english(wrong)
    person.post(f"/olts/{olt_id(wrong)}/model", brand="huawei", model="C320")
    assert stored(wrong, select(OltModel.key).join(Olt).where(Olt.name == "OLT-ICA")) == ["C320"]


def probed(app: Flask, **result: Any) -> int:
    """A connection test of the OLT with this answer; its id."""
    with written(app) as session:
        olt = session.get_one(Olt, olt_id(app))
        probe = Probe(olt_id=olt.id, address=olt.address, port=olt.port, credential_id=olt.credential_id,
                      created_at=clock.now(), finished_at=clock.now(), status=ProbeStatus.SUCCESS,
                      result=result)  # fmt: skip
        session.add(probe)
        session.flush()
        return probe.id


def test_the_connection_test_tells_trees_of_one_sysobjectid_apart(wrong: Flask) -> None:
    with written(wrong) as session:
        session.get_one(OltDevice, olt_id(wrong)).object_id = C320
    person = english(wrong)
    assert "answers as" not in page_of(wrong, person), "the sysObjectID alone does not tell"
    probe = probed(wrong, sysobjectid=C320, brand="zte", model="C320-1082", fits=["zte.C320-1082"])
    says = "Entered as ZTE ZXA10 C320, answers as ZTE ZXA10 C320 (1082)"
    for path in (f"/probes/{probe}", f"/olts/{olt_id(wrong)}"):
        assert says in text_of(person.get(path))
    person.post(f"/olts/{olt_id(wrong)}/model", brand="zte", model="C320-1082")
    assert "answers as" not in page_of(wrong, person)


def test_a_run_that_finds_nothing_there_says_what_the_olt_answers_as(wrong: Flask) -> None:
    with wrong.app_context():
        node = db.session.scalars(select(WorkflowNode).where(WorkflowNode.oid == "zte.onu_state")).one()
        failed = {"status": ExecutionStatus.FAILED, "error_kind": ErrorKind.NO_SUCH_OBJECT}
        run_id = make_execution(node, clock.now(), finished_at=clock.now(), **failed).id
    person = english(wrong)
    assert SAYS in text_of(person.get(f"/executions/{run_id}"))
    with written(wrong) as session:
        session.get_one(OltDevice, olt_id(wrong)).object_id = C320
    page = person.get(f"/executions/{run_id}")
    assert missing(page, "Perhaps the OLT is of another model", "Test connection") == []


def test_a_test_that_leaves_several_models_asks_to_choose_one_of_them(wrong: Flask) -> None:
    fits = ["cdata.FD12XX", "cdata.FD16XX", "cdata.FD16XX-V3"]
    probe = probed(wrong, sysobjectid="1.3.6.1.4.1.17409", brand="cdata", model=None, fits=fits)
    page = english(wrong).get(f"/probes/{probe}")
    assert "3 models fit, choose one" in text_of(page)
    offered = [str(button["data-value"]) for button in soup(page).select("[data-fill='f-device']")]
    assert offered == [f"cdata/{key.partition('.')[2]}" for key in fits]
