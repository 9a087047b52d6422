"""The audit log in the reader's words: actions, subjects, who did it. Texts only; changes are in audit_changes."""

from collections.abc import Mapping

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.services.people.tokens import ACTOR

CLI = "cli"  # under this name commands write

ACTIONS: Mapping[str, LazyString] = {
    "olt.create": _l("OLT added"),
    "olt.update": _l("OLT changed"),
    "olt.enable": _l("OLT enabled"),
    "olt.disable": _l("OLT disabled"),
    "olt.pause": _l("OLT paused"),
    "olt.resume": _l("OLT resumed"),
    "olt.accept_device": _l("Another device accepted as the OLT"),
    "onu.forget": _l("ONU forgotten"),
    "olt.delete": _l("OLT deleted"),
    "olt.restore": _l("OLT restored"),
    "olt.break": _l("Who held the OLT was asked to stop"),
    "credential.create": _l("Credential added"),
    "credential.update": _l("Credential changed"),
    "credential.delete": _l("Credential deleted"),
    "credential.approve": _l("Credential approved for an address outside its networks"),
    "probe.create": _l("Connection tested"),
    "workflow.enable": _l("Workflow enabled"),
    "workflow.disable": _l("Workflow disabled"),
    "workflow.undo": _l("Change of a workflow undone"),
    "workflow.redo": _l("Change of a workflow done again"),
    "workflow.import": _l("Workflow imported"),
    "node.create": _l("Node added"),
    "node.update": _l("Node changed"),
    "node.move": _l("Node moved"),
    "node.enable": _l("Node enabled"),
    "node.disable": _l("Node disabled"),
    "node.reset": _l("Node set back to its template"),
    "node.delete": _l("Node deleted"),
    "node.run_now": _l("Node run by hand"),
    "task.create": _l("Task added by the wizard"),
    "phases.apply": _l("Starts of an hour spread"),
    "template.create": _l("Template added"),
    "template.update": _l("Template changed"),
    "template.enable": _l("Template enabled"),
    "template.disable": _l("Template disabled"),
    "template.delete": _l("Template deleted"),
    "template.apply": _l("Template applied to an OLT"),
    "template.try": _l("Template tried on an OLT"),
    "template.keep": _l("Trial of a template kept"),
    "template.take_back": _l("Trial of a template taken back"),
    "template_node.create": _l("Node of a template added"),
    "template_node.update": _l("Node of a template changed"),
    "template_node.move": _l("Node of a template moved"),
    "template_node.delete": _l("Node of a template deleted"),
    "execution.cancel": _l("Execution cancelled"),
    "execution.hurry": _l("Execution moved to the front"),
    "pool.scale": _l("Number of pollers changed"),
    "poller.restart": _l("Poller restarted"),
    "violation.acknowledge": _l("Violation acknowledged"),
    "violation.reopen": _l("Violation opened again"),
    "channel.create": _l("Alert channel added"),
    "channel.update": _l("Alert channel changed"),
    "channel.delete": _l("Alert channel deleted"),
    "channel.test": _l("Alert channel tested"),
    "notification.resend": _l("Alert sent again"),
    "catalogue.sync": _l("Catalogue brought up to the shipped files"),
    "catalogue.add": _l("Catalogue entry added"),
    "catalogue.edit": _l("Catalogue entry changed"),
    "catalogue.reset": _l("Catalogue entry set back to what is shipped"),
    "catalogue.delete": _l("Catalogue entry deleted"),
    "user.create": _l("User added"),
    "user.update": _l("User changed"),
    "user.password": _l("Password changed"),
    "user.hand_over": _l("One-time password made"),
    "user.end_sessions": _l("Sessions ended"),
    "user.language": _l("Language changed"),
    "user.login": _l("Logged in"),
    "user.logout": _l("Logged out"),
    "token.create": _l("API token created"),
    "token.revoke": _l("API token revoked"),
    "keys.rotate": _l("Secrets encrypted with the newest key"),
    "first_run.dismiss": _l("List of first steps put away"),
}

KINDS: Mapping[str, LazyString] = {
    "olt": _l("OLT"),
    "node": _l("Node"),
    "template": _l("Template"),
    "credential": _l("Credential"),
    "probe": _l("Connection test"),
    "execution": _l("Execution"),
    "violation": _l("Violation"),
    "phases": _l("Spreading of starts"),
    "pool": _l("Pool"),
    "poller": _l("Poller"),
    "channel": _l("Alert channel"),
    "notification": _l("Alert"),
    "oid": _l("OID"),
    "indexformula": _l("Formula"),
    "statemap": _l("State map"),
    "catalogue": _l("Catalogue"),
    "user": _l("User"),
    "token": _l("API token"),
    "keys": _l("Keys"),
    "setting": _l("Setting"),
}

# Kind of subject → endpoint and the parameter that names it, where a subject has a page.
PAGES: Mapping[str, tuple[str, str]] = {
    "olt": ("olts.detail", "olt_id"),
    "node": ("workflows.detail", "olt_id"),
    "template": ("template_pages.detail", "template_id"),
    "credential": ("credentials.edit", "credential_id"),
    "execution": ("executions.detail", "execution_id"),
    "violation": ("violations.detail", "violation_id"),
    "channel": ("alerts.edit", "channel_id"),
    "oid": ("catalogue.oid", "oid_id"),
    "indexformula": ("formulas.formula", "formula_id"),
    "statemap": ("formulas.state_map", "map_id"),
    "user": ("people.edit", "user_id"),
}


def action_words(action: str) -> str:
    """What was done; an action of another version as it is called there."""
    return str(ACTIONS.get(action, action))


def kind_words(kind: str) -> str:
    """What it was done to."""
    return str(KINDS.get(kind, kind))


def actor_words(actor: str) -> str:
    """Who did it: a user's name as it is, a token's behind a word."""
    if actor == CLI:
        return _("Command line")
    if actor.startswith(ACTOR):
        return _("Token %(name)s", name=actor.removeprefix(ACTOR))
    return actor


FILTERS = {"action_words": action_words, "kind_words": kind_words, "actor_words": actor_words}
