"""Import and export of the whole inventory (design §12): one file, one transaction, idempotent by name."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain import intervals, inventory_file
from portal.domain.document import Problems
from portal.extensions import db, transaction
from portal.models import Credential, Olt, Workflow, WorkflowNode, WorkflowTemplate
from portal.services import audit, clock, credentials, inventory_export, inventory_yaml, olts, workflows
from portal.services.inventory_plan import CredentialPlan, OltPlan, Plan, Planner, TemplatePlan
from portal.services.inventory_yaml import InventoryInvalid
from portal.services.node_rules import log_override
from portal.services.node_trees import Difference, write_template, write_workflow
from portal.services.uniqueness import unique_or_invalid

__all__ = ["Change", "InventoryInvalid", "Report", "dump", "load"]

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
_PACED = {"interval_seconds", "cron", "oid", "override_reason", "master"}


@dataclass(frozen=True)
class Change:
    """What became, or would become, of one thing of the file."""

    section: str  # credentials, templates, olts
    name: str
    action: str  # created, updated, unchanged
    details: tuple[str, ...] = ()


@dataclass
class Report:
    """The outcome of an import. After a dry run it tells what would have happened."""

    dry_run: bool
    changes: list[Change] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True when anything was, or would be, written."""
        return any(change.action != UNCHANGED for change in self.changes)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """section → action → number."""
        found: dict[str, Counter[str]] = {name: Counter() for name in inventory_file.SECTIONS}
        for change in self.changes:
            found[change.section][change.action] += 1
        return {
            name: {action: counter[action] for action in (CREATED, UPDATED, UNCHANGED)}
            for name, counter in found.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        changes = [asdict(change) for change in self.changes]
        return {"dry_run": self.dry_run, "changed": self.changed, "counts": self.counts, "changes": changes,
                "warnings": self.warnings}  # fmt: skip

    def lines(self) -> list[str]:
        """For people: what changed, then the sums."""
        told = [line for change in self.changes if change.action != UNCHANGED for line in _told(change)]
        sums = [
            f"{name}: " + ", ".join(f"{number} {action}" for action, number in counts.items())
            for name, counts in self.counts.items()
            if any(counts.values())
        ]
        head = ["dry run: nothing was written"] if self.dry_run else []
        return [*told, *(f"warning: {text}" for text in self.warnings), *sums, *head]


def _told(change: Change) -> list[str]:
    return [f"{change.section[:-1]} {change.name}: {change.action}", *(f"  {line}" for line in change.details)]


class _RehearsalError(Exception):
    """Rolls a dry run back."""


def load(
    text: str, *, dry_run: bool, actor: str, now: datetime, environ: Mapping[str, str] | None = None,
    first_run_in: int | None = None,
) -> Report:  # fmt: skip
    """Load an inventory; all of it or, on any mistake, nothing. Returns what became of each thing.

    What the file leaves out keeps its stored value. The nodes under an OLT's `workflow: nodes:` and a template's
    `nodes:` are the whole truth: others are removed. `environ` resolves `community_env`; by default only variables
    whose names start with SNMP_, so that a file cannot send other secrets of this process to a device.
    `first_run_in` (s) replaces rule 1 for demo nodes. Raises InventoryInvalid with every mistake that was found.
    """
    root = inventory_yaml.parse(text)
    problems = Problems()
    inventory = inventory_file.read(root, _snmp_variables() if environ is None else environ, problems)
    report = Report(dry_run)
    try:
        with unique_or_invalid({}), transaction() as session:
            plan = Planner(session, inventory, problems, now).run()
            if problems.found:
                raise InventoryInvalid(problems.sorted())
            _Applier(session, plan, report, actor, now, first_run_in).run()
            if dry_run:
                raise _RehearsalError
    except _RehearsalError:
        pass
    return report


def dump() -> str:
    """The inventory as a file that `load` takes; secrets are replaced by names of environment variables."""
    return inventory_export.dump(db.session())


def _snmp_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SNMP_")}


class _Applier:
    """Writes a plan that has no mistakes."""

    def __init__(
        self, session: Session, plan: Plan, report: Report, actor: str, now: datetime, first_run_in: int | None
    ) -> None:
        self.session = session
        self.plan = plan
        self.report = report
        self.actor = actor
        self.now = now
        self.first_run = clock.first_runs(now, many_olts=plan.many_olts, seconds=first_run_in)
        self.credentials: dict[str, Credential] = {}
        self.templates: dict[str, WorkflowTemplate] = {}

    def run(self) -> None:
        for credential in self.plan.credentials:
            self._credential(credential)
        for template in self.plan.templates.values():
            self._template(template)
        for olt in self.plan.olts:
            self._olt(olt)

    def _audit(self, action: str, subject: object, changes: Mapping[str, Any]) -> None:
        audit.record(self.session, actor=self.actor, action=action, subject=subject, changes=changes, now=self.now)

    def _credential(self, plan: CredentialPlan) -> None:
        row, changes = credentials.write(self.session, plan.row, plan.values, self.actor, self.now)
        self.credentials[plan.name] = row
        self._tell("credentials", plan.name, plan.row, [] if plan.row is None else _fields(changes))

    def _template(self, plan: TemplatePlan) -> None:
        row = plan.row or WorkflowTemplate(name=plan.name)
        self.templates[plan.name] = row
        if plan.entry is None:
            return
        changes = {} if row.description == plan.description else {"description": [row.description, plan.description]}
        row.description = plan.description
        self.session.add(row)
        self.session.flush()
        difference = write_template(self.session, row, plan.tree)
        if plan.row is None or changes or difference:
            action = "template.update" if plan.row else "template.create"
            self._audit(action, row, {**changes, **difference.as_dict()})
        self._tell("templates", plan.name, plan.row, [*_fields(changes if plan.row else {}), *_nodes(difference)])

    def _olt(self, plan: OltPlan) -> None:
        row, changes = self._settings(plan)
        details = [*_fields(changes), *self._workflow(plan, row)]
        if plan.values is None and not details:
            return  # only synced with its template, and in step with it already
        self._tell("olts", plan.name, plan.row, details)

    def _settings(self, plan: OltPlan) -> tuple[Olt, dict[str, Any]]:
        if plan.values is None or plan.brand is None:
            assert plan.row is not None  # noqa: S101  (only a stored OLT is planned without values)
            return plan.row, {}
        references = olts.References(plan.brand, plan.model, self._credential_row(plan.values["credential"], plan.row))
        if plan.row is not None:
            return plan.row, olts.change(self.session, plan.row, plan.values, references, self.actor, self.now)
        row = olts.add(self.session, plan.values, references, self.now)
        self._audit("olt.create", row, olts.shown(row))
        return row, {}

    def _credential_row(self, name: str, row: Olt | None) -> Credential:
        if name in self.credentials:
            return self.credentials[name]
        if row is not None and row.credential.name == name:
            return row.credential
        found = self.session.query(Credential).filter_by(name=name).one()
        self.credentials[name] = found
        return found

    def _workflow(self, plan: OltPlan, row: Olt) -> list[str]:
        """Template, switch and nodes of the OLT's workflow; returns lines of what changed."""
        needed = plan.tree or plan.template or plan.named_nodes or plan.workflow_enabled is not None
        if row.workflow is None and not needed:
            return []
        workflow = workflows.ensure_workflow(self.session, row)
        changes = self._switch(plan, workflow)
        difference = write_workflow(self.session, workflow, plan.tree, self.now, self.first_run)
        self._log_overrides(plan, workflow, difference)
        if changes or difference:
            self._audit("workflow.import", row, {**changes, **difference.as_dict()})
        return [*_fields(changes), *_nodes(difference)]

    def _switch(self, plan: OltPlan, workflow: Workflow) -> dict[str, list[Any]]:
        changes: dict[str, list[Any]] = {}
        before = workflow.template.name if workflow.template else ""
        if before != plan.template:
            changes["template"] = [before, plan.template]
            workflow.template = self.templates.get(plan.template)
        enabled = plan.workflow_enabled
        if enabled is not None and enabled is not workflow.enabled:
            changes["workflow enabled"] = [workflow.enabled, enabled]
            workflow.enabled = enabled
            workflows.switch_clocks(self.session, workflow, enabled, self.now, "the workflow of its OLT was disabled")
        self.session.flush()
        return changes

    def _log_overrides(self, plan: OltPlan, workflow: Workflow, difference: Difference) -> None:
        """Into the decision log, when they are new; into the report's warnings, when nobody gave a reason."""
        if not plan.overrides:
            return
        nodes: dict[str, WorkflowNode] = {node.key: node for node in workflow.nodes}
        for item in plan.overrides:
            fresh = item.key in difference.added or _PACED & difference.changed.get(item.key, {}).keys()
            if fresh:
                log_override(self.session, workflow.olt_id, nodes[item.key], item, self.actor, self.now)
            if not item.reason:
                self.report.warnings.append(f"OLT {plan.name}: {item.message}")

    def _tell(self, section: str, name: str, before: object, details: list[str]) -> None:
        action = CREATED if before is None else UPDATED if details else UNCHANGED
        self.report.changes.append(Change(section, name, action, tuple(details)))


def _fields(changes: Mapping[str, Iterable[Any]]) -> list[str]:
    lines = []
    for name, (old, new) in changes.items():
        shown = name.removesuffix("_seconds")
        show = intervals.show if name == "interval_seconds" else _word
        before, after = (_word(value) if value is None else show(value) for value in (old, new))
        lines.append(f"{shown}: {before} -> {after}")
    return lines


def _word(value: Any) -> str:
    return "none" if value in (None, "") else str(value)


def _nodes(difference: Difference) -> list[str]:
    changed = [f"node {key}: {line}" for key, changes in difference.changed.items() for line in _fields(changes)]
    return [
        *(f"node {key}: added" for key in difference.added),
        *changed,
        *(f"node {key}: removed" for key in difference.removed),
    ]
