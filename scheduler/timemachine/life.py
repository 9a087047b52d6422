"""The life cycle of executions in memory, and what they say of their OLT. No Flask, no SQLAlchemy.

States the rules of portal.services.dispatch (life, executions, waiting, reachability) for objects instead of rows; a
test lives the same histories on a database.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import heappush

from portal.domain import reachability, schedule
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, OltState, SkipReason
from portal.domain.tickets import Ticket
from scheduler.timemachine.book import Trouble
from scheduler.timemachine.durations import outcome
from scheduler.timemachine.state import END, UPKEEP, State
from scheduler.timemachine.world import Olt, Outcome, Run

MAX_LOSSES = 3  # portal.services.dispatch.life
MILLISECOND = timedelta(milliseconds=1)

_OF_THE_OLT = (SkipReason.OLT_PAUSED, SkipReason.OLT_UNREACHABLE)


def start(state: State, ticket: Ticket, group: str) -> bool:
    """PENDING → RUNNING under the claim of a poller. False when there is nothing to run: the OLT is given back."""
    run = state.runs.get(ticket.execution_id)
    if run is None or run.ticket is not ticket or not run.pending:  # it ended in the queue, as a superseded one does
        state.queues.release(ticket.olt_id)
        return False
    if not run.node.runs:  # disabled between two tries
        why = "its node or OLT was disabled or deleted meanwhile"
        end_waiting(state, [run], why, SkipReason.NODE_DISABLED, ErrorKind.ABORTED)
        state.queues.release(ticket.olt_id)
        return False
    now = state.now
    if run.delay_ms is None:
        run.delay_ms, run.first_start = schedule.delay_ms(run.scheduled_for, now), now
    run.status, run.started_at, run.not_before, run.ticket = ExecutionStatus.RUNNING, now, None, None
    run.attempt += 1
    run.poller = (group, state.generation)
    run.node.olt.running = run
    state.figures.started(run)
    state.free[group] -= 1
    expect(state, run, outcome(state.rules, state.fortune, run.node, now))
    return True


def expect(state: State, run: Run, coming: Outcome) -> None:
    """The present try is to end so, unless something comes between."""
    run.outcome = coming
    moment = state.now + timedelta(milliseconds=round(coming.seconds * 1000))
    state.at(moment, END, lambda what: finish(state, *what), (run, coming))


def finish(state: State, run: Run, came: Outcome) -> None:
    """All that came of a try: the end of the execution, or another try after `retry_delay`."""
    if run.outcome is not came:  # lost, aborted or handed over meanwhile
        return
    now, node = state.now, run.node
    if came.kind is None:
        run.node.last_success = state.now
        end(state, run, ExecutionStatus.SUCCESS)
    else:
        run.failures += 1
        slot = run.overdue_at
        retry = schedule.next_try(now, node.retry_delay, run.failures, node.max_retries, slot)
        if retry is None or node.deleted:
            end(state, run, ExecutionStatus.FAILED, came.kind)
        else:
            again(state, run, retry if node.retry_delay else None)
            run.error_kind = came.kind
    silent = not came.answered and came.kind is ErrorKind.TIMEOUT
    note(state, node.olt, run, answered=came.answered, silent=silent)
    let_go(state, run)


def let_go(state: State, run: Run) -> None:
    """The try is over: its OLT and its poller are free, whatever became of the execution."""
    olt, (group, generation) = run.node.olt, run.poller
    run.outcome = olt.running = None
    state.queues.release(olt.olt_id)
    if generation == state.generation:
        if state.rules.turnaround:
            later = state.now + timedelta(seconds=state.rules.turnaround)
            state.at(later, END, lambda what: _free(state, *what), (group, generation))
        else:
            _free(state, group, generation)


def _free(state: State, group: str, generation: int) -> None:
    if generation == state.generation and state.pollers_up:
        state.free[group] += 1
        state.pool_changed()


def _close_try(state: State, run: Run) -> None:
    if run.started_at is not None:
        state.figures.held(run, state.now)
        if state.book is not None:
            state.book.hold(run, state.now)


def end(
    state: State, run: Run, status: ExecutionStatus, kind: ErrorKind | None = None, reason: SkipReason | None = None
) -> None:
    """A terminal status, and with it the slot is settled."""
    _close_try(state, run)
    now, node = state.now, run.node
    run.status, run.finished_at, run.error_kind, run.skip_reason, run.not_before = status, now, kind, reason, None
    run.duration_ms = None if run.started_at is None else max(0, round((now - run.started_at) / MILLISECOND))
    del state.runs[run.execution_id]
    node.active = None
    state.ledger.end(run)
    state.figures.over(run, status)
    if state.rules.from_end and node.next_run_at is None and node.interval_seconds and node.runs:
        state.set_clock(node, schedule.after_end(now, node.interval_seconds))


def again(state: State, run: Run, not_before: datetime | None) -> None:
    """Between two tries the execution is PENDING. Without `not_before` whoever calls this pushes it, or the reaper."""
    _close_try(state, run)
    run.status, run.not_before = ExecutionStatus.PENDING, not_before
    run.queued_at = run.started_at = None
    if not_before is not None:
        heappush(state.ripe, (not_before, run.execution_id))
    else:
        state.at(state.next_round(state.now + MILLISECOND), UPKEEP, lambda one: _reap(state, one), run)


def _reap(state: State, run: Run) -> None:
    """The reaper's pass: what is PENDING and in no queue is pushed."""
    if not state.scheduler_up:
        state.at(state.next_round(state.now + MILLISECOND), UPKEEP, lambda one: _reap(state, one), run)
    elif run.pending and run.not_before is None and run.queued_at is None:
        state.push(run)


