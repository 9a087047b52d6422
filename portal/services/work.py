"""From a started execution to the work a poller does: target, steps, known ONUs. Reads only."""

from collections.abc import Mapping

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, joinedload

from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.statuses import NodeKind, Presence
from portal.models import Credential, Execution, Oid, Olt, Onu, Workflow, WorkflowNode
from portal.services import catalogue, clock


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


def loaded(execution_id: int) -> Select[tuple[Execution]]:
    """The execution with all that decides whether it may run and what it reads, in one statement."""
    node = joinedload(Execution.node).joinedload(WorkflowNode.workflow).joinedload(Workflow.template)
    olt = joinedload(Execution.olt).options(*(joinedload(part) for part in (Olt.credential, Olt.brand, Olt.model)))
    return select(Execution).options(node, olt).where(Execution.id == execution_id)


def compose(session: Session, execution: Execution, token: int) -> CompositeWork:
    """The composite that `execution` is under `token`: the master, then its chained nodes that are active, in order.

    A chained node that somebody asked for runs alone.
    """
    olt, node = execution.olt, execution.node
    assert node is not None  # noqa: S101  (without its node an execution is not started)
    nodes = [node, *(chained for chained in node.chained if clock.runs(chained))]
    columns = catalogue.find_all(session, olt, {text for one in nodes for text in _texts(one)})
    return CompositeWork(
        execution_id=execution.id,
        token=token,
        olt_id=olt.id,
        target=target_of(olt, olt.credential),
        steps=tuple(_step(one, columns) for one in nodes),
        onu_keys=_onu_keys(session, olt.id) if any(one.kind is NodeKind.GET for one in nodes) else (),
    )


def _texts(node: WorkflowNode) -> list[str]:
    return [text.strip() for text in node.oid.split(",")]


def _step(node: WorkflowNode, columns: Mapping[str, Oid | None]) -> StepWork:
    specs = tuple(_spec(columns[text], text, node.key) for text in _texts(node))
    return StepWork(node.id, node.key, node.kind, specs, float(node.time_limit), node.stop_on_failure)


def _spec(row: Oid | None, text: str, node_key: str) -> ReadingSpec:
    return catalogue.reading_spec(row, text, row.name if row is not None else node_key)


def _onu_keys(session: Session, olt_id: int) -> tuple[str, ...]:
    query = select(Onu.index_key).where(Onu.olt_id == olt_id, Onu.presence == Presence.ENABLED).order_by(Onu.id)
    return tuple(session.scalars(query))
