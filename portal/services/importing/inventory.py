"""Import and export of the whole inventory: one file, one transaction, idempotent by name."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain import intervals, inventory_file
from portal.domain.document import Problems
from portal.domain.messages import N_
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.dispatch import clock, executions, reachability
from portal.services.importing import inventory_export, inventory_yaml
from portal.services.importing.inventory_plan import CredentialPlan, OltPlan, Plan, Planner, TemplatePlan
from portal.services.importing.inventory_yaml import InventoryInvalid
from portal.services.network import credentials, olts, revisions, templates, workflows
from portal.services.network.node_rules import log_override
from portal.services.network.node_trees import WorkflowWriter, write_template
from portal.services.network.references import References
from portal.services.network.revisions import Begun, to_rows
from portal.services.network.trees import Difference, tree_of
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Credential, Olt, Workflow, WorkflowTemplate

__all__ = ["Applier", "Change", "InventoryInvalid", "Report", "dump", "load"]

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

    Who has a command line here has the keys too: what the file pairs outside a credential's networks is approved.

    What the file leaves out keeps its stored value. The nodes under an OLT's `workflow: nodes:` and a template's
    `nodes:` are the whole truth: others are removed. `environ` resolves `community_env`; by default only variables
    whose names start with SNMP_, so that a file cannot send other secrets of this process to a device.
    `first_run_in` (s) replaces rule 1 for demo nodes. Raises InventoryInvalid with every mistake that was found.
    """
    root = inventory_yaml.parse(text)
    problems = Problems()
    inventory = inventory_file.read(root, _snmp_variables() if environ is None else environ, problems)
    report = Report(dry_run)
    disabled: list[int] = []
    try:
        with unique_or_invalid({}), transaction() as session:
            plan = Planner(session, inventory, problems, now, by_admin=True).run()
            if problems.found:
                raise InventoryInvalid(problems.sorted())
            disabled = Applier(session, plan, report, actor, now, first_run_in).run()
            if dry_run:
                raise _RehearsalError
    except _RehearsalError:
        return report
    if disabled:
        executions.stop_running(disabled)
    return report


def dump() -> str:
    """The inventory as a file that `load` takes; secrets are replaced by names of environment variables."""
    return inventory_export.dump(db.session())


def _snmp_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SNMP_")}


@dataclass
class _OltStep:
    """One OLT on its way through the steps of writing."""

    plan: OltPlan
    row: Olt | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    workflow: dict[str, list[Any]] = field(default_factory=dict)
    writer: WorkflowWriter | None = None
    begun: Begun | None = None  # None: the workflow is made by this import, nothing was before it

    @property
    def olt(self) -> Olt:
        """The row, which every planned OLT has once its settings are written."""
        assert self.row is not None  # noqa: S101
        return self.row


