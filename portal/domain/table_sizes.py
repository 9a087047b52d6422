"""How many values one message to a table of one OLT may carry: what was seen, and what follows from it. No I/O.

A size is a number of values (varbinds) in one answer. It is learned for a table, that is for the parent of its columns:
the device fails on a message, and the columns of a table make messages of like length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

GET, WALK = "get", "walk"
RETRY_LARGER_AFTER = timedelta(days=1)  # a size that failed is tried again: firmware changes, a cable is mended
KEPT_EVIDENCE = 20  # …and what was learned of its manners


class SizeOutcome(StrEnum):
    """What became of a message that asked for so many values."""

    ANSWERED = "answered"
    TOO_BIG = "too_big"
    TIMEOUT = "timeout"  # and a smaller one was answered
    ERROR = "error"  # another error status, or nothing that could be read; and a smaller one was answered
    TRUNCATED = "truncated"  # the device sent so many of the values asked for
    NO_BULK = "no_bulk"  # it was silent on GETBULK of any size, and answered GETNEXT; the size is that of the latter
    UNORDERED = "unordered"  # its rows came in an order of its own


_FAILURES = frozenset({SizeOutcome.TOO_BIG, SizeOutcome.TIMEOUT, SizeOutcome.ERROR})
MANNERS = frozenset({SizeOutcome.NO_BULK, SizeOutcome.UNORDERED})  # of the OLT, not of a size
DOUBTFUL = frozenset({SizeOutcome.TIMEOUT, SizeOutcome.ERROR})  # a single value may be to blame, or the OLT was dead


@dataclass(frozen=True)
class SizeEvidence:
    """One observation of one run."""

    operation: str  # GET or WALK
    table: str  # OID
    size: int
    outcome: SizeOutcome


@dataclass(frozen=True)
class KnownSize:
    """What a run may rely on. `too_big` is the least size that failed, None when none did.

    `retry`: that failure is old enough to try such a size once more. `manners`: what holds of the whole OLT.
    """

    size: int
    too_big: int | None = None
    retry: bool = False
    manners: frozenset[SizeOutcome] = frozenset()


Sizes = Mapping[tuple[str, str], KnownSize]
"""(operation, table) → what is known."""


@dataclass(frozen=True)
class LearnedSize:
    """What is kept of one table between runs. `evidence`: the last of what was seen, with its moment."""

    size: int
    learned_at: datetime
    too_big: int | None = None
    retry_larger_after: datetime | None = None
    evidence: Sequence[tuple[int, SizeOutcome, datetime]] = field(default=())

    def known(self, now: datetime) -> KnownSize:
        """What a run at `now` may rely on."""
        retry = self.retry_larger_after is not None and now >= self.retry_larger_after
        old = now - RETRY_LARGER_AFTER
        manners = {
            outcome for _, outcome, at in self.evidence
            if outcome is SizeOutcome.UNORDERED or (outcome is SizeOutcome.NO_BULK and at > old)
        }  # fmt: skip
        return KnownSize(self.size, self.too_big, retry, frozenset(manners))


def manners_of(sizes: Sizes) -> frozenset[SizeOutcome]:
    """What was learned of the OLT at any of its tables."""
    return frozenset(manner for known in sizes.values() for manner in known.manners)


def table_of(column: str) -> str:
    """The table a column belongs to: its parent. Columns of one entry share it."""
    return column.rpartition(".")[0]


def learn(before: LearnedSize | None, seen: Sequence[SizeEvidence], now: datetime) -> LearnedSize | None:
    """What is known after a run that saw this of one table and operation. The next size is never one that failed."""
    if not seen:
        return before
    evidence = _kept([*(before.evidence if before else ()), *((one.size, one.outcome, now) for one in seen)])
    failed = min((one.size for one in seen if one.outcome in _FAILURES), default=None)
    worked = max((one.size for one in seen if one.outcome not in _FAILURES), default=0)
    limit, retry = (before.too_big, before.retry_larger_after) if before else (None, None)
    if failed is not None:
        limit, retry = failed if limit is None or worked >= limit else min(failed, limit), now + RETRY_LARGER_AFTER
    elif limit is not None and worked >= limit:
        limit = retry = None
    candidates = [size for size in (worked, before.size if before else 0) if limit is None or size < limit]
    size = max(candidates, default=0) or max(1, (limit or 2) // 2)
    return LearnedSize(size, now, limit, retry, evidence)


def _kept(evidence: list[tuple[int, SizeOutcome, datetime]]) -> tuple[tuple[int, SizeOutcome, datetime], ...]:
    """The last of what was seen, and the last word on each of its manners."""
    newest = {outcome: one for one in evidence if (outcome := one[1]) in MANNERS}
    last = evidence[-KEPT_EVIDENCE:]
    return (*(one for one in newest.values() if one not in last), *last)
