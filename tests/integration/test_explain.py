"""Explanations from rows, on both databases: the right slot, who held the OLT against its usual, nothing guessed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from portal import cron
from portal.domain.explain_facts import Explanation, LinkKind, Verdict
from portal.domain.saying import paragraph
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    LossCause,
    OltState,
    SkipReason,
    StepStatus,
)
from portal.extensions import transaction
from portal.queries import explain as query
from portal.services import decisions
from portal.services.dispatch import reachability
from portal.services.network import workflows
from portal.tables import Execution, ExecutionAttempt, NodePace, PollerStats, WorkflowNode
from scheduler.coordinator import loop
from testing import builders
from testing.builders import make_attempt, make_execution, make_pool, make_step
from testing.cast import ACTOR, TEN
from testing.commands import commands

CREATED = datetime(2026, 11, 27, 9, 59, tzinfo=UTC)  # first run, and anchor: 10:00


class Cast:
    """OLT-7 with a discovery (15 min) and rx (5 min) with serial chained; what the tests write of them."""

    def __init__(self) -> None:
        olt = builders.make_olt("OLT-7", CREATED)
        self.olt_id = olt.id
        self.discovery = builders.make_node(olt, now=CREATED).id
        rx = builders.make_node(olt, "rx", CREATED, kind="get", oid="huawei.onu_rx_power", interval="5m")
        self.rx = rx.id
        self.serial = builders.make_chained(rx, "serial", CREATED).id

    def run(self, node: int, slot: datetime, start: float | None = 0, took: float | None = 20, **fields: Any) -> int:
        """An execution of one try that started `start` seconds after its slot (None: not yet) and took so long."""
        begun = None if start is None else slot + timedelta(seconds=start)
        over = None if begun is None or took is None else begun + timedelta(seconds=took)
        given = {"status": ExecutionStatus.SUCCESS if over else ExecutionStatus.RUNNING if begun else "PENDING",
                 "started_at": begun, "finished_at": over, "duration_ms": took and round(took * 1000),
                 "attempt": int(begun is not None)}  # fmt: skip
        with transaction() as session:
            row = session.get_one(WorkflowNode, node)
            execution = make_execution(row, slot, **{"queued_at": None} | given | fields)
            if begun:
                make_attempt(execution, status=AttemptStatus.SUCCESS if over else AttemptStatus.RUNNING,
                             started_at=begun, finished_at=over)  # fmt: skip
            return execution.id

    def skip(
        self, node: int, reason: SkipReason, first: datetime, count: int = 1, last: datetime | None = None, **facts: Any
    ) -> None:
        """As the tick logs it: one row at the last slot, which is that of five minutes' pace."""
        last = last or first + (count - 1) * timedelta(minutes=5)
        details = {"slots": count, "first": first.isoformat(), "last": last.isoformat(), **facts}
        with transaction() as session:
            decisions.record(session, EventType.SLOT_SKIPPED, "skipped", last, olt_id=self.olt_id, node_id=node,
                             scheduled_for=last, reason=reason, execution_id=facts.get("waiting"),
                             details=details)  # fmt: skip

    def clock(self, node: int, next_run: datetime | None, cron: str | None = None, **anchor: datetime) -> None:
        """Wind the clock of a node; None stops it."""
        with transaction() as session:
            row = session.get_one(WorkflowNode, node)
            row.next_run_at, row.anchor_at = next_run, anchor.get("anchor", row.anchor_at)
            if cron:
                row.interval_seconds, row.cron = None, cron

    def event(self, event: EventType, at: datetime, node: int | None = None) -> None:
        with transaction() as session:
            decisions.record(session, event, "switched", at, olt_id=self.olt_id, node_id=node)


@pytest.fixture
def cast(app: Flask) -> Iterator[Cast]:
    with app.app_context():
        yield Cast()


def at(minute: float, second: float = 0) -> datetime:
    return TEN + timedelta(minutes=minute, seconds=second)


def explained(node: int, moment: datetime, now: datetime | None = None) -> Explanation:
    return query.explain(node, moment, now or at(40))  # type: ignore[return-value]


def told(found: Explanation) -> str:
    return paragraph(found.sentences, str, lambda moment: f"{moment:%H:%M:%S}").replace("\u202f", " ")


