"""Templates switched on and off: clocks and waiting work of their nodes on all OLTs, and of nothing else."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus
from portal.services.errors import NotFound
from portal.services.importing import inventory
from portal.services.network import olts, templates, workflows
from portal.tables import AuditLog, Execution, Olt, Workflow, WorkflowNode, WorkflowTemplate
from scheduler.coordinator import observe
from scheduler.coordinator.decide import parse
from testing.builders import make_catalogue, make_credential, make_execution, make_node
from testing.cast import ACTOR, NOW

FILE = """
templates:
  - name: basic
    nodes:
      - {key: discovery, kind: discovery, oid: huawei.onu_state, interval: 15m,
         chain: [{key: description, kind: get, oid: huawei.onu_description}]}
      - {key: rx, kind: get, oid: huawei.onu_rx_power, interval: 10m}
  - name: other
    nodes: [{key: state, kind: discovery, oid: huawei.onu_state, interval: 15m}]
olts:
  - {name: A, address: 10.0.0.1, brand: huawei, credential: lab, template: basic}
  - {name: B, address: 10.0.0.2, brand: huawei, credential: lab, template: basic}
  - {name: C, address: 10.0.0.3, brand: huawei, credential: lab, template: other}
"""


@pytest.fixture
def basic(session: Session) -> int:
    """Template basic on OLTs A and B, template other on C; the id of the first."""
    make_catalogue()
    make_credential()
    inventory.load(FILE, dry_run=False, actor=ACTOR, now=NOW)
    return templates.by_name("basic")


def node(session: Session, olt: str, key: str) -> WorkflowNode:
    found: Olt = session.scalars(select(Olt).where(Olt.name == olt)).one()
    return next(one for one in found.workflow.nodes if one.key == key)


def waiting(session: Session, olt: str, key: str, status: str = "PENDING") -> Execution:
    return make_execution(node(session, olt, key), NOW, status=ExecutionStatus(status))


def test_disabling_a_template_stops_its_nodes_on_all_olts_and_nothing_else(session: Session, basic: int) -> None:
    own = make_node(session.scalars(select(Olt).where(Olt.name == "A")).one(), "own")
    stopped = [waiting(session, olt, key) for olt in "AB" for key in ("discovery", "rx")]
    kept = [waiting(session, "A", "own"), waiting(session, "C", "state")]
    templates.set_enabled(basic, False, ACTOR, NOW)
    assert {one.status for one in stopped} == {ExecutionStatus.INTERRUPTED}
    assert "template basic was disabled" in stopped[0].error_message
    assert {one.status for one in kept} == {ExecutionStatus.PENDING}
    clocks = [node(session, olt, key).next_run_at for olt in "AB" for key in ("discovery", "rx", "description")]
    assert clocks == [None] * 6
    assert own.next_run_at is not None and node(session, "C", "state").next_run_at is not None


def test_what_runs_of_a_disabled_template_goes_on(session: Session, basic: int) -> None:
    running = waiting(session, "A", "rx", "RUNNING")
    templates.set_enabled(basic, False, ACTOR, NOW)
    assert running.status is ExecutionStatus.RUNNING


def test_a_template_enabled_again_runs_a_full_interval_later_where_the_rest_is_on(session: Session, basic: int) -> None:
    later = NOW + timedelta(minutes=50)
    workflows.set_node_enabled(node(session, "A", "rx").id, False, ACTOR, NOW)
    olts.set_enabled(node(session, "B", "rx").workflow.olt_id, False, ACTOR, NOW)
    templates.set_enabled(basic, False, ACTOR, NOW)
    templates.set_enabled(basic, True, ACTOR, later)
    assert node(session, "A", "discovery").next_run_at == later + timedelta(minutes=15)
    stopped = [node(session, olt, key) for olt, key in (("A", "rx"), ("B", "rx"), ("B", "discovery"))]
    assert [one.next_run_at for one in stopped] == [None] * 3


def test_an_olt_or_node_enabled_below_a_disabled_template_stays_without_a_clock(session: Session, basic: int) -> None:
    templates.set_enabled(basic, False, ACTOR, NOW)
    rx = node(session, "A", "rx")
    olt_id = rx.workflow.olt_id
    olts.set_enabled(olt_id, False, ACTOR, NOW)
    olts.set_enabled(olt_id, True, ACTOR, NOW)
    workflows.set_node_enabled(rx.id, False, ACTOR, NOW)
    workflows.set_node_enabled(rx.id, True, ACTOR, NOW)
    assert rx.next_run_at is None
    inventory.load(FILE.replace("interval: 10m", "interval: 20m"), dry_run=False, actor=ACTOR, now=NOW)
    assert (node(session, "B", "rx").interval_seconds, node(session, "B", "rx").next_run_at) == (1200, None)


def test_a_new_olt_of_a_disabled_template_waits_for_it(session: Session, basic: int) -> None:
    templates.set_enabled(basic, False, ACTOR, NOW)
    more = FILE + "  - {name: D, address: 10.0.0.4, brand: huawei, credential: lab, template: basic}\n"
    inventory.load(more, dry_run=False, actor=ACTOR, now=NOW)
    assert node(session, "D", "rx").next_run_at is None
    templates.set_enabled(basic, True, ACTOR, NOW)
    started = node(session, "D", "rx").next_run_at
    assert started is not None and NOW < started <= NOW + timedelta(minutes=10), (
        "of many OLTs each at a place of its own"
    )


def test_switching_is_audited_once_and_repeating_it_does_nothing(session: Session, basic: int) -> None:
    for enabled in (True, False, False, True):
        templates.set_enabled(basic, enabled, ACTOR, NOW)
    rows = session.scalars(select(AuditLog).where(AuditLog.action.like("template.%able")).order_by(AuditLog.id)).all()
    assert [(row.action, row.subject_name, row.changes) for row in rows] == [
        ("template.disable", "basic", {"enabled": [True, False]}),
        ("template.enable", "basic", {"enabled": [False, True]}),
    ]


def test_an_unknown_template_is_told(basic: int) -> None:
    with pytest.raises(NotFound, match="basik"):
        templates.by_name("basik")
    with pytest.raises(NotFound):
        templates.set_enabled(basic + 100, False, ACTOR, NOW)


@pytest.mark.parametrize("off", ["", "node", "workflow", "template", "olt", "deleted"])
def test_one_node_and_many_are_judged_alike_by_what_is_enabled(session: Session, basic: int, off: str) -> None:
    rx = node(session, "A", "rx")
    own, template = make_node(rx.workflow.olt, "own"), session.get_one(WorkflowTemplate, basic)
    of = {"node": rx, "workflow": rx.workflow, "template": template, "olt": rx.workflow.olt}
    if off == "deleted":
        rx.workflow.olt.deleted_at = NOW
    elif off:
        of[off].enabled = False  # type: ignore[attr-defined]
    session.commit()
    run = set(session.scalars(select(WorkflowNode).where(WorkflowNode.runs)))
    assert run == {one for one in session.scalars(select(WorkflowNode)) if one.runs}
    joined = select(WorkflowNode).join(WorkflowNode.workflow).join(Workflow.olt).outerjoin(Workflow.template)
    assert run == set(session.scalars(joined.where(WorkflowNode.runs_joined())))
    seen = map(parse, observe.texts(session).values())
    assert {one.id for one in run} == {task.id for olt in seen if olt.enabled for task in olt.tasks.values() if task.on}
    assert (rx in run, own in run) == (off == "", off in ("", "node", "template"))
