"""What a pool of pollers holds at an idle moment: memory, descriptors, zombies, and keys in Redis."""

from dataclasses import dataclass
from pathlib import Path

from portal import queueing
from testing.stack import children


@dataclass(frozen=True)
class Count:
    """What there was at an idle moment, `composites` after the start. Memory in KiB, by process id."""

    composites: int
    rss: dict[int, int]
    descriptors: dict[int, int]
    zombies: int
    keys: int


def resident(pid: int) -> int:
    """Memory of a process in KiB, what it shares with others included."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def descriptors(pid: int) -> int:
    """Open files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def zombies(pid: int) -> int:
    """Children that have ended and that nobody has waited for."""
    states = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children(pid))
    return sum(state == "Z" for state in states)


def keys() -> int:
    """Keys in Redis but for the bells, which ring and fall silent."""
    return sum(not key.startswith(queueing.BELL.encode()) for key in queueing.connection().scan_iter(count=1000))


def count(composites: int, pool: int) -> Count:
    """The pool and its pollers as they are now."""
    family = [pool, *children(pool)]
    return Count(
        composites, {pid: resident(pid) for pid in family}, {pid: descriptors(pid) for pid in family},
        sum(zombies(pid) for pid in family), keys(),
    )  # fmt: skip
