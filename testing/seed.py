"""A database as it looks after a while, for tests and for looking at pages: few or many rows. Not part of the product.

    INSTANCE=/tmp/somewhere DATABASE_URL=sqlite:////tmp/somewhere/facho.db python -m testing.seed many

Makes the tables, users viewer, operator and admin (password = "facho-" + name + "-2026"), OLTs with workflows,
executions, ONUs and pollers.
"""

import random
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from app import create_app
from portal import clock
from portal import tables as m
from portal.domain.statuses import (
    AlertKind,
    AttemptStatus,
    ErrorKind,
    ExecutionStatus,
    NodeKind,
    NotificationStatus,
    OltState,
    PollerStatus,
    Presence,
    Role,
    Severity,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.extensions import db, transaction
from portal.services.people import users
from testing import seed_quotas
from testing.builders import make_attempt, make_execution, make_olt, make_onus, make_poller, make_pool, make_step
from testing.cast import password_of

CITIES = ("LIMA", "CUSCO", "PIURA", "TACNA", "ICA", "PUNO", "HUARAZ", "TRUJILLO", "AREQUIPA", "IQUITOS")


@dataclass(frozen=True)
class Size:
    """How much to make. `onus`: per OLT."""

    olts: int
    executions: int
    onus: int
    pollers: int
    busy: int
    pending: int


SIZES = {
    "empty": Size(olts=0, executions=0, onus=0, pollers=0, busy=0, pending=0),
    "few": Size(olts=2, executions=40, onus=24, pollers=3, busy=1, pending=1),
    "many": Size(olts=300, executions=5000, onus=60, pollers=24, busy=22, pending=140),
}


class Seeder:
    """Fills one session. Random numbers are seeded: the same size gives the same rows."""

    def __init__(self, session: Session, size: Size, now: datetime) -> None:
        self.session, self.size, self.now = session, size, now
        self.random = random.Random(7)
        self.olts: list[m.Olt] = []
        self.masters: list[m.WorkflowNode] = []

    def ago(self, seconds: float) -> datetime:
        return self.now - timedelta(seconds=seconds)

    def fill(self) -> None:
        self.olts = list(self.session.scalars(select(m.Olt).order_by(m.Olt.id)))
        for n, olt in enumerate(self.olts):
            self._state(olt, n)
            self._workflow(olt)
        self._read()
        self._onus()
        self._past()
        self.pool = make_pool(self.now, pid=4000, size=self.size.pollers, started_at=self.ago(40_000))
        self._present()
        self._pool()
        seed_quotas.fill(self.session, self.masters, self.now)
        add_alerts(self.session, self.now)

    def _state(self, olt: m.Olt, n: int) -> None:
        olt.state, olt.state_since = OltState.UP, self.ago(86400)
        if self.size.olts <= 10:
            return
        if n % 41 == 7:
            olt.state, olt.state_since, olt.consecutive_failures = OltState.UNREACHABLE, self.ago(600 + n), 4
            olt.probes_sent, olt.probe_at = 9, self.now + timedelta(seconds=45)
        elif n % 59 == 11:
            olt.state, olt.state_since, olt.paused_reason = OltState.PAUSED, self.ago(3000), "Mantenimiento del nodo"
        elif n % 73 == 20:
            olt.enabled = False

    def _workflow(self, olt: m.Olt) -> None:
        """As rows: a hundred times faster than one service call after another, and of OIDs no catalogue has."""
        flow = m.Workflow(olt_id=olt.id)
        common = {"workflow": flow, "last_run_at": self.ago(50),
                  "last_success_at": self.ago(self.random.randint(5, 280))}  # fmt: skip
        clock = {"next_run_at": self.now + timedelta(seconds=self.random.randint(5, 900)), "anchor_at": self.ago(86400)}

        def node(key: str, name: str, metric: str, **fields: Any) -> m.WorkflowNode:
            given = {"kind": NodeKind.GET, "priority": 40} | common | fields
            return m.WorkflowNode(key=key, name=name, oid=f"{olt.brand.key}.{metric}", **given)

        states = {"kind": NodeKind.DISCOVERY, "interval_seconds": 900, "priority": 90, "position": 0} | clock
        discovery = node("discovery", "Descubrimiento", "onu_state", **states)
        power = node("rx", "Potencia RX", "onu_rx_power", interval_seconds=300, position=1, **clock)
        self.session.add_all([flow, discovery, power])
        self.session.flush()
        for position, (key, name) in enumerate((("description", "Descripción"), ("serial", "Número de serie"))):
            self.session.add(node(key, name, f"onu_{key}", position=position, master_id=power.id))
        self.masters += [discovery, power]

    def _read(self) -> None:
        """Of the first Huawei a connection test, a few interfaces, a trial, what was learned."""
        done = {"requested_by": "admin", "created_at": self.ago(30), "finished_at": self.ago(29)}
        told = {"sysdescr": "Huawei Integrated Access Software", "sysname": "OLT", "uptime_s": 9000, "rtt_ms": 3,
                "sysobjectid": "1.3.6.1.4.1.2011.2.294", "brand": "huawei", "model": "MA5800",
                "fits": ["huawei.MA5800"]}  # fmt: skip
        olt = next(olt for olt in self.olts if olt.brand.key == "huawei")
        self.session.add(m.Probe(olt_id=olt.id, address=olt.address, port=161, credential_id=olt.credential_id,
                                 status=m.ProbeStatus.SUCCESS, result=told, **done))  # fmt: skip
        pattern = r"GPON (?P<frame>\d{1,2})/(?P<slot>\d{1,2})/(?P<port>\d{1,2})"
        self.session.add(m.IndexFormula(brand_id=olt.brand_id, name="huawei_gpon_name", kind="string",
                                        definition={"pattern": pattern}))  # fmt: skip
        for place in range(3):
            self.session.add(m.PonPort(olt_id=olt.id, index_key=str(4194312192 + (place << 8)), frame=0, slot=1,
                                       port=place, name=f"GPON 0/1/{place}", last_seen=self.ago(60)))  # fmt: skip
        column = "1.3.6.1.4.1.2011.6.128.1.1.2"
        self._learned(olt, column)
        rows = [{"index": f"4194312192.{n}", "at": [0, 1, 0, n], "raw": str(1 + n % 2), "reason": "",
                 "value": "offline" if n % 2 else "online", "online": not n % 2} for n in range(6)]  # fmt: skip
        shown = {"metric": "onu_state", "oid": f"{column}.46.1.15", "unit": "", "rows": 6, "missing": 0,
                 "complete": True, "shown": rows}  # fmt: skip
        result = {"rows": 6, "pdus": 2, "timeouts": 0, "ms": 41, "complete": True, "cut": False, "columns": [shown]}
        self.session.add(m.Trial(olt_id=olt.id, oid="huawei.onu_state", mode=m.TrialMode.WALK, started_at=self.ago(30),
                                 status=m.TrialStatus.SUCCESS, result=result, **done))  # fmt: skip

    def _learned(self, olt: m.Olt, column: str) -> None:
        """A table that fails on 40 values, one that never failed, and how the interfaces' names are read."""
        seen = [(40, "too_big", 5000), (20, "answered", 5000), (20, "answered", 900)]
        moments = [[size, outcome, self.ago(age).isoformat()] for size, outcome, age in seen]
        self.session.add_all([
            m.TableSize(olt_id=olt.id, operation="walk", root=f"{column}.46.1", size=20, too_big=40,
                        evidence=moments, learned_at=self.ago(900), retry_larger_after=self.ago(-80000)),
            m.TableSize(olt_id=olt.id, operation="get", root=f"{column}.51.1", size=80, too_big=None,
                        evidence=[[80, "answered", self.ago(60).isoformat()]], learned_at=self.ago(60)),
            m.OltIndexFamily(olt_id=olt.id, space="huawei_gpon", formula="huawei_gpon", digest="0" * 64,
                             evidence={"names": 16, "tried": [{"formula": "huawei_gpon", "agree": 16, "contradict": 0,
                                                               "first": None}]}, decided_at=self.ago(9000)),
        ])  # fmt: skip

    def _onus(self) -> None:
        for olt in self.olts:
            for onu in make_onus(olt.id, [self._onu(olt, n) for n in range(self.size.onus)], self.ago(30 * 86400)):
                power = self.random.gauss(-20.5, 3.2)
                reading = round(power, 2) if onu.online else None
                self.session.add(m.OnuData(onu_id=onu.id, metric="onu_rx_power", number=reading, raw=str(reading or ""),
                                           collected_at=self.ago(self.random.randint(5, 290))))  # fmt: skip

    def _onu(self, olt: m.Olt, n: int) -> dict[str, Any]:
        online = self.random.random() > 0.06
        return {
            "index_key": f"4194304{n // 8:03d}.{n % 8}", "frame": 0, "slot": 1 + n // 32, "port": n // 8 % 16,
            "onu_number": n % 8, "serial": f"48575443{olt.id:04X}{n:04X}", "model": "HG8546M",
            "description": f"CLI-{olt.id:03d}{n:04d} Pérez <Ñandú>", "presence_since": self.ago(30 * 86400),
            "presence": Presence.ENABLED if n % 29 else Presence.DISABLED, "state": 1 if online else 2,
            "state_label": "online" if online else "offline", "online": online,
            "last_seen": self.ago(self.random.randint(5, 900)),
            "last_state_change": self.ago(self.random.randint(60, 90000)),
        }  # fmt: skip

    def _past(self) -> None:
        for n in range(self.size.executions):
            node = self.masters[n % len(self.masters)]
            begin = self.ago((self.size.executions - n) * (86400 / self.size.executions) + 5)
            self._ended(node, begin, n)

    def _ended(self, node: m.WorkflowNode, begin: datetime, n: int) -> None:
        dice, status, kind, message = self.random.random(), ExecutionStatus.SUCCESS, None, ""
        if dice > 0.94:
            status, kind = ExecutionStatus.FAILED, ErrorKind.TIMEOUT
            message = f"no answer from {node.workflow.olt.address}:161 in 4.0 s"
        elif dice > 0.925:
            status, kind = ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED
        span = self.random.randint(300, 42_000)
        delay = self.random.choice((120, 240, 900, 1400, 4200, 31_000))
        manual = n % 37 == 0
        execution = make_execution(
            node, begin, status=status, trigger=Trigger.MANUAL if manual else Trigger.SCHEDULE,
            requested_by="operator" if manual else "", started_at=begin + timedelta(milliseconds=delay),
            finished_at=begin + timedelta(milliseconds=delay + span), duration_ms=span, delay_ms=delay,
            attempt=2 if kind is ErrorKind.TIMEOUT else 1, worker=f"poller-vm1-{n % 10 + 1}-1700000000",
            error_kind=kind, error_message=message,
        )  # fmt: skip
        if n > self.size.executions - 400:
            self._attempts(execution, node)

    def _attempts(self, execution: m.Execution, node: m.WorkflowNode) -> None:
        same = ("worker", "duration_ms", "error_kind", "error_message")
        for number in range(1, execution.attempt + 1):
            attempt = make_attempt(
                execution, number, token=execution.id * 10 + number, status=AttemptStatus(execution.status.value),
                **{name: getattr(execution, name) for name in same},
            )  # fmt: skip
            self._steps(attempt, node, failed=execution.status is not ExecutionStatus.SUCCESS)

    def _steps(self, attempt: m.ExecutionAttempt, node: m.WorkflowNode, *, failed: bool) -> None:
        for position, key in enumerate(
            ["discovery"] if node.kind is NodeKind.DISCOVERY else ["rx", "description", "serial"]
        ):
            if failed and position:
                skipped = {"status": StepStatus.SKIPPED, "skip_reason": SkipReason.TIMED_OUT_EARLIER}
                make_step(attempt, key, position, node_id=node.id, **skipped)
                continue
            error = {"status": StepStatus.FAILED, "timeouts": 2, "error_kind": attempt.error_kind,
                     "error_message": attempt.error_message}  # fmt: skip
            make_step(
                attempt, key, position, node_id=node.id, started_at=attempt.started_at,
                duration_ms=self.random.randint(200, 14_000), pdus=self.random.randint(2, 40),
                rows=0 if failed else self.size.onus, **(error if failed else {}),
            )  # fmt: skip

    def _present(self) -> None:
        running = self.masters[1::2][: self.size.busy]
        for number, node in enumerate(running, 1):
            self._running(node, number)
        waiting = [node for node in self.masters if node not in running][: self.size.pending]
        for n, node in enumerate(waiting):
            late = self.random.randint(1, 90)
            asked = {"trigger": Trigger.MANUAL, "requested_by": "operator"} if n % 13 == 2 else {}
            retry = {"attempt": 1, "not_before": self.now + timedelta(seconds=85)} if n % 9 == 4 else {}
            slot = self.ago(late + (200 if retry else 0))
            make_execution(node, slot, queued_at=self.ago(late), **asked, **retry)

    def _running(self, node: m.WorkflowNode, number: int) -> None:
        since = self.random.randint(1, 40)
        held: dict[str, Any] = {"worker": f"poller-vm1-{number}-1700000000", "token": 900_000 + number}
        execution = make_execution(
            node, self.ago(since + 1), status=ExecutionStatus.RUNNING, attempt=1, started_at=self.ago(since),
            delay_ms=1000, **held,
        )  # fmt: skip
        make_attempt(execution, status=AttemptStatus.RUNNING, **held)
        self._poller(
            number, status=PollerStatus.BUSY, current_node_id=node.id, current_olt_id=execution.olt_id,
            current_execution_id=execution.id, busy_since=self.ago(since), busy_last_minute=56.0,
        )  # fmt: skip

    def _poller(self, number: int, **busy: Any) -> None:
        lost = self.size.pollers > 10 and number == self.size.pollers
        given = {"busy_last_minute": 12.0} | busy
        make_poller(
            self.pool, number, worker=f"poller-vm1-{number}-1700000000", pid=4000 + number,
            busy_time=self.random.randint(2000, 30_000), tasks_completed=self.random.randint(100, 3000),
            tasks_delayed=self.random.randint(0, 30), seen_at=self.ago(95) if lost else self.now, **given,
        )  # fmt: skip

    def _pool(self) -> None:
        for number in range(self.size.busy + 1, self.size.pollers + 1):
            self._poller(number)
        for n in range(360):
            share = self.random.gauss(58 if self.size.busy > 5 else 18, 9) + (25 if 120 < n < 170 else 0)
            self.session.add(m.PollerStats(
                total_pollers=self.size.pollers, busy_pollers=self.size.busy, timestamp=self.ago((360 - n) * 10),
                queue_size=int(max(0, self.random.gauss(self.size.pending, 4) - 4)),
                busy_percentage=max(4.0, min(99.0, share)),
            ))  # fmt: skip
        self.session.add(
            m.SchedulerState(id=1, leader="vm1:4242", last_tick_at=self.now, last_tick_ms=7, last_planned=3)
        )


def add_users(now: datetime) -> None:
    """One user of each role."""
    for role in Role:
        users.create(role.value, password_of(role.value), role, "cli", now)


def add_alerts(session: Session, now: datetime) -> None:
    """One channel; its latest alert waits, the others were sent."""
    channel = m.Channel(name="NOC", kind="json", host="alertas.example", target="jsons://alertas.example/secret",
                        alert_kinds=list(AlertKind), last_sent_at=now - timedelta(minutes=18))  # fmt: skip
    olt = session.query(m.Olt).order_by(m.Olt.id).limit(1).one()
    for number in reversed(range(6)):
        moment = now - timedelta(minutes=17 * number + 1)
        sent = number > 0
        session.add(m.Notification(
            channel=channel, alert_kind=AlertKind.OLT_UNREACHABLE, severity=Severity.HIGH,
            subject=f"{olt.name} does not answer", body="3 runs in a row ended without any answer.",
            olt_id=olt.id, created_at=moment, queued_at=moment, tries=int(sent),
            status=NotificationStatus.SENT if sent else NotificationStatus.PENDING,
            sent_at=moment + timedelta(seconds=4) if sent else None,
        ))  # fmt: skip


def fill(size: Size, now: datetime) -> None:
    """Rows in an empty database, in an app context."""
    for n in range(size.olts):
        city, kind = CITIES[n % len(CITIES)], ("huawei", "MA5800") if n % 3 else ("zte", "C320")
        place = {"address": f"10.{n // 250}.{n % 250}.2", "site": city.title(), "brand": kind[0], "model": kind[1]}
        make_olt(f"OLT-{city}-{n + 1:02d}", now - timedelta(days=40), **place)
    if size.olts:
        with transaction() as session:
            Seeder(session, size, now).fill()


def seed(app: Flask, size: str, now: datetime | None = None) -> None:
    """Tables, users and rows in the app's database, which must be empty."""
    moment = now or clock.now()
    with app.app_context():
        db.create_all()
        add_users(moment)
        fill(SIZES[size], moment)


def keep_alive(app: Flask) -> None:
    """Make scheduler and pollers look alive at this moment, as long as nobody really runs."""
    now = clock.now()
    with app.app_context(), transaction() as session:
        session.query(m.SchedulerState).update({"last_tick_at": now})
        session.query(m.Pool).update({"seen_at": now})
        session.query(m.Poller).filter(m.Poller.seen_at > now - timedelta(hours=5)).update({"seen_at": now})


if __name__ == "__main__":
    seed(create_app(), sys.argv[1] if len(sys.argv) > 1 else "few")
