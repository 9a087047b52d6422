"""An OLT that dies between two runs: how long after its first silent run is it known, on the pages and by webhook?

One simulated OLT with nodes each 5 minutes is read once, then killed; the next run is made due at once, since what is
waited for is not its interval. Run: `python -m bench.silence [--postgres]`; under two minutes.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from sqlalchemy import func, select, update

from app import create_app
from config import load_settings
from jobs.snmp.simulator.farm import start_farm
from portal.domain.statuses import AlertKind, ExecutionStatus, OltState, Role
from portal.extensions import db, transaction
from portal.queries import dashboard, olts
from portal.services.alerting import channels
from portal.services.cataloguing import catalogue
from portal.services.importing import inventory
from portal.services.people import users
from portal.tables import Execution, ExecutionAttempt, Olt, WorkflowNode
from testing.measuring import grounds
from testing.receiver import receiver
from testing.stack import Stack, stack

INVENTORY = """
credentials: [{{name: sim, version: 2c, community: public}}]
templates:
  - name: bench
    nodes:
      - {{key: discovery, kind: discovery, oid: huawei.onu_state, interval: 5m}}
      - {{key: rx, kind: get, oid: huawei.onu_rx_power, interval: 5m}}
olts:
  - {{name: OLT-LIMA, address: 127.0.0.1, port: {port}, brand: huawei, credential: sim, template: bench,
     timeout: 2, retries: 1}}
"""
GOAL = 60


def run(*, postgres: bool) -> dict[str, object]:
    """Seconds from the end of the first silent try until each saw it."""
    with grounds.folder(None) as folder, ExitStack() as exits:
        url = exits.enter_context(grounds.database(postgres=postgres))
        farm = exits.enter_context(start_farm(("huawei@127.0.0.1:0,onus=64",)))
        hook = exits.enter_context(receiver())
        running = exits.enter_context(stack(folder, url, tempo=1, pollers=2))
        running.run("db", "upgrade")
        app = create_app(load_settings(running.environment))
        with app.app_context():
            now = datetime.now(UTC)
            catalogue.sync(catalogue.load_shipped(), now)
            inventory.load(INVENTORY.format(port=farm.ports[0]), dry_run=False, actor="bench", now=now)
            users.create("noc", "correct horse battery", Role.ADMIN, "bench", now)
            channels.save(
                {"name": "noc", "target": hook.url, "alert_kinds": [AlertKind.OLT_UNREACHABLE], "per_hour": "30"},
                "bench", now,
            )  # fmt: skip
            for name in ("scheduler", "pollers", "maintenance", "probes", "alerts"):
                running.start(name)
            _make_due()
            running.wait_until(lambda: _ended(ExecutionStatus.SUCCESS) >= 2, "two runs", 120)
            before = _online()
            farm.stop()
            _make_due()
            return {"postgres": postgres, "online_before": before} | _watch(running, hook.taken)


def _watch(running: Stack, taken: Sequence[object]) -> dict[str, object]:
    seen: dict[str, Callable[[], object]] = {
        "state": lambda: _state() is OltState.UNREACHABLE,
        "start_page": lambda: any(
            one.condition == "unreachable" for one in dashboard.overview(datetime.now(UTC)).troubled
        ),
        "list": lambda: olts.counts(olts.OltFilter()).get("unreachable"),
        "not_counted": lambda: _online() is None,
        "webhook": lambda: taken,
    }
    moments: dict[str, datetime] = {}
    running.wait_until(lambda: _first_silence() is not None, "a silent try", 120)
    until = time.monotonic() + 3 * GOAL
    while len(moments) < len(seen) and time.monotonic() < until:
        db.session.rollback()
        for name, happened in seen.items():
            if name not in moments and happened():
                moments[name] = datetime.now(UTC)
        time.sleep(0.2)
    first = _first_silence()
    assert first is not None  # noqa: S101
    return {
        f"{name}_s": round((moments[name] - first).total_seconds(), 1) if name in moments else None for name in seen
    }


def _make_due() -> None:
    with transaction() as session:
        session.execute(update(WorkflowNode).values(next_run_at=datetime.now(UTC)))


def _ended(status: ExecutionStatus) -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Execution).where(Execution.status == status)) or 0


def _state() -> OltState | None:
    return db.session.scalar(select(Olt.state))


def _online() -> int | None:
    db.session.rollback()
    return olts.page(olts.OltFilter()).rows[0].online


def _first_silence() -> datetime | None:
    db.session.rollback()
    return db.session.scalar(
        select(func.min(ExecutionAttempt.finished_at)).where(ExecutionAttempt.error_kind == "timeout")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    print(json.dumps(run(postgres=parser.parse_args().postgres)))
