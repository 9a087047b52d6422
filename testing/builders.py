"""Rows for tests, made through the services where these make them: Huawei OLT-LIMA, ZTE OLT-CUSCO.

They need an app context. What only a poller writes (executions and their tries, ONUs, pollers) is put in as it is.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from portal.domain.catalogue_data import BrandData, parse
from portal.domain.quota import Counts
from portal.domain.statuses import AttemptStatus, StepStatus
from portal.extensions import Base, db
from portal.services.network import credentials, olts, workflows
from portal.services.people import users
from portal.tables import (
    Credential,
    Execution,
    ExecutionAttempt,
    ExecutionStep,
    Olt,
    Onu,
    Poller,
    Pool,
    QuotaTracker,
    User,
    WorkflowNode,
)
from testing import catalogues
from testing.cast import ACTOR, COMMUNITY, FAR_AWAY, HOUR, NOW, PASSWORD
from testing.rows import set_rows

Made = TypeVar("Made", bound=Base)


HUAWEI = parse(
    {
        "brand": {"key": "huawei", "name": "Huawei"},
        "models": [
            {"key": "MA5800", "name": "SmartAX MA5800", "match": {"sysobjectid": ["1.3.6.1.4.1.2011.2.248"]}},
            {"key": "MA5608T", "name": "SmartAX MA5608T"},
        ],
        "formulas": [
            {
                "name": "huawei_gpon", "kind": "bitshift", "checks": [{"shift": 25, "bits": 7, "value": 125}],
                "fields": {
                    "slot": {"shift": 13, "bits": 6},
                    "port": {"shift": 8, "bits": 5},
                    "onu": {"part": 2, "bits": 12},
                },
            }
        ],
        "state_maps": [
            {
                "name": "run_status",
                "states": {1: {"label": "online", "online": True}, 2: {"label": "offline", "online": False}},
            }
        ],
        "oids": [
            {
                "name": "onu_state", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15", "shape": "onu", "type": "state",
                "kind": "discovery", "states": "run_status", "formula": "huawei_gpon", "source": "test",
            },
            {
                "name": "onu_description", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.9", "shape": "onu", "type": "text",
                "formula": "huawei_gpon", "source": "test",
            },
            {
                "name": "onu_rx_power", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "shape": "onu", "type": "number",
                "scale": 0.01, "unit": "dBm", "sentinels": [2147483647], "safe_interval": 300,
                "formula": "huawei_gpon", "source": "test",
            },
            {
                "name": "if_name", "oid": "1.3.6.1.2.1.31.1.1.1.1", "shape": "port", "type": "text",
                "formula": "huawei_gpon", "source": "test",
            },
        ],
    },
    "huawei (test)",
)  # fmt: skip
ZTE = parse(
    {
        "brand": {"key": "zte", "name": "ZTE"},
        "models": [{"key": "C320", "name": "ZXA10 C320"}, {"key": "C600", "name": "ZXA10 C600"}],
        "state_maps": [{"name": "phase", "states": {3: {"label": "working", "online": True}}}],
        "oids": [
            {
                "name": "onu_state", "oid": "1.3.6.1.4.1.3902.1012.3.28.2.1.4", "shape": "onu", "type": "state",
                "kind": "discovery", "models": ["C320"], "states": "phase", "source": "test",
            },
            {
                "name": "onu_state", "oid": "1.3.6.1.4.1.3902.1082.500.10.2.3.8.1.4", "shape": "onu", "type": "state",
                "kind": "discovery", "models": ["C600"], "states": "phase", "source": "test",
            },
            {
                "name": "onu_rx_power", "oid": "1.3.6.1.4.1.3902.1012.3.50.12.1.1.10", "shape": "onu", "type": "number",
                "scale": 0.002, "offset": -30, "unit": "dBm", "index_suffix": ".1", "safe_interval": 3600,
                "source": "test",
            },
        ],
    },
    "zte (test)",
)  # fmt: skip
GENERIC = parse(
    {
        "brand": {"key": "generic", "name": "Generic"},
        "oids": [
            {"name": "sysuptime", "oid": "1.3.6.1.2.1.1.3.0", "shape": "scalar", "type": "number", "source": "test"}
        ],
    },
    "generic (test)",
)
CATALOGUE: tuple[BrandData, ...] = (HUAWEI, ZTE, GENERIC)


def make_catalogue(now: datetime = NOW) -> None:
    """Brands huawei (MA5800, MA5608T), zte (C320, C600) and generic with a few OIDs each; once."""
    if catalogues.is_empty():
        catalogues.sync("test", lambda: CATALOGUE, now)


def make_credential(name: str = "lab", now: datetime = NOW, **fields: Any) -> Credential:
    """A v2c credential that may be sent anywhere; an existing one of that name is returned as it is."""
    found: Credential | None = db.session.query(Credential).filter_by(name=name).one_or_none()
    if found is not None:
        return found
    given = {"version": "2c", "community": COMMUNITY, "networks": "0.0.0.0/0, ::/0"} | fields | {"name": name}
    return db.session.get_one(Credential, credentials.save(given, ACTOR, now))


def make_olt(name: str = "OLT-LIMA", now: datetime = NOW, **fields: Any) -> Olt:
    """A Huawei MA5800 at an address of its own, unless `fields` say otherwise. Its ONUs count as read just now."""
    make_catalogue()
    credential = fields.pop("credential", "lab")
    make_credential(credential, now)
    number = db.session.query(Olt.id).count() + 1
    given = {"name": name, "address": f"10.20.{number // 250}.{number % 250 + 1}", "brand": "huawei"}
    given |= {"model": "MA5800"} if fields.get("brand", "huawei") == "huawei" else {}
    olt = db.session.get_one(Olt, olts.create(given | {"credential": credential} | fields, ACTOR, now))
    set_rows(Olt, Olt.id == olt.id, stale_at=FAR_AWAY)
    return olt


def make_three() -> list[WorkflowNode]:
    """OLT-A (1), OLT-B (2) and OLT-C (3); the discovery of each."""
    return [make_node(make_olt(f"OLT-{letter}")) for letter in "ABC"]


def make_zte(name: str = "OLT-CUSCO", now: datetime = NOW, **fields: Any) -> Olt:
    """A ZTE C320."""
    return make_olt(name, now, **({"brand": "zte", "model": "C320"} | fields))


def make_node(olt: Olt, key: str = "discovery", now: datetime = NOW, **fields: Any) -> WorkflowNode:
    """A master that discovers every 15 minutes, unless `fields` say otherwise."""
    given: dict[str, Any] = {"key": key, "kind": "discovery", "oid": f"{olt.brand.key}.onu_state"}
    if "cron" not in fields and "master_id" not in fields:
        given["interval"] = "15m"
    return db.session.get_one(WorkflowNode, workflows.add_node(olt.id, given | fields, ACTOR, now))


def make_chained(master: WorkflowNode, key: str = "description", now: datetime = NOW, **fields: Any) -> WorkflowNode:
    """A node that reads descriptions after `master`."""
    given: dict[str, Any] = {"kind": "get", "oid": "huawei.onu_description", "master_id": master.id}
    return make_node(master.workflow.olt, key, now, **(given | fields))


def make_execution(node: WorkflowNode, slot: datetime = NOW, **fields: Any) -> Execution:
    """An execution of `node` that waits since `slot`, unless `fields` say otherwise."""
    olt = node.workflow.olt
    given = {"node_id": node.id, "node_name": node.name, "olt_id": olt.id, "device_key": olt.device_key,
             "priority": node.priority, "scheduled_for": slot, "queued_at": slot}  # fmt: skip
    return _kept([Execution(**given | fields)])[0]


def make_attempt(execution: Execution, number: int = 1, **fields: Any) -> ExecutionAttempt:
    """A try that went well and lasted as long as the execution, unless `fields` say otherwise."""
    given = {"execution_id": execution.id, "number": number, "worker": "w", "token": number,
             "status": AttemptStatus.SUCCESS, "started_at": execution.started_at or execution.scheduled_for,
             "finished_at": execution.finished_at}  # fmt: skip
    return _kept([ExecutionAttempt(**given | fields)])[0]


def make_step(attempt: ExecutionAttempt, key: str = "serial", position: int = 0, **fields: Any) -> ExecutionStep:
    """A step that went well, unless `fields` say otherwise."""
    given = {"attempt_id": attempt.id, "position": position, "node_key": key, "status": StepStatus.SUCCESS}
    return _kept([ExecutionStep(**given | fields)])[0]


def make_onus(olt_id: int, rows: Iterable[dict[str, Any]], at: datetime = NOW) -> list[Onu]:
    """ONUs that were seen at that moment for the first and last time, unless their rows say otherwise."""
    given: dict[str, Any] = {"olt_id": olt_id, "first_seen": at, "last_seen": at}
    return _kept([Onu(**given | {"index_key": f"k.{n}"} | row) for n, row in enumerate(rows)])


def make_pool(now: datetime = NOW, **fields: Any) -> Pool:
    """Pool vm1 of one poller, which is not there yet."""
    given = {"name": "vm1", "host": "vm1", "pid": 1, "size": 1, "started_at": now, "seen_at": now}
    return _kept([Pool(**given | fields)])[0]


def make_poller(pool: Pool, number: int = 1, **fields: Any) -> Poller:
    """A free poller of that pool, seen when the pool was."""
    given = {"pool_id": pool.id, "host": pool.host, "poller_id": number, "worker": f"w{number}", "pid": number,
             "started_at": pool.started_at, "seen_at": pool.seen_at}  # fmt: skip
    return _kept([Poller(**given | fields)])[0]


def more_olts(session: Session, count: int, name: str = "X", **fields: Any) -> list[Olt]:
    """OLTs of the maker and credential of the first: for what must not cost more with many of them."""
    first = session.query(Olt).order_by(Olt.id).limit(1).one()
    given = {"brand_id": first.brand_id, "credential_id": first.credential_id, "created_at": first.created_at,
             "stale_at": FAR_AWAY}  # fmt: skip
    made = [Olt(name=f"{name}{n:03}", address=f"10.7.{n // 250}.{n % 250}", **given | fields) for n in range(count)]
    session.add_all(made)
    session.flush()
    return made


def tracker(olt_id: int, task_type: str, hour: datetime, counts: Counts, **fields: Any) -> QuotaTracker:
    """The quota of one hour as the coordinator would have left it; not yet saved."""
    given: dict[str, Any] = {f"quota_{name}": slots for name, slots in asdict(counts).items()}
    given |= {"olt_id": olt_id, "task_type": task_type, "period_start": hour, "period_end": hour + HOUR, "basis": [],
              "quota_required": counts.required, "created_at": hour, "updated_at": hour}  # fmt: skip
    return QuotaTracker(**given | fields)


def make_tracker(olt_id: int, task_type: str, hour: datetime, counts: Counts, **fields: Any) -> QuotaTracker:
    """The same, saved."""
    return _kept([tracker(olt_id, task_type, hour, counts, **fields)])[0]


def make_user(username: str = ACTOR, role: str = "admin", now: datetime = NOW, password: str = PASSWORD) -> User:
    """A user who can log in with PASSWORD."""
    return db.session.get_one(User, users.create(username, password, role, "cli", now))


def _kept(rows: list[Made]) -> list[Made]:
    session = db.session()
    session.add_all(rows)
    if session.info.get("writing"):  # the transaction() around it commits
        session.flush()
    else:
        session.commit()
    return rows
