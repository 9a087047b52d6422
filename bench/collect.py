"""What collecting costs: from the wire to stored rows, beside `snmpbulkwalk` of the same columns in the same run.

One simulated OLT (oltsim.c) with `--onus` ONUs; a composite of one BULK node reads `--columns` of their columns and the
product stores them. Three runs of each driver and database: all values new, all changed, none changed. CPU is that of
this process, of the session's threads and of the database server; of the agent nothing is counted.
"""

import argparse
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask_migrate import upgrade
from sqlalchemy import func, select

from app import create_app
from config import load_settings
from jobs import drivers, poller
from jobs.worker import GARBAGE_EVERY
from portal.domain.composite import CompositeResult, CompositeWork, telling
from portal.domain.statuses import StepStatus
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.services.collecting import latest
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.services.importing import inventory
from portal.tables import Olt, Onu, OnuData, WorkflowNode
from testing.measuring import grounds
from testing.oltsim_c import oltsim
from testing.postgres import postgres_cluster

COLUMNS = ("huawei.onu_rx_power", "huawei.onu_olt_rx_power", "huawei.onu_temperature", "huawei.onu_distance",
           "huawei.onu_description", "huawei.onu_serial", "huawei.onu_state")  # fmt: skip
KINDS = ("new", "changed", "unchanged")
LEASE = timedelta(seconds=15)


@dataclass(frozen=True)
class Cost:
    """Of one composite."""

    wall: float  # seconds, reading alone
    cpu: float  # seconds, reading and storing, database server included
    cpu_reading: float
    pdus: int
    values: int
    stored: int
    octets: int


class Server:
    """CPU seconds of a PostgreSQL cluster, by /proc; of SQLite none."""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid

    def cpu(self) -> float:
        """User and system time of the postmaster, its children, and of those that have ended."""
        if self.pid is None:
            return 0.0
        running = (path for path in Path("/proc").iterdir() if path.name.isdigit())
        mine = [self.pid, *(int(path.name) for path in running if _parent(path) == self.pid)]
        return sum(_ticks(Path(f"/proc/{pid}/stat"), children=pid == self.pid) for pid in mine)


def _fields(stat: Path) -> list[str]:
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _parent(process: Path) -> int:
    found = _fields(process / "stat")
    return int(found[1]) if found else 0


