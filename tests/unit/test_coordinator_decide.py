"""What the coordinator makes of two snapshots of an OLT."""

import pytest

from portal.domain.statuses import EventType
from scheduler.coordinator import decide
from scheduler.coordinator.decide import ChangeKind, Snapshot

DISCOVERY = "1|discovery|discovery|1|900||90||1000"
RX = "2|rx|get|1|300||40||2000"
NAMES = "3|names|get|1|||40|2|"
NIGHTLY = "4|ports|table|1||0 3 * * *|20||"


def seen(*lines: str, enabled: bool = True) -> Snapshot:
    return decide.parse(decide.canonical(enabled, list(lines)))


def kinds(decision: decide.Decision) -> list[str]:
    return [change.kind.value for change in decision.changes]


def test_nothing_changed_means_nothing_to_do() -> None:
    assert decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY, RX)) == decide.Decision(())


def test_a_task_that_was_disabled_is_removed_aborted_recounted_and_replanned() -> None:
    decision = decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY, RX.replace("|1|300", "|0|300")))
    assert kinds(decision) == ["task_removed"]
    assert (decision.abort, decision.recount, decision.replan, decision.interrupt) == ((2,), True, True, False)


def test_a_task_that_was_deleted_is_removed_as_well() -> None:
    assert kinds(decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY))) == ["task_removed"]


@pytest.mark.parametrize("before", [seen(DISCOVERY), seen(DISCOVERY, RX.replace("|1|300", "|0|300"))])
def test_a_task_that_was_created_or_enabled_is_added(before: Snapshot) -> None:
    decision = decide.decide(before, seen(DISCOVERY, RX))
    assert kinds(decision) == ["task_added"] and decision.abort == ()


@pytest.mark.parametrize("after", [RX.replace("|300|", "|600|"), RX.replace("|300||", "||*/7 * * * *|")])
def test_another_pace_is_a_change_of_interval(after: str) -> None:
    decision = decide.decide(seen(RX), seen(after))
    assert kinds(decision) == ["task_interval_changed"]
    assert decision.changes[0].before is not None and decision.changes[0].before.pace == "300 s"


def test_the_interval_of_a_disabled_task_is_no_change() -> None:
    off = RX.replace("|1|300", "|0|300")
    assert kinds(decide.decide(seen(off), seen(off.replace("300", "600")))) == []


def test_an_olt_that_was_disabled_is_interrupted_and_its_tasks_are_not_removed() -> None:
    decision = decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY, RX, enabled=False))
    assert kinds(decision) == ["olt_disabled"] and decision.interrupt and not decision.resume


def test_an_olt_that_was_enabled_again_is_resumed() -> None:
    decision = decide.decide(seen(RX, enabled=False), seen(RX))
    assert kinds(decision) == ["olt_enabled"] and decision.resume


def test_a_task_that_counts_for_something_else_is_one_less_and_one_more() -> None:
    assert kinds(decide.decide(seen(RX), seen(RX.replace("|rx|", "|power|")))) == ["task_removed", "task_added"]


def test_another_order_makes_a_new_plan_and_is_none_of_the_five_changes() -> None:
    decision = decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY, RX.replace("|40|", "|95|")))
    assert decision.changes == () and decision.reorder and not decision.recount


def test_a_clock_that_was_wound_is_recounted_though_nothing_else_changed() -> None:
    decision = decide.decide(seen(DISCOVERY, RX), seen(DISCOVERY, RX.replace("2000", "2300")))
    assert decision.changes == () and decision.recount and decision.reorder


def test_all_tasks_of_an_olt_seen_for_the_first_time_are_added() -> None:
    assert kinds(decide.decide(None, seen(DISCOVERY, NAMES, NIGHTLY))) == ["task_added"] * 3


def test_several_changes_at_once_are_all_found() -> None:
    before = seen(DISCOVERY, RX, NIGHTLY)
    after = seen(DISCOVERY.replace("900", "600"), NIGHTLY, NAMES, enabled=False)
    assert kinds(decide.decide(before, after)) == [
        "olt_disabled", "task_interval_changed", "task_removed", "task_added",
    ]  # fmt: skip


def test_the_digest_depends_on_every_field_and_on_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    text = decide.canonical(True, [DISCOVERY, NIGHTLY])
    others = [decide.canonical(False, [DISCOVERY, NIGHTLY]), decide.canonical(True, [DISCOVERY]), text + "0"]
    digests = {decide.digest(one) for one in (text, *others)}
    assert len(digests) == 4
    monkeypatch.setattr(decide, "VERSION", decide.VERSION + 1)
    assert decide.digest(text) not in digests


def test_a_canonical_text_can_be_read_back() -> None:
    snapshot = seen(DISCOVERY, NAMES, NIGHTLY)
    assert snapshot.tasks[4].cron == "0 3 * * *" and snapshot.tasks[4].interval is None
    assert snapshot.tasks[3].master_id == 2 and snapshot.tasks[1].interval == 900


def test_every_kind_of_change_has_its_event() -> None:
    assert {kind.event for kind in ChangeKind} <= set(EventType)
