"""What the measures of commits share: a fleet in tables, a result to write, processes to do it in."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from flask import Flask

from app import create_app
from config import load_settings
from jobs.worker import die_with_parent
from portal.domain.composite import ColumnReadings, CompositeResult, CompositeWork, StepResult, StepWork
from portal.domain.readings import Reading
from portal.domain.statuses import NodeKind, StepStatus
from portal.extensions import db, transaction
from portal.services.dispatch import rehearsal
from portal.tables import Brand, Credential, Oid, Olt, Workflow, WorkflowNode
from testing.measuring.grounds import database, folder

ONUS = 16  # of each OLT
STEPS = 2  # of each composite: a discovery and a walk
STATE, POWER = "1.3.6.1.4.1.99999.1", "1.3.6.1.4.1.99999.2"
_FORK = get_context("fork")


@contextmanager
def product(*, postgres: bool = False, url: str = "", where: Path | None = None) -> Iterator[Flask]:
    """The product on a new database with an app context pushed; without Redis and without processes of its own.

    `url`: a database that is there already.
    """
    with folder(where) as place, database(postgres=postgres and not url) as made:
        chosen = url or made or f"sqlite:///{place}/facho.db"
        settings = {"INSTANCE": str(place), "DATABASE_URL": chosen, "REDIS_URL": f"unix://{place}/no-redis.sock?db=0"}
        app = create_app(load_settings(settings))
        with app.app_context():
            db.create_all()
            try:
                yield app
            finally:
                disconnect()


def disconnect() -> None:
    """Before a fork and at the end: no connection is shared, none stays."""
    db.session.remove()
    db.engine.dispose()


def fill(olts: int, *, interval: int = 3600, first: datetime | None = None) -> dict[int, int]:
    """OLTs with one composite of two steps each, every `interval` seconds from `first` on (None: never due).

    Returns OLT id → id of its master.
    """
    with transaction() as session:
        now = datetime.now(UTC)
        brand, credential = Brand(key="bench", name="Bench"), Credential(name="bench", version="2c", community="bench")
        session.add_all([brand, credential])
        session.flush()
        common = {"brand": brand, "shape": "onu", "value_type": "number", "source": "bench"}
        session.add_all([
            Oid(name="state", oid=STATE, kind="discovery", **common),
            Oid(name="power", oid=POWER, kind="walk", **common),
        ])  # fmt: skip
        masters = {}
        for number in range(olts):
            olt = Olt(name=f"OLT-{number}", address=f"192.0.2.{number + 1}", port=161, brand=brand,
                      credential=credential, created_at=now)  # fmt: skip
            workflow = Workflow(olt=olt)
            master = WorkflowNode(
                workflow=workflow, key="state", name="state", kind=NodeKind.DISCOVERY, oid=STATE, priority=90,
                interval_seconds=interval, next_run_at=first, anchor_at=first,
            )  # fmt: skip
            chained = WorkflowNode(
                workflow=workflow, key="power", name="power", kind=NodeKind.WALK, oid=POWER, priority=40, master=master
            )
            session.add_all([olt, workflow, master, chained])
            session.flush()
            masters[olt.id] = master.id
    rehearsal.rehearse()
    return masters


def outcome(work: CompositeWork, value: int) -> CompositeResult:
    """A composite that went well; every reading is `value`, so that each run changes all rows."""
    return CompositeResult(tuple(_step(step, value) for step in work.steps))


def _step(step: StepWork, value: int) -> StepResult:
    now = datetime.now(UTC)
    readings = tuple(Reading(f"{onu}.1", value, str(value)) for onu in range(ONUS))
    columns = tuple(ColumnReadings(spec, readings, complete=True) for spec in step.specs)
    return StepResult(
        step.node_id, StepStatus.SUCCESS, columns, started_at=now, finished_at=now, pdus=2, rows=len(readings)
    )


def forked(app: Flask, body: Callable[[], None]) -> BaseProcess:
    """A child that runs `body` in an app context and dies with this process."""
    disconnect()
    child = _FORK.Process(target=_in_child, args=(app, os.getpid(), body))
    child.start()
    return child


def _in_child(app: Flask, parent: int, body: Callable[[], None]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(signal.SIGKILL, parent)
    with app.app_context():
        body()
        disconnect()
