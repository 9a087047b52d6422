"""Taking slots: the tick's plan becomes PENDING executions, moved clocks and logged skips, in one transaction."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from flask import current_app
from sqlalchemy import ColumnElement, Row, Table, and_, bindparam, case, func, literal_column, select, text, update
from sqlalchemy.orm import Session, selectinload

from portal.domain import quota, words
from portal.domain.pool import UNSEEN_AFTER
from portal.domain.quota import Settlement, TrackerKey
from portal.domain.slots import DueMaster, NewExecution, Plan, SkippedSlots
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, PollerStatus, SkipReason, Trigger
from portal.extensions import transaction
from portal.models.execution import ACTIVE_SQL
from portal.models.types import off_its_index
from portal.queueing import Ticket
from portal.services import bulk
from portal.services.accounting import quotas
from portal.services.dispatch import life
from portal.tables import CoordinatorLog, Execution, Olt, Poller, Pool, SchedulerState, WorkflowNode

log = logging.getLogger(__name__)

RIPE_LIMIT = 5000  # executions whose time has come, in one tick

_EXECUTIONS = cast(Table, Execution.__table__)
_NODES = cast(Table, WorkflowNode.__table__)
_LOGS = cast(Table, CoordinatorLog.__table__)
_PULSE = cast(Table, SchedulerState.__table__)

# Literal, so that SQLite sees that a partial index covers it.
_PENDING = Execution.status == literal_column("'PENDING'")

_PREPARE = {
    # A scheduler that is frozen in its tick must not keep the nodes it has locked from the next leader.
    "postgresql": text("SET LOCAL idle_in_transaction_session_timeout = '10s'"),
    # A large tick writes 10 MB of pages: they need not be copied back (and synced) at each.
    "sqlite": text("PRAGMA wal_autocheckpoint = 8000"),
}

_LAZY_COMMIT = text("SET LOCAL synchronous_commit TO off")

_RIPE_SQL = """
SELECT 1 FROM executions {hint} WHERE status = 'PENDING' AND not_before <= :now AND queued_at IS NULL LIMIT 1
"""
# Without statistics SQLite would rather read all that is PENDING.
_RIPE = {
    name: text(_RIPE_SQL.format(hint=hint)).bindparams(bindparam("now", type_=Execution.not_before.type))
    for name, hint in (("sqlite", "INDEXED BY ix_executions_not_before"), ("postgresql", ""))
}


def take(
    select: Callable[[Session], list[DueMaster]],
    decide: Callable[[list[DueMaster]], Plan],
    now: datetime,
    *,
    queued: bool = True,
) -> tuple[Plan, list[Ticket]]:
    """Select, decide and write in one transaction; returns what was done and what is to be pushed after the commit.

    `queued=False`: nobody is going to push, so that the reaper has to. IntegrityError: nothing was done.
    """
    with transaction() as session:
        session.execute(_PREPARE[session.get_bind().dialect.name])
        return _apply(session, decide(select(session)), now, queued=queued)


def _apply(session: Session, plan: Plan, now: datetime, *, queued: bool) -> tuple[Plan, list[Ticket]]:
    plan = _supersede(session, plan, now)
    ids = _insert(session, plan.new, now, queued=queued)
    plan = _with_causes(session, _adopted(session, _without_taken(session, plan, ids)), now)
    skip(session, plan.skipped, now)
    bulk.set_column(session, _NODES, "next_run_at", plan.next_runs)
    return plan, [_ticket(new, ids[new.master.node_id]) for new in plan.new if queued and new.not_before is None]


def skip(session: Session, skipped: Collection[SkippedSlots], now: datetime) -> None:
    """Into the log and the books: slots that do not run, each with its reason. In the caller's transaction."""
    if skipped:
        bulk.insert(session, _LOGS, [_log_row(one, now) for one in skipped])
        quotas.settle(session, (part for one in skipped for part in _settlements(one)), now)


