"""The time machine, rule by rule: what becomes of slots, promises and order on a virtual clock."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portal.domain import quota
from portal.domain.quota import HOUR
from portal.domain.statuses import EventType, ExecutionStatus, NodeKind, OltState, QuotaStatus, SkipReason
from portal.domain.tickets import Ticket
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import (
    AddNode,
    ChangeInterval,
    DeleteNode,
    Event,
    Havoc,
    PollersUp,
    SchedulerUp,
    SetNodeEnabled,
    SetOltEnabled,
    Silence,
    scenario,
)
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.whatif import Change, Nonsense, Outlook, apply, outlook, table
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, Run, World
from testing.cast import DAY, MINUTE, SECOND, TEN
from testing.virtual import cron_in, many_olts

SANTIAGO = "America/Santiago"


def lived(world: World, until: datetime, begin: datetime = TEN, zone: str = "UTC", **more: Any) -> Machine:
    machine = Machine(world, begin, next_cron=cron_in(zone), keep_all=True, **more)
    machine.run(until)
    assert machine.audit() == [] and machine.wrong_slots() == []
    return machine


def one_node(
    *events: tuple[datetime, Event], interval: int = 300, median: float = 10.0, until: datetime,
    first: datetime = TEN + MINUTE, more: tuple[NodeSpec, ...] = (), **rules: Any,
) -> Machine:  # fmt: skip
    """A discovery on OLT 1 and a single poller, lived up to a moment; runs take exactly `median` seconds."""
    node = NodeSpec(1, 1, "discovery", NodeKind.DISCOVERY, interval, first=first, median=median, priority=90)
    world = World((OltSpec(1, "OLT-1"), OltSpec(2, "OLT-2")), (node, *more), Rules({ALL_SITES: 1}, **rules))
    return lived(world, until, fortune=Fortune(1, sigma=0), history=events)


def ended(machine: Machine) -> list[Run]:
    runs = [run for found in machine.history().runs.values() for run in found]
    return sorted(runs, key=lambda run: run.execution_id)


def skipped(machine: Machine) -> list[tuple[SkipReason, int]]:
    return [(skip.reason, skip.count) for skip in machine.history().skips]


def test_the_same_seed_lives_the_same_day() -> None:
    world = many_olts(TEN, 3, cron_in("UTC"), olts=10, pollers=2)
    events = scenario(world, TEN, TEN + 6 * HOUR, 3, Havoc())
    machines = [Machine(world, TEN, next_cron=cron_in("UTC"), seed=3, history=events) for _ in range(2)]
    for machine in machines:
        machine.run(TEN + 6 * HOUR)
    first, second = (machine.state.figures.skipped for machine in machines)
    assert first == second != Counter()


# The clock on the wall


@pytest.mark.parametrize(
    "midnight",
    [
        datetime(2027, 4, 3, 3, tzinfo=UTC),  # the day in which 23:00 to 24:00 comes twice
        datetime(2027, 9, 4, 4, tzinfo=UTC),  # the night in which 00:00 to 01:00 does not come
        datetime(2026, 11, 30, 3, tzinfo=UTC),  # the last day of a month
        datetime(2026, 12, 31, 3, tzinfo=UTC),  # and of a year
    ],
)
def test_a_day_has_24_trackers_of_each_task_type_whatever_the_clock_on_the_wall_does(midnight: datetime) -> None:
    next_cron = cron_in(SANTIAGO)
    begin = midnight + 5 * MINUTE
    olt, every = OltSpec(1, "OLT-1"), {"median": 5.0, "priority": 40}
    nodes = (
        NodeSpec(1, 1, "discovery", NodeKind.DISCOVERY, 600, first=begin + MINUTE, **every),
        NodeSpec(2, 1, "hourly", NodeKind.GET, None, "0 * * * *", next_cron("0 * * * *", begin), **every),
        NodeSpec(3, 1, "often", NodeKind.GET, None, "*/10 * * * *", next_cron("*/10 * * * *", begin), **every),
        NodeSpec(4, 1, "midnight", NodeKind.GET, None, "0 0 * * *", next_cron("0 0 * * *", begin), **every),
    )  # fmt: skip
    machine = lived(World((olt,), nodes), begin + 2 * DAY + 2 * HOUR, begin, SANTIAGO)
    hours = [midnight.replace(minute=0) + number * HOUR for number in range(1, 49)]
    for task, required in (("discovery", 6), ("get_hourly", 1), ("get_often", 6)):
        found = [one for one in machine.state.ledger.all() if one.key.task_type == task and one.key.hour in hours]
        assert Counter(one.key.hour for one in found) == Counter(dict.fromkeys(hours, 1))
        assert {one.counts.required for one in found[:-1]} == {required}, task
    nightly = [run for run in ended(machine) if run.node.key == "midnight"]
    assert len(nightly) == 2 and all(run.status is ExecutionStatus.SUCCESS for run in nightly)


def required(machine: Machine) -> dict[datetime, int]:
    return {one.key.hour: one.counts.required for one in machine.state.ledger.all()}


def test_a_slot_on_the_full_hour_is_the_last_of_the_hour_before() -> None:
    machine = one_node(first=TEN + 5 * MINUTE, until=TEN + 3 * HOUR)
    assert required(machine) == {TEN + hour * HOUR: 12 for hour in range(4)}


# Rules, one by one


def switched_off(off: datetime, on: datetime, until: datetime, **rules: Any) -> Machine:
    return one_node((off, SetNodeEnabled(1, False)), (on, SetNodeEnabled(1, True)), until=until, **rules)


def test_a_node_enabled_at_ten_to_eleven_has_two_slots_and_then_twelve() -> None:
    hours = required(switched_off(TEN + 10 * SECOND, TEN + 50 * MINUTE, until=TEN + 2 * HOUR))
    assert (hours[TEN], hours[TEN + HOUR]) == (2, 12)


def test_a_run_that_is_longer_than_its_interval_costs_the_slots_that_it_covers() -> None:
    machine = one_node(interval=60, median=100.0, until=TEN + 10 * MINUTE)
    assert set(skipped(machine)) == {(SkipReason.OVERRUN, 1)}
    assert [run.scheduled_for.minute for run in ended(machine)] == [1, 3, 5, 7, 9]


def test_a_node_that_waits_for_its_olt_is_skipped_as_busy_and_one_that_waits_for_a_poller_as_pool_full() -> None:
    heavy = NodeSpec(2, 1, "heavy", NodeKind.BULK, 3600, first=TEN + 10 * SECOND, median=400.0)
    busy = one_node(interval=120, until=TEN + 10 * MINUTE, more=(heavy,))
    assert skipped(busy)[0] == (SkipReason.OLT_BUSY, 1)
    assert busy.history().skips[0].facts["holder_node"] == "heavy"
    full = one_node(interval=120, until=TEN + 10 * MINUTE, more=(replace(heavy, olt_id=2),))
    assert skipped(full)[0] == (SkipReason.POOL_FULL, 1)


def test_slots_that_passed_while_nothing_ticked_are_skipped_and_the_latest_still_runs() -> None:
    down, up = TEN + 2 * MINUTE, TEN + 17 * MINUTE
    machine = one_node((down, SchedulerUp(False)), (up, SchedulerUp(True)), until=TEN + 20 * MINUTE)
    assert skipped(machine) == [(SkipReason.SCHEDULER_DOWN, 2)]
    assert [run.scheduled_for.minute for run in ended(machine)] == [1, 16]
    assert ended(machine)[-1].delay_ms == 60_000


def test_skipped_slots_of_an_uneven_cron_line_go_to_the_hours_that_they_are_of() -> None:
    uneven = NodeSpec(2, 2, "uneven", NodeKind.GET, None, "0,50 * * * *", first=TEN + 50 * MINUTE)
    events = [(TEN + MINUTE, SchedulerUp(False)), (TEN + 3 * HOUR + 30 * MINUTE, SchedulerUp(True))]
    machine = one_node(*events, until=TEN + 4 * HOUR, more=(uneven,))
    found = [one for one in machine.state.ledger.all() if one.key.task_type == "get_uneven"]
    counts = {one.key.hour: one.skipped for one in found}
    assert counts[TEN] == counts[TEN + HOUR] == counts[TEN + 2 * HOUR] == 2


def test_an_olt_that_does_not_answer_is_given_up_probed_and_found_again() -> None:
    gone, back = TEN + 2 * MINUTE, TEN + 40 * MINUTE
    machine = one_node((gone, Silence(1, True)), (back, Silence(1, False)), until=TEN + HOUR)
    changes = [row for row in machine.state.log if row.event is EventType.OLT_STATE_CHANGED]
    assert [row.details["after"] for row in changes] == [OltState.UNREACHABLE, OltState.UP]
    assert (SkipReason.OLT_UNREACHABLE, 1) in skipped(machine)
    (failed,) = (run for run in ended(machine) if run.status is ExecutionStatus.FAILED)
    assert failed.attempt == 1 and changes[0].timestamp - failed.scheduled_for < MINUTE


@pytest.mark.parametrize(
    ("killed", "losses", "again"),
    [(True, 1, TEN + 80 * SECOND), (False, 0, TEN + 64 * SECOND)],  # 15 s of lease, and the reaper's next pass
    ids=["one that is killed is missed when its lease has run out", "one that is told to stop hands it over at once"],
)
def test_the_run_of_a_poller_that_goes_begins_again(killed: bool, losses: int, again: datetime) -> None:
    gone = TEN + 63 * SECOND
    events = ((gone, PollersUp(False, killed=killed)), (gone + SECOND, PollersUp(True)))
    (run,) = ended(one_node(*events, until=TEN + 3 * MINUTE))
    assert (run.losses, run.attempt, run.status, run.started_at) == (losses, 2, ExecutionStatus.SUCCESS, again)


def test_a_disabled_olt_ends_what_runs_and_its_hour_is_interrupted() -> None:
    machine = one_node((TEN + 63 * SECOND, SetOltEnabled(1, False)), until=TEN + 2 * HOUR)
    (run,) = ended(machine)
    assert (run.status, run.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.OLT_DISABLED)
    assert machine.state.ledger.verdicts.statuses == Counter({QuotaStatus.INTERRUPTED: 1})


def test_another_interval_begins_when_the_old_slot_comes_if_that_is_sooner() -> None:
    machine = one_node((TEN + 2 * MINUTE, ChangeInterval(1, 1800)), until=TEN + HOUR)
    assert [run.scheduled_for.minute for run in ended(machine)] == [1, 6, 36]


def test_a_node_that_comes_and_goes_promises_only_its_own_slots() -> None:
    added = NodeSpec(9, 1, "added", NodeKind.GET, 600)
    events = ((TEN + 10 * MINUTE, AddNode(added)), (TEN + 32 * MINUTE, DeleteNode(9)))
    machine = one_node(*events, until=TEN + HOUR)
    found = {one.key.task_type: one.counts for one in machine.state.ledger.all() if one.key.hour == TEN}
    assert found["get_added"] == quota.Counts(completed=3)  # 10:11, 10:21, 10:31


# Judges that judge


def test_the_audit_sees_a_slot_that_was_counted_twice() -> None:
    machine = one_node(until=TEN + HOUR)
    tracker = next(one for one in machine.state.ledger.all() if one.key.hour == TEN)
    tracker.completed += 1
    assert [one.column for one in machine.audit()] == ["completed"]


def test_the_checker_sees_a_slot_that_was_run_twice_and_one_that_was_lost() -> None:
    machine = one_node(until=TEN + HOUR)
    runs = machine.history().runs
    twice, lost = sorted(runs)[:2]
    runs[twice].append(runs[twice][0])
    runs[lost].clear()
    wrong = [line.split(": ")[1] for line in machine.wrong_slots()]
    assert wrong == ["1 on the grid, 2 states", "1 on the grid, 0 states"]


@pytest.mark.parametrize("more", [(), (NodeSpec(2, 2, "other", NodeKind.GET, 60, first=TEN + MINUTE),)])
def test_both_see_a_clock_that_was_forgotten(more: tuple[NodeSpec, ...]) -> None:
    machine = one_node(until=TEN + 10 * MINUTE, more=more)
    machine.state.due = [entry for entry in machine.state.due if entry[1] != 1]
    machine.run(TEN + 12 * MINUTE)
    assert machine.wrong_slots() == ["node 1 slot 27 10:11:00: 1 on the grid, 0 states"]
    assert [(one.column, one.kept - one.recounted) for one in machine.audit()] == [("pending", 1)]


def test_slots_that_come_while_nothing_ticks_are_not_missed_before_it_ticks_again() -> None:
    for second in (60, 60.4):  # a slot at that moment is not decided, one before it is
        down = TEN + timedelta(seconds=second)
        machine = one_node((down, SchedulerUp(False)), until=TEN + 20 * MINUTE)
        assert len(ended(machine)) == (second > 60)
        up = machine.state.now + timedelta(milliseconds=400)
        again = one_node((down, SchedulerUp(False)), (up, SchedulerUp(True)), until=up)
        assert again.wrong_slots() == []


# Order


def ticket(ident: int, olt: int, priority: int = 40, second: int = 0, overdue: int = 10_000, **more: object) -> Ticket:
    return Ticket(ident, 1, olt, priority, TEN + second * SECOND, TEN + overdue * SECOND, **more)  # type: ignore[arg-type]


def filled(*tickets: Ticket) -> Queues:
    queues = Queues()
    for one in tickets:
        queues.push(one)
    return queues


def claimed(queues: Queues, now: int = 0, site: str = ALL_SITES) -> list[int]:
    found = []
    while (one := queues.claim(int(TEN.timestamp()) + now, site)) is not None:
        found.append(one.execution_id)
        queues.release(one.olt_id)
    return found


def test_an_olt_gives_its_highest_priority_first_then_the_older_slot_and_what_is_overdue_before_all() -> None:
    queues = filled(ticket(1, 1, 40, 5), ticket(2, 1, 40, 3), ticket(3, 1, 90, 9), ticket(4, 1, 10, 0, overdue=60))
    assert claimed(queues) == [3, 2, 1, 4]
    for one in (ticket(5, 1, 90, 9), ticket(6, 1, 10, 0, overdue=60)):
        queues.push(one)
    assert claimed(queues, now=61) == [6, 5]


def test_between_olts_the_larger_delay_comes_first_and_a_held_one_waits_for_its_release() -> None:
    queues = filled(ticket(1, 1, second=5), ticket(2, 2, second=3), ticket(3, 2, second=4), ticket(4, 3, 90, second=5))
    order = [found.execution_id for found in iter(lambda: queues.claim(int(TEN.timestamp())), None)]
    assert order == [2, 4, 1]
    queues.release(2)
    assert claimed(queues) == [3]


def test_pollers_of_a_site_see_only_its_olts() -> None:
    queues = filled(ticket(1, 1, site="lima"), ticket(2, 2))
    assert [claimed(queues, site=site) for site in ("lima", "cusco", ALL_SITES)] == [[1], [], [2]]


# What if


def test_what_if_shows_what_more_pollers_and_longer_intervals_would_bring() -> None:
    next_cron = cron_in("UTC")
    poor = replace(many_olts(TEN, 5, next_cron, olts=12, nodes=3, intervals=(300,)), rules=Rules({ALL_SITES: 1}))
    changes = (Change(), Change(pollers=20), Change(intervals={"node-1": 3600}, disabled=("node-2",)))
    present, richer, slower = (outlook(apply(poor, change), TEN, 3, 1, next_cron) for change in changes)
    assert present.met < richer.met == richer.quotas
    assert present.delay_p95 > 60 > richer.delay_p95
    assert present.pool_busy > 95 and richer.pool_busy < 75
    assert slower.required < present.required and slower.met / slower.quotas > present.met / present.quotas
    lines = table(present, richer, str)
    assert "present settings" in lines[0] and "changed settings" in lines[0]
    assert any(line.lstrip().startswith("pool_full") for line in lines)


def of_one_minute(olt: int, site: str = "", **more: Any) -> tuple[OltSpec, NodeSpec]:
    """An OLT whose only node runs each minute, for 30 s."""
    every: dict[str, Any] = {"interval_seconds": 60, "first": TEN + 30 * SECOND, "durations": (30.0,)} | more
    return OltSpec(olt, f"OLT-{olt}", site), NodeSpec(olt, olt, "power", NodeKind.GET, **every)


def of_olts(*olts: tuple[OltSpec, NodeSpec], **more: Any) -> World:
    return World(tuple(olt for olt, _ in olts), tuple(node for _, node in olts), **more)


def foreseen(*olts: tuple[OltSpec, NodeSpec], now: datetime = TEN, hours: int = 1, **more: Any) -> Outlook:
    return outlook(of_olts(*olts, **more), now, hours, 1, cron_in("UTC"))


@pytest.mark.parametrize("now", [TEN, TEN + 50 * MINUTE, TEN + 59 * MINUTE + 59 * SECOND])
def test_what_if_judges_the_whole_hours_that_it_lives(now: datetime) -> None:
    found = foreseen(of_one_minute(1), now=now)
    assert (found.required, found.completed, found.quotas, found.at_risk) == (60, 60, 1, 0)
    assert abs(found.composites - found.required) <= 1  # the last one ends after the hour


@pytest.mark.parametrize("late", [timedelta(), SECOND, 7 * MINUTE, 3 * DAY])
def test_what_if_lives_cron_lines_whose_next_run_has_just_passed(late: timedelta) -> None:
    every_five = of_one_minute(1, interval_seconds=None, cron="*/5 * * * *", first=TEN)
    found = foreseen(every_five, now=TEN + late, hours=2)
    assert (found.required, found.completed) == (24, 24)


def test_what_if_takes_a_long_run_that_was_a_success_for_one_again() -> None:
    found = foreseen(of_one_minute(1, interval_seconds=1800, durations=(660.0,)), hours=2)
    assert (found.completed, found.losses) == (4, {})


def test_what_if_shows_the_named_olts_as_they_are_among_all_others() -> None:
    olts = [of_one_minute(olt, durations=(31.0,)) for olt in range(1, 6)]
    alone, among = foreseen(olts[-1]), foreseen(*olts, watched=frozenset({5}), rules=Rules({ALL_SITES: 2}))
    assert among.required == alone.required == 60
    assert 0 < among.completed < 55  # work for 2.6 pollers
    assert sum(among.losses.values()) == 60 - among.completed and among.losses["pool_full"]
    assert among.composites < 60 and among.pool_busy > 85 and among.delay_p95 > alone.delay_p95
    assert {olt for olt, *_ in among.worst} == {"OLT-5"}


def test_what_if_counts_only_pollers_that_serve_the_olts_of_its_figures() -> None:
    lima, cusco = of_one_minute(1, "lima"), of_one_minute(2, "cusco", durations=(60.0,))
    rules = Rules({"lima": 1, "cusco": 1, "nowhere": 50})
    assert foreseen(lima, cusco, rules=rules, watched=frozenset({1})).pool_busy == pytest.approx(50, abs=1)
    assert foreseen(lima, cusco, rules=rules).pool_busy > 70


def test_what_if_changes_nodes_of_the_named_olts_only() -> None:
    world = of_olts(of_one_minute(1), of_one_minute(2), watched=frozenset({1}))
    changed = apply(world, Change(intervals={"power": 600}))
    assert [node.interval_seconds for node in changed.nodes] == [600, 60]
    assert changed.watched == world.watched
    with pytest.raises(Nonsense, match="nothing would be left"):
        apply(world, Change(disabled=("power",)))


def test_what_if_begins_after_a_pause_that_ends_before_its_first_hour() -> None:
    olt, node = of_one_minute(1)
    paused = replace(olt, state=OltState.PAUSED, paused_until=TEN + 55 * MINUTE)
    assert foreseen((paused, node), now=TEN + 50 * MINUTE).completed == 60


@pytest.mark.parametrize(
    ("change", "words"),
    [(Change(intervals={"power": 60}), "no node has the key power"),
     (Change(disabled=("gone",)), "no node has the key gone"),
     (Change(disabled=("text",)), "text is chained to discovery; only masters can be tried"),
     (Change(intervals={"node-1": 60}, disabled=("node-1",)), "cannot be disabled and have")],
)  # fmt: skip
def test_what_if_refuses_nonsense(change: Change, words: str) -> None:
    world = many_olts(TEN, 5, cron_in("UTC"), olts=2, nodes=2)
    world = replace(world, chained={"text": frozenset({"discovery"})})
    with pytest.raises(Nonsense, match=words):
        apply(world, change)


def test_from_end_the_next_run_comes_an_interval_after_the_end() -> None:
    machine = one_node(interval=600, median=200.0, until=TEN + HOUR, from_end=True)
    assert [run.scheduled_for - TEN for run in ended(machine)][:3] == [MINUTE, 860 * SECOND, 1660 * SECOND]


def test_from_end_a_node_that_is_enabled_again_runs_an_interval_later() -> None:
    machine = switched_off(TEN + 5 * MINUTE, TEN + 30 * MINUTE, TEN + 45 * MINUTE, interval=600, from_end=True)
    assert [run.scheduled_for - TEN for run in ended(machine)] == [MINUTE, 40 * MINUTE]


def test_recorded_durations_are_lived_one_after_the_other() -> None:
    node = NodeSpec(1, 1, "discovery", NodeKind.DISCOVERY, 60, first=TEN + MINUTE, durations=(1.0, 2.0, 3.0, 4.0))
    world = World((OltSpec(1, "OLT-1"),), (node,))
    machine = lived(world, TEN + 8 * MINUTE + 30 * SECOND, fortune=Fortune(1))
    took = [(run.finished_at - run.started_at) // SECOND for run in ended(machine) if run.finished_at]
    assert took == [(took[0] - 1 + place) % 4 + 1 for place in range(8)]
