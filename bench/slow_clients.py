"""How long /login takes while strangers hold the web process: half heads, half bodies and readers who do not read.

    python -m bench.slow_clients [--seconds 60] [--count 64] [--worker gthread]

Who is sent away comes back at once. Passes when the 95th percentile is below a second. `--worker`: another class of
gunicorn's than the Procfile's, to compare.
"""

import argparse
import json
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from flask_migrate import upgrade

from app import create_app
from bench.web import MIGRATIONS
from config import load_settings
from portal.extensions import db
from testing import served as serving
from testing.crowds import Crowd, crowd, login_seconds
from testing.measuring import grounds
from testing.measuring.quantiles import quantile
from testing.stack import stack

GOAL_SECONDS = 1.0
OURS = "ops.web_worker.WebWorker"


def run(seconds: float, count: int) -> dict[str, object]:
    """One crowd of so many of each kind, for so long."""
    with ExitStack() as exits:
        running = exits.enter_context(stack(exits.enter_context(grounds.folder()), tempo=1))
        with create_app(load_settings(running.environment)).app_context():
            upgrade(MIGRATIONS)
            db.session.remove()
            db.engine.dispose()
        port = serving.free_port()
        process = exits.enter_context(serving.served(running, port))
        quiet = login_seconds(port, lambda times: times < 40)
        held = exits.enter_context(crowd(port, count))
        over = threading.Event()
        stirring = threading.Thread(target=_stir, args=(held, over), daemon=True)
        stirring.start()
        until = time.monotonic() + seconds
        took = login_seconds(port, lambda times: time.monotonic() < until or times < 2)
        memory = _peak_mb(process.pid)
        over.set()
        stirring.join(10)
    return {
        "seconds": seconds, "each": count, "asked": len(took), "quiet_p95_ms": round(quantile(quiet, 0.95) * 1000),
        "p50_ms": round(quantile(took, 0.5) * 1000), "p95_ms": round(quantile(took, 0.95) * 1000),
        "longest_ms": round(max(took) * 1000), "peak_mb": memory, "pass": quantile(took, 0.95) < GOAL_SECONDS,
    }  # fmt: skip


def _stir(held: Crowd, over: threading.Event) -> None:
    while not over.wait(1):
        held.stir()


def _peak_mb(pid: int) -> float:
    """The most that gunicorn's worker has had in memory."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    peaks = [line for child in children for line in Path(f"/proc/{child}/status").read_text().splitlines()
             if line.startswith("VmHWM")]  # fmt: skip
    return max((round(int(line.split()[1]) / 1024, 1) for line in peaks), default=0.0)


def main() -> None:
    """Hold, ask, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--worker", default=OURS)
    given = parser.parse_args()
    said = serving.command()
    serving.command = lambda: said.replace(OURS, given.worker)
    found = run(given.seconds, given.count)
    print(json.dumps({"bench": "slow_clients", "worker": given.worker, **found}))
    raise SystemExit(0 if found["pass"] else 1)


if __name__ == "__main__":
    main()