class Applier:
    """Writes a plan that has no mistakes, in the caller's transaction; `report` is told what became of each thing."""

    def __init__(
        self, session: Session, plan: Plan, report: Report, actor: str, now: datetime, first_run_in: int | None
    ) -> None:
        self.session = session
        self.plan = plan
        self.report = report
        self.actor = actor
        self.now = now
        spread = plan.many_olts and first_run_in is None
        self.first_run = (
            clock.spread_first_runs(session, now) if spread
            else clock.first_runs(now, many_olts=False, seconds=first_run_in)
        )  # fmt: skip
        self.credentials: dict[str, Credential] = {}
        self.templates: dict[str, WorkflowTemplate] = {}
        self.switched: list[WorkflowTemplate] = []

    def run(self) -> list[int]:
        """Write all of it. Returns the ids of the OLTs that it disabled: what runs on them is to be stopped.

        The OLTs' rows are locked before any other, as by everybody who may wind their clocks.
        """
        known = [plan.row.id for plan in self.plan.templates.values() if plan.row is not None]
        olts = {plan.row.id for plan in self.plan.olts if plan.row is not None}
        reachability.locked(self.session, sorted(olts.union(templates.olts_of(self.session, known))))
        for credential in self.plan.credentials:
            self._credential(credential)
        for template in self.plan.templates.values():
            self._template(template)
        steps = self._olts()
        for row in self.switched:
            templates.switch(self.session, row, self.now)
        return [step.olt.id for step in steps if step.settings.get("enabled") == [True, False]]

    def _olts(self) -> list[_OltStep]:
        """In steps for all OLTs at once: one flush for each step, instead of several for each OLT."""
        steps = [_OltStep(plan) for plan in self.plan.olts]
        for step in steps:
            self._settings(step)
        self.session.flush()
        for step in steps:
            self._workflow(step)
        self.session.flush()
        for step in steps:
            if step.writer is not None:
                step.writer.place(step.plan.tree)
        self.session.flush()
        for step in steps:
            self._finish(step)
        return steps

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
        changes: dict[str, list[Any]] = {}
        if row.description != plan.description:
            changes["description"] = [row.description, plan.description]
        was_enabled = True if plan.row is None else row.enabled
        if was_enabled is not plan.enabled:
            changes["enabled"] = [was_enabled, plan.enabled]
            self.switched.append(row)
        row.description, row.enabled = plan.description, plan.enabled
        self.session.add(row)
        self.session.flush()
        difference = write_template(self.session, row, plan.tree)
        if plan.row is None or changes or difference:
            action = "template.update" if plan.row else "template.create"
            self._audit(action, row, {**changes, **difference.as_dict()})
            row.revision += bool(changes)
        self._tell("templates", plan.name, plan.row, [*_fields(changes if plan.row else {}), *_nodes(difference)])

    def _settings(self, step: _OltStep) -> None:
        plan = step.plan
        if plan.values is None or plan.brand is None:
            step.row = plan.row
            return
        credential = self._credential_row(plan.values["credential"], plan.row)
        references = References(plan.brand, plan.model, credential, plan.leave)
        if plan.row is None:
            step.row = olts.add(self.session, plan.values, references, self.actor, self.now)
            step.row.workflow = None  # known to be none: else the database would be asked for each new OLT
        else:
            step.row = plan.row
            step.settings = olts.change(self.session, plan.row, plan.values, references, self.actor, self.now)

    def _credential_row(self, name: str, row: Olt | None) -> Credential:
        if name not in self.credentials and row is not None and row.credential.name == name:
            self.credentials[name] = row.credential
        if name not in self.credentials:
            self.credentials[name] = self.session.query(Credential).filter_by(name=name).one()
        return self.credentials[name]

    def _workflow(self, step: _OltStep) -> None:
        """Template and switch of the OLT's workflow, which is made where it is needed."""
        plan, row = step.plan, step.olt
        if plan.row is None:
            self._audit("olt.create", row, olts.shown(row))
        if plan.untouched:
            return
        needed = plan.tree or plan.template or plan.named_nodes or plan.workflow_enabled is not None
        if row.workflow is None and not needed:
            return
        if row.workflow is None:
            row.workflow = Workflow(enabled=True, nodes=[])
        else:
            step.begun = Begun(row.workflow, to_rows(tree_of(row.workflow.nodes)))
        step.workflow = self._switch(plan, row.workflow)
        step.writer = WorkflowWriter(self.session, row.workflow, self.now, self.first_run)

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
            workflows.switch_clocks(
                self.session, workflow, enabled, self.now, N_("the workflow of its OLT was disabled")
            )
        return changes

    def _finish(self, step: _OltStep) -> None:
        difference = step.writer.finish() if step.writer else Difference()
        self._log_overrides(step, difference)
        if step.begun is not None and (difference or "template" in step.workflow):
            revisions.finish(self.session, step.begun, "workflow.import", "", self.actor, self.now)
        if step.workflow or difference:
            self._audit("workflow.import", step.olt, {**step.workflow, **difference.as_dict()})
        details = [*_fields(step.settings), *_fields(step.workflow), *_nodes(difference)]
        if step.plan.values is not None or details:  # else only synced with its template, and in step already
            self._tell("olts", step.plan.name, step.plan.row, details)

    def _log_overrides(self, step: _OltStep, difference: Difference) -> None:
        """Into the decision log, when they are new; into the report's warnings, when nobody gave a reason."""
        for item in step.plan.overrides:
            fresh = item.key in difference.added or _PACED & difference.changed.get(item.key, {}).keys()
            if fresh and step.writer is not None:
                node = step.writer.node(item.key)
                log_override(self.session, step.olt.id, node, item, self.actor, self.now)
            if not item.reason:
                self.report.warnings.append(f"OLT {step.plan.name}: {item.message}")

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