def _supersede(session: Session, plan: Plan, now: datetime) -> Plan:
    """End what waits for a retry past its node's next slot. What is being started at this moment goes on instead."""
    decided: list[NewExecution | SkippedSlots] = [*plan.new, *plan.skipped]
    waiting = {one.supersedes for one in decided if one.supersedes is not None}
    if not waiting:
        return plan
    query = (
        select(Execution)
        .where(Execution.id.in_(waiting), _PENDING)
        .options(selectinload(Execution.node))  # life.end writes to it
        .with_for_update(of=Execution, skip_locked=True)
    )
    ended = set()
    for old in session.scalars(query).all():
        life.end(session, old, ExecutionStatus.FAILED, now, old.error_kind or ErrorKind.SUPERSEDED,
                 old.error_message or "the node's next slot came before its retry")  # fmt: skip
        ended.add(old.id)
    session.flush()
    return _stay(plan, [new for new in plan.new if new.supersedes is not None and new.supersedes not in ended])


def _insert(session: Session, new: Collection[NewExecution], now: datetime, *, queued: bool) -> dict[int, int]:
    """Node id → id of its execution. Who is missing has that slot, or something ACTIVE, already."""
    rows = [_row(one, now, queued=queued) for one in new]
    return {row.node_id: row.id for row in bulk.insert_new(session, _EXECUTIONS, rows, ("node_id", "id"))}


def _row(new: NewExecution, now: datetime, *, queued: bool) -> dict[str, Any]:
    master = new.master
    return {
        "node_id": master.node_id, "node_name": master.node_name, "olt_id": master.olt_id,
        "task_type": master.task_type, "device_key": master.device_key, "priority": master.priority,
        "scheduled_for": new.scheduled_for, "overdue_at": new.overdue_at, "not_before": new.not_before,
        "queued_at": now if queued and new.not_before is None else None,
    }  # fmt: skip


def _without_taken(session: Session, plan: Plan, ids: dict[int, int]) -> Plan:
    """The plan without what could not be inserted. On the grid of a clock that was set back a slot may exist already:

    it is passed over. Else a manual run was faster: the slot finds its node active.
    """
    refused = {new.master.node_id: new for new in plan.new if new.master.node_id not in ids}
    if not refused:
        return plan
    query = select(Execution.node_id, Execution.scheduled_for).where(
        Execution.node_id.in_(refused),
        Execution.scheduled_for.in_({new.scheduled_for for new in refused.values()}),
        Execution.trigger == Trigger.SCHEDULE,
    )
    there = [refused[node] for node, slot in session.execute(query) if refused[node].scheduled_for == slot]
    if there:
        log.warning("event=slot_exists slots=%d node=%d", len(there), there[0].master.node_id)
    passed = {new.master.node_id for new in there}
    plan = _leave_out(plan, there)
    return _stay(plan, [new for node, new in refused.items() if node not in passed])


def _stay(plan: Plan, active: list[NewExecution]) -> Plan:
    """The plan with these slots skipped, because something of their node is ACTIVE after all."""
    reason = SkipReason.STILL_ACTIVE
    skipped = [SkippedSlots(new.master, reason, new.scheduled_for, new.scheduled_for) for new in active]
    return replace(_leave_out(plan, active), skipped=(*plan.skipped, *skipped))


def _adopted(session: Session, plan: Plan) -> Plan:
    """The plan without the slots that a manual run of their node satisfies: it is the slot's from now on.

    The node is read at that very moment, so that its promise counts by the outcome of that run.
    """
    busy = {one.master.node_id: one for one in plan.skipped if one.reason is SkipReason.STILL_ACTIVE}
    if not busy:
        return plan
    manual = select(Execution.id, Execution.node_id).where(
        Execution.node_id.in_(busy), ACTIVE_SQL, Execution.trigger == Trigger.MANUAL
    )
    clocks = dict(plan.next_runs)
    for row in session.connection().execute(manual.with_for_update(of=Execution)).all():
        one = busy.pop(row.node_id)
        session.execute(
            update(Execution)
            .where(Execution.id == row.id)
            .values(trigger=Trigger.SCHEDULE, scheduled_for=one.last, overdue_at=clocks[row.node_id],
                    task_type=one.master.task_type),
            execution_options={"synchronize_session": False},
        )  # fmt: skip
        if current_app.config["NEXTCHECK_MODE"] == "from_end" and one.master.interval_seconds is not None:
            clocks[row.node_id] = None
    kept = {id(one) for one in busy.values()}
    skipped = [one for one in plan.skipped if one.reason is not SkipReason.STILL_ACTIVE or id(one) in kept]
    return replace(plan, skipped=tuple(skipped), next_runs=clocks)


