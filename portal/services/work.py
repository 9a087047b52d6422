"""From a started execution to the work a poller does: target, steps, known ONUs. Reads only."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.statuses import NodeKind, Presence
from portal.models import Credential, Execution, Olt, Onu, WorkflowNode
from portal.services import catalogue


def target_of(olt: Olt, credential: Credential) -> SnmpTarget:
    """How to talk to `olt`, secrets in clear."""
    return target(
        credential, olt.address, olt.port, olt.timeout, olt.retries,
        max_repetitions=olt.max_repetitions, max_varbinds=olt.max_varbinds, max_inflight=olt.max_inflight,
    )  # fmt: skip


def target(credential: Credential, address: str, port: int, timeout: float, retries: int, **sizes: int) -> SnmpTarget:
    """A target from a credential and an address."""
    return SnmpTarget(
        address=address, port=port, timeout=timeout, retries=retries, version=credential.version,
        community=credential.community or "", username=credential.username,
        auth_protocol=credential.auth_protocol, auth_password=credential.auth_password or "",
        priv_protocol=credential.priv_protocol, priv_password=credential.priv_password or "",
        **sizes,
    )  # fmt: skip


def compose(session: Session, execution: Execution) -> CompositeWork:
    """The composite of `execution`, which is RUNNING: the master, then its enabled chained nodes in order."""
    olt, master = execution.olt, execution.node
    assert master is not None and execution.token is not None  # noqa: S101  (started executions have both)
    nodes = [master, *(node for node in master.chained if node.enabled)]
    return CompositeWork(
        execution_id=execution.id,
        token=execution.token,
        olt_id=olt.id,
        target=target_of(olt, olt.credential),
        steps=tuple(_step(session, olt, node) for node in nodes),
        onu_keys=_onu_keys(session, olt.id) if any(node.kind is NodeKind.GET for node in nodes) else (),
    )


def _step(session: Session, olt: Olt, node: WorkflowNode) -> StepWork:
    specs = tuple(_spec(session, olt, text.strip(), node.key) for text in node.oid.split(","))
    return StepWork(node.id, node.key, node.kind, specs, float(node.time_limit), node.stop_on_failure)


def _spec(session: Session, olt: Olt, text: str, node_key: str) -> ReadingSpec:
    row = catalogue.resolve(session, olt, text)
    return catalogue.reading_spec(row, text, row.name if row is not None else node_key)


def _onu_keys(session: Session, olt_id: int) -> tuple[str, ...]:
    query = select(Onu.index_key).where(Onu.olt_id == olt_id, Onu.presence == Presence.ENABLED).order_by(Onu.id)
    return tuple(session.scalars(query))
