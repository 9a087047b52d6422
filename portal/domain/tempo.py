"""The product's paces: how often its processes look, and how long they wait for each other before they give up.

Each is stated here and nowhere else. Not among them: what an OLT, a database or a mail server is given to answer, the
leases of OLTs (settings), and slots, which are whole seconds of the wall clock at any tempo.
"""

from dataclasses import astuple, dataclass
from functools import cache


@dataclass(frozen=True)
class Tempo:
    """Seconds. What depends on another pace says so: dividing all by one factor leaves each such ratio as it is."""

    # The scheduler.
    tick: float = 1.0  # slots are whole seconds: none is seen later than one
    leader_lease: float = 5.0  # five ticks: a leader may miss some and leads on
    reconcile: float = 60.0  # between two looks at the schedule in Redis and at slots far ahead
    clock_waits: float = 2.0  # a Redis that takes longer to answer is away: the clock does not wait for it
    first_run: float = 5.0  # of a periodic job that was lost

    # The periodic jobs. rq-scheduler counts in whole seconds.
    reap: float = 5.0  # what was killed runs again within seconds
    revive: float = 5.0  # the questions to OLTs that stay silent are spread over it
    poller_stats: float = 10.0  # a point of the pool's history
    decision_log: float = 3.0  # somebody may be following the file
    coordinate: float = 5.0  # the shortest interval of a node is a minute
    close_hours: float = 15.0  # an hour is judged soon after its last run has ended
    learn: float = 60.0  # a node's runs come once a minute at most
    reckon: float = 600.0  # where clocks should strike changes with the catalogue of nodes only
    clean_up: float = 3600.0  # what is kept is kept for days
    send_alerts: float = 5.0  # somebody is to be woken

    # Pollers and the workers of the other queues.
    bell: float = 2.0  # waiting for work; also how long a lost ring of the bell costs
    quarantine_look: float = 0.5  # whether things may be claimed again
    attend: float = 2.0  # a pool shows itself and does what people want of it
    redis_sign: float = 5.0  # of life, for RQ's pages
    sql_sign: float = 5.0  # of life of the holder of an OLT, for ours
    horse_watch: float = 5.0  # between two looks at a horse that works
    horse_stuck: float = 60.0  # a horse that lives so long without its lease hangs: it is killed
    horse_pause: float = 0.5  # before the next claim when a horse could not start; doubled each time
    longest_horse_pause: float = 30.0
    redis_pause: float = 0.5  # before the next try when Redis is away; doubled each time
    longest_redis_pause: float = 5.0
    redis_back: float = 1.0  # between two looks whether Redis is back, of those who cannot do without
    job_sign: float = 30.0  # of life of a job of the other queues, by RQ's worker
    job_lost: float = 35.0  # without that sign: its worker was killed, or Redis was, and it is queued again
    queue: float = 10.0  # RQ waits for a job of the other queues; less than `redis_answer`
    redis_answer: float = 15.0  # a Redis that takes longer to answer is away
    queued_grace: float = 8.0  # between the commit and the push, and between the claim and RUNNING: no job is lost yet


NORMAL = Tempo()


@cache
def at(factor: int) -> Tempo:
    """All paces divided by `factor`, which is 1 but in tests."""
    return Tempo(*(seconds / factor for seconds in astuple(NORMAL)))


def whole(seconds: float) -> int:
    """Of a pace that is counted in whole seconds: one at least."""
    return max(1, round(seconds))
