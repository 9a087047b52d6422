"""Dead OLTs: with a share of them silent, are the others read on time, how much is sent to the dead, and who finds them

when they come back? What was sent to a dead OLT is counted by the port it was sent to, not by the code under test.
Run: `python -m bench.dead [--dead 50] [--postgres] [--minutes 10]`; 3 minutes for a quick look.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from app import create_app
from config import load_settings
from portal.domain.statuses import ExecutionStatus, OltState
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.services.importing import inventory
from portal.services.network import olts
from portal.tables import Execution, Olt, Workflow, WorkflowNode
from testing import oltsim_c
from testing.measuring import clocks, grounds, judges
from testing.measuring.judges import Request
from testing.measuring.quantiles import quantile
from testing.stack import Stack, stack

ONUS = 128
REQUEST_MICROSECONDS = 60_000  # service time of one request, as a busy OLT has it
BACK_SECONDS = 120  # how long is waited for the OLTs that came back; the goal is 60

TEMPLATE = """
      - {key: discovery, kind: discovery, oid: huawei.onu_state, interval: 60s, override: bench}
"""


@dataclass(frozen=True)
class Plan:
    """What to run."""

    olts: int
    dead: int
    minutes: float
    control: float  # minutes without the dead ones, before
    pollers: int
    postgres: bool
    keep: Path | None  # where logs and database stay for a look

    @property
    def interval(self) -> int:
        """Seconds; shorter in a quick look, which would else be over before three runs are."""
        return 60 if self.minutes >= 6 else 30

    def shown(self) -> dict[str, object]:
        """For the line of JSON."""
        return {name: value for name, value in asdict(self).items() if name != "keep"} | {"interval": self.interval}


class Deaf:
    """Ports on which nothing answers. It keeps when and from which port each datagram came."""

    def __init__(self, count: int) -> None:
        self.heard: list[Request] = []
        self.port, self._sockets = _consecutive(count)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def listen(self) -> None:
        """From now on datagrams are counted."""
        self._thread.start()

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for number, one in enumerate(self._sockets):
                one.setblocking(False)
                selector.register(one, selectors.EVENT_READ, number)
            while not self._stop.is_set():
                for key, _ in selector.select(timeout=0.2):
                    _, (_, source) = key.fileobj.recvfrom(4096)  # type: ignore[union-attr]
                    self.heard.append((time.time(), key.data, source))

    def close(self) -> None:
        """Free the ports."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for one in self._sockets:
            one.close()


def _consecutive(count: int) -> tuple[int, list[socket.socket]]:
    """So many UDP ports in a row, bound; the first of them."""
    while True:
        bound: list[socket.socket] = []
        try:
            for _ in range(count):
                one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                bound.append(one)
                one.bind(("127.0.0.1", int(bound[0].getsockname()[1]) + len(bound) - 1 if len(bound) > 1 else 0))
            return int(bound[0].getsockname()[1]), bound
        except (OSError, OverflowError):
            for one in bound:
                one.close()


