"""From a chaos run's rows and the agents' log to its figures and goals. Reads only."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from portal.domain.statuses import ACTIVE, AttemptStatus, ExecutionStatus
from portal.extensions import db
from portal.tables import Execution, ExecutionAttempt
from testing.measuring import clocks, judges, stale_writes
from testing.measuring.havoc import Fault, Havoc
from testing.measuring.quantiles import quantile
from testing.redis_proxy import Counts

HITS = ("kill_worker", "kill_horse", "kill_any_worker")
RECOVERY_P99_SECONDS = 20.0
KILLED_WORKER_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """A run that has ended and settled."""

    havoc: Havoc
    first: dict[int, datetime]
    interval: int
    begin: datetime
    until: datetime
    replies: Counts


def from_database(outcome: Outcome, olt_ids: dict[int, int]) -> tuple[dict[str, Any], list[judges.Try]]:
    """Figures from SQL, and the tries for the judges of the log."""
    db.session.rollback()
    executions = list(db.session.scalars(select(Execution)))
    attempts = list(db.session.scalars(select(ExecutionAttempt).order_by(ExecutionAttempt.id)))
    figures = _counts(outcome, executions, attempts)
    figures |= _twice(executions, attempts)
    figures |= {"stale": stale_writes.counts(db.session()) | _tokens(executions, attempts)}
    figures["stale_writes"] = sum(figures["stale"].values())
    figures |= _recoveries(outcome, executions, attempts)
    return figures, _tries(executions, attempts, {ident: number for number, ident in olt_ids.items()})


def _counts(outcome: Outcome, executions: list[Execution], attempts: list[ExecutionAttempt]) -> dict[str, Any]:
    ran = [(row.node_id or 0, row.scheduled_for) for row in executions]
    slots = judges.account(outcome.first, outcome.interval, outcome.until, ran, clocks.skips())
    delays = [row.delay_ms / 1000 for row in executions if row.delay_ms is not None]
    ends = Counter(str(row.status) for row in executions)
    return {
        "seconds": round((outcome.until - outcome.begin).total_seconds(), 1),
        "faults": outcome.havoc.count(),
        "octets_cut": outcome.havoc.octets_cut,
        "replies_swallowed": outcome.replies.swallowed,
        "replies_passed": outcome.replies.passed,
        "slots_due": slots.due,
        "composites": ends["SUCCESS"],
        "failed": dict(Counter(str(row.error_kind) for row in executions if row.status is ExecutionStatus.FAILED)),
        "interrupted": ends["INTERRUPTED"],
        "skipped": slots.skipped,
        "lost": slots.lost + slots.off_grid,
        "still_active": sum(row.status in ACTIVE for row in executions),
        "doubled_slots": slots.doubled,
        "tries": len(attempts),
        "tries_ended_by": dict(Counter(str(a.error_kind) for a in attempts if a.error_kind is not None)),
        "delay_p50_s": round(quantile(delays, 0.50), 2),
        "delay_p99_s": round(quantile(delays, 0.99), 2),
        "delay_max_s": round(max(delays, default=0), 2),
    }


def _twice(executions: list[Execution], attempts: list[ExecutionAttempt]) -> dict[str, Any]:
    """Composites that succeeded more than once, or were tried again after they had; slots with two executions."""
    slots = Counter((row.node_id, row.scheduled_for, row.trigger) for row in executions)
    won: dict[int, int] = {}
    again = 0
    for attempt in attempts:
        again += attempt.execution_id in won
        if attempt.status is AttemptStatus.SUCCESS:
            won[attempt.execution_id] = attempt.number
    status = {row.id: row.status for row in executions}
    unkept = sum(status[ident] is not ExecutionStatus.SUCCESS for ident in won)
    return {"twice": again + unkept + sum(count - 1 for count in slots.values())}


def _tokens(executions: list[Execution], attempts: list[ExecutionAttempt]) -> dict[str, int]:
    """Tokens must rise with every try of an OLT that wrote something; a success must bear its own try's token.

    A holder that waited for the database past its lease may begin a try; its first checkpoint ends it.
    """
    olt = {row.id: row.olt_id for row in executions}
    highest: dict[int, int] = defaultdict(int)
    falling = 0
    for attempt in attempts:
        wrote = attempt.status in (AttemptStatus.SUCCESS, AttemptStatus.FAILED)
        falling += wrote and attempt.token <= highest[olt[attempt.execution_id]]
        highest[olt[attempt.execution_id]] = max(attempt.token, highest[olt[attempt.execution_id]])
    won = {a.execution_id: a.token for a in attempts if a.status is AttemptStatus.SUCCESS}
    foreign = sum(row.status is ExecutionStatus.SUCCESS and won.get(row.id) != row.token for row in executions)
    return {name: count for name, count in (("token_not_rising", falling), ("token_of_no_try", foreign)) if count}


def _tries(executions: list[Execution], attempts: list[ExecutionAttempt], numbers: dict[int, int]) -> list[judges.Try]:
    olt = {row.id: numbers[row.olt_id] for row in executions}
    return [
        judges.Try(
            olt[row.execution_id], row.started_at.timestamp(), row.finished_at.timestamp() if row.finished_at else None
        )
        for row in attempts
    ]


@dataclass(frozen=True)
class _Start:
    """A try that began, and since when its composite could have begun."""

    olt_id: int
    started: datetime
    since: datetime


def _recoveries(outcome: Outcome, executions: list[Execution], attempts: list[ExecutionAttempt]) -> dict[str, Any]:
    """Seconds that a composite which could run had to wait after a fault.

    `killed_…`: while Redis and the pool could be relied on, and a poller was free to go on with it.
    """
    rows = {row.id: row for row in executions}
    starts = []
    for attempt in attempts:
        row = rows[attempt.execution_id]
        since = row.scheduled_for if attempt.number == 1 else outcome.begin
        starts.append(_Start(row.olt_id, attempt.started_at, since))
    havoc = outcome.havoc
    hit = [(fault, _wait(fault.at, fault.olt_id, starts)) for fault in havoc.faults if fault.kind in HITS]
    known = [wait for _, wait in hit if wait is not None]
    calm = [(fault.kind, wait) for fault, wait in hit if wait is not None and fault.spare and havoc.calm(fault.at)]
    workers = [wait for kind, wait in calm if kind == "kill_worker"]
    horses = [wait for kind, wait in calm if kind == "kill_horse"]
    return {
        "recovery_p50_s": round(quantile(known, 0.50), 2),
        "recovery_p99_s": round(quantile(known, 0.99), 2),
        "recovery_max_s": round(max(known, default=0), 2),
        "killed_worker_n": len(workers),
        "killed_worker_p50_s": round(quantile(workers, 0.50), 2),
        "killed_worker_p95_s": round(quantile(workers, 0.95), 2),
        "killed_worker_max_s": round(max(workers, default=0), 2),
        "killed_horse_max_s": round(max(horses, default=0), 2),
        "flush_to_all_olts_s": _to_all_olts(havoc.faults, "flush_redis", starts),
        "redis_back_to_start_max_s": round(max((_first_after(at, starts) for at in havoc.redis_back), default=0), 2),
        "takeover_max_s": round(max(havoc.takeovers, default=0), 2),
    }


def _wait(at: datetime, olt_id: int | None, starts: list[_Start]) -> float | None:
    """From the fault, or from when something could run, to the next start on that OLT; None when none came."""
    later = [start for start in starts if start.olt_id == olt_id and start.started > at]
    if not later:
        return None
    following = min(later, key=lambda start: start.started)
    return max(0.0, (following.started - max(at, following.since)).total_seconds())


def _to_all_olts(faults: Iterable[Fault], kind: str, starts: list[_Start]) -> float:
    """From the last such fault to the moment by which every OLT had been read again."""
    moments = [fault.at for fault in faults if fault.kind == kind]
    if not moments:
        return 0.0
    again: dict[int, datetime] = {}
    for start in starts:
        if start.started > moments[-1]:
            again[start.olt_id] = min(start.started, again.get(start.olt_id, start.started))
    return round(max(((moment - moments[-1]).total_seconds() for moment in again.values()), default=0), 2)


def _first_after(at: datetime, starts: list[_Start]) -> float:
    later = [start.started - at for start in starts if start.started > at]
    return min(later, default=timedelta()).total_seconds()


def from_log(seen: list[judges.Request], tries: list[judges.Try]) -> dict[str, Any]:
    """Figures from the agents' log."""
    complete = judges.usual_length(seen)
    found = judges.runs(seen, complete)
    return {
        "requests": len(seen),
        "requests_of_a_composite": complete,
        "overlaps": sum(run.returns for run in found),
        "requests_outside_any_try": judges.outside_any_try(seen, tries),
        "read_twice": judges.read_twice(found, tries, complete),
    }


def missed(figures: dict[str, Any], composites: int) -> list[str]:
    """The goals that were not reached, in words. Of the negative control only: that overlaps are found."""
    if not figures["checkpoints"]:
        return [] if figures["overlaps"] else ["no overlaps without checkpoints: the judge is blind"]
    zeros = ("overlaps", "lost", "twice", "stale_writes", "still_active", "doubled_slots", "read_twice")
    found = [f"{name} = {figures[name]}, goal 0" for name in zeros if figures[name]]
    if figures["composites"] < composites:
        found.append(f"{figures['composites']} composites in time, goal {composites}")
    if figures["recovery_p99_s"] > RECOVERY_P99_SECONDS:
        found.append(f"recovery p99 {figures['recovery_p99_s']} s, goal {RECOVERY_P99_SECONDS}")
    if figures["killed_worker_max_s"] > KILLED_WORKER_SECONDS:
        found.append(f"killed worker {figures['killed_worker_max_s']} s, goal {KILLED_WORKER_SECONDS}")
    return found
