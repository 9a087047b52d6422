"""The judges: what the agents' own request log and the database's rows say of a run. The product is not asked."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

Request = tuple[float, int, int]  # seconds, number of the OLT, source port: a composite is one socket

PORT_REUSE_SECONDS = 60.0  # after so long the same source port is another composite
CLOCK_SECONDS = 0.05  # what times of two processes on one machine may differ by


def requests(log: Path) -> Iterator[Request]:
    """Each request that an agent saw."""
    with log.open() as lines:
        for line in lines:
            seconds, olt, source, *_ = line.split()
            yield float(seconds), int(olt), int(source)


@dataclass
class Run:
    """The requests of one composite, as far as the log can tell: one source port at one OLT."""

    olt: int
    source: int
    times: list[float] = field(default_factory=list)
    returns: int = 0  # how often it went on after another source had been there


def runs(seen: Iterable[Request], complete: int = 0) -> list[Run]:
    """Requests as composites. A port that comes back is a new composite after a minute,

    or when the composite before had sent all of its `complete` requests (0: unknown): the kernel gives ports again.
    """
    found: list[Run] = []
    open_runs: dict[tuple[int, int], Run] = {}
    last: dict[int, int] = {}
    for seconds, olt, source in sorted(seen):
        run = open_runs.get((olt, source))
        if run is None or seconds - run.times[-1] >= PORT_REUSE_SECONDS or 0 < complete <= len(run.times):
            run = open_runs[olt, source] = Run(olt, source)
            found.append(run)
        elif last[olt] != source:
            run.returns += 1
        run.times.append(seconds)
        last[olt] = source
    return found


def usual_length(seen: Iterable[Request]) -> int:
    """Requests of a complete composite: the most frequent number; 0 where there are none."""
    counts = Counter(len(run.times) for run in runs(seen))
    return counts.most_common(1)[0][0] if counts else 0


def overlaps(seen: Iterable[Request], complete: int = 0) -> int:
    """How often two composites met at one OLT: source A, then B, then A again."""
    return sum(run.returns for run in runs(seen, complete))


@dataclass(frozen=True)
class Try:
    """One attempt as the database has it. Seconds since the epoch; `end` None: it never ended."""

    olt: int
    start: float
    end: float | None

    def holds(self, moment: float) -> bool:
        """Whether the moment lies inside, as far as clocks agree."""
        return self.start - CLOCK_SECONDS <= moment <= (self.end or float("inf")) + CLOCK_SECONDS


def outside_any_try(seen: Iterable[Request], tries: Iterable[Try]) -> int:
    """Requests at a moment at which, by the database, nobody was reading that OLT."""
    by_olt = _by_olt(tries)
    return sum(not any(one.holds(seconds) for one in by_olt[olt]) for seconds, olt, _ in seen)


def read_twice(found: Iterable[Run], tries: Iterable[Try], complete: int) -> int:
    """Complete composites in the log beyond one for each try: read to the end, and yet read again unasked."""
    by_olt = _by_olt(tries)
    owned: set[Try] = set()
    beyond = 0
    for run in found:
        if len(run.times) < complete or not complete:
            continue
        owners = [one for one in by_olt[run.olt] if one.holds(run.times[0]) and one not in owned]
        if owners:
            owned.add(max(owners, key=lambda one: one.start))
        else:
            beyond += 1
    return beyond


def _by_olt(tries: Iterable[Try]) -> dict[int, list[Try]]:
    by_olt: dict[int, list[Try]] = defaultdict(list)
    for one in tries:
        by_olt[one.olt].append(one)
    return by_olt


@dataclass(frozen=True)
class Account:
    """What became of the slots up to a moment. `lost`: nothing at all; `doubled`: more than one thing."""

    due: int
    ran: int
    skipped: int
    lost: int
    doubled: int
    off_grid: int


Slot = tuple[int, datetime]  # node id, moment
Skip = tuple[int, datetime, datetime]  # node id, first, last slot that did not run


def account(
    first: Mapping[int, datetime], interval: int, until: datetime, ran: Sequence[Slot], skipped: Sequence[Skip]
) -> Account:
    """By arithmetic: from each node's first slot one each `interval` seconds, against executions and logged skips."""
    step = timedelta(seconds=interval)
    due = {(node, moment) for node, start in first.items() for moment in _grid(start, until, step)}
    ends = Counter(slot for slot in ran if slot[1] <= until)
    left_out = [(node, moment) for node, begin, end in skipped for moment in _grid(begin, min(end, until), step)]
    fates = ends + Counter(left_out)
    return Account(
        due=len(due),
        ran=ends.total(),
        skipped=len(left_out),
        lost=len(due - fates.keys()),
        doubled=sum(count > 1 for count in fates.values()),
        off_grid=len(fates.keys() - due),
    )


def _grid(start: datetime, until: datetime, step: timedelta) -> Iterator[datetime]:
    moment = start
    while moment <= until:
        yield moment
        moment += step
