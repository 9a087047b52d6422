"""What the coordinator makes of two snapshots of an OLT."""

import pytest

from portal.domain.statuses import EventType
from scheduler.coordinator import decide
from scheduler.coordinator.decide import ChangeKind, Snapshot
from testing.tables import differing

DISCOVERY = "1|discovery|discovery|1|900||90||1000"
RX = "2|rx|get|1|300||40||2000"
RX_OFF = RX.replace("|1|300", "|0|300")
NAMES = "3|names|get|1|||40|2|"
NIGHTLY = "4|ports|table|1||0 3 * * *|20||"


def seen(*lines: str, enabled: bool = True) -> Snapshot:
    return decide.parse(decide.canonical(enabled, list(lines)))


def decided(before: Snapshot | None, after: Snapshot) -> tuple[list[str], set[str]]:
    """The changes by their words, and what is to be done about them."""
    made = decide.decide(before, after)
    todo = {name for name in ("abort", "interrupt", "resume", "recount", "replan", "reorder") if getattr(made, name)}
    return [change.kind.value for change in made.changes], todo


def test_what_was_changed_is_told_with_what_is_to_be_done() -> None:
    both, anew = seen(DISCOVERY, RX), {"recount", "replan"}
    many = ["olt_disabled", "task_interval_changed", "task_removed", "task_added"]
    cases = {
        "nothing": (decided(both, both), ([], set())),
        "a task was disabled": (decided(both, seen(DISCOVERY, RX_OFF)), (["task_removed"], anew | {"abort"})),
        "a task was deleted": (decided(both, seen(DISCOVERY)), (["task_removed"], anew | {"abort"})),
        "a task was created": (decided(seen(DISCOVERY), both), (["task_added"], anew)),
        "a task was enabled": (decided(seen(DISCOVERY, RX_OFF), both), (["task_added"], anew)),
        "the interval of a disabled task": (decided(seen(RX_OFF), seen(RX_OFF.replace("300", "600")))[0], []),
        "the OLT was disabled: no task is removed": (
            decided(both, seen(DISCOVERY, RX, enabled=False)),
            (["olt_disabled"], anew | {"interrupt"}),
        ),
        "the OLT was enabled": (decided(seen(RX, enabled=False), seen(RX)), (["olt_enabled"], anew | {"resume"})),
        "a task counts for something else: one less and one more": (
            decided(seen(RX), seen(RX.replace("|rx|", "|power|")))[0],
            ["task_removed", "task_added"],
        ),
        "another order: a new plan and none of the five changes": (
            decided(both, seen(DISCOVERY, RX.replace("|40|", "|95|"))),
            ([], {"replan", "reorder"}),
        ),
        "a clock was wound, nothing else": (
            decided(both, seen(DISCOVERY, RX.replace("2000", "2300"))),
            ([], {"recount", "replan", "reorder"}),
        ),
        "an OLT is seen for the first time": (
            decided(None, seen(DISCOVERY, NAMES, NIGHTLY)),
            (["task_added"] * 3, anew),
        ),
        "several changes at once": (
            decided(seen(DISCOVERY, RX, NIGHTLY), seen(DISCOVERY.replace("900", "600"), NIGHTLY, NAMES, enabled=False)),
            (many, anew | {"abort", "interrupt"}),
        ),
    }
    assert differing(cases) == {}
    assert decide.decide(both, both) == decide.Decision(())
    assert decide.decide(both, seen(DISCOVERY, RX_OFF)).abort == (2,)


@pytest.mark.parametrize("after", [RX.replace("|300|", "|600|"), RX.replace("|300||", "||*/7 * * * *|")])
def test_another_pace_is_a_change_of_interval(after: str) -> None:
    (change,) = decide.decide(seen(RX), seen(after)).changes
    assert change.kind is ChangeKind.TASK_INTERVAL_CHANGED
    assert change.before is not None and change.before.pace == "300 s"


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
