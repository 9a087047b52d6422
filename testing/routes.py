"""Every page of the portal with arguments that make sense: for the budget test and bench/web.py."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session
from werkzeug.routing import Rule

from portal import clock
from portal import tables as m
from portal.domain.statuses import NodeKind, RolloutStatus

NOT_PAGES = ("static", "api.")  # files; the API has budgets of its own


def _first(model: Any, *where: Any) -> Callable[[Session], int]:
    return lambda session: session.scalars(select(model.id).where(*where).order_by(model.id).limit(1)).one()


def _latest(model: Any, *where: Any) -> Callable[[Session], int]:
    return lambda session: session.scalars(select(model.id).where(*where).order_by(model.id.desc()).limit(1)).one()


def _huawei(session: Session) -> int:
    return (
        session.scalars(select(m.Olt.id).join(m.Brand).where(m.Brand.key == "huawei").order_by(m.Olt.id)).first() or 0
    )


def _master(session: Session) -> int:
    wanted = select(m.WorkflowNode.id).join(m.Workflow).where(m.Workflow.olt_id == _huawei(session))
    return session.scalars(wanted.where(m.WorkflowNode.kind == NodeKind.GET).order_by(m.WorkflowNode.id)).first() or 0


# Parameter of a URL → the row that it names.
PARAMETERS: dict[str, Callable[[Session], int]] = {
    "brand_id": _first(m.Brand),
    "channel_id": _first(m.Channel),
    "credential_id": _first(m.Credential),
    "execution_id": _latest(m.Execution, m.Execution.error_message != ""),
    "formula_id": _first(m.IndexFormula),
    "map_id": _first(m.StateMap),
    "node_id": _master,
    "oid_id": _first(m.Oid),
    "olt_id": _huawei,
    "onu_id": _first(m.Onu),
    "probe_id": _first(m.Probe),
    "rollout_id": _first(m.TemplateRollout),
    "template_id": _first(m.WorkflowTemplate),
    "tracker_id": _latest(m.QuotaTracker),
    "trial_id": _first(m.Trial),
    "user_id": _first(m.User),
    "violation_id": _latest(m.QuotaViolation),
}

# The same where an endpoint means another table by it.
OWN: dict[str, dict[str, Callable[[Session], int]]] = {
    "olt_deleted.restore": {"olt_id": _first(m.Olt, m.Olt.deleted_at.is_not(None))},
    "template_nodes.delete": {"node_id": _first(m.TemplateNode)},
    "template_nodes.edit": {"node_id": _first(m.TemplateNode)},
    "workflows.reset_node": {"node_id": _first(m.WorkflowNode, m.WorkflowNode.template_node_id.is_not(None))},
}

# Endpoints of which nothing but the page itself is worth a look.
PLAIN = """
    account.index alerts.create alerts.edit alerts.index api_tokens.create auth.login catalogue.add_oid
    catalogue.edit_oid credentials.create credentials.edit credentials.index dashboard.index dashboard.pulse
    executions.detail formulas.add_formula formulas.add_states formulas.edit_formula formulas.edit_states
    formulas.formula formulas.index formulas.state_map formulas.states ledger.export ledger.index olt_deleted.index
    olt_deleted.restore olt_panels.capacity olt_panels.costs olt_panels.oids olt_panels.past olt_panels.sides
    olt_parts.all_of olts.delete olts.detail olts.edit olts.import_csv olts.import_template olts.new onus.detail
    onus.export_of_olt
    onus.proof people.create people.edit planning.index probes.detail queue.export queue.index quotas.detail
    rollouts.detail template_nodes.add template_nodes.delete template_nodes.edit template_pages.delete
    template_pages.detail template_pages.edit template_pages.new templates.index trials.detail violations.detail
    workflows.add_node workflows.delete_node workflows.detail workflows.edit_node workflows.index workflows.reset_node
