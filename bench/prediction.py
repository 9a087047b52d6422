"""How often a run stays below the p95 that was predicted for it, on the time machine's drifting durations.

Run: `python -m bench.prediction`. Half a minute; prints one line of JSON.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from portal.domain import pace
from portal.domain.statuses import NodeKind
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.world import NodeSpec, OltSpec, build_node, build_olt

BEGIN = datetime(2026, 11, 27, tzinfo=UTC)
LOW, HIGH = 93.0, 97.0
PATTERNS = (("still", 0.0, 0.25), ("drifting 30 %", 0.3, 0.25), ("drifting 40 %, little noise", 0.4, 0.05))


@dataclass(frozen=True)
class Options:
    """What to measure."""

    nodes: int
    days: int
    interval: int


def durations(fortune: Fortune, node_id: int, options: Options) -> Iterator[int]:
    """Milliseconds of each run of a node."""
    spec = NodeSpec(node_id, 1, f"node-{node_id}", NodeKind.GET, options.interval, median=4.0 + node_id % 7)
    node = build_node(spec, build_olt(OltSpec(1, "OLT-1")))
    for number in range(options.days * 86_400 // options.interval):
        yield round(fortune.seconds(node, BEGIN + timedelta(seconds=number * options.interval)) * 1000)
        node.draws += 1


def coverage(fortune: Fortune, options: Options) -> tuple[float, float, float]:
    """Percent of runs within their p95: of all nodes, of the worst, of the best."""
    shares = []
    for node_id in range(1, options.nodes + 1):
        known: list[int] = []
        judged = within = 0
        for took in durations(fortune, node_id, options):
            if len(known) == pace.KEPT:
                judged += 1
                within += took <= pace.predict(known).p95_ms
            known = pace.learn(known, took)
        shares.append(100 * within / judged)
    return sum(shares) / len(shares), min(shares), max(shares)


def run(options: Options) -> dict[str, object]:
    """The whole benchmark; the figures."""
    figures = {}
    for name, drift, sigma in PATTERNS:
        mean, worst, best = coverage(Fortune(7, sigma=sigma, drift=drift), options)
        figures[name] = {"mean": round(mean, 2), "worst_node": round(worst, 2), "best_node": round(best, 2)}
    met = all(LOW <= one["mean"] <= HIGH for one in figures.values())
    runs = options.days * 86_400 // options.interval
    return {"nodes": options.nodes, "runs_each": runs, "covered_percent": figures, "goal": [LOW, HIGH], "goal_met": met}


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--interval", type=int, default=300)
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