def test_a_late_run_names_the_holder_against_what_was_learned_of_it(cast: Cast) -> None:
    with transaction() as session:
        session.add(NodePace(node_id=cast.discovery, durations=[80_000], p50_ms=80_000, p95_ms=90_000, updated_at=TEN))
    holder, late = cast.run(cast.discovery, at(15), took=250), cast.run(cast.rx, at(15), start=250)
    found = explained(cast.rx, at(15))
    assert (found.verdict, found.slot) == (Verdict.SUCCEEDED, at(15))
    assert "discovery of OLT-7 ran 4 min 10 s, usually 1 min 20 s." in told(found)
    assert [(link.kind, link.id) for link in found.links] == [(LinkKind.EXECUTION, late), (LinkKind.HOLDER, holder)]


def test_where_nothing_was_learned_the_usual_is_the_median_of_its_last_runs(cast: Cast) -> None:
    for number, took in enumerate((60, 70, 80, 90, 100)):
        cast.run(cast.discovery, TEN - timedelta(minutes=15 * (5 - number)), took=took)
    cast.run(cast.discovery, at(15), took=250)
    cast.run(cast.rx, at(15), start=250)
    assert "ran 4 min 10 s, usually 1 min 25 s." in told(explained(cast.rx, at(15)))


def test_a_try_that_failed_and_was_repeated_later_is_a_holder_too(cast: Cast) -> None:
    failed = cast.run(cast.discovery, at(15), took=40)
    with transaction() as session:
        execution = session.get_one(Execution, failed)
        execution.started_at, execution.finished_at, execution.attempt = at(19), at(20), 2
        make_attempt(execution, 2)
    cast.run(cast.rx, at(15), start=40)
    found = explained(cast.rx, at(15))
    assert "discovery of OLT-7 ran 40 s" in told(found)
    assert len([one for one in found.sentences if "of OLT-7 ran" in one]) == 1


def test_runs_of_other_olts_are_no_holders(cast: Cast) -> None:
    other = Cast.__new__(Cast)
    olt = builders.make_olt("OLT-8", CREATED)
    other.olt_id, other.discovery = olt.id, builders.make_node(olt, now=CREATED).id
    other.run(other.discovery, at(15), took=250)
    cast.run(cast.rx, at(15), start=250)
    wanted = "What it waited for is not recorded: no recorded run held the OLT in that time."
    assert wanted in told(explained(cast.rx, at(15)))


def test_a_full_pool_is_seen_in_its_samples(cast: Cast) -> None:
    with transaction() as session:
        session.add_all(PollerStats(timestamp=at(15, 10 * n), total_pollers=2, free_pollers=int(n == 3))
                        for n in range(1, 7))  # fmt: skip
    cast.run(cast.rx, at(15), start=61)
    assert "No poller was free in 5 of 6 looks at the pool" in told(explained(cast.rx, at(15)))


def test_a_skip_that_covers_several_slots_is_found_for_each_of_them(cast: Cast) -> None:
    cast.run(cast.rx, TEN)
    cast.skip(cast.rx, SkipReason.SCHEDULER_DOWN, at(5), 4)  # 10:05 to 10:20, the row stands at 10:20
    cast.run(cast.rx, at(25))
    found = {minute: explained(cast.rx, at(minute)) for minute in range(0, 30)}
    assert [minute for minute, one in found.items() if one.verdict is Verdict.SKIPPED] == list(range(5, 25))
    assert {one.slot for one in found.values()} == {at(minute) for minute in (0, 5, 10, 15, 20, 25)}
    assert (found[17].slot, found[17].cause) == (at(15), LossCause.RESTART)


def test_a_slot_lost_to_a_busy_olt_tells_of_its_waiting_run_and_the_holder(cast: Cast) -> None:
    holder, waiting = cast.run(cast.discovery, TEN, took=460), cast.run(cast.rx, TEN, start=460)
    cast.skip(cast.rx, SkipReason.OLT_BUSY, at(5), waiting=waiting, holder=holder)
    found = explained(cast.rx, at(5))
    assert (found.verdict, found.cause) == (Verdict.SKIPPED, LossCause.OLT_BUSY)
    assert "It was the run of 10:00:00. discovery of OLT-7 ran 7 min 40 s" in told(found)
    assert {(link.kind, link.id) for link in found.links} >= {(LinkKind.EXECUTION, waiting), (LinkKind.HOLDER, holder)}


