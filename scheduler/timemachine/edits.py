"""What people and accidents do, carried out in memory as the services do it on rows. No Flask, no SQLAlchemy."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from portal.domain import schedule
from portal.domain.slots import left_behind
from portal.domain.statuses import ErrorKind, OltState, SkipReason
from scheduler.timemachine import events, life, passing, ticking
from scheduler.timemachine.book import Trouble
from scheduler.timemachine.state import UPKEEP, State
from scheduler.timemachine.world import Node, Olt, Outcome, build_node


def _after_enabling(state: State, node: Node) -> datetime:
    """Rule 2."""
    if node.cron:
        return state.next_cron(node.cron, state.now)
    return schedule.after_enabling(state.now, node.interval_seconds or 0)


def _release(state: State, node: Node, off: SkipReason | None = None) -> datetime | None:
    """As clock.release: what has come is skipped before a clock is wound; the slot of this second stays."""
    if node.next_run_at is None or node.next_run_at > state.now:
        return None
    due = replace(ticking.due_master(node, state), active_id=None, active_waits_to_retry=False)
    missed, stays = left_behind(due, state.now, state.next_cron, off)
    for one in missed:
        ticking.skip(state, one)
    if node.cron:
        following = state.next_cron(node.cron, state.now)
    else:
        following = schedule.next_on_grid(node.next_run_at, node.interval_seconds or 0, state.now)
    node.next_run_at = stays or following
    return stays


def _settle(state: State, node: Node) -> None:
    """As clock.settle: who may not run has no clock, who may and has none runs a full interval from now."""
    if node.next_run_at is not None and not node.runs:
        _release(state, node, SkipReason.NODE_DISABLED if node.olt.enabled else SkipReason.OLT_DISABLED)
        state.set_clock(node, None)
    elif node.next_run_at is None and node.runs and not (state.rules.from_end and node.active is not None):
        state.set_clock(node, _after_enabling(state, node))


def _end_of_node(state: State, node: Node, why: str) -> None:
    waiting = [node.active] if node.active is not None else []
    life.end_waiting(state, waiting, why, SkipReason.NODE_DISABLED, ErrorKind.ABORTED)


def set_node_enabled(state: State, event: events.SetNodeEnabled) -> None:
    """A node is enabled or disabled."""
    node = state.nodes.get(event.node_id)
    if node is None or node.deleted or node.enabled is event.enabled:
        return
    node.enabled = event.enabled
    state.turn(Trouble.NODE_OFF, node.node_id, not event.enabled)
    _settle(state, node)
    if not event.enabled:
        _end_of_node(state, node, "its node was disabled")


def change_interval(state: State, event: events.ChangeInterval) -> None:
    """Rule 4: at now + the new interval, or at the old time if that is sooner."""
    node = state.nodes.get(event.node_id)
    pace = (event.interval_seconds, event.cron)
    if node is None or node.deleted or (node.interval_seconds, node.cron) == pace:
        return

    def change() -> None:
        node.interval_seconds, node.cron = pace

    stays = _release(state, node)
    if node.next_run_at is None:
        change()
    elif event.cron:
        state.set_clock(node, stays or state.next_cron(event.cron, state.now), change)
    elif event.interval_seconds:
        moment = schedule.after_interval_change(state.now, node.next_run_at, event.interval_seconds)
        state.set_clock(node, moment, change)
    _settle(state, node)


def add_node(state: State, event: events.AddNode) -> None:
    """Rule 1: a new node runs 60 s from now."""
    olt = state.olts[event.spec.olt_id]
    node = build_node(replace(event.spec, first=None), olt)
    state.nodes[node.node_id] = node
    if node.runs:
        first = schedule.first_run(state.now, olt.olt_id, node.key, many_olts=False)
        state.set_clock(node, state.next_cron(node.cron, state.now) if node.cron else first)


def delete_node(state: State, event: events.DeleteNode) -> None:
    """What waits is aborted; what runs ends by itself."""
    node = state.nodes.get(event.node_id)
    if node is None or node.deleted:
        return
    _end_of_node(state, node, "its node was deleted")
    node.deleted = True
    state.turn(Trouble.NODE_OFF, node.node_id, True)
    _settle(state, node)
    if node.active is None:
        node.olt.nodes.remove(node)


def set_olt_enabled(state: State, event: events.SetOltEnabled) -> None:
    """What waits on a disabled OLT ends, what runs stops; an enabled one is unknown until it answers."""
    olt = state.olts[event.olt_id]
    if olt.enabled is event.enabled:
        return
    olt.enabled = event.enabled
    state.turn(Trouble.OLT_OFF, olt.olt_id, not event.enabled)
    if event.enabled:
        olt.failures, olt.probe_at = 0, None
        if olt.state is not OltState.PAUSED:
            olt.state, olt.since = OltState.UNKNOWN, state.now
            state.turn(Trouble.UNREACHABLE, olt.olt_id, False)
    for node in olt.nodes:
        _settle(state, node)
    if not event.enabled:
        life.stop_olt(state, olt)


def pause(state: State, event: events.PauseOlt) -> None:
    """Nothing scheduled starts: what waits is skipped, what runs ends by itself."""
    olt = state.olts[event.olt_id]
    life.change_state(state, olt, OltState.PAUSED, "paused")
    olt.paused_until, olt.failures, olt.probe_at = event.until, 0, None
    waiting = life.active_of(olt)
    life.end_waiting(state, waiting, "its OLT was paused", SkipReason.OLT_PAUSED, ErrorKind.ABORTED)
    if event.until is not None:
        state.at(state.next_round(event.until), UPKEEP, lambda what: _end_pause(state, *what), (olt, event.until))


def _end_pause(state: State, olt: Olt, until: datetime) -> None:
    """The periodic job's pass: a pause is over."""
    if olt.state is not OltState.PAUSED or olt.paused_until != until:
        return
    if state.scheduler_up:
        _unpause(state, olt, "its pause is over")
    else:
        later = state.next_round(state.now + timedelta(milliseconds=1))
        state.at(later, UPKEEP, lambda what: _end_pause(state, *what), (olt, until))