"""

# Endpoint → queries worth a look, each without its "?"; {name} is a parameter of above, {at} a moment a while ago.
QUERIES: dict[str, tuple[str, ...]] = dict.fromkeys(PLAIN.split(), ("",)) | {
    "api_tokens.index": ("", "state=ended"),
    "audit.export": ("kind=user",),
    "audit.index": ("", "kind=olt&actor=admin&days=all", "about=olt:{olt_id}"),
    "catalogue.index": ("", "brand={brand_id}"),
    "catalogue.oid": ("", "raw=1&index=4194312448.7&place=0/1/1:7&olt={olt_id}"),
    "executions.export": ("olt={olt_id}&status=FAILED",),
    "executions.index": ("", "status=FAILED", "olt={olt_id}", "trigger=manual", "before={execution_id}"),
    "explain.index": ("node={node_id}&at={at}",),
    "installation.index": ("", "changed=1"),
    "log.export": ("olt={olt_id}&level=ERROR",),
    "log.index": ("", "level=ERROR", "olt={olt_id}", "follow=1"),
    "olt_actions.disable": ("olt={olt_id}",),
    "olt_actions.pause": ("olt={olt_id}", "olt=1&olt=2"),
    "olt_parts.over_time": ("index=4194312192", "index=4194312192&span=day"),
    "olts.export": ("", "state=unreachable"),
    "olts.index": ("", "state=unreachable", "q=LIMA", "sort=state"),
    "onus.export": ("", "state=offline"),
    "onus.index": ("", "q=CLI-001", "state=offline"),
    "onus.of_olt": ("", "state=offline"),
    "onus.power": ("", "span=month"),
    "palette.index": ("", "q=lima", "q=CLI-001"),
    "people.index": ("", "role=admin&q=a"),
    "planning.show_phases": ("olt={olt_id}", ""),
    "pollers.export": ("", "span=7d"),
    "pollers.index": ("", "span=7d"),
    "quotas.export": ("olt={olt_id}",),
    "quotas.index": ("", "status=QUOTA_NOT_MET", "olt={olt_id}", "sort=share"),
    "templates.apply": ("template={template_id}",),
    "timeline.of_olt": ("hour=0", "hour=-1"),
    "violations.export": ("olt={olt_id}", "olt={olt_id}&sort=worst"),
    "violations.index": ("", "severity=CRITICAL", "sort=worst"),
    "violations.report": ("", "olt={olt_id}"),
    "wizard.start": ("", "step=olts&brand=huawei"),
}

# What answers with a part of a page, with a file, or leads whoever is logged in elsewhere.
PARTS = {
    "audit.export", "auth.login", "dashboard.pulse", "executions.export", "ledger.export", "log.export",
    "olt_panels.oids", "olts.export", "olts.import_template", "onus.export", "onus.export_of_olt", "onus.power",
    "pollers.export", "queue.export", "quotas.export", "violations.export",
}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """One thing to ask for. `path` is "" where the database has no row for it, or a parameter is not known here."""

    endpoint: str
    query: str
    path: str

    @property
    def name(self) -> str:
        """How it is called in a list."""
        return _name(self.endpoint, self.query)


def _name(endpoint: str, query: str) -> str:
    return f"{endpoint}?{query}" if query else endpoint


def whole() -> list[str]:
    """Names of all whole pages."""
    found = [(endpoint, query) for endpoint, queries in QUERIES.items() for query in queries]
    return [_name(endpoint, query) for endpoint, query in found if endpoint not in PARTS]


def rules(app: Flask) -> list[Rule]:
    """The pages of the URL map that can be got, in the order of their addresses."""
    found = [rule for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())]
    return sorted((rule for rule in found if not rule.endpoint.startswith(NOT_PAGES)), key=lambda rule: rule.rule)


def furnish(session: Session, now: datetime) -> None:
    """What testing/seed.py makes none of: a template that all Huawei OLTs have and one tries, a deleted OLT."""
    template = m.WorkflowTemplate(name="Residencial", revision=1)
    node = m.TemplateNode(template=template, key="rx", name="Potencia RX", kind=NodeKind.GET, oid="huawei.onu_rx_power",
                          interval_seconds=900, priority=40)  # fmt: skip
    session.add_all([template, node])
    session.flush()
    flows = list(session.scalars(select(m.Workflow).join(m.Olt).join(m.Brand).where(m.Brand.key == "huawei")
                                 .order_by(m.Workflow.olt_id)))  # fmt: skip
    for flow in flows:
        flow.template_id = template.id
    ids = [flow.id for flow in flows]
    mine = (m.WorkflowNode.workflow_id.in_(ids), m.WorkflowNode.key == "rx")
    session.execute(update(m.WorkflowNode).where(*mine).values(template_node_id=node.id, overridden=True))
    olts = [flow.olt_id for flow in flows]
    session.add(m.TemplateRollout(template_id=template.id, canary_olt_id=olts[0], olt_ids=olts[1:], before=[],
                                  status=RolloutStatus.CANARY, actor="operator", started_at=now))  # fmt: skip
    known = session.scalars(select(m.Olt).limit(1)).one()
    session.add(m.Olt(name="OLT-RETIRADA", address="10.99.0.1", brand_id=known.brand_id, created_at=now,
                      credential_id=known.credential_id, deleted_at=now, enabled=False))  # fmt: skip
    parts_of(session, _huawei(session), now)
    session.flush()


def parts_of(session: Session, olt_id: int, now: datetime) -> None:
    """A month of what eight ports send, of the temperature of two cards and of an OLT's processor."""
    chance = random.Random(8)
    ports = [("port", "pon_port_tx_power", str(4194312192 + (port << 8)), "dBm", 4.2, 0.4) for port in range(8)]
    cards = [("row", "card_temperature", f"0.{slot}", "°C", 47.0, 3.0) for slot in (1, 9)]
    for shape, metric, index, unit, level, spread in [*ports, *cards, ("scalar", "system_cpu", "0", "%", 31.0, 9.0)]:
        value = level
        for hours in range(30 * 24, 0, -1):
            value = round(level + chance.gauss(0, spread), 2)
            at = now - timedelta(hours=hours)
            if shape != "port" or hours % 6 == 0:
                session.add(m.OltHistory(olt_id=olt_id, metric=metric, index_key=index, collected_at=at, mean=value,
                                         minimum=value, maximum=value, last=value))  # fmt: skip
        session.add(m.OltData(olt_id=olt_id, shape=shape, metric=metric, index_key=index, number=value, unit=unit,
                              raw=str(value), kept=value, collected_at=now - timedelta(minutes=4)))  # fmt: skip
    for number, name in (("0.1", "H802GPFD"), ("0.9", "H801SCUN")):
        session.add(m.OltData(olt_id=olt_id, shape="row", metric="card_name", index_key=number, text=name, raw=name,
                              collected_at=now - timedelta(hours=5)))  # fmt: skip
    for port in range(8):
        state, index = "offline" if port == 5 else "online", str(4194312192 + (port << 8))
        session.add(m.OltData(olt_id=olt_id, shape="port", metric="pon_port_state", index_key=index, text=state,
                              raw="1", collected_at=now - timedelta(minutes=4)))  # fmt: skip


def addresses(app: Flask, session: Session) -> Iterator[Address]:
    """Every page, with the queries of QUERIES; one that is not there is asked without."""
    shared = {name: _row(session, find) for name, find in PARAMETERS.items()}
    shared["metric"] = "pon_port_tx_power"
    shared["at"] = (clock.now() - timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M:%S")
    for rule in rules(app):
        values = shared | {name: _row(session, find) for name, find in OWN.get(rule.endpoint, {}).items()}
        for query in QUERIES.get(rule.endpoint, ("",)):
            yield Address(rule.endpoint, query, _path(app, rule, query, values))


def _row(session: Session, find: Callable[[Session], int]) -> int | str:
    try:
        return find(session)
    except Exception:  # noqa: BLE001  (no such row here: whoever asks says so)
        return ""


def _path(app: Flask, rule: Rule, query: str, values: dict[str, Any]) -> str:
    own = {name: values.get(name, "") for name in rule.arguments}
    if "" in own.values():
        return ""
    path = str(app.url_map.bind("localhost").build(rule.endpoint, own))
    return f"{path}?{query.format(**values)}" if query else path
