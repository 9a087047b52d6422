"""What the queue must know of an execution, and the order in which it is served. Pure."""

from dataclasses import dataclass
from datetime import datetime

JOB_PREFIX = "execution-"

# Order inside an OLT as one number: manual first, then priority, then the older slot.
_LANE_WEIGHT = 10**15
_PRIORITY_WEIGHT = 10**11


@dataclass(frozen=True)
class Ticket:
    """What the queue must know of a PENDING execution to put it in its place."""

    execution_id: int
    attempt: int  # number of the attempt to come, from 1
    olt_id: int
    priority: int
    scheduled_for: datetime
    overdue_at: datetime | None  # from then on it goes first in its OLT
    manual: bool = False  # somebody asked for it: first in its OLT
    site: str = ""  # of its OLT; pollers may serve one site only

    @property
    def job_id(self) -> str:
        return job_id(self.execution_id, self.attempt)

    @property
    def queue_name(self) -> str:
        if self.manual:
            return f"olt-{self.olt_id}-high"
        return f"olt-{self.olt_id}-retry" if self.attempt > 1 else f"olt-{self.olt_id}"

    @property
    def order(self) -> float:
        lane = 0 if self.manual else _LANE_WEIGHT
        return lane + (100 - self.priority) * _PRIORITY_WEIGHT + int(self.scheduled_for.timestamp())

    @property
    def urgency(self) -> float:
        """Between OLTs: the larger delay first, then priority."""
        return int(self.scheduled_for.timestamp()) + (100 - self.priority) / 1000

    def as_row(self) -> tuple[object, ...]:
        """What the push script reads; the order of its columns."""
        overdue = 0 if self.manual or self.overdue_at is None else self.overdue_at.timestamp()
        return (self.olt_id, self.site, self.job_id, self.execution_id, self.queue_name, self.order, overdue,
                self.urgency)  # fmt: skip


def job_id(execution_id: int, attempt: int) -> str:
    """RQ's id of one try; from 1. It names the execution, so that a claim needs no second look."""
    return f"{JOB_PREFIX}{execution_id}-{attempt}"


def execution_of(job: str) -> int:
    """The execution that a job id names."""
    return int(job.removeprefix(JOB_PREFIX).partition("-")[0])
