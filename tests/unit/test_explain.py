"""Explanations: each verdict and cause from its facts, the slot that is meant, no word about what is not recorded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portal.domain import quota
from portal.domain.explain import explain
from portal.domain.explain_facts import (
    Explanation,
    Facts,
    Hold,
    LinkKind,
    NodeFacts,
    PoolFacts,
    RunFacts,
    SkipFacts,
    StepFacts,
    Switch,
    Verdict,
)
from portal.domain.saying import Took, paragraph
from portal.domain.statuses import (
    TERMINAL,
    ErrorKind,
    EventType,
    ExecutionStatus,
    LossCause,
    OltState,
    SkipReason,
    StepStatus,
)
from portal.domain.words import ERRORS, SKIPS

SLOT = datetime(2026, 11, 27, 10, 5, tzinfo=UTC)
NODE = NodeFacts(id=2, name="rx", olt_id=7, olt_name="OLT-7", runs=True, next_run_at=SLOT + timedelta(minutes=15))
EARLIER = RunFacts(29, SLOT - timedelta(minutes=5), ExecutionStatus.PENDING)


def later(seconds: float) -> datetime:
    return SLOT + timedelta(seconds=seconds)


def facts(**given: Any) -> Facts:
    fields: dict[str, Any] = {"asked": SLOT, "now": later(600), "node": NODE}
    return Facts(**(fields | given))


def ended(
    status: ExecutionStatus = ExecutionStatus.SUCCESS, start: float = 0, took: float = 20, **given: Any
) -> RunFacts:
    begun, fields = later(start), {"id": 30, "slot": SLOT, "status": status, "tries": 1}
    fields |= {"first_started_at": begun, "started_at": begun, "finished_at": later(start + took)}
    return RunFacts(**(fields | {"duration_ms": round(took * 1000)} | given))


def skipped(reason: SkipReason | None, **given: Any) -> SkipFacts:
    fields: dict[str, Any] = {"reason": reason, "first": SLOT, "last": SLOT, "count": 1, "decided_at": later(1)}
    return SkipFacts(**(fields | given))


def held(start: float, end: float | None, usual: int | None = 80_000, name: str = "discovery", id: int = 40) -> Hold:
    return Hold(id, name, later(start), None if end is None else later(end), usual)


def words(found: Explanation) -> str:
    """The paragraph in English, thin spaces as ordinary ones, moments as times of day."""
    return paragraph(found.sentences, lambda text: text, lambda at: f"{at:%H:%M:%S}").replace("\u202f", " ")


def told(**given: Any) -> str:
    """What is told of such facts."""
    return words(explain(facts(**given)))


def kinds(found: Explanation) -> list[tuple[LinkKind, int]]:
    return [(link.kind, link.id) for link in found.links]


# -- a slot that ran


def test_a_run_on_time_is_said_to_have_succeeded_and_nothing_more() -> None:
    found = explain(facts(run=ended()))
    assert (found.verdict, found.slot, found.cause, kinds(found)) == (
        Verdict.SUCCEEDED,
        SLOT,
        None,
        [(LinkKind.EXECUTION, 30)],
    )
    assert words(found) == "rx on OLT-7 ran for its slot of 10:05:00 and succeeded at 10:05:20, after 20 s."


def test_a_late_run_names_who_held_the_olt_and_for_how_long_against_its_usual() -> None:
    found = explain(facts(run=ended(start=240), holds=(held(-10, 240),)))
    assert found.verdict is Verdict.SUCCEEDED and (LinkKind.HOLDER, 40) in kinds(found)
    assert "It started at 10:09:00, 4 min late." in words(found)
    assert "discovery of OLT-7 ran 4 min 10 s, usually 1 min 20 s." in words(found)


def test_of_many_holders_the_longest_are_named_in_their_order_and_the_others_summed() -> None:
    holds = [held(n * 60, n * 60 + 10 + n, name=f"n{n}", id=40 + n) for n in range(6)]
    found = explain(facts(run=ended(start=400), holds=tuple(holds)))
    text = words(found)
    assert [f"n{n}" for n in range(6) if f"n{n} of OLT-7" in text] == ["n3", "n4", "n5"]
    assert "Further runs on the OLT meanwhile: 3, for 33 s of that time." in text
    assert [number for kind, number in kinds(found) if kind is LinkKind.HOLDER] == [45, 44, 43]
    holds = [
        held(-5000, 5, name="long", id=50),
        *(held(n * 60, n * 60 + 30, name=f"n{n}", id=40 + n) for n in range(4)),
    ]
    summed = "Further runs on the OLT meanwhile: 2, for 1 min of that time."  # only the time that was waited for them
    assert summed in told(run=ended(start=300), holds=tuple(holds))


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_failure_tells_its_kind_and_what_was_recorded(kind: ErrorKind) -> None:
    run = ended(ExecutionStatus.FAILED, error_kind=kind, error_message="no answer", tries=3)
    found = explain(facts(run=run))
    assert (found.verdict, found.cause) == (Verdict.FAILED, quota.cause_of_end(run.status, kind, None))
    assert "rx on OLT-7 failed for its slot of 10:05:00, at 10:05:20." in words(found)
    assert f"{ERRORS[kind]}. Recorded was: “no answer” It was tried 3 times." in words(found)
    assert kinds(found) == [(LinkKind.EXECUTION, 30), (LinkKind.LOG, 7)]


def test_what_is_recorded_is_told_and_what_is_not_is_not_guessed() -> None:
    late, waits, next_try = ended(start=60), RunFacts(30, SLOT, ExecutionStatus.PENDING), later(720)
    cancelled = ended(ExecutionStatus.INTERRUPTED, skip_reason=SkipReason.CANCELLED, cancelled_by="rosa")
    busy, full = skipped(SkipReason.OLT_BUSY), skipped(SkipReason.POOL_FULL, own=EARLIER, free_pollers=0)
    on_grid, chained = replace(NODE, grid_slot=SLOT), replace(NODE, chained="serial")
    no_oid = StepFacts(StepStatus.FAILED, None, ErrorKind.NO_SUCH_OBJECT)
    waited_for_nothing = "What it waited for is not recorded: no recorded run held the OLT in that time"
    texts = {
        "discovery of OLT-7 ran 4 min 10 s; how long it usually takes is not recorded.": told(
            run=ended(start=240), holds=(held(-10, 240, None),)
        ),
        "No poller was free in 5 of 6 looks at the pool in that time.": told(run=late, pool=PoolFacts(6, 5)),
        f"{waited_for_nothing}.": told(run=late, pool=PoolFacts()),
        f"{waited_for_nothing}, and pollers were free.": told(run=late, pool=PoolFacts(6, 0)),
        "What kind of failure it was is not recorded.": told(run=ended(ExecutionStatus.FAILED)),
        "rosa cancelled it.": told(run=cancelled),
        "interrupted for its slot of 10:05:00, at 10:05:20. Why is not recorded.": told(
            run=ended(ExecutionStatus.INTERRUPTED)
        ),
        "did not run at 10:05:00. Why is not recorded.": told(skip=skipped(None)),
        "Its last try failed; the next one comes at 10:17:00.": told(
            run=replace(waits, first_started_at=SLOT, tries=1, not_before=next_try)
        ),
        "Many came late at once: its start was put off to 10:17:00, so that they are spread.": told(
            run=replace(waits, not_before=next_try)
        ),
        "Which run held the OLT is no longer recorded.": told(skip=replace(busy, own=EARLIER)),
        "Which run that was is no longer recorded.": told(skip=busy),
        "in 30 of 30 looks": told(skip=full, pool=PoolFacts(30, 30)),
        "Pollers that were free for this OLT when the slot came: 0.": told(skip=full),
        "The decision log of that time has been cleaned up: it begins at 10:06:00.": told(
            node=on_grid, log_since=later(60)
        ),
        "The decision log is empty.": told(node=on_grid),
        "Of serial itself nothing is recorded in that run.": told(node=chained, run=ended(step=None)),
        "The step serial of that run succeeded.": told(
            node=chained, run=ended(step=StepFacts(StepStatus.SUCCESS, None, None))
        ),
        "The OLT does not have this OID.": told(node=chained, run=ended(step=no_oid)),
        "serial of that run was skipped. Why is not recorded.": told(
            node=chained, run=ended(step=StepFacts(StepStatus.SKIPPED, None, None))
        ),
    }
    assert {phrase: text for phrase, text in texts.items() if phrase not in text} == {}
    assert ["late" in told(run=ended(start=start)) for start in (2, 2.5)] == [False, True]
    assert "in 0 of" not in told(skip=full, pool=PoolFacts(30, 0))
    assert told(skip=replace(full, free_pollers=None)).endswith("It was the run of 10:00:00.")
    causes = [
        explain(facts(run=cancelled)),
        explain(facts(run=ended(ExecutionStatus.INTERRUPTED))),
        explain(facts(skip=skipped(None))),
    ]
    assert [found.cause for found in causes] == [LossCause.CANCELLED, LossCause.UNKNOWN, LossCause.UNKNOWN]


@pytest.mark.parametrize("reason", SkipReason)
def test_an_interruption_tells_its_reason(reason: SkipReason) -> None:
    run = ended(ExecutionStatus.INTERRUPTED, skip_reason=reason, error_kind=ErrorKind.ABORTED)
    found = explain(facts(run=run))
    assert (found.verdict, found.cause) == (Verdict.INTERRUPTED, quota.cause_of_skip(reason))
    assert SKIPS[reason] in words(found)


def test_what_was_taken_away_while_it_waited_tells_what_it_had_waited_for() -> None:
    run = RunFacts(30, SLOT, ExecutionStatus.INTERRUPTED, finished_at=later(90), skip_reason=SkipReason.OLT_DISABLED)
    found = explain(facts(run=run, holds=(held(-10, 90),)))
    assert found.cause is LossCause.DISABLED
    assert "Until then it had waited for 1 min 30 s, without a try." in words(found)
    assert "discovery of OLT-7 ran 1 min 40 s" in words(found)


# -- what has not ended


def test_a_run_that_goes_on_has_lost_nothing_yet() -> None:
    run = RunFacts(30, SLOT, ExecutionStatus.RUNNING, first_started_at=later(1), started_at=later(1), tries=1)
    found = explain(facts(run=run))
    assert (found.verdict, found.cause) == (Verdict.RUNNING, None)
    assert "is running for its slot of 10:05:00, since 10:05:01" in words(found)


def test_what_waits_tells_who_holds_the_olt() -> None:
    found = explain(facts(run=RunFacts(30, SLOT, ExecutionStatus.PENDING), holds=(held(30, None),)))
    assert (found.verdict, found.cause) == (Verdict.WAITING, None)
    assert "It has waited for 10 min." in words(found)
    assert "discovery holds OLT-7, for 9 min 30 s so far, usually 1 min 20 s." in words(found)


# -- a slot that was skipped


@pytest.mark.parametrize("reason", SkipReason)
def test_a_skipped_slot_tells_its_reason_and_counts_under_the_cause_of_the_quota(reason: SkipReason) -> None:
    found = explain(facts(skip=skipped(reason)))
    assert (found.verdict, found.slot, found.cause) == (Verdict.SKIPPED, SLOT, quota.cause_of_skip(reason))
    assert words(found).startswith("rx on OLT-7 did not run at 10:05:00. ")
    expected = "The scheduler was not running" if reason is SkipReason.SCHEDULER_DOWN else SKIPS[reason]
    assert expected in words(found)
    assert (LinkKind.LOG, 7) in kinds(found)


def test_a_slot_lost_to_a_busy_olt_names_its_waiting_run_and_the_holder() -> None:
    found = explain(facts(skip=skipped(SkipReason.OLT_BUSY, own=EARLIER), holds=(held(-250, 0),)))
    assert found.cause is LossCause.OLT_BUSY
    assert "It was the run of 10:00:00. discovery of OLT-7 ran 4 min 10 s, usually 1 min 20 s." in words(found)
    assert kinds(found)[:2] == [(LinkKind.EXECUTION, 29), (LinkKind.HOLDER, 40)]


def test_an_overrun_tells_how_long_the_node_ran_against_its_usual() -> None:
    own = ended(slot=later(-300), start=-300, took=320, id=29)
    found = explain(facts(skip=skipped(SkipReason.OVERRUN, own=own), own_hold=held(-300, 20, 30_000, "rx", 29)))
    assert words(found).endswith("It was the run of 10:00:00. rx of OLT-7 ran 5 min 20 s, usually 30 s.")
    assert kinds(found) == [(LinkKind.EXECUTION, 29), (LinkKind.LOG, 7)]
    without = explain(facts(skip=skipped(SkipReason.OVERRUN, own=own)))
    assert "How long it ran is no longer recorded." in words(without)


def test_a_run_that_began_late_and_was_still_going_on_tells_what_it_had_waited_for() -> None:
    own = ended(slot=later(-300), start=-10, took=20, id=29)
    skip, own_hold = skipped(SkipReason.OVERRUN, own=own), held(-10, 10, None, "rx", 29)
    found = explain(facts(skip=skip, own_hold=own_hold, holds=(held(-300, -10),)))
    assert "It had started at 10:04:50, 4 min 50 s late. discovery of OLT-7 ran 4 min 50 s" in words(found)
    assert kinds(found)[:2] == [(LinkKind.EXECUTION, 29), (LinkKind.HOLDER, 40)]


@pytest.mark.parametrize(
    ("reason", "state"), [(SkipReason.OLT_PAUSED, OltState.PAUSED), (SkipReason.OLT_UNREACHABLE, OltState.UNREACHABLE)]
)
def test_since_when_an_olt_was_not_read_is_told_where_it_is_recorded(reason: SkipReason, state: OltState) -> None:
    skip = skipped(reason)
    assert "It had been so since 09:05:00." in told(skip=skip, state=(state, later(-3600)))
    for unknown in ({}, {"state": (OltState.UP, later(-9))}):
        assert "Since when is not recorded." in told(skip=skip, **unknown)


def test_one_of_many_lost_slots_tells_of_the_others() -> None:
    many = skipped(SkipReason.SCHEDULER_DOWN, first=later(-600), last=later(600), count=5)
    found = explain(facts(skip=many, asked=later(17)))
    assert found.slot == SLOT
    assert "The slot meant is that of 10:05:00, the latest at or before 10:05:17." in words(found)
    assert "It is one of 5 slots, from 09:55:00 to 10:15:00, lost in the same way." in words(found)


# -- which slot is meant


def test_of_several_records_the_latest_slot_at_or_before_the_moment_is_meant() -> None:
    records = {"run": ended(), "skip": skipped(SkipReason.OLT_PAUSED, first=later(300), last=later(300))}
    meant = [explain(facts(asked=later(seconds), **records)).verdict for seconds in (299, 300)]
    assert meant == [Verdict.SUCCEEDED, Verdict.SKIPPED]


def test_where_nothing_lies_before_the_first_slot_after_is_meant() -> None:
    found = explain(facts(run=ended(), asked=later(-60)))
    assert (found.verdict, found.slot) == (Verdict.SUCCEEDED, SLOT)
    assert words(found).startswith(
        "No slot at or before 10:04:00 is recorded; the first one after it is that of 10:05:00. "
    )


def test_a_slot_to_come_is_no_lost_one() -> None:
    found = explain(facts(asked=later(900), node=replace(NODE, grid_slot=later(900))))
    assert (found.verdict, found.slot, found.cause) == (Verdict.TO_COME, later(900), None)
    assert words(found) == "rx on OLT-7 runs at 10:20:00; that is still to come."
    first = explain(facts())
    assert (first.verdict, first.slot) == (Verdict.TO_COME, later(900))


def test_a_slot_that_the_scheduler_has_not_taken_waits_for_it() -> None:
    node = replace(NODE, next_run_at=SLOT, grid_slot=SLOT)
    found = explain(facts(node=node, ticked_at=later(-30)))
    assert (found.verdict, found.cause) == (Verdict.WAITING, None)
    assert "has not taken the slot of rx on OLT-7 at 10:05:00 yet. It last ticked at 10:04:30." in words(found)
    assert "It has never ticked." in told(node=node)


# -- nothing is recorded


def test_a_slot_of_the_grid_without_a_record_is_said_to_have_none() -> None:
    found = explain(facts(node=replace(NODE, grid_slot=SLOT), log_since=later(-900)))
    assert (found.verdict, found.cause) == (Verdict.UNRECORDED, LossCause.UNKNOWN)
    assert words(found) == "Of the slot of rx on OLT-7 at 10:05:00 nothing is recorded: no run, no decision."


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (EventType.OLT_DISABLED, "rx had no slot at 10:05:00: OLT-7 was disabled at 09:55:00."),
        (EventType.TASK_REMOVED, "rx on OLT-7 had no slot at 10:05:00: it was switched off at 09:55:00."),
    ],
)
def test_while_it_was_off_there_was_no_slot(event: EventType, text: str) -> None:
    run = ended(slot=later(-900))
    found = explain(facts(run=run, switch=Switch(event, later(-600))))
    assert (found.verdict, found.slot, found.cause) == (Verdict.NO_SLOT, None, LossCause.DISABLED)
    assert words(found) == f"{text} Its last slot before that was at 09:50:00."
    assert kinds(found) == [(LinkKind.EXECUTION, 30), (LinkKind.LOG, 7)]


def test_a_chained_node_that_is_off_has_no_slot_though_its_master_runs() -> None:
    node = replace(NODE, chained="serial")
    off = Switch(EventType.TASK_REMOVED, later(-600), "serial")
    found = explain(facts(node=node, run=ended(), switch=off))
    assert (found.verdict, found.cause) == (Verdict.NO_SLOT, LossCause.DISABLED)
    assert words(found) == "serial on OLT-7 had no slot at 10:05:00: it was switched off at 09:55:00."
    assert explain(facts(node=node, run=ended(), switch=replace(off, name="rx"))).verdict is Verdict.SUCCEEDED


def test_a_run_explains_the_slot_that_came_when_it_was_on_and_not_the_time_when_it_was_off() -> None:
    removed = EventType.TASK_REMOVED
    for switch in (Switch(EventType.OLT_ENABLED, later(-1)), Switch(removed, later(-900))):
        assert explain(facts(run=ended(), switch=switch)).verdict is Verdict.SUCCEEDED
    later_run = facts(run=ended(slot=later(900)), switch=Switch(removed, later(-600)))
    assert explain(later_run).verdict is Verdict.NO_SLOT


def test_off_since_nobody_knows_when_is_said_as_that() -> None:
    found = explain(facts(node=replace(NODE, runs=False, next_run_at=None)))
    assert (found.verdict, found.cause) == (Verdict.NO_SLOT, None)
    assert "since when it is off is not recorded either" in words(found)
    new = explain(facts(node=replace(NODE, next_run_at=None)))
    assert words(new) == "rx on OLT-7 has no slot yet, and none is recorded."


# -- a chained node


def test_a_chained_node_is_explained_by_the_run_of_its_master_and_its_own_step() -> None:
    node = replace(NODE, chained="serial")
    step = StepFacts(StepStatus.SKIPPED, SkipReason.TIMED_OUT_EARLIER, None)
    text = told(node=node, run=ended(ExecutionStatus.FAILED, error_kind=ErrorKind.TIMEOUT, step=step))
    assert text.startswith("serial is chained: it runs after rx, so the slot is that of rx.")
    assert text.endswith("The step serial of that run was skipped. An earlier step timed out.")


def test_every_cause_of_a_quota_can_be_explained() -> None:
    """Each cause under which a slot may be counted is the cause of some explanation."""
    runs = [ended(status, error_kind=kind) for status in TERMINAL for kind in ErrorKind]
    found = {explain(facts(run=run)).cause for run in runs}
    found |= {explain(facts(skip=skipped(reason))).cause for reason in SkipReason}
    assert found - {None} == set(LossCause) - {LossCause.PENDING}


def test_durations_are_said_in_their_largest_units() -> None:
    said = {-5: "0 ms", 0: "0 ms", 340: "340 ms", 12_000: "12 s", 80_000: "1 min 20 s", 250_000: "4 min 10 s"}
    said |= {3_600_000: "1 h", 11_100_000: "3 h 5 min"}
    assert {ms: str(Took(ms)).replace("\u202f", " ") for ms in said} == said