def _ticks(stat: Path, *, children: bool) -> float:
    found = _fields(stat)
    parts = found[11:15] if children else found[11:13]
    return sum(map(int, parts)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def product(folder: Path, url: str, port: int, onus: int, columns: int, inflight: int) -> Iterator[None]:
    """The database with one OLT, whose ONUs are known, and an app context."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    environment = {"DATABASE_URL": url or f"sqlite:///{folder}/bench.db", "INSTANCE": str(folder), "SECRET_KEY": "x"}
    app = create_app(load_settings(os.environ | environment))
    with app.app_context():
        drivers.prepare()
        try:
            upgrade(str(Path(__file__).resolve().parents[1] / "migrations"))
            now = datetime.now(UTC)
            catalogue.sync(catalogue.load_shipped(), now)
            inventory.load(_inventory(port, columns, inflight), dry_run=False, actor="bench", now=now)
            yield
        finally:
            db.session.remove()
            db.engine.dispose()


def _inventory(port: int, columns: int, inflight: int) -> str:
    return f"""
credentials:
  - {{name: sim, version: 2c, community: public}}
olts:
  - name: SIM
    address: 127.0.0.1
    port: {port}
    brand: huawei
    model: MA5800
    credential: sim
    max_inflight: {inflight}
    max_repetitions: 50
    workflow:
      nodes:
        - {{key: discovery, kind: discovery, oid: huawei.onu_state, interval: 1h}}
        - {{key: all, kind: bulk, oid: "{", ".join(COLUMNS[:columns])}", interval: 1h}}
"""


def composite(key: str, server: Server, now: datetime) -> Cost:
    """One composite of the node, from the started execution to the committed result."""
    node_id = db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.key == key)).one()
    db.session.rollback()
    execution_id, _ = run_requests.run_now(node_id, "bench", now)
    work = executions.start(execution_id, 1, "bench", now, now + LEASE)
    if work is None:
        raise SystemExit("the composite was not started")
    gc.collect()  # as in a horse, which is forked anew for each composite
    gc.freeze()
    gc.set_threshold(GARBAGE_EVERY, 20, 20)
    before, wall, cpu = server.cpu(), time.monotonic(), time.process_time()
    result = poller.run(work, drivers.open_session, lambda: None, _now, time.monotonic)
    wall, reading = time.monotonic() - wall, time.process_time() - cpu
    _check(work, result)
    books = Books(work.olt_id, execution_id, telling(work.steps))
    executions.finish(execution_id, 1, result, _now(), books)
    spent = time.process_time() - cpu + server.cpu() - before
    pdus, octets = sum(step.pdus for step in result.steps), sum(step.octets for step in result.steps)
    return Cost(wall, spent, reading, pdus, books.counts["values"], books.counts["changed"], octets)


def _now() -> datetime:
    return datetime.now(UTC)


def _check(work: CompositeWork, result: CompositeResult) -> None:
    for step in result.steps:
        if step.status is not StepStatus.SUCCESS:
            raise SystemExit(f"{work.steps[0].key}: {step.status} {step.error_message}")


@contextmanager
def all_different() -> Iterator[None]:
    """What is stored looks other than what is read, at no cost to the database: each value has changed."""
    real = latest._SELECT
    latest._SELECT = real.replace(" reason,", " 'other',")
    try:
        yield
    finally:
        latest._SELECT = real


def measured(server: Server, runs: int) -> dict[str, list[Cost]]:
    """A discovery, then the BULK node: all new, all changed, none changed; the best of `runs` of the last two."""
    now = datetime.now(UTC)
    composite("discovery", server, now)
    found: dict[str, list[Cost]] = {"new": [composite("all", server, now + timedelta(minutes=1))]}
    for kind in KINDS[1:]:
        found[kind] = []
        for number in range(runs):
            moment = now + timedelta(minutes=2 + number + (runs if kind == "unchanged" else 0))
            with all_different() if kind == "changed" else nullcontext():
                found[kind].append(composite("all", server, moment))
    return found


def bulkwalk(port: int, columns: int) -> dict[str, Any]:
    """`snmpbulkwalk` of the same columns, one after the other, with its default of 10 rows a request and with 50."""
    if shutil.which("snmpbulkwalk") is None:
        return {"absent": "install Debian's package snmp to compare"}
    oids = _oids(columns)
    found = {}
    for rows in (10, 50):
        begin, values = time.monotonic(), 0
        for oid in oids:
            words = ["snmpbulkwalk", "-v2c", "-cpublic", f"-Cr{rows}", "-Onq", f"127.0.0.1:{port}", oid]
            done = subprocess.run(words, capture_output=True, check=True)  # noqa: S603
            values += done.stdout.count(b"\n")
        found[f"rows_{rows}_s"] = round(time.monotonic() - begin, 3)
        found["values"] = values
    return found


def _oids(columns: int) -> list[str]:
    olt = db.session.scalars(select(Olt)).one()
    rows = catalogue.find_all(db.session(), olt, set(COLUMNS[:columns]))
    db.session.rollback()
    return [row.oid for row in rows.values() if row is not None]


def figures(costs: dict[str, list[Cost]], plan: argparse.Namespace) -> dict[str, Any]:
    """Of one driver on one database."""
    last = costs["unchanged"][-1]
    first = costs["new"][0]
    reading = min(cost.cpu_reading for cost in costs["unchanged"])
    shown: dict[str, Any] = {
        "pdus_first": first.pdus, "pdus": last.pdus, "values": last.values,
        "octets_of_a_pdu": round(last.octets / last.pdus),
        "values_of_a_pdu": round(last.values / last.pdus, 1),
        "reading_s": round(last.wall, 3), "values_a_cpu_s_reading": round(last.values / reading),
    }  # fmt: skip
    for kind in KINDS:
        best = min(costs[kind], key=lambda cost: cost.cpu)
        shown[f"values_a_cpu_s_{kind}"] = round(best.values / best.cpu)
        shown[f"stored_{kind}"] = best.stored
    if plan.delay_ms:
        least = last.pdus * plan.delay_ms / 1000
        shown["time_over_pdus_x_delay"] = round(last.wall / least, 3)
    return shown


def peak_mib() -> int:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024


def main() -> int:
    """Run it; one JSON line for each driver and database, one for snmpbulkwalk."""
    plan = _plan()
    names = ["easysnmp", "gufo"] if plan.driver == "both" else [plan.driver]
    databases = ["sqlite", "postgresql"] if plan.database == "both" else [plan.database]
    with oltsim("--delay-us", str(int(plan.delay_ms * 1000)), olts=1, onus=plan.onus) as port:
        for name in databases:
            for driver in names:
                print(json.dumps({"driver": driver, "database": name, **_one(plan, port, driver, name)}), flush=True)
        with grounds.folder() as folder, product(folder, "", port, plan.onus, plan.columns, 1):
            print(json.dumps({"snmpbulkwalk": bulkwalk(port, plan.columns)}), flush=True)
    return 0


def _one(plan: argparse.Namespace, port: int, driver: str, database: str) -> dict[str, Any]:
    """In a process of its own, so that its memory and CPU are one driver's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.environ["SNMP_DRIVER"] = driver
        with os.fdopen(writer, "w") as out:
            out.write(json.dumps(_in_child(plan, port, database)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as result:
        text = result.read()
    os.waitpid(child, 0)
    if not text:
        raise SystemExit(f"{driver} on {database} failed, see above")
    return json.loads(text)  # type: ignore[no-any-return]


def _in_child(plan: argparse.Namespace, port: int, database: str) -> dict[str, Any]:
    with ExitStack() as exits:
        folder = exits.enter_context(grounds.folder())
        server, url = Server(None), ""
        if database == "postgresql":
            cluster = exits.enter_context(postgres_cluster())
            url = cluster.create_database()
            server = Server(cluster.process.pid if cluster.process else None)
        exits.enter_context(product(folder, url, port, plan.onus, plan.columns, plan.inflight))
        shown = figures(measured(server, plan.runs), plan)
        stored = db.session.scalar(select(func.count()).select_from(OnuData))
        onus = db.session.scalar(select(func.count()).select_from(Onu))
        return shown | {"onus": onus, "rows_in_onu_data": stored, "peak_MiB": peak_mib()}


def _plan() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onus", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=5, choices=range(1, len(COLUMNS) + 1))
    parser.add_argument("--delay-ms", type=float, default=0, help="service time of a request at the OLT")
    parser.add_argument("--inflight", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--driver", choices=("easysnmp", "gufo", "both"), default="both")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