@contextmanager
def alive_at(port: int, count: int, log: Path) -> Iterator[None]:
    """Agents on ports that were deaf."""
    program = oltsim_c._built()
    words = ["--port", port, "--olts", count, "--onus", ONUS, "--delay-us", REQUEST_MICROSECONDS, "--log", log]
    process = subprocess.Popen([program, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("ready")  # noqa: S101
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def inventory_text(plan: Plan, port: int, dead_port: int) -> str:
    """The import file: one template on every OLT; the dead ones are named so and come last."""
    ports = [(f"LIVE-{n:03}", port + n) for n in range(plan.olts - plan.dead)]
    ports += [(f"DEAD-{n:03}", dead_port + n) for n in range(plan.dead)]
    lines = "\n".join(
        f"  - {{name: {name}, address: 127.0.0.1, port: {at}, brand: huawei, credential: sim, template: bench,"
        " timeout: 2, retries: 1}"
        for name, at in ports
    )
    return f"""
credentials: [{{name: sim, version: 2c, community: public}}]
templates:
  - name: bench
    nodes:
{TEMPLATE}
olts:
{lines}
"""


def run(plan: Plan) -> dict[str, object]:
    """The whole bench; the figures."""
    live = plan.olts - plan.dead
    with grounds.folder(plan.keep) as folder, ExitStack() as exits:
        options = ("--delay-us", str(REQUEST_MICROSECONDS), "--log", str(folder / "live.log"))
        url = exits.enter_context(grounds.database(postgres=plan.postgres))
        port = exits.enter_context(oltsim_c.oltsim(*options, olts=live, onus=ONUS))
        running = exits.enter_context(stack(folder, url, tempo=1, pollers=plan.pollers))
        running.run("db", "upgrade")
        app = create_app(load_settings(running.environment))
        with app.app_context():
            _start(plan, running)
            deaf = Deaf(plan.dead)  # after the processes, which would inherit its ports
            exits.callback(deaf.close)
            _load(inventory_text(plan, port, deaf.port))
            figures = _drive(plan, deaf, folder / "back.log")
            db.session.remove()
            db.engine.dispose()
        exits.close()  # the agents write the end of their logs
        return plan.shown() | figures | _overlaps(folder, deaf.heard)


def _load(text: str) -> None:
    now = datetime.now(UTC)
    catalogue.sync(catalogue.load_shipped(), now)
    inventory.load(text, dry_run=False, actor="bench", now=now)


def _overlaps(folder: Path, heard: list[Request]) -> dict[str, object]:
    """Two composites (or one and a probe) met at one OLT."""
    live, back = (list(judges.requests(folder / name)) for name in ("live.log", "back.log"))
    at_live = judges.overlaps(live, judges.usual_length(live))
    return {"overlaps": at_live + judges.overlaps(back, judges.usual_length(back)) + judges.overlaps(heard)}


def _start(plan: Plan, running: Stack) -> None:
    for name in ("scheduler", "pollers", "maintenance", "probes"):
        running.start(name)
    running.wait_until(lambda: grounds.fresh_pollers() == plan.pollers, "all pollers", 60)


def _drive(plan: Plan, deaf: Deaf, log: Path) -> dict[str, object]:
    control = _control(plan)
    deaf.listen()
    olts.set_enabled_many(_dead_ids(), True, "bench", datetime.now(UTC))
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    first = clocks.spread_first_runs(begin, plan.interval)
    returned = begin + timedelta(minutes=plan.minutes)
    clocks.sleep_until(returned)
    figures = control | _delays("", begin, returned) | _dead(plan, begin, returned, deaf)
    deaf.close()
    with alive_at(deaf.port, plan.dead, log):
        figures |= _return(plan)
        until = datetime.now(UTC)
        clocks.stop(until)
        figures["settled"] = clocks.settle(30)
    return figures | {"slots": _slots(plan, first, begin, until)}


def _slots(plan: Plan, first: dict[int, datetime], begin: datetime, until: datetime) -> dict[str, int]:
    """What became of each slot since `begin`."""
    query = select(Execution.node_id, Execution.scheduled_for).where(Execution.scheduled_for >= begin)
    ran = [(node or 0, moment) for node, moment in db.session.execute(query)]
    return asdict(judges.account(first, plan.interval, until, ran, clocks.skips()))


def _dead_ids() -> list[int]:
    return list(db.session.scalars(select(Olt.id).where(Olt.name.like("DEAD-%")).order_by(Olt.id)))


def _control(plan: Plan) -> dict[str, object]:
    """The live ones alone, before the dead are switched on."""
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    clocks.spread_first_runs(begin, plan.interval)
    olts.set_enabled_many(_dead_ids(), False, "bench", datetime.now(UTC))
    until = begin + timedelta(minutes=plan.control)
    clocks.sleep_until(until)
    return _delays("control_", begin, until)


def _delays(prefix: str, begin: datetime, until: datetime) -> dict[str, object]:
    """How late the live ones started; one that has not started counts as late as it is now."""
    now = datetime.now(UTC)
    rows = db.session.execute(
        select(Execution.delay_ms, Execution.scheduled_for, Execution.status)
        .join(Olt, Execution.olt_id == Olt.id)
        .where(Olt.name.like("LIVE-%"), Execution.scheduled_for >= begin, Execution.scheduled_for < until)
    ).all()
    db.session.rollback()
    late = [(now - row.scheduled_for).total_seconds() if row.delay_ms is None else row.delay_ms / 1000 for row in rows]
    found = {f"delay_p{share}_s": round(quantile(late, share / 100), 3) for share in (50, 95, 99)}
    found |= {"delay_max_s": round(max(late, default=0.0), 3), "runs": len(rows)}
    found |= {"failed": sum(row.status is ExecutionStatus.FAILED for row in rows), "load": round(os.getloadavg()[1], 1)}
    return {f"{prefix}live_{name}": value for name, value in found.items()}


def _dead(plan: Plan, begin: datetime, until: datetime, deaf: Deaf) -> dict[str, object]:
    """What the dead ones cost: runs until they were given up, seconds until then, datagrams that each received."""
    db.session.rollback()
    runs = Counter(
        db.session.scalars(
            select(Execution.olt_id).where(Execution.olt_id.in_(_dead_ids()), Execution.attempt > 0,
                                           Execution.scheduled_for >= begin)
        )
    )  # fmt: skip
    rows = list(db.session.scalars(select(Olt).where(Olt.id.in_(_dead_ids()))))
    db.session.rollback()
    heard = Counter(number for _, number, _ in deaf.heard)
    each = [heard[number] for number in range(plan.dead)]
    given_up = [(row.state_since - begin).total_seconds() for row in rows if row.state_since is not None]
    return {
        "dead_paused": sum(row.state is OltState.UNREACHABLE for row in rows),
        "dead_runs_min": min(runs[row.id] for row in rows),
        "dead_runs_max": max(runs[row.id] for row in rows),
        "dead_paused_after_max_s": round(max(given_up, default=float("inf")), 1),
        "dead_minutes": round((until - begin).total_seconds() / 60, 1),
        "dead_datagrams_max": max(each),
        "dead_datagrams_mean": round(sum(each) / len(each), 1),
        "dead_datagrams_per_minute_later": _rate_later(plan, deaf.heard, until),
    }


def _rate_later(plan: Plan, heard: list[Request], until: datetime) -> float:
    """Datagrams to one OLT in one of the last two minutes before the return: what an outage goes on to cost."""
    later = [seconds for seconds, _, _ in heard if seconds > until.timestamp() - 120]
    return round(len(later) / plan.dead / 2, 2)


def _return(plan: Plan) -> dict[str, object]:
    """Seconds from the return of the agents until each OLT is up, by looking at the rows."""
    began, up = time.monotonic(), dict[int, float]()
    missing = set(_dead_ids())

    def look() -> bool:
        states = db.session.execute(select(Olt.id, Olt.state).where(Olt.id.in_(missing - up.keys())))
        up.update({ident: time.monotonic() - began for ident, state in states if state is OltState.UP})
        return len(up) == plan.dead

    clocks.wait_for(look, BACK_SECONDS)
    next_runs = select(WorkflowNode.next_run_at).join(Workflow).where(Workflow.olt_id.in_(missing))
    return {
        "back": len(up),
        "back_p50_s": round(quantile(list(up.values()), 0.5), 1),
        "back_max_s": round(max(up.values(), default=float("inf")), 1),
        "back_with_clock": sum(moment is not None for moment in db.session.scalars(next_runs)),
    }


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--olts", type=int, default=100)
    parser.add_argument("--dead", type=int, default=30, help="how many of them are dead (F17: 50)")
    parser.add_argument("--minutes", type=float, default=10, help="with the dead; at least 3")
    parser.add_argument("--control", type=float, default=2, help="minutes without them, before")
    parser.add_argument("--pollers", type=int, default=10)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for logs and database, left behind")
    print(json.dumps(run(Plan(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
