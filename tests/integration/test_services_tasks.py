"""One task for many OLTs: as a node of each one's own, or as a new template that they get."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.services.errors import Invalid
from portal.services.network import applying, tasks, templates
from portal.tables import Olt, WorkflowTemplate
from testing.builders import make_node, make_zte
from testing.cast import ACTOR
from tests.integration.test_services_applying import basic, ids, keys, node

__all__ = ["basic"]  # the fixture

TASK = {"name": "Power", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m", "max_retries": "1"}


def test_each_olt_gets_a_node_of_its_own_behind_those_it_has(session: Session, basic: int, now: datetime) -> None:
    applying.apply(basic, ids(session, "OLT-A"), ACTOR, now)
    effects = tasks.create(TASK, ids(session, "OLT-A", "OLT-B"), ACTOR, now)
    assert [(one.name, one.difference.added, one.problems) for one in effects] == [
        ("OLT-A", ["power"], ()), ("OLT-B", ["power"], ()),
    ]  # fmt: skip
    made = node(session, "OLT-A", "power")
    assert (made.template_node_id, made.max_retries, made.interval_seconds) == (None, 1, 600)
    assert made.workflow.template is not None and made.workflow.template.name == "basic"
    assert keys(session, "OLT-A") == ["description", "discovery", "power", "rx"]
    minute = now.replace(microsecond=0) + timedelta(seconds=60)
    assert made.next_run_at is not None and minute <= made.next_run_at < minute + timedelta(seconds=60)


def test_an_olt_that_has_the_key_or_not_the_oid_is_left_out_by_name(
    session: Session, basic: int, now: datetime
) -> None:
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "power")
    wanted = [*ids(session, "OLT-A", "OLT-B"), make_zte("OLT-Z").id]
    seen = tasks.preview(TASK, wanted, now)
    assert keys(session, "OLT-A") == []
    made = tasks.create(TASK, wanted, ACTOR, now)
    for effects in (seen, made):
        assert [(one.name, bool(one.problems)) for one in effects] == [
            ("OLT-A", False), ("OLT-B", True), ("OLT-Z", True),
        ]  # fmt: skip
    assert (keys(session, "OLT-A"), keys(session, "OLT-B"), keys(session, "OLT-Z")) == (["power"], ["power"], [])
    assert seen[0].fit.share > seen[0].share_before


def test_as_a_template_it_is_made_once_and_olts_with_another_are_left_out(
    session: Session, basic: int, now: datetime
) -> None:
    applying.apply(basic, ids(session, "OLT-B"), ACTOR, now)
    seen = tasks.preview(TASK, ids(session), now, in_template=True)
    template_id, effects = tasks.create_template("power", TASK, ids(session), ACTOR, now)
    for found in (seen, effects):
        assert [(one.name, bool(one.problems)) for one in found] == [
            ("OLT-A", False), ("OLT-B", True), ("OLT-C", False),
        ]  # fmt: skip
    assert "template basic" in effects[1].problems[0]
    made = node(session, "OLT-A", "power")
    assert made.template_node_id is not None and made.workflow.template_id == template_id
    assert keys(session, "OLT-B") == ["description", "discovery", "rx"]


def test_what_cannot_be_read_makes_nothing(session: Session, basic: int, now: datetime) -> None:
    wrong: list[tuple[dict[str, str], str]] = [
        ({"interval": "1m"}, "override_reason"), ({"interval": "x"}, "interval"), ({"oid": "huawei.nothing"}, "oid"),
        ({"cron": "0 * * * *"}, "cron"), ({"max_retries": "99"}, "max_retries"),
    ]  # fmt: skip
    for change, field in wrong:
        with pytest.raises(Invalid) as refused:
            tasks.create_template("power", TASK | change, ids(session), ACTOR, now)
        assert field in refused.value.errors
    for name in ("", "basic"):
        with pytest.raises(Invalid) as refused:
            tasks.create_template(name, TASK, ids(session), ACTOR, now)
        assert set(refused.value.errors) == {"template_name"}
    assert [row.name for row in session.scalars(select(WorkflowTemplate))] == ["basic"]
    assert templates.by_name("basic") == basic
