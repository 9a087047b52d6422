"""A place to run the product in: agents, database, inventory, Redis. No judgement here."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import func, select

from app import create_app
from config import load_settings
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.services.importing import inventory
from portal.tables import Olt, Poller
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
    with tempfile.TemporaryDirectory(prefix="facho-bench-", dir="/tmp") as name:  # sockets: short paths
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
  - {{name: sim, version: 2c, community: public, networks: 127.0.0.0/8}}
templates:
  - name: bench
    nodes:
{template}
olts:
{lines}
"""


def fresh_pollers() -> int:
    """Rows of pollers, as they are now."""
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Poller)) or 0
