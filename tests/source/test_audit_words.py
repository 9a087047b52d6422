"""Every action that a service leaves in the audit log has its words, and no words are left of one that is no more."""

import ast
import re
from pathlib import Path

from portal.domain import node_fields
from portal.extensions import Base
from portal.queries import olt_events
from portal.services.alerting import channels
from portal.services.network import credentials, olts
from portal.tables import AuditLog  # noqa: F401  (tables must be known)
from portal.web.audit_changes import LABELS
from portal.web.audit_words import ACTIONS, KINDS, PAGES
from portal.web.olt_event_words import ICONS

SERVICES = Path(__file__).resolve().parents[2] / "portal" / "services"
ACTION = re.compile(r"[a-z_]+\.[a-z_]+")

# Actions that are put together: the f-string as it stands in the sources → what it can become.
MADE = {
    "catalogue.{verb}": {"catalogue.add", "catalogue.edit", "catalogue.reset", "catalogue.delete"},
    "template.{'enable' if enabled else 'disable'}": {"template.enable", "template.disable"},
    "workflow.{_switched(enabled)}": {"workflow.enable", "workflow.disable"},
    "node.{_switched(enabled)}": {"node.enable", "node.disable"},
}


def texts(*, made: bool) -> set[str]:
    """String literals of the services in the shape of an action; `made`: f-strings that begin like one."""
    kinds = {action.partition(".")[0] for action in ACTIONS} | set(KINDS)
    found = set()
    for path in SERVICES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not made and isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if ACTION.fullmatch(node.value) else set()
            elif made and isinstance(node, ast.JoinedStr):
                text = _bare(ast.unparse(node)[2:-1])
                found |= {text} if text.partition(".{")[0] in kinds and ".{" in text else set()
    return found


def _bare(text: str) -> str:
    """Without parentheses, which versions of Python put differently when they write a tree as text."""
    return text.replace("(", "").replace(")", "")


def used() -> set[str]:
    tables = set(Base.metadata.tables)
    plain = {text for text in texts(made=False) if text.partition(".")[0] not in tables}
    return plain | {action for actions in MADE.values() for action in actions}


def test_every_action_of_the_services_has_its_words() -> None:
    assert texts(made=True) == set(map(_bare, MADE)), "say in MADE what it can become"
    assert used() - set(ACTIONS) == set()


def test_every_action_of_the_card_of_an_olt_has_its_icon() -> None:
    assert set(ICONS) == set(olt_events.DONE)


def test_no_words_are_left_of_an_action_that_is_no_more() -> None:
    assert set(ACTIONS) - used() == set()


def test_every_setting_that_people_change_has_a_label() -> None:
    names = {*node_fields.COLUMNS, *olts.COLUMNS, *credentials.COLUMNS, *channels.COLUMNS}
    assert names - set(LABELS) == set()


def test_every_subject_with_a_page_has_a_word() -> None:
    assert set(PAGES) - set(KINDS) == set()
