"""Explain: why a slot of a node went as it did, as a page and inside a dialog. Parse, query, render."""

from datetime import datetime

from flask import Blueprint, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain import moments
from portal.domain.explain_facts import Explanation, Link, LinkKind, Verdict
from portal.domain.saying import paragraph
from portal.domain.statuses import Role
from portal.queries import explain as query
from portal.queries import workflows
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import moment, now, zone
from portal.web.words import FAILED, INTERRUPTED, PENDING, RUNNING, SUCCESS, Face

bp = Blueprint("explain", __name__, url_prefix="/explain")

VERDICTS = {
    Verdict.SUCCEEDED: SUCCESS,
    Verdict.FAILED: FAILED,
    Verdict.INTERRUPTED: INTERRUPTED,
    Verdict.RUNNING: RUNNING,
    Verdict.WAITING: PENDING,
    Verdict.SKIPPED: Face(_l("Did not run"), "amber", "player-skip-forward"),
    Verdict.TO_COME: Face(_l("Still to come"), "muted", "clock"),
    Verdict.NO_SLOT: Face(_l("No slot"), "muted", "ban"),
    Verdict.UNRECORDED: Face(_l("Nothing recorded"), "muted", "question-mark"),
}


def said(found: Explanation) -> str:
    """The explanation as one paragraph in the reader's language."""
    return paragraph(found.sentences, lambda text: str(_(text)), moment)


def _moment(text: str) -> datetime:
    """A time of the URL; without a zone it is the portal's, as a form sends it. Nonsense and nothing are now."""
    try:
        return moments.parse(text.replace(" ", "+") if "T" in text else text, zone())
    except ValueError:
        return now()


def url_of(link: Link) -> str:
    """Where a link of an explanation leads."""
    if link.kind is not LinkKind.LOG:
        return url_for("executions.detail", execution_id=link.id)
    times = {name: end.isoformat() for name in ("since", "until") if (end := getattr(link, name))}
    return url_for("log.index", olt=link.id, **times)


def _text(link: Link) -> str:
    if link.kind is LinkKind.LOG:
        return _("Decision log of that time")
    return _("The run of %(node)s", node=link.name)


@bp.get("/")
@requires(Role.VIEWER)
def index() -> ResponseReturnValue:
    """?node= and ?at=: one paragraph with its links. A page of its own, or the body of a dialog."""
    if "node" not in request.args:
        return redirect(url_for("log.index"))
    at = _moment(request.args.get("at", ""))
    node, olt = workflows.node(args.number("node") or 0) or abort(404)
    found = query.explain(node.id, at, now()) or abort(404)
    return live.render(
        "explain/index.html",
        title=_("%(node)s on %(olt)s", node=node.name, olt=olt.name),
        node=node,
        olt=olt,
        at_local=at.astimezone(zone()).strftime("%Y-%m-%dT%H:%M:%S"),
        found=found,
        verdict=VERDICTS[found.verdict],
        text=said(found),
        links=[(url_of(link), _text(link)) for link in found.links],
    )
