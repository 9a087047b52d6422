"""The queues in memory: which OLT is claimed next, and which of its jobs, by the rules of the Lua scripts. Pure.

What is said in portal.queueing (push, withdraw) and jobs.claim (claim, release) about sorted sets is said here about
lists and heaps. A test claims the same tickets from both.
"""

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush

from portal.domain.tickets import Ticket
from scheduler.timemachine.world import ALL_SITES

MANUAL_BELOW = 10**15  # orders of what a person asked for


@dataclass(slots=True)
class _Waiting:
    """The jobs of one OLT, as (order, job id, ticket) and (overdue at, job id, ticket): lowest first, then by name."""

    name: str  # its member in the sorted set: equal scores go by it
    site: str = ""
    jobs: list[tuple[float, str, Ticket]] = field(default_factory=list)
    overdue: list[tuple[float, str, Ticket]] = field(default_factory=list)
    ready: float | None = None  # its score among the ready ones; None = it is not among them
    lease: Ticket | None = None


class Queues:
    """Waiting jobs by OLT, ready OLTs by site, and who holds which OLT."""

    def __init__(self) -> None:
        self._olts: dict[int, _Waiting] = {}
        self._ready: dict[str, list[tuple[float, str, int]]] = defaultdict(list)
        self.waiting = 0

    def push(self, ticket: Ticket) -> None:
        """Queue a ticket; its OLT is ready, at the most urgent of what was pushed."""
        olt = self._olts.get(ticket.olt_id)
        if olt is None:
            olt = self._olts[ticket.olt_id] = _Waiting(str(ticket.olt_id), ticket.site)
        job = ticket.job_id
        insort(olt.jobs, (ticket.order, job, ticket))
        if not ticket.manual and ticket.overdue_at is not None:
            insort(olt.overdue, (ticket.overdue_at.timestamp(), job, ticket))
        self.waiting += 1
        self._offer(ticket.olt_id, olt, ticket.urgency)

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a ticket out. False when it was not there."""
        olt = self._olts.get(ticket.olt_id)
        if olt is None or not self._drop(olt, ticket):
            return False
        if not olt.jobs:
            olt.ready = None
        return True

    def holds(self, ticket: Ticket | None) -> bool:
        """Whether a ticket waits."""
        olt = self._olts.get(ticket.olt_id) if ticket is not None else None
        return olt is not None and any(one is ticket for _, _, one in olt.jobs)

    def claim(self, seconds: int, site: str = ALL_SITES) -> Ticket | None:
        """The best job of the most urgent ready OLT without a lease; it is leased. `seconds`: now, since 1970."""
        while (olt_id := self._pop(site)) is not None:
            olt = self._olts[olt_id]
            if olt.lease is None and olt.jobs:
                ticket = _best(olt, seconds)
                self._drop(olt, ticket)
                olt.lease = ticket
                return ticket
        return None

    def release(self, olt_id: int) -> None:
        """The lease is given back: an OLT that still has work is ready again."""
        olt = self._olts[olt_id]
        olt.lease = None
        if olt.jobs:
            self._offer(olt_id, olt, olt.jobs[0][2].urgency)

    def _offer(self, olt_id: int, olt: _Waiting, score: float) -> None:
        if olt.ready is None or score < olt.ready:
            olt.ready = score
            heappush(self._ready[olt.site], (score, olt.name, olt_id))

    def _pop(self, site: str) -> int | None:
        """The most urgent ready OLT, of one site or of all."""
        heaps = list(self._ready.values()) if site == ALL_SITES else [self._ready[site]]
        for heap in heaps:
            while heap and self._olts[heap[0][2]].ready != heap[0][0]:
                heappop(heap)
        filled = [heap for heap in heaps if heap]
        if not filled:
            return None
        _, _, olt_id = heappop(min(filled) if len(filled) > 1 else filled[0])
        self._olts[olt_id].ready = None
        return olt_id

    def _drop(self, olt: _Waiting, ticket: Ticket) -> bool:
        for at, (_, _, one) in enumerate(olt.jobs):
            if one is ticket:
                del olt.jobs[at]
                break
        else:
            return False
        self.waiting -= 1
        for at, (_, _, one) in enumerate(olt.overdue):
            if one is ticket:
                del olt.overdue[at]
                break
        return True


def _best(olt: _Waiting, seconds: int) -> Ticket:
    """What has waited a whole interval of its own goes first, but for what a person asked for."""
    order, _, first = olt.jobs[0]
    if order >= MANUAL_BELOW and olt.overdue and olt.overdue[0][0] <= seconds:
        return olt.overdue[0][2]
    return first
