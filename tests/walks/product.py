"""Reads a simulated OLT as the product does: nodes, executions, poller, tables; and hands back rows to compare."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache

from sqlalchemy import Connection, Engine, select
from sqlalchemy.orm import Session

from jobs import poller, probing
from jobs.drivers import open_session
from portal.domain.catalogue_data import Access, Shape
from portal.domain.composite import CompositeResult, SnmpTarget
from portal.domain.readings import Reading
from portal.domain.recognising import Knowledge
from portal.domain.statuses import ExecutionStatus, NodeKind
from portal.services.cataloguing import catalogue, recognition
from portal.services.dispatch import executions, run_requests
from portal.services.network import credentials, olts, workflows
from portal.tables import Credential, Execution, Oid, Olt, WorkflowNode
from testing.cast import ACTOR

LONGEST_OID_LIST = 250


def probe(session: Session, port: int) -> dict[str, object]:
    """What a connection test says of the OLT at this port."""
    target = SnmpTarget("127.0.0.1", port, "2c", community="public", timeout=3, retries=1)
    return probing.ask(target, open_session, time.monotonic, _knowledge(session.get_bind()))


@cache
def _knowledge(bind: Engine | Connection) -> Knowledge:
    """Of the shipped catalogue in this database, which no test here changes."""
    with Session(bind) as session:
        return recognition.knowledge(session)


def add_olt(session: Session, name: str, port: int, brand: str, model: str) -> Olt:
    """The OLT at this port, with a credential that the simulator takes; one that is there already stays as it is."""
    known = session.scalar(select(Olt).where(Olt.port == port))
    if known is not None:
        return known
    if session.scalar(select(Credential.id).where(Credential.name == "walks")) is None:
        secret = {"name": "walks", "version": "2c", "community": "public", "networks": "127.0.0.0/8"}
        credentials.save(secret, ACTOR, datetime.now(UTC))
    given = {"name": name, "address": "127.0.0.1", "port": port, "brand": brand, "model": model, "credential": "walks"}
    return session.get_one(Olt, olts.create(given | {"timeout": 3}, ACTOR, datetime.now(UTC)))


def rows_of(session: Session, olt: Olt, names: Iterable[str], prefix: str = "") -> dict[str, Oid]:
    """Name → the catalogue's row for this OLT; a name without one fails the test."""
    texts = {f"{prefix or olt.brand.key}.{name}": name for name in names}
    found = catalogue.find_all(session, olt, set(texts))
    missing = sorted(text for text, row in found.items() if row is None)
    assert not missing, f"the catalogue has no row for {missing} on {olt.model.key if olt.model else 'no model'}"
    return {name: row for text, name in texts.items() if (row := found[text]) is not None}


def kind_of(row: Oid) -> NodeKind:
    """How a column is read when nobody says otherwise."""
    if row.shape == Shape.ONU and row.kind == NodeKind.GET and row.access != Access.WALK:
        return NodeKind.GET
    return NodeKind(row.kind)


class Reader:
    """One OLT whose nodes run as in production, without Redis."""

    def __init__(self, session: Session, olt: Olt, prefix: str = "") -> None:
        self.session, self.olt_id, self.prefix = session, olt.id, prefix or olt.brand.key

    def read(self, kind: NodeKind, names: Sequence[str], chained: Sequence[tuple[NodeKind, Sequence[str]]] = ()) -> (
        dict[str, dict[str, Reading]]
    ):  # fmt: skip
        """Run one master over `names` with its chain; {name: {index: reading}} of all columns."""
        master = self._node(kind, names, None)
        for more, group in chained:
            self._node(more, group, master)
        result = self._run(master)
        columns = {(one.spec.oid, one.spec.metric): one.readings for step in result.steps for one in step.columns}
        asked = [name for group in (names, *(group for _, group in chained)) for name in group]
        rows = rows_of(self.session, self.session.get_one(Olt, self.olt_id), asked, self.prefix)
        return {
            name: {reading.index: reading for reading in columns[row.oid, row.metric or name]}
            for name, row in rows.items()
        }

    def _node(self, kind: NodeKind, names: Sequence[str], master: int | None) -> int:
        count = len(self.session.scalars(select(WorkflowNode.id)).all())
        clock = {"master_id": master} if master is not None else {"interval": "2h"}
        text = ",".join(f"{self.prefix}.{name}" for name in names)
        given = {"key": f"node_{count}", "kind": kind.value, "oid": text, "max_retries": 0}
        return workflows.add_node(self.olt_id, given | clock, ACTOR, datetime.now(UTC))

    def _run(self, master: int) -> CompositeResult:
        now = datetime.now(UTC)
        execution_id, _ = run_requests.run_now(master, ACTOR, now)
        work = executions.start(execution_id, execution_id, "walks", now, now)
        assert work is not None
        result = poller.run(work, open_session, lambda: None, lambda: datetime.now(UTC), time.monotonic)
        executions.finish(execution_id, execution_id, result, datetime.now(UTC))
        self.session.rollback()
        self.session.expire_all()
        execution = self.session.get_one(Execution, execution_id)
        assert execution.status is ExecutionStatus.SUCCESS, f"{execution.error_kind}: {execution.error_message}"
        return result


def in_groups(prefix: str, names: Iterable[str]) -> list[list[str]]:
    """Names in lists that fit the column of a node."""
    groups: list[list[str]] = [[]]
    for name in names:
        if groups[-1] and len(",".join(f"{prefix}.{one}" for one in (*groups[-1], name))) > LONGEST_OID_LIST:
            groups.append([])
        groups[-1].append(name)
    return [group for group in groups if group]
