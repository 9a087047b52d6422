"""The coordinator's pass in memory: what changed on an OLT, by its own `decide`, and what follows. No SQLAlchemy.

States what scheduler.coordinator.reconcile does through services, for objects. Promises need no pass here: the ledger
follows each clock as it is wound.
"""

from datetime import timedelta

from portal.domain.quota import hour_at
from portal.domain.statuses import ErrorKind, SkipReason
from scheduler.coordinator import decide
from scheduler.coordinator.decide import Decision, Snapshot, Task
from scheduler.timemachine import life
from scheduler.timemachine.state import PASS, State
from scheduler.timemachine.world import Olt

MILLISECOND = timedelta(milliseconds=1)


def stir(state: State, olt: Olt) -> None:
    """Something is about to be changed on an OLT: the next pass is to look at it."""
    if olt.olt_id not in state.seen:
        state.seen[olt.olt_id] = snapshot(olt)
    if not state.stirred:
        state.at(state.next_round(state.now), PASS, lambda _: _pass(state))
    state.stirred.add(olt.olt_id)


def snapshot(olt: Olt) -> Snapshot:
    """All that an OLT has to do, as the coordinator sees it."""
    return Snapshot(olt.enabled, {
        node.node_id: Task(node.node_id, node.key, node.kind, node.enabled, node.interval_seconds, node.cron,
                           node.priority, None)
        for node in olt.nodes if not node.deleted
    })  # fmt: skip


def _pass(state: State) -> None:
    if not state.scheduler_up:
        state.at(state.next_round(state.now + MILLISECOND), PASS, lambda _: _pass(state))
        return
    ids = sorted(state.stirred)
    state.stirred.clear()
    for ident in ids:
        olt = state.olts[ident]
        before, state.seen[ident] = state.seen[ident], snapshot(olt)
        _follow(state, olt, decide.decide(before, state.seen[ident]))


def _follow(state: State, olt: Olt, decision: Decision) -> None:
    """What was switched off since is stopped once more: a try may have failed meanwhile, and wait to be repeated."""
    nodes = [state.nodes[ident] for ident in decision.abort if ident in state.nodes]
    runs = [node.active for node in nodes if node.active is not None and not node.deleted]
    life.end_waiting(state, runs, "its node was disabled", SkipReason.NODE_DISABLED, ErrorKind.ABORTED)
    if decision.interrupt:
        life.stop_olt(state, olt)
    if decision.interrupt or decision.resume:
        state.ledger.interrupt(olt.olt_id, hour_at(state.now), decision.interrupt)
    for change in decision.changes:
        node = state.nodes.get(change.task.id) if change.task is not None else None
        there = node if node is not None and not node.deleted else None
        state.record(change.kind.event, change.kind.value, olt, node=there)