def _unpause(state: State, olt: Olt, cause: str) -> None:
    life.change_state(state, olt, OltState.UNKNOWN, cause)
    olt.paused_until, olt.failures, olt.probe_at = None, 0, None


def resume(state: State, event: events.ResumeOlt) -> None:
    """A pause ends; an unreachable OLT is asked at once."""
    olt = state.olts[event.olt_id]
    if olt.state is OltState.PAUSED:
        _unpause(state, olt, "resumed")
    elif olt.state is OltState.UNREACHABLE:
        olt.probe_at = state.now
        life.probe_later(state, olt)


# Accidents


def silence(state: State, event: events.Silence) -> None:
    """An OLT falls silent, or answers again. What runs on it meanwhile has had answers before."""
    olt = state.olts[event.olt_id]
    olt.silent = event.silent
    state.turn(Trouble.SILENT, olt.olt_id, event.silent)
    run = olt.running
    if event.silent and run is not None and run.outcome is not None and run.outcome.answered:
        life.expect(state, run, Outcome(state.rules.give_up, ErrorKind.TIMEOUT, answered=True))


def pace(state: State, event: events.Pace) -> None:
    """An OLT is slow, or as usual; what runs on it is not touched."""
    state.olts[event.olt_id].slow = event.factor


def errors(state: State, event: events.Errors) -> None:
    """Composites of an OLT fail now and then."""
    state.olts[event.olt_id].errors = event.chance


def scheduler_up(state: State, event: events.SchedulerUp) -> None:
    """No ticks, no periodic jobs; or again."""
    state.scheduler_up = event.up
    state.turn(Trouble.DOWN, 0, not event.up)


def pollers_up(state: State, event: events.PollersUp) -> None:
    """All pollers go or come. Killed ones are missed when their leases have run out and the reaper looks."""
    if state.pollers_up is event.up:
        return
    state.pollers_up = event.up
    state.generation += 1
    state.free = dict(state.pollers) if event.up else dict.fromkeys(state.pollers, 0)
    state.pool_changed()
    if event.up:
        return
    running = [olt.running for olt in state.olts.values() if olt.running is not None]
    expired = state.next_round(state.now + timedelta(seconds=state.rules.lease_seconds))
    for run in (run for run in running if run.outcome is not None):
        if event.killed:
            run.outcome = None
            state.at(expired, UPKEEP, lambda one: life.lose(state, one), run)
        else:
            life.hand_over(state, run)


_HOW: dict[type, Callable[[State, Any], None]] = {
    events.SetNodeEnabled: set_node_enabled,
    events.ChangeInterval: change_interval,
    events.AddNode: add_node,
    events.DeleteNode: delete_node,
    events.SetOltEnabled: set_olt_enabled,
    events.PauseOlt: pause,
    events.ResumeOlt: resume,
    events.Silence: silence,
    events.Pace: pace,
    events.Errors: errors,
    events.SchedulerUp: scheduler_up,
    events.PollersUp: pollers_up,
}


def carry_out(state: State, event: events.Event) -> None:
    """Let it happen now. What makes no sense any more (its node was deleted) is passed over."""
    if isinstance(event, events.OfNode) and event.node_id in state.nodes:
        passing.stir(state, state.nodes[event.node_id].olt)
    elif isinstance(event, events.AddNode):
        passing.stir(state, state.olts[event.spec.olt_id])
    elif isinstance(event, events.SetOltEnabled):
        passing.stir(state, state.olts[event.olt_id])
    _HOW[type(event)](state, event)
