"""From a started execution to the work a poller does: target, steps, known ONUs. Reads only."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from flask import current_app
from sqlalchemy import Select, select
from sqlalchemy.orm import Session, joinedload

from portal.domain import addresses
from portal.domain.composite import CompositeWork, Progress, ReadingSpec, SnmpTarget, StepWork
from portal.domain.formulas import IndexFormula
from portal.domain.statuses import NodeKind, Presence
from portal.services.cataloguing import catalogue, index_families
from portal.services.collecting import devices, table_sizes
from portal.tables import Credential, Execution, Oid, Olt, Onu, Workflow, WorkflowNode


def target_of(olt: Olt, credential: Credential) -> SnmpTarget:
    """How to talk to `olt`, secrets in clear. A model whose GETBULK lies (quirk 7) is walked row by row."""
    bulk = olt.model is None or olt.model.bulk
    aim = target(credential, olt.address, olt.port, olt.timeout, olt.retries, approved=olt.credential_approved)
    return replace(
        aim, max_repetitions=olt.max_repetitions if bulk else 1, max_varbinds=olt.max_varbinds,
        max_inflight=olt.max_inflight,
    )  # fmt: skip


def target(
    credential: Credential, address: str, port: int, timeout: float, retries: int, *, approved: bool
) -> SnmpTarget:  # fmt: skip
    """A target from a credential and an address; `approved`: also outside the networks of the credential."""
    return SnmpTarget(
        address=address, port=port, timeout=timeout, retries=retries, version=credential.version,
        community=credential.community or "", username=credential.username,
        auth_protocol=credential.auth_protocol, auth_password=credential.auth_password or "",
        priv_protocol=credential.priv_protocol, priv_password=credential.priv_password or "",
        networks=current_app.config["OLT_NETWORKS"],
        secret_networks=None if approved else addresses.listed(credential.networks),
    )  # fmt: skip


def loaded(execution_id: int) -> Select[tuple[Execution]]:
    """The execution with all that decides whether it may run and what it reads, in one statement."""
    node = joinedload(Execution.node).joinedload(WorkflowNode.workflow).joinedload(Workflow.template)
    parts = (Olt.credential, Olt.brand, Olt.model, Olt.device)
    olt = joinedload(Execution.olt).options(*(joinedload(part) for part in parts))
    return select(Execution).options(node, olt).where(Execution.id == execution_id)


def compose(session: Session, execution: Execution, token: int, now: datetime) -> CompositeWork:
    """The composite that `execution` is under `token`: the master, then its chained nodes that are active, in order.

    Those that read serials come before the others: readings are booked to the ONU that the serial names, so what is
    read before it waits for it. A chained node that somebody asked for runs alone.
    """
    olt, node = execution.olt, execution.node
    assert node is not None  # noqa: S101  (without its node an execution is not started)
    nodes = [node, *(chained for chained in node.chained if chained.runs)]
    columns = catalogue.find_all(session, olt, {text for one in nodes for text in _texts(one)})
    formulas = index_families.formulas_for(session, olt, [row for row in columns.values() if row is not None])
    specs = {text: _spec(row, formulas, olt) for text, row in columns.items() if row is not None}
    wants_keys = any(spec.access for spec in specs.values()) or any(
        one.kind is NodeKind.GET or one.progress for one in nodes
    )
    return CompositeWork(
        execution_id=execution.id,
        token=token,
        olt_id=olt.id,
        target=target_of(olt, olt.credential),
        steps=_in_order([_step(one, specs) for one in nodes]),
        onu_keys=_onu_keys(session, olt.id) if wants_keys else (),
        sizes=table_sizes.load(session, olt.id, now),
        device=devices.known(olt.device),
    )


def _in_order(steps: list[StepWork]) -> tuple[StepWork, ...]:
    master, *chained = steps
    return (master, *sorted(chained, key=lambda step: not step.tells_identity))


def _texts(node: WorkflowNode) -> list[str]:
    return [text.strip() for text in node.oid.split(",")]


LONGEST_KEY = 56  # of the 60 of a reading's name


def named_texts(node: WorkflowNode) -> Iterator[tuple[str, str]]:
    """Each OID with the name of its reading should the catalogue not know it: the node's key, numbered from 2 on."""
    for number, text in enumerate(_texts(node), start=1):
        yield text, node.key if number == 1 else f"{node.key[:LONGEST_KEY]}_{number}"


def _step(node: WorkflowNode, known: Mapping[str, ReadingSpec]) -> StepWork:
    specs = tuple(known.get(text) or catalogue.reading_spec(None, text, name) for text, name in named_texts(node))
    return StepWork(
        node.id, node.key, node.kind, specs, float(node.time_limit), node.stop_on_failure,
        Progress.from_json(node.progress),
    )  # fmt: skip


def _spec(row: Oid, formulas: Mapping[int, IndexFormula | None], olt: Olt) -> ReadingSpec:
    spec = catalogue.reading_spec(row, row.oid, row.name, formulas[row.id])
    return replace(spec, value=replace(spec.value, encoding=olt.text_encoding)) if olt.text_encoding else spec


def _onu_keys(session: Session, olt_id: int) -> tuple[str, ...]:
    query = select(Onu.index_key).where(Onu.olt_id == olt_id, Onu.presence == Presence.ENABLED).order_by(Onu.id)
    return tuple(session.scalars(query))
