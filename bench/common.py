"""What the benches share: a place to run the product in, quantiles, processes to signal. No judgement here."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import func, select, update

from app import create_app
from bench.judges import Skip
from config import load_settings
from portal.domain.statuses import ACTIVE, EventType
from portal.extensions import db, transaction
from portal.services.cataloguing import catalogue
from portal.services.importing import inventory
from portal.tables import CoordinatorLog, Execution, Olt, Poller, WorkflowNode
from testing.oltsim_c import oltsim
from testing.postgres import postgres_cluster
from testing.stack import Stack, stack


@dataclass(frozen=True)
class Ground:
    """The product ready to be started: database made and filled, agents running, an app context pushed."""

    running: Stack
    app: Flask
    port: int  # of the first OLT; OLT k of the agents' log has port + k

    def olt_ids(self) -> dict[int, int]:
        """Number in the agents' log → id in the database."""
        return {row.port - self.port: row.id for row in db.session.execute(select(Olt.id, Olt.port))}


@dataclass(frozen=True)
class Agents:
    """The simulated OLTs: how many, how many ONUs each, and the service time of a request."""

    olts: int
    onus: int
    microseconds: int


@contextmanager
def folder(kept: Path | None = None) -> Iterator[Path]:
    """`kept`, made if needed and left behind for a look at logs and database; else one that goes away."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="facho-bench-", dir="/tmp") as name:  # noqa: S108  (sockets: short paths)
        yield Path(name)


@contextmanager
def database(*, postgres: bool) -> Iterator[str]:
    """URL of a private PostgreSQL where asked for; "" is SQLite under the stack's own folder."""
    if not postgres:
        yield ""
        return
    with postgres_cluster() as cluster:
        yield cluster.create_database()


@contextmanager
def ground(
    where: Path, agents: Agents, template: str, *, postgres: bool, proxied: bool = False, olt_fields: str = "",
    **settings: Any,
) -> Iterator[Ground]:  # fmt: skip
    """Agents, Redis, database and inventory. The agents' log is complete once this context has ended.

    `template`: YAML of the nodes; `olt_fields`: more fields of each OLT, as `, timeout: 1`.
    """
    options = ("--delay-us", str(agents.microseconds), "--log", str(where / "requests.log"))
    with ExitStack() as exits:
        url = exits.enter_context(database(postgres=postgres))
        port = exits.enter_context(oltsim(*options, olts=agents.olts, onus=agents.onus))
        running = exits.enter_context(stack(where, url, proxied=proxied, tempo=1, **settings))
        running.run("db", "upgrade")
        app = create_app(load_settings(running.environment))
        exits.enter_context(app.app_context())
        exits.callback(_disconnect)
        _load(inventory_text(template, agents.olts, port, olt_fields))
        yield Ground(running, app, port)


def _disconnect() -> None:
    db.session.remove()
    db.engine.dispose()


def _load(text: str) -> None:
    now = datetime.now(UTC)
    catalogue.sync(catalogue.load_shipped(), now)
    inventory.load(text, dry_run=False, actor="bench", now=now)


def inventory_text(template: str, olts: int, port: int, olt_fields: str = "") -> str:
    """The import file: one template on every OLT, one request at once: the judges tell composites by their socket."""
    lines = "\n".join(
        f"  - {{name: SIM-{n:03}, address: 127.0.0.1, port: {port + n}, brand: huawei,"
        f" credential: sim, template: bench, max_inflight: 1{olt_fields}}}"
        for n in range(olts)
    )
    return f"""
credentials:
  - {{name: sim, version: 2c, community: public}}
templates:
  - name: bench
    nodes:
{template}
olts:
{lines}
"""


def spread_first_runs(begin: datetime, interval: int) -> dict[int, datetime]:
    """All masters on `interval` seconds (also below what the portal allows), first slots spread over one of them.

    Returns node id → first slot.
    """
    with transaction() as session:
        masters = list(session.scalars(select(WorkflowNode.id).where(WorkflowNode.master_id.is_(None))))
        first = {node: begin + timedelta(seconds=at * interval // len(masters)) for at, node in enumerate(masters)}
        for node, moment in first.items():
            values = {"next_run_at": moment, "anchor_at": moment, "interval_seconds": interval}
            session.execute(update(WorkflowNode).where(WorkflowNode.id == node).values(values))
    return first


def fresh_pollers() -> int:
    """Rows of pollers, as they are now."""
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Poller)) or 0


def stop_the_clocks(until: datetime, seconds: float = 60) -> None:
    """Every slot up to `until` is decided, later ones never come. The schedulers go on: the reaper needs them."""
    masters = WorkflowNode.master_id.is_(None)
    behind = select(WorkflowNode.id).where(masters, WorkflowNode.next_run_at <= until).limit(1)
    wait_for(lambda: db.session.scalars(behind).first() is None, seconds)
    moving = select(WorkflowNode.id).where(masters, WorkflowNode.next_run_at.is_not(None)).limit(1)
    while db.session.scalars(moving).first() is not None:  # a tick in the middle may write one more time
        with transaction() as session:
            session.execute(update(WorkflowNode).where(masters).values(next_run_at=None))
        time.sleep(1.5)
    db.session.rollback()


def skips() -> list[Skip]:
    """The slots that were logged as skipped: node, first and last."""
    query = select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SLOT_SKIPPED)
    return [
        (row.node_id or 0, datetime.fromisoformat(row.details["first"]), datetime.fromisoformat(row.details["last"]))
        for row in db.session.scalars(query)
    ]


def settle(seconds: float) -> bool:
    """Wait for what is active to end; False when something still is after so long."""
    active = select(Execution.id).where(Execution.status.in_(ACTIVE)).limit(1)
    return wait_for(lambda: db.session.scalars(active).first() is None, seconds)


def wait_for(true: Callable[[], object], seconds: float, pause: float = 0.2) -> bool:
    """Look at the database afresh until `true()`; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        db.session.rollback()
        if true():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)


def sleep_until(moment: datetime) -> None:
    """Wait for a moment of the wall clock."""
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, 1.0))


def send(pid: int, number: signal.Signals) -> bool:
    """A signal to a process of ours; False when it had ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
