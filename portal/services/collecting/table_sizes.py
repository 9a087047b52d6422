"""Keeps what runs learn about message sizes. The rule itself is portal.domain.table_sizes; no SNMP here."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.table_sizes import LearnedSize, SizeEvidence, SizeOutcome, Sizes, learn
from portal.models.table_size import TableSize

MAX_ROOT = 255  # characters; no table of a real device comes near


def load(session: Session, olt_id: int, now: datetime) -> Sizes:
    """What a run on this OLT at `now` may rely on, by operation and table."""
    rows = session.scalars(select(TableSize).where(TableSize.olt_id == olt_id))
    return {(row.operation, row.root): _learned(row).known(now) for row in rows}


def store(session: Session, olt_id: int, evidence: Iterable[SizeEvidence], now: datetime) -> None:
    """Add what a run saw. Belongs into the transaction that stores the run's readings; nothing seen writes nothing."""
    seen: dict[tuple[str, str], list[SizeEvidence]] = {}
    for one in evidence:
        if len(one.table) <= MAX_ROOT:
            seen.setdefault((one.operation, one.table), []).append(one)
    if not seen:
        return
    rows = {(row.operation, row.root): row for row in session.scalars(
        select(TableSize).where(TableSize.olt_id == olt_id)
    )}  # fmt: skip
    for (operation, root), observations in seen.items():
        row = rows.get((operation, root))
        before = _learned(row) if row is not None else None
        if before is not None and _says_nothing_new(before, observations):
            continue
        row = row if row is not None else TableSize(olt_id=olt_id, operation=operation, root=root)
        _write(row, learn(before, observations, now))
        session.add(row)


def _says_nothing_new(before: LearnedSize, seen: list[SizeEvidence]) -> bool:
    """True where the run only confirmed the size it started with: most runs, which then write no row."""
    return all(one.outcome is SizeOutcome.ANSWERED and one.size <= before.size for one in seen)


def _learned(row: TableSize) -> LearnedSize:
    evidence = [(int(size), SizeOutcome(outcome), datetime.fromisoformat(at)) for size, outcome, at in row.evidence]
    return LearnedSize(row.size, row.learned_at, row.too_big, row.retry_larger_after, evidence)


def _write(row: TableSize, learned: LearnedSize | None) -> None:
    if learned is None:
        return
    row.size, row.too_big = learned.size, learned.too_big
    row.learned_at, row.retry_larger_after = learned.learned_at, learned.retry_larger_after
    row.evidence = [[size, outcome.value, at.isoformat()] for size, outcome, at in learned.evidence]