def hand_over(state: State, run: Run) -> None:
    """Its poller was told to stop: again at once, elsewhere."""
    state.record(EventType.REQUEUED, "its poller was stopped", run.node.olt, run=run)
    again(state, run, None)
    run.error_kind = ErrorKind.SHUTDOWN
    let_go(state, run)
    state.push(run)


def lose(state: State, run: Run) -> None:
    """The reaper finds that its worker is gone: INTERRUPTED try, again at once, three times at most."""
    if run.status is not ExecutionStatus.RUNNING or run.outcome is not None:
        return
    if not state.scheduler_up:
        state.at(state.next_round(state.now + MILLISECOND), UPKEEP, lambda one: lose(state, one), run)
        return
    run.losses += 1
    state.record(EventType.WORKER_LOST, "the worker was lost", run.node.olt, run=run, losses=run.losses)
    if run.losses >= MAX_LOSSES:
        end(state, run, ExecutionStatus.FAILED, ErrorKind.POISON)
        state.record(EventType.POISONED, "given up", run.node.olt, run=run)
        let_go(state, run)
    else:
        again(state, run, None)
        run.error_kind = ErrorKind.WORKER_LOST
        let_go(state, run)
        state.push(run)


def end_waiting(state: State, runs: Iterable[Run], why: str, reason: SkipReason, kind: ErrorKind) -> None:
    """End every one that is PENDING; the queue forgets it."""
    for run in [run for run in runs if run.pending]:
        if reason in _OF_THE_OLT and run.failures:
            end(state, run, ExecutionStatus.FAILED, run.error_kind)
        else:
            end(state, run, ExecutionStatus.INTERRUPTED, kind, reason)
        state.record(EventType.EXECUTION_ABORTED, why, run.node.olt, run=run, reason=reason)
        if run.ticket is not None:
            state.queues.withdraw(run.ticket)


def active_of(olt: Olt) -> list[Run]:
    """What is ACTIVE on an OLT."""
    return [node.active for node in olt.nodes if node.active is not None]


def stop_olt(state: State, olt: Olt) -> None:
    """It was disabled: what waits ends, what runs stops before its next PDU. A killed poller does not hear of it."""
    end_waiting(state, active_of(olt), "its OLT was disabled", SkipReason.OLT_DISABLED, ErrorKind.ABORTED)
    run = olt.running
    if run is not None and run.outcome is not None:
        end(state, run, ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED, SkipReason.OLT_DISABLED)
        state.record(EventType.EXECUTION_ABORTED, "its OLT was disabled", olt, run=run)
        let_go(state, run)


# Whether the OLT can be reached


def note(state: State, olt: Olt, run: Run, *, answered: bool, silent: bool) -> None:
    """What a try that was just settled says of its OLT (domain.reachability)."""
    dead = silent and not answered and run.status in (ExecutionStatus.FAILED, ExecutionStatus.PENDING)
    news = olt.failures > 0 or olt.state in (OltState.UNKNOWN, OltState.UNREACHABLE)
    if not (dead or answered and news) or olt.state is OltState.PAUSED:
        return
    if answered:
        back_up(state, olt)
        return
    _count(state, olt)


def _count(state: State, olt: Olt) -> None:
    olt.failures += 1
    limit = state.rules.auto_pause_after
    if not limit or olt.state is OltState.UNREACHABLE:
        return
    if olt.failures >= limit:
        _give_up(state, olt)
    else:
        olt.probe_at = state.now + reachability.LOOK
        probe_later(state, olt)


def _give_up(state: State, olt: Olt) -> None:
    olt.probe_at = reachability.next_probe(state.now, state.now)
    change_state(state, olt, OltState.UNREACHABLE, f"{olt.failures} silences in a row")
    probe_later(state, olt)
    reason = SkipReason.OLT_UNREACHABLE
    end_waiting(state, active_of(olt), "its OLT does not answer", reason, ErrorKind.UNREACHABLE)


def change_state(state: State, olt: Olt, new: OltState, cause: str) -> None:
    """Give an OLT another state, and log it."""
    before = olt.state
    if before is not new:
        olt.state, olt.since = new, state.now
        state.turn(Trouble.PAUSED, olt.olt_id, new is OltState.PAUSED)
        state.turn(Trouble.UNREACHABLE, olt.olt_id, new is OltState.UNREACHABLE)
    state.record(EventType.OLT_STATE_CHANGED, cause, olt, before=before, after=new)


def back_up(state: State, olt: Olt) -> None:
    """The OLT has answered."""
    if olt.state is not OltState.UP:
        change_state(state, olt, OltState.UP, "it answered")
    olt.failures, olt.probe_at = 0, None


def probe_later(state: State, olt: Olt) -> None:
    """Ask an OLT that is silent in the first round at or after its `probe_at`."""
    if olt.probe_at is not None:
        moment = state.next_round(max(olt.probe_at, state.now + MILLISECOND))
        state.at(moment, UPKEEP, lambda what: _probe(state, *what), (olt, olt.probe_at))


def _probe(state: State, olt: Olt, probe_at: datetime) -> None:
    if olt.state is OltState.PAUSED or olt.probe_at != probe_at:
        return
    if not state.scheduler_up or not olt.enabled or olt.running is not None:
        probe_later(state, olt)
    elif olt.silent and olt.state is OltState.UNREACHABLE:
        olt.probe_at = reachability.next_probe(olt.since or state.now, state.now)
        probe_later(state, olt)
    elif olt.silent:
        _count(state, olt)
    else:
        back_up(state, olt)
