"""A template tried on one OLT: the rest waits; it goes on to them, or the canary gets back what it had."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import RolloutStatus
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import applying, rollouts, template_nodes, templates, workflows
from portal.tables import AuditLog, Olt, TemplateRollout, WorkflowNode, WorkflowRevision
from testing.builders import make_node, make_zte
from testing.cast import ACTOR
from tests.integration.test_services_applying import basic, ids, keys, node, template_node

__all__ = ["basic"]  # the fixture


@pytest.fixture
def tried(session: Session, basic: int, now: datetime) -> int:
    """OLT-A to OLT-C have the template; since then its power is read every 20 min, which is tried on OLT-B."""
    applying.apply(basic, ids(session), ACTOR, now)
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "own")
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, now)
    return rollouts.start(basic, ids(session, "OLT-B")[0], ids(session), ACTOR, now)


def intervals(session: Session) -> list[int | None]:
    session.expire_all()
    return [node(session, olt, "rx").interval_seconds for olt in ("OLT-A", "OLT-B", "OLT-C")]


def status(session: Session, rollout: int) -> RolloutStatus:
    return session.get_one(TemplateRollout, rollout, populate_existing=True).status


def test_only_the_canary_gets_it_and_the_rest_is_remembered(session: Session, tried: int, now: datetime) -> None:
    assert intervals(session) == [600, 1200, 600]
    row = session.get_one(TemplateRollout, tried)
    assert row.olt_ids == ids(session, "OLT-A", "OLT-C")
    assert (row.status, row.actor, row.started_at) == (RolloutStatus.CANARY, ACTOR, now)


def test_the_rest_gets_it_and_the_try_is_over(session: Session, tried: int, now: datetime) -> None:
    effects = rollouts.apply_rest(tried, ACTOR, now)
    assert [(one.name, one.changes) for one in effects] == [("OLT-A", True), ("OLT-C", True)]
    assert intervals(session) == [1200] * 3
    assert status(session, tried) is RolloutStatus.DONE
    for late in (rollouts.apply_rest, rollouts.take_back, rollouts.keep):
        with pytest.raises(Conflict):
            late(tried, ACTOR, now)


def test_taken_back_the_canary_has_what_it_had(session: Session, tried: int, now: datetime) -> None:
    rollouts.take_back(tried, ACTOR, now + timedelta(minutes=3))
    assert intervals(session) == [600] * 3
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    rx = node(session, "OLT-B", "rx")
    assert (rx.template_node_id, rx.overridden) == (template_node(session, "rx").id, False)
    assert status(session, tried) is RolloutStatus.TAKEN_BACK
    actions = session.scalars(select(WorkflowRevision.action).order_by(WorkflowRevision.id.desc())).first()
    assert actions == "template.take_back"
    assert (
        session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "template.take_back")).one() == "OLT-B"
    )


def test_taken_back_from_an_olt_that_had_nothing(session: Session, basic: int, now: datetime) -> None:
    rollout = rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, now)
    assert keys(session, "OLT-A") == ["description", "discovery", "rx"]
    rollouts.take_back(rollout, ACTOR, now)
    assert keys(session, "OLT-A") == []
    assert session.get_one(Olt, ids(session, "OLT-A")[0]).workflow.template is None  # type: ignore[union-attr]


def test_taken_back_the_canary_has_the_template_that_it_had(session: Session, tried: int, now: datetime) -> None:
    rollouts.keep(tried, ACTOR, now)
    other = templates.create({"name": "other"}, ACTOR, now)
    given = {"name": "State", "kind": "discovery", "oid": "huawei.onu_state", "interval": "30m"}
    template_nodes.add_node(other, given, ACTOR, now)
    rollout = rollouts.start(other, ids(session, "OLT-B")[0], [], ACTOR, now + timedelta(minutes=1))
    assert keys(session, "OLT-B") == ["own", "state"]
    rollouts.take_back(rollout, ACTOR, now + timedelta(minutes=2))
    session.expire_all()
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    assert node(session, "OLT-B", "rx").workflow.template.name == "basic"  # type: ignore[union-attr]
    assert node(session, "OLT-B", "rx").template_node_id is not None


def test_a_template_that_is_gone_meanwhile_leaves_the_nodes_to_the_olt(
    session: Session, tried: int, basic: int, now: datetime
) -> None:
    rollouts.keep(tried, ACTOR, now)
    other = templates.create({"name": "other"}, ACTOR, now)
    given = {"name": "State", "kind": "discovery", "oid": "huawei.onu_state", "interval": "30m"}
    template_nodes.add_node(other, given, ACTOR, now)
    rollout = rollouts.start(other, ids(session, "OLT-B")[0], [], ACTOR, now + timedelta(minutes=1))
    templates.delete(basic, ACTOR, now)
    rollouts.take_back(rollout, ACTOR, now + timedelta(minutes=2))
    session.expire_all()
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    assert {n.template_node_id for n in session.scalars(select(WorkflowNode)) if n.workflow.olt.name == "OLT-B"} == {
        None
    }


def test_a_canary_that_was_changed_by_hand_is_not_taken_back(session: Session, tried: int, now: datetime) -> None:
    workflows.update_node(node(session, "OLT-B", "own").id, {"interval": "1h"}, ACTOR, now)
    with pytest.raises(Conflict, match="by hand"):
        rollouts.take_back(tried, ACTOR, now)
    assert intervals(session) == [600, 1200, 600]
    assert status(session, tried) is RolloutStatus.CANARY
    assert rollouts.apply_rest(tried, ACTOR, now)


def test_a_template_that_was_changed_since_does_not_go_to_the_rest(
    session: Session, tried: int, basic: int, now: datetime
) -> None:
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "30m"}, ACTOR, now)
    with pytest.raises(Conflict, match="not what was tried"):
        rollouts.apply_rest(tried, ACTOR, now)
    assert intervals(session) == [600, 1200, 600]
    rollouts.take_back(tried, ACTOR, now)
    assert rollouts.start(basic, ids(session, "OLT-B")[0], ids(session), ACTOR, now + timedelta(minutes=1))


def test_one_try_of_a_template_at_a_time(session: Session, tried: int, basic: int, now: datetime) -> None:
    with pytest.raises(Conflict, match="already"):
        rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, now)
    with pytest.raises(Conflict):
        templates.delete(basic, ACTOR, now)
    rollouts.keep(tried, ACTOR, now)
    assert intervals(session) == [600, 1200, 600]
    assert rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, now + timedelta(minutes=1))


def test_an_olt_that_cannot_have_it_or_has_it_is_no_canary(
    session: Session, tried: int, basic: int, now: datetime
) -> None:
    canary = ids(session, "OLT-B")[0]
    rollouts.apply_rest(tried, ACTOR, now)
    for olt, word in ((canary, "in step already"), (make_zte("OLT-Z").id, "not for this OLT")):
        with pytest.raises(Invalid, match=word):
            rollouts.start(basic, olt, [], ACTOR, now)
    with pytest.raises(NotFound):
        rollouts.take_back(99, ACTOR, now)
