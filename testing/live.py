"""A running stack seen by a test: OLTs to poll, slots that are due, and what became of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, select, update

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.services.dispatch import rehearsal
from portal.services.network import credentials, olts, workflows
from portal.tables import Credential, Execution, ExecutionAttempt, Onu, Poller, WorkflowNode
from testing import catalogues
from testing.cast import ACTOR
from testing.oltsim_c import oltsim
from testing.stack import Stack, children, stack

LOG = "requests.log"  # of the agents, under the folder of polled()


@dataclass
class Live:
    """Helpers around a Stack. Needs the app context that the fixture pushes."""

    stack: Stack
    now: datetime

    def olt(self, name: str, port: int, brand: str = "huawei", community: str = "public", **fields: object) -> int:
        """An OLT on loopback, with the shipped catalogue; its id. One request at once: a socket is a composite."""
        if catalogues.is_empty():
            catalogues.sync("shipped", catalogue.load_shipped, self.now)
        known = db.session.query(Credential.id).filter_by(name=community).first()
        if known is None:
            credentials.save({"name": community, "community": community, "networks": "127.0.0.0/8"}, ACTOR, self.now)
        given = {"name": name, "address": "127.0.0.1", "port": port, "brand": brand, "credential": community}
        given["max_inflight"] = 1
        return olts.create(given | fields, ACTOR, self.now)

    def node(self, olt_id: int, key: str, oid: str, kind: str = "get", **fields: object) -> int:
        """A node of its workflow; a master every minute unless it has a master_id, the first slot when due_now() is
        called: a slot that came by itself in the minutes of a test would be a run that the test does not expect."""
        clock = {} if "master_id" in fields else {"interval": "60s", "override_reason": "test"}
        made = workflows.add_node(olt_id, {"key": key, "kind": kind, "oid": oid} | clock | fields, ACTOR, self.now)
        self._slots_at(self.now + timedelta(hours=1), WorkflowNode.id == made)
        return made

    def start(self, *names: str) -> None:
        """Start these processes; without names those that polling needs."""
        for name in names or ("scheduler", "pollers", "maintenance"):
            self.stack.start(name)

    def due_now(self, seconds_ago: int = 1) -> None:
        """Every master's slot comes at once, its next one a whole interval later.

        A slot exists once: of two within one second only the first would run, so give these other seconds.
        """
        self._slots_at(datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=seconds_ago))

    def _slots_at(self, moment: datetime, *of: ColumnElement[bool]) -> None:
        db.session.rollback()
        masters = update(WorkflowNode).where(WorkflowNode.master_id.is_(None), *of)
        db.session.execute(masters.values(next_run_at=moment, anchor_at=moment))
        db.session.commit()

    def executions(self, olt_id: int | None = None) -> list[Execution]:
        """As they are now, oldest first."""
        db.session.rollback()
        db.session.expire_all()
        query = select(Execution).order_by(Execution.id)
        return list(db.session.scalars(query.where(Execution.olt_id == olt_id) if olt_id else query))

    def attempts(self) -> list[ExecutionAttempt]:
        """All tries as they are now, oldest first."""
        db.session.rollback()
        db.session.expire_all()
        return list(db.session.scalars(select(ExecutionAttempt).order_by(ExecutionAttempt.id)))

    def onus(self, olt_id: int) -> list[Onu]:
        """ONUs of an OLT by index."""
        db.session.rollback()
        return list(db.session.scalars(select(Onu).where(Onu.olt_id == olt_id).order_by(Onu.id)))

    def workers(self) -> list[int]:
        """Process ids of the pollers that the pool keeps alive."""
        return children(self.stack.processes["pollers"].pid)

    def busy_poller(self) -> Poller:
        """A poller in the middle of a composite; waits for one."""
        found: list[Poller] = []

        def there() -> bool:
            db.session.rollback()
            query = select(Poller).join(Execution, Execution.id == Poller.current_execution_id)
            running = Execution.status == ExecutionStatus.RUNNING
            found[:] = db.session.scalars(query.where(running, Execution.worker == Poller.worker))
            return bool(found) and found[0].pid in self.workers() and bool(children(found[0].pid))

        self.stack.wait_until(there, "a busy poller")
        return found[0]

    def horse(self) -> int:
        """Process id of the forked child of a busy poller."""
        return children(self.busy_poller().pid)[0]

    def wait_for(self, status: ExecutionStatus, olt_id: int | None = None, count: int = 1, timeout: float = 60) -> None:
        """Until so many executions have that status."""

        def there() -> bool:
            return sum(e.status is status for e in self.executions(olt_id)) >= count

        self.stack.wait_until(there, f"{count} executions {status}", timeout)

    def let_pass(self, seconds: float) -> None:
        """What is done to the product lasts so long."""
        end = time.monotonic() + seconds
        self.stack.wait_until(lambda: time.monotonic() >= end, "time to pass", seconds + 10)


@contextmanager
def polled(
    folder: Path, database_url: str, *, olts: int = 1, microseconds: int = 50_000, **options: Any
) -> Iterator[Live]:
    """OLTs with one composite of 17 requests each, `microseconds` a request; no process is started yet.

    The agents' log, `folder / LOG`, is complete when this context has ended. `options` are those of stack().
    """
    settings = {"pollers": 2, "quarantine_seconds": 0, "lease_seconds": 4, "auto_pause_after": 0} | options
    agents = ("--delay-us", str(microseconds), "--log", str(folder / LOG))
    with oltsim(*agents, olts=olts, onus=32) as port, stack(folder, database_url, **settings) as running:
        with seen(running) as live:
            for number in range(olts):
                olt = live.olt(f"OLT-{number}", port + number, max_repetitions=2, timeout=1, retries=0)
                live.node(olt, "discovery", "huawei.onu_state", "discovery", max_retries=0)
            yield live


@contextmanager
def seen(running: Stack) -> Iterator[Live]:
    """The same database and Redis seen from this process, with an app context pushed."""
    with running.app().app_context():
        if db.engine.dialect.name == "sqlite":  # PostgreSQL would not count ids from 1 any more
            rehearsal.rehearse()  # what is compiled here all its forks have
        try:
            yield Live(running, datetime.now(UTC))
        finally:
            db.session.remove()
            db.engine.dispose()
