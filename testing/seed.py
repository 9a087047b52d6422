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
from sqlalchemy.orm import Session

from app import create_app
from portal import clock
from portal import tables as m
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    ExecutionStatus,
    NodeKind,
    OltState,
    PollerStatus,
    Presence,
    Role,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.extensions import db, transaction
from portal.services.people import users
from testing import seed_alerts, seed_quotas
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
        self.node_olt: dict[int, m.Olt] = {}
        self.pool = m.Pool(name="vm1", host="vm1", pid=4000, size=size.pollers, started_at=now, seen_at=now)

    def ago(self, seconds: float) -> datetime:
        return self.now - timedelta(seconds=seconds)

    def fill(self) -> None:
        if self.size.olts:
            self._olts()
            self._onus()
            self._past()
            self._open_pool()
            self._present()
            self._pool()
            seed_quotas.fill(self.session, self.masters, self.now)
            seed_alerts.fill(self.session, self.now)
        self.session.flush()

    def _olts(self) -> None:
        brands = {key: m.Brand(key=key, name=name) for key, name in (("huawei", "Huawei"), ("zte", "ZTE"))}
        models = {
            "huawei": m.OltModel(key="MA5800", name="MA5800", brand=brands["huawei"], match={}),
            "zte": m.OltModel(key="C320", name="C320", brand=brands["zte"], match={}),
        }
        credential = m.Credential(name="lab", version="2c", community="public")
        for n in range(self.size.olts):
            key = "huawei" if n % 3 else "zte"
            olt = m.Olt(
                name=f"OLT-{CITIES[n % len(CITIES)]}-{n + 1:02d}",
                address=f"10.{n // 250}.{n % 250}.2",
                port=161,
                brand=brands[key],
                model=models[key],
                credential=credential,
                site=CITIES[n % len(CITIES)].title(),
                created_at=self.ago(40 * 86400),
                **self._state(n),
            )
            self.olts.append(olt)
        self.session.add_all(self.olts)
        self.session.flush()
        self.session.add(
            m.Probe(
                olt_id=self.olts[0].id,
                address=self.olts[0].address,
                port=161,
                credential_id=credential.id,
                requested_by="admin",
                status=m.ProbeStatus.SUCCESS,
                result={
                    "sysdescr": "Huawei Integrated Access Software",
                    "sysname": "OLT",
                    "uptime_s": 9000,
                    "rtt_ms": 3,
                    "sysobjectid": "1.3.6.1.4.1.2011.2.248",
                    "brand": "huawei",
                    "model": None,
                },
                created_at=self.ago(30),
                finished_at=self.ago(29),
            )
        )
        for olt in self.olts:
            self._workflow(olt)
        self.session.flush()
        self._catalogue(brands["huawei"])
        self.node_olt = {node.id: node.workflow.olt for node in self.masters}

    def _catalogue(self, brand: m.Brand) -> None:
        """Of Huawei: state and power with formula and state map; a few interfaces of the first Huawei, and a trial."""
        olt = next(olt for olt in self.olts if olt.brand is brand)
        fields = {"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}, "onu": {"part": 2, "bits": 8}}
        gpon = {"checks": [{"shift": 25, "bits": 7, "value": 125}], "fields": fields}
        formula = m.IndexFormula(brand_id=brand.id, name="huawei_gpon", kind="bitshift", definition=gpon)
        name = m.IndexFormula(brand_id=brand.id, name="huawei_gpon_name", kind="string", definition={
            "pattern": r"GPON (?P<frame>\d{1,2})/(?P<slot>\d{1,2})/(?P<port>\d{1,2})"})  # fmt: skip
        states = m.StateMap(brand_id=brand.id, name="run_state", states={
            "1": {"label": "online", "online": True}, "2": {"label": "offline", "online": False}})  # fmt: skip
        column = "1.3.6.1.4.1.2011.6.128.1.1.2"
        common = {"brand": brand, "shape": "onu", "formula": formula, "by_name": True, "source": "HUAWEI-XPON-MIB"}
        state = m.Oid(name="onu_state", oid=f"{column}.46.1.15", kind="discovery", value_type="state",
                      state_map=states, confidence="high", **common)  # fmt: skip
        power = m.Oid(name="onu_rx_power", oid=f"{column}.51.1.4", kind="get", value_type="number", scale=0.01,
                      unit="dBm", sentinels=[2147483647], safe_interval=300, dead_band=0.3, **common)  # fmt: skip
        self.session.add_all([formula, name, states, state, power])
        for place in range(3):
            self.session.add(m.PonPort(olt_id=olt.id, index_key=str(4194312192 + (place << 8)), frame=0, slot=1,
                                       port=place, name=f"GPON 0/1/{place}", last_seen=self.ago(60)))  # fmt: skip
        self._learned(olt, column)
        rows = [{"index": f"4194312192.{n}", "at": [0, 1, 0, n], "raw": str(1 + n % 2), "reason": "",
                 "value": "offline" if n % 2 else "online", "online": not n % 2} for n in range(6)]  # fmt: skip
        shown = {"metric": "onu_state", "oid": state.oid, "unit": "", "rows": 6, "missing": 0, "complete": True,
                 "shown": rows}  # fmt: skip
        self.session.add(
            m.Trial(olt_id=olt.id, oid="huawei.onu_state", mode=m.TrialMode.WALK, status=m.TrialStatus.SUCCESS,
                    requested_by="admin", created_at=self.ago(30), started_at=self.ago(30), finished_at=self.ago(29),
                    result={"rows": 6, "pdus": 2, "timeouts": 0, "ms": 41, "complete": True, "cut": False,
                            "columns": [shown]})
        )  # fmt: skip

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

    def _state(self, n: int) -> dict[str, Any]:
        if self.size.olts > 10 and n % 41 == 7:
            return {
                "state": OltState.UNREACHABLE,
                "state_since": self.ago(600 + n),
                "consecutive_failures": 4,
                "probes_sent": 9,
                "probe_at": self.now + timedelta(seconds=45),
            }
        if self.size.olts > 10 and n % 59 == 11:
            return {"state": OltState.PAUSED, "state_since": self.ago(3000), "paused_reason": "Mantenimiento del nodo"}
        if self.size.olts > 10 and n % 73 == 20:
            return {"enabled": False, "state": OltState.UP}
        return {"state": OltState.UP, "state_since": self.ago(86400)}

    def _workflow(self, olt: m.Olt) -> None:
        flow = m.Workflow(olt=olt)
        common = {
            "workflow": flow,
            "last_run_at": self.ago(50),
            "last_success_at": self.ago(self.random.randint(5, 280)),
        }
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

    def _onus(self) -> None:
        for olt in self.olts:
            rows = [self._onu(olt, n) for n in range(self.size.onus)]
            self.session.add_all(rows)
            self.session.flush()
            for onu in rows:
                power = self.random.gauss(-20.5, 3.2)
                reading = None if not onu.online else round(power, 2)
                self.session.add(
                    m.OnuData(
                        onu_id=onu.id,
                        metric="onu_rx_power",
                        number=reading,
                        raw="" if reading is None else str(reading),
                        collected_at=self.ago(self.random.randint(5, 290)),
                    )
                )

    def _onu(self, olt: m.Olt, n: int) -> m.Onu:
        online = self.random.random() > 0.06
        return m.Onu(
            olt_id=olt.id,
            index_key=f"4194304{n // 8:03d}.{n % 8}",
            frame=0,
            slot=1 + n // 32,
            port=n // 8 % 16,
            onu_number=n % 8,
            serial=f"48575443{olt.id:04X}{n:04X}",
            description=f"CLI-{olt.id:03d}{n:04d} Pérez <Ñandú>",
            model="HG8546M",
            presence=Presence.ENABLED if n % 29 else Presence.DISABLED,
            presence_since=self.ago(30 * 86400),
            state=1 if online else 2,
            state_label="online" if online else "offline",
            online=online,
            first_seen=self.ago(30 * 86400),
            last_seen=self.ago(self.random.randint(5, 900)),
            last_state_change=self.ago(self.random.randint(60, 90000)),
        )

    def _execution(self, node: m.WorkflowNode, **fields: Any) -> m.Execution:
        olt = self.node_olt[node.id]
        return m.Execution(
            node_id=node.id,
            olt_id=olt.id,
            node_name=node.name,
            device_key=olt.device_key,
            priority=node.priority,
            **fields,
        )

    def _past(self) -> None:
        for n in range(self.size.executions):
            node = self.masters[n % len(self.masters)]
            begin = self.ago((self.size.executions - n) * (86400 / self.size.executions) + 5)
            self._ended(node, begin, n)
            if n % 1000 == 999:
                self.session.flush()

    def _ended(self, node: m.WorkflowNode, begin: datetime, n: int) -> None:
        olt, dice = self.node_olt[node.id], self.random.random()
        status, kind, message = ExecutionStatus.SUCCESS, None, ""
        if dice > 0.94:
            status, kind, message = (
                ExecutionStatus.FAILED,
                ErrorKind.TIMEOUT,
                f"no answer from {olt.address}:161 in 4.0 s",
            )
        elif dice > 0.925:
            status, kind = ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED
        span = self.random.randint(300, 42_000)
        delay = self.random.choice((120, 240, 900, 1400, 4200, 31_000))
        manual = n % 37 == 0
        execution = self._execution(
            node,
            status=status,
            trigger=Trigger.MANUAL if manual else Trigger.SCHEDULE,
            requested_by="operator" if manual else "",
            scheduled_for=begin,
            queued_at=begin,
            started_at=begin + timedelta(milliseconds=delay),
            finished_at=begin + timedelta(milliseconds=delay + span),
            duration_ms=span,
            delay_ms=delay,
            attempt=2 if kind is ErrorKind.TIMEOUT else 1,
            worker=f"poller-vm1-{n % 10 + 1}-1700000000",
            error_kind=kind,
            error_message=message,
        )
        self.session.add(execution)
        if n > self.size.executions - 400:
            self.session.flush()
            self._attempts(execution, node)

    def _attempts(self, execution: m.Execution, node: m.WorkflowNode) -> None:
        started = execution.started_at or self.now
        for number in range(1, execution.attempt + 1):
            failed = execution.status is not ExecutionStatus.SUCCESS
            attempt = m.ExecutionAttempt(
                execution_id=execution.id,
                number=number,
                worker=execution.worker,
                token=execution.id * 10 + number,
                status=AttemptStatus(execution.status.value),
                started_at=started,
                finished_at=execution.finished_at,
                duration_ms=execution.duration_ms,
                error_kind=execution.error_kind,
                error_message=execution.error_message,
            )
            self.session.add(attempt)
            self.session.flush()
            self._steps(attempt, node, failed)

    def _steps(self, attempt: m.ExecutionAttempt, node: m.WorkflowNode, failed: bool) -> None:
        keys = ["discovery"] if node.kind is NodeKind.DISCOVERY else ["rx", "description", "serial"]
        for position, key in enumerate(keys):
            dead, skipped = failed and position == 0, failed and position > 0
            self.session.add(
                m.ExecutionStep(
                    attempt_id=attempt.id,
                    position=position,
                    node_id=node.id,
                    node_key=key,
                    status=StepStatus.FAILED if dead else StepStatus.SKIPPED if skipped else StepStatus.SUCCESS,
                    skip_reason=SkipReason.TIMED_OUT_EARLIER if skipped else None,
                    started_at=None if skipped else attempt.started_at,
                    duration_ms=None if skipped else self.random.randint(200, 14_000),
                    pdus=0 if skipped else self.random.randint(2, 40),
                    timeouts=2 if dead else 0,
                    rows=0 if failed else self.size.onus,
                    error_kind=attempt.error_kind if dead else None,
                    error_message=attempt.error_message if dead else "",
                )
            )

    def _open_pool(self) -> None:
        self.pool.started_at = self.ago(40_000)
        self.session.add(self.pool)
        self.session.flush()

    def _present(self) -> None:
        running = self.masters[1::2][: self.size.busy]
        for number, node in enumerate(running, 1):
            self._running(node, number)
        waiting = [node for node in self.masters if node not in running][: self.size.pending]
        for n, node in enumerate(waiting):
            late = self.random.randint(1, 90)
            retry = n % 9 == 4
            self.session.add(
                self._execution(
                    node,
                    status=ExecutionStatus.PENDING,
                    trigger=Trigger.MANUAL if n % 13 == 2 else Trigger.SCHEDULE,
                    scheduled_for=self.ago(late + (200 if retry else 0)),
                    attempt=1 if retry else 0,
                    not_before=self.now + timedelta(seconds=85) if retry else None,
                    queued_at=self.ago(late),
                    requested_by="operator" if n % 13 == 2 else "",
                )
            )

    def _running(self, node: m.WorkflowNode, number: int) -> None:
        since = self.random.randint(1, 40)
        worker = f"poller-vm1-{number}-1700000000"
        execution = self._execution(
            node,
            status=ExecutionStatus.RUNNING,
            scheduled_for=self.ago(since + 1),
            queued_at=self.ago(since + 1),
            attempt=1,
            started_at=self.ago(since),
            delay_ms=1000,
            worker=worker,
            token=900_000 + number,
        )
        self.session.add(execution)
        self.session.flush()
        self.session.add(
            m.ExecutionAttempt(
                execution_id=execution.id, number=1, worker=worker, token=900_000 + number, started_at=self.ago(since)
            )
        )
        self.session.add(self._poller(number, execution, since))

    def _poller(self, number: int, execution: m.Execution | None, since: int = 0) -> m.Poller:
        lost = self.size.pollers > 10 and number == self.size.pollers
        busy = (
            {
                "status": PollerStatus.BUSY,
                "current_node_id": execution.node_id,
                "current_olt_id": execution.olt_id,
                "current_execution_id": execution.id,
                "busy_since": self.ago(since),
            }
            if execution
            else {"status": PollerStatus.FREE}
        )
        return m.Poller(
            pool_id=self.pool.id,
            host="vm1",
            poller_id=number,
            worker=f"poller-vm1-{number}-1700000000",
            pid=4000 + number,
            **busy,
            busy_time=self.random.randint(2000, 30_000),
            busy_last_minute=56.0 if execution else 12.0,
            tasks_completed=self.random.randint(100, 3000),
            tasks_delayed=self.random.randint(0, 30),
            started_at=self.ago(40_000),
            seen_at=self.ago(95) if lost else self.now,
        )

    def _pool(self) -> None:
        for number in range(self.size.busy + 1, self.size.pollers + 1):
            self.session.add(self._poller(number, None))
        for n in range(360):
            share = max(
                4.0, min(99.0, self.random.gauss(58 if self.size.busy > 5 else 18, 9) + (25 if 120 < n < 170 else 0))
            )
            self.session.add(
                m.PollerStats(
                    total_pollers=self.size.pollers,
                    busy_pollers=self.size.busy,
                    queue_size=int(max(0, self.random.gauss(self.size.pending, 4) - 4)),
                    busy_percentage=share,
                    timestamp=self.ago((360 - n) * 10),
                )
            )
        self.session.add(
            m.SchedulerState(id=1, leader="vm1:4242", last_tick_at=self.now, last_tick_ms=7, last_planned=3)
        )


def add_users(now: datetime) -> None:
    """One user of each role."""
    for role in Role:
        users.create(role.value, password_of(role.value), role, "cli", now)


def seed(app: Flask, size: str, now: datetime | None = None) -> None:
    """Tables, users and rows in the app's database, which must be empty."""
    moment = now or clock.now()
    with app.app_context():
        db.create_all()
        add_users(moment)
        with transaction() as session:
            Seeder(session, SIZES[size], moment).fill()


def keep_alive(app: Flask) -> None:
    """Make scheduler and pollers look alive at this moment, as long as nobody really runs."""
    now = clock.now()
    with app.app_context(), transaction() as session:
        session.query(m.SchedulerState).update({"last_tick_at": now})
        session.query(m.Pool).update({"seen_at": now})
        session.query(m.Poller).filter(m.Poller.seen_at > now - timedelta(hours=5)).update({"seen_at": now})


if __name__ == "__main__":
    seed(create_app(), sys.argv[1] if len(sys.argv) > 1 else "few")
