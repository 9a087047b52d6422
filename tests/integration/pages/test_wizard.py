"""The wizard of a new task: each step a form, what was said stays, and each OLT that cannot have it is named."""

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal import clock
from portal.extensions import db
from portal.services.network import olts
from portal.tables import Olt, Workflow, WorkflowNode, WorkflowTemplate
from portal.web.olt_picks import packed, unpacked
from testing import builders, seed
from testing.pages import Visitor, path_of, soup, text_of, texts
from testing.web import complaints, english, form_values, statements

START = "/workflows/new-task"
OID = "huawei.onu_rx_power"


@pytest.fixture
def network(app: Flask) -> Iterator[Flask]:
    """OLT-1 to OLT-4 (Huawei; 3 disabled, 4 has a node power) and OLT-Z (ZTE)."""
    with app.app_context():
        seed.add_users(clock.now())
        for number in range(1, 5):
            builders.make_olt(f"OLT-{number}")
        builders.make_zte("OLT-Z")
        olts.set_enabled(3, False, "rosa", clock.now())
        builders.make_node(db.session.get_one(Olt, 4), "power")
        db.session.remove()
    yield app


def send(person: Visitor, page: str, **values: Any) -> str:
    """Fill in one step and go on; the address of the next."""
    stored = {name: value for name, value in form_values(person.get(page)).items() if name not in ("olt", "oid")}
    answer = person.post(page, **{"go": "next", **stored, **values})
    assert answer.status_code == 303, text_of(answer)
    return path_of(answer)


def review(person: Visitor, **when: str) -> str:
    """The address of the last step for power on OLT-1 to OLT-4."""
    page = send(person, START, brand="huawei")
    page = send(person, page, olt=["1", "2", "3", "4"])
    page = send(person, page, oid=OID)
    page = send(person, page, **({"interval": "10m"} | when))
    return send(person, page, name="Power", max_retries="1")


def nodes(app: Flask) -> dict[str, WorkflowNode]:
    with app.app_context():
        query = select(Olt.name, WorkflowNode).join(Workflow, Workflow.olt_id == Olt.id).join(Workflow.nodes)
        return {name: node for name, node in db.session.execute(query.where(WorkflowNode.oid == OID))}  # noqa: C416


def rows(answer: TestResponse) -> dict[str, str]:
    return {str(tag["id"]): text_of(tag) for tag in soup(answer).select("tbody tr")}


def test_from_the_brand_to_a_node_of_each_olts_own(network: Flask) -> None:
    person = english(network)
    last = review(person)
    seen = person.get(last)
    assert "Every 10 min: 6 runs an hour" in text_of(seen)
    told = rows(seen)
    assert list(told)[0] == "e4"
    assert "Left out" in told["e4"] and "It has a node power already." in told["e4"]
    assert "Fits 0 % → 1 %" in told["e1"]
    assert nodes(network) == {}
    answer = person.post(last, go="create", own="own", template_name="")
    assert "The task was made on 3 OLTs." in text_of(person.get(path_of(answer)))
    made = nodes(network)
    assert sorted(made) == ["OLT-1", "OLT-2", "OLT-3"]
    assert {(one.interval_seconds, one.max_retries, one.kind.value, one.key) for one in made.values()} == {
        (600, 1, "get", "power")
    }
    assert made["OLT-3"].next_run_at is None and made["OLT-1"].next_run_at is not None
    again = person.post(last, go="create", own="own", template_name="")
    assert again.status_code == 422
    assert "No OLT can have this task" in text_of(again)


def test_as_a_template_that_the_olts_get(network: Flask) -> None:
    person = english(network)
    last = review(person, interval="", cron="0 */6 * * *")
    assert "At 00:00, 06:00, 12:00, and 18:00, each day" in text_of(person.get(last))
    answer = person.post(last, go="create", own="template", template_name="")
    assert complaints(answer) == {"template_name": "Is missing"}
    answer = person.post(last, go="create", own="template", template_name="power")
    assert "In step" in text_of(person.get(path_of(answer)))
    with network.app_context():
        assert db.session.scalars(select(WorkflowTemplate.name)).all() == ["power"]
    made = nodes(network)
    assert sorted(made) == ["OLT-1", "OLT-2", "OLT-3"]
    assert {(one.cron, one.interval_seconds, one.template_node_id) for one in made.values()} == {
        ("0 */6 * * *", None, 1)
    }


def test_going_back_loses_nothing(network: Flask) -> None:
    person = english(network)
    last = review(person, interval="20m")
    back = person.post(last, go="back", own="template", template_name="later")
    page = path_of(back)
    assert form_values(person.get(page))["max_retries"] == "1"
    half = path_of(person.post(page, go="back", name="Half a na", max_retries="x"))
    assert form_values(person.get(half))["interval"] == "20m"
    what = path_of(person.post(half, go="back", interval="20m"))
    assert [tag["value"] for tag in soup(person.get(what)).select("[name=oid][checked]")] == [OID]
    choice = path_of(person.post(what, go="back", oid=OID))
    ticked = [tag["value"] for tag in soup(person.get(choice)).select("[name=olt][checked]")]
    assert ticked == ["1", "2", "3", "4"]
    assert "name=Half+a+na" in choice and "template_name=later" in choice


