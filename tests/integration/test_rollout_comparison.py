"""What is compared of an OLT on which a template is tried: the same span before and since, task by task."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from portal.domain.quota import Counts
from portal.domain.statuses import ExecutionStatus, Trigger
from portal.queries import rollouts
from portal.services.network import rollouts as service
from portal.services.network import template_nodes, templates
from portal.tables import Execution, TemplateRollout
from testing.builders import make_olt, make_tracker
from testing.cast import ACTOR, at

START = at("10:20")
NOW = START + timedelta(hours=2)


@pytest.fixture
def tried(session: Session) -> TemplateRollout:
    """Template basic on OLT-LIMA since 10:20; it is 12:20."""
    olt = make_olt().id
    template = templates.create({"name": "basic"}, ACTOR, START)
    given = {"name": "Rx", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m"}
    template_nodes.add_node(template, given, ACTOR, START)
    return session.get_one(TemplateRollout, service.start(template, olt, [], ACTOR, START))


def ran(session: Session, minutes: int, ms: int, status: str = "SUCCESS", trigger: str = "schedule") -> None:
    """A run so many minutes after the start."""
    slot = START + timedelta(minutes=minutes)
    session.add(Execution(
        node_name="Rx", olt_id=1, device_key="a", priority=40, scheduled_for=slot, status=ExecutionStatus(status),
        trigger=Trigger(trigger), task_type="get_rx", duration_ms=ms,
    ))  # fmt: skip
    session.commit()


def promised(hour: int, required: int, completed: int) -> None:
    make_tracker(1, "get_rx", at(f"{hour:02}:00"), Counts(completed=completed, pending=required - completed))


def test_the_same_span_before_and_since_is_compared(session: Session, tried: TemplateRollout) -> None:
    for minutes, ms in ((-121, 90_000), (-60, 2_000), (-30, 4_000), (-10, 3_000), (5, 9_000), (15, 7_000)):
        ran(session, minutes, ms)
    ran(session, 25, 8_000, "FAILED")
    ran(session, 26, 8_000, trigger="manual")
    ran(session, 27, 0, "PENDING")
    found = rollouts.compare(tried, NOW)
    before, since = found.tasks["get_rx"]
    assert (before.runs, before.failed, before.p50_ms) == (3, 0, 3_000)
    assert (since.runs, since.failed, since.p50_ms) == (3, 1, 8_000)
    assert found.before == found.since == timedelta(hours=2)
    assert [round(share, 3) for share in found.busy] == [0.125, 0.333]
    assert not found.early


def test_only_whole_hours_of_promises_count_and_the_hour_of_the_start_does_not(
    session: Session, tried: TemplateRollout
) -> None:
    for hour, required, completed in ((9, 6, 6), (10, 6, 1), (11, 6, 3), (12, 6, 0)):
        promised(hour, required, completed)
    before, since = rollouts.compare(tried, NOW).tasks["get_rx"]
    assert (before.required, before.completed, before.kept) == (6, 6, 100)
    assert (since.required, since.completed, since.kept) == (6, 3, 50)


def test_right_after_the_start_nothing_can_be_said(session: Session, tried: TemplateRollout) -> None:
    ran(session, -30, 4_000)
    found = rollouts.compare(tried, START + timedelta(seconds=5))
    assert found.early
    assert found.before == timedelta(hours=1)
    assert found.tasks["get_rx"][0].runs == 1
    assert found.busy[1] == 0
