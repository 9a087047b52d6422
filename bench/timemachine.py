"""The time machine's pace: 1,000 OLTs of 8 nodes at 5 minutes through planner, order, claims, quotas and log.

Run: `python -m bench.timemachine`: an hour to warm up, then `--hours` measured. With `--week`: a week of 200 OLTs of 8
nodes with edits, outages, restarts and slow OLTs; each hour's trackers are counted anew from its executions and skips.
Prints one line of JSON.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from portal.domain.statuses import NodeKind
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import Havoc, scenario
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World
from testing.cast import HOUR, TEN
from testing.virtual import cron_in, many_olts

GOAL = 300  # virtual seconds a real second


@dataclass(frozen=True)
class Options:
    """What to measure. Times in hours, virtual."""

    olts: int
    nodes: int
    pollers: int
    hours: int
    week: bool
    days: int
    seed: int


def even_world(options: Options) -> World:
    """Every node at 5 minutes, slots spread evenly, runs of 1.5 s."""
    chance, made = Random(options.seed), []
    for olt in range(1, options.olts + 1):
        for number in range(options.nodes):
            first = TEN + timedelta(seconds=chance.randrange(1, 301))
            kind, key = (NodeKind.GET, f"node-{number}") if number else (NodeKind.DISCOVERY, "discovery")
            ident = olt * options.nodes + number
            made.append(NodeSpec(ident, olt, key, kind, 300, first=first, priority=40 if number else 90, median=1.5))
    olts = tuple(OltSpec(number, f"OLT-{number:05}") for number in range(1, options.olts + 1))
    return World(olts, tuple(made), Rules({ALL_SITES: options.pollers}))


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGESIZE") / 1e6, 1)


def pace(options: Options) -> dict[str, object]:
    """Virtual seconds and composites for each real second, by the clock and of CPU, hour by hour; memory likewise."""
    machine = Machine(even_world(options), TEN, seed=options.seed, next_cron=cron_in("UTC"))
    machine.run(TEN + HOUR)
    hours, memory = [], [resident_mb()]
    before = machine.state.figures.composites
    for number in range(2, options.hours + 2):
        began, worked = time.perf_counter(), time.process_time()
        machine.run(TEN + number * HOUR)
        hours.append((time.perf_counter() - began, time.process_time() - worked))
        memory.append(resident_mb())
    wall, cpu = (sum(each) for each in zip(*hours, strict=True))
    composites = machine.state.figures.composites - before
    seconds = options.hours * 3600
    return {
        "olts": options.olts, "nodes": options.nodes, "pollers": options.pollers, "virtual_hours": options.hours,
        "composites": composites,
        "virtual_per_second": round(seconds / wall), "virtual_per_cpu_second": round(seconds / cpu),
        "composites_per_second": round(composites / wall), "composites_per_cpu_second": round(composites / cpu),
        "slowest_hour_virtual_per_cpu_second": round(3600 / max(each for _, each in hours)),
        "memory_mb": memory, "goal_virtual_per_second": GOAL, "goal_met": seconds / wall >= GOAL,
        "pool_busy_percent": round(machine.state.figures.pool_share(machine.state.serving, machine.state.now), 1),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def week(options: Options) -> dict[str, object]:
    """A week (or `days`) of trouble, with an audit and the check of all slots after each day's hours are settled."""
    next_cron = cron_in("America/Santiago")
    olts = min(options.olts, 200)
    world = many_olts(TEN, options.seed, next_cron, olts=olts, nodes=options.nodes, pollers=options.pollers,
                      intervals=(300,))  # fmt: skip
    end = TEN + timedelta(days=options.days)
    havoc = Havoc(edits=240, switches=24, outages=80, slow=80, restarts=4)
    events = scenario(world, TEN, end, options.seed, havoc)
    fortune = Fortune(options.seed, drift=0.4)
    machine = Machine(world, TEN, next_cron=next_cron, fortune=fortune, history=events, keep_all=True)
    began, differences, wrong, trackers, memory = time.perf_counter(), 0, 0, 0, []
    for day in range(1, options.days + 1):
        machine.run(TEN + timedelta(days=day))
        differences += len(machine.audit())
        wrong += len(machine.wrong_slots())
        trackers += machine.fold(machine.state.now - 6 * HOUR)
        memory.append(resident_mb())
    figures = machine.state.figures
    return {
        "olts": olts, "nodes": options.nodes, "days": options.days, "events": len(events),
        "composites": figures.composites, "ended": {key.value: slots for key, slots in figures.ended.items()},
        "skipped": {key.value: slots for key, slots in figures.skipped.items()},
        "trackers_folded": trackers, "differences": differences, "slots_not_in_one_state": wrong,
        "seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(time.process_time(), 1),
        "memory_mb": memory,
    }  # fmt: skip


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--olts", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--pollers", type=int, default=60)
    parser.add_argument("--hours", type=int, default=4, help="measured, after one to warm up")
    parser.add_argument("--week", action="store_true", help="the audited week instead")
    parser.add_argument("--days", type=int, default=7, help="of the audited week")
    parser.add_argument("--seed", type=int, default=1)
    options = Options(**vars(parser.parse_args()))
    print(json.dumps(week(options) if options.week else pace(options)))


if __name__ == "__main__":
    main()