def test_an_overrun_tells_how_long_the_node_itself_ran(cast: Cast) -> None:
    own = cast.run(cast.rx, TEN, took=320)
    cast.skip(cast.rx, SkipReason.OVERRUN, at(5), waiting=own)
    found = explained(cast.rx, at(5))
    assert found.cause is LossCause.OVERRUN
    assert "It was the run of 10:00:00. rx of OLT-7 ran 5 min 20 s" in told(found)


def test_a_holder_whose_node_was_deleted_since_is_still_named(cast: Cast) -> None:
    holder, waiting = cast.run(cast.discovery, TEN, took=460), cast.run(cast.rx, TEN, start=460)
    cast.skip(cast.rx, SkipReason.OLT_BUSY, at(5), waiting=waiting, holder=holder)
    workflows.delete_node(cast.discovery, ACTOR, at(30))
    found = explained(cast.rx, at(5))
    assert "discovery of OLT-7 ran 7 min 40 s; how long it usually takes is not recorded." in told(found)
    assert (LinkKind.HOLDER, holder) in {(link.kind, link.id) for link in found.links}


def test_pollers_of_sites_are_not_judged_by_the_samples_of_all(cast: Cast) -> None:
    with transaction() as session:
        session.add(PollerStats(timestamp=at(15, 10), total_pollers=2, free_pollers=0))
    cast.run(cast.rx, at(15), start=61)
    assert "No poller was free in 1 of 1" in told(explained(cast.rx, at(15)))
    make_pool(at(15), name="north", site="north", size=2)
    assert "looks at the pool" not in told(explained(cast.rx, at(15)))


def test_slots_of_a_cron_line_are_those_at_which_it_fired(cast: Cast) -> None:
    """At 10:50, 11:00, 11:50 …: evenly spaced they would be at 11:20, which is no slot."""
    line, hours = "0,50 * * * *", {"2026-11-27T10:00:00+00:00": 2}
    cast.clock(cast.rx, at(180), cron=line, anchor=at(180))
    cast.skip(cast.rx, SkipReason.SCHEDULER_DOWN, at(50), 5, at(170), hours=hours, cron=line)
    slots = {minute: explained(cast.rx, at(minute), now=at(200)).slot for minute in (55, 60, 105, 110, 119, 165, 171)}
    expected = {55: 50, 60: 60, 105: 60, 110: 110, 119: 110, 165: 120, 171: 170}
    assert slots == {minute: at(slot) for minute, slot in expected.items()}


def test_what_waits_now_names_who_holds_the_olt(cast: Cast) -> None:
    cast.run(cast.discovery, at(15), took=None)
    cast.run(cast.rx, at(15), start=None)
    found = explained(cast.rx, at(15), now=at(18))
    assert (found.verdict, found.cause) == (Verdict.WAITING, None)
    assert "discovery holds OLT-7, for 3 min so far" in told(found)


def test_a_failure_and_its_kind(cast: Cast) -> None:
    cast.run(cast.rx, TEN, status=ExecutionStatus.FAILED, error_kind=ErrorKind.TIMEOUT, error_message="no answer")
    found = explained(cast.rx, at(3))
    assert (found.verdict, found.cause) == (Verdict.FAILED, LossCause.TIMEOUT)
    assert "The OLT did not answer in time. Recorded was: “no answer”" in told(found)


def test_since_when_an_olt_was_unreachable_is_told_also_after_it_is_back(cast: Cast) -> None:
    with transaction() as session:
        (olt,) = reachability.locked(session, [cast.olt_id])
        reachability.change_state(session, olt, OltState.UNREACHABLE, at(2), "silent")
    cast.skip(cast.rx, SkipReason.OLT_UNREACHABLE, at(5), 2)
    assert "The OLT was unreachable. It had been so since 10:02:00." in told(explained(cast.rx, at(5)))
    with transaction() as session:
        (olt,) = reachability.locked(session, [cast.olt_id])
        reachability.change_state(session, olt, OltState.UP, at(12), "answered")
    assert "It had been so since 10:02:00." in told(explained(cast.rx, at(10)))


@pytest.mark.parametrize(
    ("off", "on", "of_node"),
    [(EventType.TASK_REMOVED, EventType.TASK_ADDED, True), (EventType.OLT_DISABLED, EventType.OLT_ENABLED, False)],
)
def test_the_time_between_off_and_on_had_no_slots(cast: Cast, off: EventType, on: EventType, of_node: bool) -> None:
    cast.run(cast.rx, TEN)
    cast.event(off, at(2), cast.rx if of_node else None)
    cast.event(on, at(20), cast.rx if of_node else None)
    cast.run(cast.rx, at(25))
    cast.clock(cast.rx, at(45), anchor=at(25))
    verdicts = [explained(cast.rx, at(minute)).verdict for minute in (0, 1, 2, 12, 19, 25)]
    assert verdicts == [Verdict.SUCCEEDED] * 2 + [Verdict.NO_SLOT] * 3 + [Verdict.SUCCEEDED]
    assert explained(cast.rx, at(12)).cause is LossCause.DISABLED


