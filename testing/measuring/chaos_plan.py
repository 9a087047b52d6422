"""What a run of `bench.chaos` is asked for, and which faults in which order make it."""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

PHASES = ((0.12, 0.22), (0.45, 0.55), (0.85, 0.93))  # shares of the run in which replies are swallowed


@dataclass(frozen=True)
class Plan:
    """What to run, and what to do to it meanwhile."""

    composites: int
    olts: int
    pollers: int
    interval: int
    minutes: float
    kills: int
    stops: int
    freezes: int
    hosts: int
    cuts: int
    flushes: int
    leaders: int
    outage: int
    swallow: bool
    checkpoints: bool
    postgres: bool
    seed: int
    keep: Path | None


def schedule(plan: Plan) -> list[tuple[float, str]]:
    """(share of the composites, fault) in order. Of ten kills six hit a busy poller, two any poller, two a horse."""
    kinds = ["kill_worker"] * 6 + ["kill_any_worker"] * 2 + ["kill_horse"] * 2
    dice = random.Random(plan.seed)
    kills = (kinds * (plan.kills // len(kinds) + 1))[: plan.kills]
    dice.shuffle(kills)
    faults = [((at + 0.5) / len(kills), kind) for at, kind in enumerate(kills)]
    once = {
        "stop_worker": plan.stops, "freeze": plan.freezes, "kill_host": plan.hosts, "cut_redis": plan.cuts,
        "flush_redis": plan.flushes, "kill_leader": plan.leaders, "freeze_leader": min(plan.leaders, 1),
        "outage": int(plan.outage > 0),
    }  # fmt: skip
    for kind, count in once.items():
        faults += [((at + dice.uniform(0.3, 0.7)) / count * 0.96, kind) for at in range(count)]
    if plan.swallow:
        faults += [pair for begin, end in PHASES for pair in ((begin, "swallow"), (end, "pass"))]
    return sorted(faults)


def plan_from(arguments: list[str], description: str | None = None) -> Plan:
    """The command line as a plan."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = {"composites": 4000, "olts": 40, "pollers": 6, "interval": 15, "kills": 100, "stops": 10, "freezes": 15,
               "hosts": 1, "cuts": 4, "flushes": 1, "leaders": 2, "outage": 0, "seed": 1}  # fmt: skip
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--minutes", type=float, default=20, help="end after so long, whatever is done; default 20")
    parser.add_argument("--no-swallow", dest="swallow", action="store_false", help="the proxy passes every reply")
    parser.add_argument("--no-checkpoints", dest="checkpoints", action="store_false", help="the negative control")
    parser.add_argument("--postgres", action="store_true", help="on a private PostgreSQL; default SQLite")
    parser.add_argument("--keep", type=Path, help="folder for logs and database, left behind")
    return Plan(**vars(parser.parse_args(arguments)))