def _with_causes(session: Session, plan: Plan, now: datetime) -> Plan:
    """The plan with what kept each node ACTIVE whose slot is skipped for that, as it is at this moment."""
    busy = [one for one in plan.skipped if one.reason is SkipReason.STILL_ACTIVE]
    if not busy:
        return plan
    active = _active(session, {one.master.olt_id for one in busy})
    free = _free_pollers(session, now)

    def caused(one: SkippedSlots) -> SkippedSlots:
        serving = sum(count for site, count in free.items() if site in (None, one.master.site))
        return _with_cause(one, active[one.master.olt_id], serving)

    return replace(plan, skipped=tuple(map(caused, plan.skipped)))


def _free_pollers(session: Session, now: datetime) -> dict[str | None, int]:
    """Site (None: serves every OLT) → pollers that live and have nothing to do."""
    query = (
        select(Pool.site, func.count())
        .join(Poller, Poller.pool_id == Pool.id)
        .where(Poller.status == PollerStatus.FREE, Poller.seen_at > now - UNSEEN_AFTER)
        .group_by(Pool.site)
    )
    return dict(session.execute(query).tuples().all())


def _active(session: Session, olt_ids: Collection[int]) -> dict[int, list[Row[Any]]]:
    """OLT id → what is ACTIVE on it. There are no more of them than nodes that wait or run.

    Off the index of OLTs, by which SQLite would read the whole past of a few.
    """
    query = select(
        Execution.id, Execution.olt_id, Execution.node_id, Execution.node_name, Execution.status, Execution.started_at,
        Execution.scheduled_for,
    ).where(ACTIVE_SQL, off_its_index(Execution.olt_id).in_(olt_ids))  # fmt: skip
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in session.execute(query):
        found[row.olt_id].append(row)
    return found


def _with_cause(skipped: SkippedSlots, active: list[Row[Any]], free: int) -> SkippedSlots:
    """OVERRUN: its own last run is running. OLT_BUSY: another one is, and its own waits. POOL_FULL: none is, and no

    poller is free. What else may keep it (a test holds the OLT, Redis is away) is not known here: STILL_ACTIVE.
    """
    own = next((row for row in active if row.node_id == skipped.master.node_id), None)
    if skipped.reason is not SkipReason.STILL_ACTIVE or own is None:
        return skipped
    holder = next((row for row in active if row.status is ExecutionStatus.RUNNING), None)
    facts: dict[str, Any] = {"waiting": own.id, "waiting_slot": own.scheduled_for.isoformat()}
    if holder is None:
        facts["free_pollers"] = free
        return replace(skipped, reason=SkipReason.STILL_ACTIVE if free else SkipReason.POOL_FULL, facts=facts)
    facts |= {"holder": holder.id, "holder_node": holder.node_name, "holder_since": holder.started_at.isoformat()}
    reason = SkipReason.OVERRUN if holder.id == own.id else SkipReason.OLT_BUSY
    return replace(skipped, reason=reason, facts=facts)


def _leave_out(plan: Plan, left: list[NewExecution]) -> Plan:
    """The plan without these; their clocks go on."""
    clocks: dict[int, datetime | None] = {new.master.node_id: new.overdue_at for new in left}
    new = tuple(new for new in plan.new if new.master.node_id not in clocks)
    return replace(plan, new=new, next_runs=plan.next_runs | clocks)


def _log_row(skipped: SkippedSlots, now: datetime) -> dict[str, Any]:
    """What services.decisions would write, for one statement that writes all of them."""
    # The firings of a cron line need not be evenly spaced: who asks for one of them needs the line as it was.
    uneven = {"hours": quota.hours_as_json(skipped.hours), "cron": skipped.master.cron} if skipped.hours else {}
    master = skipped.master
    return {
        "event_type": EventType.SLOT_SKIPPED, "level": "WARNING", "timestamp": now, "reason": skipped.reason,
        "message": str(words.skipped(master.node_name, skipped.count, skipped.reason)),
        "olt_id": master.olt_id, "node_id": master.node_id, "execution_id": master.active_id,
        "scheduled_for": skipped.last,
        "details": {"slots": skipped.count, "first": skipped.first.isoformat(), "last": skipped.last.isoformat(),
                    "task_type": master.task_type, **skipped.facts, **uneven},
    }  # fmt: skip