def test_olts_are_of_the_brand_and_disabled_ones_are_marked(network: Flask) -> None:
    person = english(network)
    page = send(person, START, brand="huawei")
    items = texts(person.get(page), "[data-from] li")
    assert [item.split()[0] for item in items] == ["OLT-1", "OLT-2", "OLT-3", "OLT-4"]
    assert ["Disabled" in item for item in items] == [False, False, True, False]
    answer = person.post(page, olt=["5", "99"])
    assert complaints(answer) == {"olts": "Choose at least one OLT."}


def refused(answer: TestResponse, field: str) -> TestResponse:
    assert (answer.status_code, set(complaints(answer))) == (422, {field})
    return answer


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"interval": "1m"}, "override_reason"), ({"interval": "soon"}, "interval"), ({"interval": ""}, "interval"),
     ({"interval": "", "cron": "61 * * * *"}, "cron"), ({"interval": "5m", "cron": "0 * * * *"}, "cron"),
     ({"interval": "", "cron": "0 0 30 2 *"}, "cron")],
)  # fmt: skip
def test_a_clock_that_is_wrong_is_told_beside_its_field(network: Flask, fields: dict[str, str], field: str) -> None:
    page = f"{START}?step=when&brand=huawei&olts=1&oid={OID}"
    answer = refused(english(network).post(page, **{"cron": "", "override_reason": ""} | fields), field)
    assert form_values(answer)["interval"] == fields["interval"]


def test_a_reason_lets_a_short_interval_pass(network: Flask) -> None:
    person = english(network)
    page = f"{START}?step=when&brand=huawei&olts=1&oid={OID}"
    assert "step=limits" in send(person, page, interval="1m", override_reason="for a test")


@pytest.mark.parametrize(
    ("fields", "field"),
    [({}, "oid"), ({"oid": "other", "other": "zzz"}, "other"), ({"oid": "zte.onu_state"}, "oid"),
     ({"oid": "other", "other": "1.3.6.1.2.1.1.3.0", "kind": "dance"}, "kind")],
)  # fmt: skip
def test_what_cannot_be_read_is_told_beside_its_field(network: Flask, fields: dict[str, str], field: str) -> None:
    page = f"{START}?step=what&brand=huawei&olts=1"
    refused(english(network).post(page, **{"other": "", "kind": ""} | fields), field)


def test_the_next_runs_are_told_in_words_while_typing(network: Flask) -> None:
    person = english(network)
    answer = person.post(f"{START}/runs", interval="", cron="30 6 * * 1-5")
    page = soup(answer)
    assert "At 06:30, on Monday, Tuesday, Wednesday, Thursday, and Friday" in page.get_text(" ")
    assert len(page.select(".tp-runs li")) == 5
    assert "America/Lima" in page.get_text(" ")
    for nonsense in ("", "99 9 9", "\x00"):
        assert soup(person.post(f"{START}/runs", interval="", cron=nonsense)).select("time") == []


@pytest.mark.parametrize(
    "query",
    ["step=review", "step=nonsense&brand=huawei", "step=when&brand=%00&olts=a.b-c",
     "step=what&brand=huawei&olts=2-9999999999999", "step=review&brand=huawei&olts=1&oid=x&max_retries=zz",
     f"step=limits&brand=huawei&olts=1&oid={OID}&interval=1s"],
)  # fmt: skip
def test_an_address_typed_by_hand_leads_to_the_first_step_that_is_missing(network: Flask, query: str) -> None:
    person = english(network)
    answer = person.get(f"{START}?{query}")
    while answer.status_code == 303:
        answer = person.get(path_of(answer))
    assert answer.status_code == 200


def test_a_thousand_olts_fit_into_the_address() -> None:
    chosen = list(range(1, 1000, 3)) + list(range(2000, 2600))
    assert unpacked(packed(chosen)) == chosen
    assert len(packed(list(range(1, 1001)))) < 10
    assert unpacked("5.1-3.x.-.7-6") == [5, 1, 2, 3]


def test_a_viewer_makes_no_task(network: Flask) -> None:
    person = english(network, "viewer")
    assert (person.get(START).status_code, person.post(START).status_code) == (403, 403)


def test_steps_cost_few_statements(network: Flask) -> None:
    person = english(network)
    base = f"brand=huawei&olts=1-4&oid={OID}"
    assert (
        max(statements(network, person, f"{START}?step={step}&{base}") for step in ("brand", "olts", "what", "when"))
        <= 12
    )