def test_a_node_that_a_person_switched_off_had_no_slots_from_then_on(cast: Cast) -> None:
    loop.run(TEN)
    cast.run(cast.rx, at(5))
    workflows.set_node_enabled(cast.rx, False, ACTOR, at(7))
    loop.run(at(7, 5))
    found = explained(cast.rx, at(12))
    assert (found.verdict, found.cause) == (Verdict.NO_SLOT, LossCause.DISABLED)
    assert "rx on OLT-7 had no slot at 10:12:00: it was switched off at 10:07:05." in told(found)
    workflows.set_node_enabled(cast.serial, False, ACTOR, at(20))
    loop.run(at(20, 5))
    workflows.set_node_enabled(cast.rx, True, ACTOR, at(21))
    loop.run(at(21, 5))
    cast.run(cast.rx, at(26))
    assert explained(cast.rx, at(26)).verdict is Verdict.SUCCEEDED
    assert "serial on OLT-7 had no slot at 10:26:00: it was switched off" in told(explained(cast.serial, at(26)))


def test_an_olt_that_is_on_again_does_not_hide_that_the_node_is_still_off(cast: Cast) -> None:
    cast.run(cast.rx, TEN)
    cast.clock(cast.rx, None)
    cast.event(EventType.TASK_REMOVED, at(2), cast.rx)
    cast.event(EventType.OLT_DISABLED, at(4))
    cast.event(EventType.OLT_ENABLED, at(6))
    found = explained(cast.rx, at(10))
    assert (found.verdict, "it was switched off at 10:02:00" in told(found)) == (Verdict.NO_SLOT, True)


def test_what_was_switched_on_another_node_says_nothing_of_this_one(cast: Cast) -> None:
    cast.run(cast.rx, TEN)
    cast.event(EventType.TASK_REMOVED, at(2), cast.discovery)
    assert explained(cast.rx, at(4)).verdict is Verdict.SUCCEEDED


def test_a_slot_of_the_grid_of_which_nothing_is_recorded_is_not_explained(cast: Cast) -> None:
    cast.clock(cast.rx, at(45))
    found = explained(cast.rx, at(12))
    assert (found.verdict, found.slot, found.cause) == (Verdict.UNRECORDED, at(10), LossCause.UNKNOWN)
    assert "The decision log is empty." in told(found)


def test_slots_that_the_scheduler_has_not_taken_wait_for_it(cast: Cast) -> None:
    found = explained(cast.rx, at(12))
    assert (found.verdict, found.slot) == (Verdict.WAITING, at(10))
    assert "It has never ticked." in told(found)


def test_a_cron_line_has_slots_in_the_portals_zone(cast: Cast) -> None:
    cast.clock(cast.rx, at(30), cron="30 5 * * *", anchor=at(30))  # 10:30 UTC in Lima
    assert explained(cast.rx, at(29), now=at(29)).verdict is Verdict.TO_COME
    assert explained(cast.rx, at(35)).slot == at(30)