def _settlements(skipped: SkippedSlots) -> Iterable[Settlement]:
    """The skipped slots by the hours that they belong to."""
    master, cause = skipped.master, quota.cause_of_skip(skipped.reason)
    hours = skipped.hours or quota.slots_by_hour(skipped.first, skipped.last, skipped.count)
    for hour, count in hours.items():
        yield Settlement(TrackerKey(master.olt_id, master.task_type, hour), None, cause, count)


def _ticket(new: NewExecution, execution_id: int) -> Ticket:
    master = new.master
    return Ticket(
        execution_id=execution_id, attempt=1, olt_id=master.olt_id, priority=master.priority,
        scheduled_for=new.scheduled_for, overdue_at=new.overdue_at, site=master.site,
    )  # fmt: skip


def _ripe(now: datetime) -> ColumnElement[bool]:
    return and_(_PENDING, Execution.not_before <= now, Execution.queued_at.is_(None))


def anything_ripe(session: Session, now: datetime) -> bool:
    """True when `queue_ripe` would find something. Takes no lock."""
    return session.connection().scalar(_RIPE[session.get_bind().dialect.name], {"now": now}) is not None


def queue_ripe(now: datetime) -> list[Ticket]:
    """What is to be pushed because its `not_before` has come: retries, and late starts in their turn. Marks them."""
    with transaction() as session:
        tickets = pending_tickets(session, _ripe(now), order=[Execution.not_before], limit=RIPE_LIMIT)
        mark_queued(session, tickets, now)
    return tickets


def mark_queued(session: Session, tickets: Iterable[Ticket], now: datetime) -> None:
    """These are pushed, or known to be in the queue."""
    ids = [ticket.execution_id for ticket in tickets]
    if ids:
        session.execute(update(Execution).where(Execution.id.in_(ids), _PENDING).values(queued_at=now))


def pending_tickets(
    session: Session, where: ColumnElement[bool], *, order: Iterable[ColumnElement[Any] | Any], limit: int
) -> list[Ticket]:
    """Tickets of the PENDING executions that `where` picks."""
    query = (
        select(
            Execution.id, Execution.attempt, Execution.olt_id, Execution.priority, Execution.scheduled_for,
            Execution.overdue_at, Execution.trigger, Execution.requested_by, Olt.site,
        )
        .join(Olt, Execution.olt_id == Olt.id)
        .where(_PENDING, where)
        .order_by(*order)
        .limit(limit)
    )  # fmt: skip
    return [
        Ticket(
            execution_id=row.id, attempt=row.attempt + 1, olt_id=row.olt_id, priority=row.priority,
            scheduled_for=row.scheduled_for, overdue_at=row.overdue_at, site=row.site,
            manual=row.trigger is Trigger.MANUAL or bool(row.requested_by),
        )
        for row in session.execute(query)
    ]  # fmt: skip


def record_tick(leader: str, now: datetime, milliseconds: int, plan: Plan | None, error: str = "") -> None:
    """The pulse that every page shows: when the leader last ticked, and what came of it."""
    values = {
        "leader": leader, "last_tick_at": now, "last_tick_ms": milliseconds, "error": error[:500],
        "last_planned": len(plan.new) if plan else 0,
        "last_skipped": sum(skipped.count for skipped in plan.skipped) if plan else 0,
    }  # fmt: skip
    with transaction() as session:
        connection = session.connection()
        if connection.dialect.name == "postgresql":  # a pulse that a crash loses is followed by the next
            connection.execute(_LAZY_COMMIT)
        furthest = case((_PULSE.c.furthest_tick_at > now, _PULSE.c.furthest_tick_at), else_=now)
        changed = update(_PULSE).where(_PULSE.c.id == 1).values(values | {"furthest_tick_at": furthest})
        if connection.execute(changed).rowcount == 0:
            first = {"id": 1, "furthest_tick_at": now, "zone": current_app.config["TIMEZONE"]}
            bulk.insert_new(session, _PULSE, [values | first], ("id",))