def test_in_the_night_that_summer_time_ends_a_cron_line_has_the_slots_at_which_it_fires(
    app: Flask, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """23:30 comes at 2:30 UTC, and the hour from 23:00 comes again at 3:00."""
    monkeypatch.setitem(app.config, "TIMEZONE", "America/Santiago")
    night = datetime(2026, 4, 5, tzinfo=UTC)
    half_past_two = night + timedelta(hours=2, minutes=30)
    for minute in range(0, 90, 7):
        asked = half_past_two + timedelta(minutes=minute)
        assert cron.latest_firing("30 23 * * *", asked) == half_past_two
        following = next(iter(cron.cron_times("30 23 * * *", asked, cron.portal_zone())))
        assert following == night + timedelta(days=1, hours=3, minutes=30)


def test_of_a_chained_node_the_last_try_counts_and_not_the_last_that_wrote_of_it(cast: Cast) -> None:
    execution_id = cast.run(cast.rx, TEN)
    with transaction() as session:
        first = session.scalars(select(ExecutionAttempt).where(ExecutionAttempt.execution_id == execution_id)).one()
        make_step(first, position=1, node_id=cast.serial)
        times = {"started_at": at(2), "finished_at": at(3)}
        make_attempt(session.get_one(Execution, execution_id), 2, status=AttemptStatus.INTERRUPTED, **times)
    assert "Of serial itself nothing is recorded in that run." in told(explained(cast.serial, TEN))


def test_a_chained_node_is_explained_by_its_step_in_the_run_of_its_master(cast: Cast) -> None:
    run = cast.run(cast.rx, TEN, status=ExecutionStatus.FAILED, error_kind=ErrorKind.TIMEOUT)
    with transaction() as session:
        attempt = session.query(ExecutionAttempt).filter_by(execution_id=run).one()
        skipped = {"status": StepStatus.SKIPPED, "skip_reason": SkipReason.TIMED_OUT_EARLIER}
        make_step(attempt, position=1, node_id=cast.serial, **skipped)
    found = explained(cast.serial, TEN)
    assert (found.verdict, found.cause) == (Verdict.FAILED, LossCause.TIMEOUT)
    assert told(found).endswith("The step serial of that run was skipped. An earlier step timed out.")


def test_there_is_nothing_to_explain_of_a_node_that_is_not_there(cast: Cast) -> None:
    assert query.explain(9999, TEN, TEN) is None
    assert query.node_named("OLT-7", "rx") == cast.rx
    assert query.node_named("OLT-7", "nothing") is None


def test_the_command_explains_in_both_languages(app: Flask, cast: Cast) -> None:
    cast.skip(cast.rx, SkipReason.OLT_PAUSED, at(5))
    run = commands(app, "explain")
    sentence = "did not run at 2026-11-27 05:05:00. The OLT was paused."
    assert sentence in run("OLT-7/rx", "--at", "2026-11-27T05:05:30").output  # Lima
    found = json.loads(run(str(cast.rx), "--at", "2026-11-27T10:05:30Z", "--json").output)
    assert (found["verdict"], found["cause"], found["slot"]) == ("skipped", "paused", "2026-11-27T10:05:00+00:00")


@pytest.mark.parametrize("args", [["explain", "OLT-7/none"], ["explain", "99999999999"], ["explain", "x", "--at", "y"]])
def test_the_command_refuses_what_is_not_there(app: Flask, cast: Cast, args: list[str]) -> None:
    assert app.test_cli_runner().invoke(args=args).exit_code != 0


def test_the_log_command_prints_what_its_filters_leave_newest_last(app: Flask, cast: Cast) -> None:
    cast.skip(cast.rx, SkipReason.OLT_PAUSED, at(5))
    cast.event(EventType.OLT_DISABLED, at(10))
    run = commands(app, "log")
    lines = run("--olt", "OLT-7", "--since", "2026-11-27T05:00").output.splitlines()
    assert [line.split()[2:4] for line in lines[1:]] == [["INFO", "SLOT_SKIPPED"], ["INFO", "OLT_DISABLED"]]
    assert lines[1].startswith("2026-11-27 05:05:00")
    found = json.loads(run("--olt", "OLT-7", "--type", "olt_disabled", "--json").output)
    assert [row["event"] for row in found] == ["OLT_DISABLED"]
    assert "no decision matches" in run("--level", "error").output
    run("--olt", "nobody", code=1)
    for since, code in (("yesterday", 2), ("999999d", 0), ("9:05:30", 0), ("9999-12-31T23:59", 2)):
        run("--since", since, code=code)
    assert "searched back to" in run("--text", "x").stderr
    assert "searched back to" not in run("--text", "x", "--olt", "OLT-7").stderr


def test_the_log_command_goes_on_with_what_is_new(app: Flask, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_seconds: float) -> None:
        if len(waits) == 2:
            raise KeyboardInterrupt
        waits.append(1)
        cast.event(EventType.OLT_ENABLED, at(11))

    waits: list[int] = []
    monkeypatch.setattr("portal.cli.decisions.time.sleep", wait)
    cast.event(EventType.OLT_DISABLED, at(10))
    output = app.test_cli_runner().invoke(args=["log", "--olt", "OLT-7", "--follow"]).output
    events = [line.split()[3] for line in output.splitlines() if line.startswith("2026")]
    assert events == ["OLT_DISABLED:", "OLT_ENABLED:", "OLT_ENABLED:"]
