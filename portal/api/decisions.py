"""The decision log, and the explanation of a slot. Parse, query, answer."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from flask import current_app, request, url_for

from portal import clock, translating
from portal.api import args, decision_bodies
from portal.api.errors import ApiError, invalid
from portal.api.operations import Reply, operation
from portal.domain.explain_facts import Explanation, Link, LinkKind
from portal.domain.fields import one_line
from portal.domain.saying import paragraph, say
from portal.domain.statuses import EventType, Role
from portal.queries import decision_log, keyset, workflows
from portal.queries import explain as query

TAG = "Decisions"
LARGEST_PAGE = 200


class Level(StrEnum):
    """How serious a decision is."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class Language(StrEnum):
    """In which an explanation is given."""

    ES = "es"
    EN = "en"


LOG_ARGS = (
    args.word("level", "Only those of this level.", Level),
    args.word("type", "Only those of this event type.", EventType),
    args.whole("olt", "Only those of the OLT with this id."),
    args.whole("node", "Only those of the node with this id."),
    args.opaque("text", "Only those whose message holds this.", one_line(100)),
    args.moment("since", "Only those at this time or later. A search over all OLTs goes back 6 hours, 24 at most."),
    args.moment("until", "Only those before this time."),
    args.whole("limit", "Length of a page.", 1, LARGEST_PAGE, keyset.PAGE_SIZE),
    args.CURSOR,
)


@operation(
    "GET", "/logs/", Role.VIEWER, "Search the decision log", {200: ("One page.", decision_bodies.DecisionList)},
    tag=TAG, args=LOG_ARGS,
)  # fmt: skip
def list_decisions(limit: int, cursor: str | None, **given: Any) -> Reply:
    """Newest first: what was skipped, stopped, lost or changed, and why. What ran as planned is under executions."""
    wanted = decision_log.Filter(
        level=given["level"] or "", event=given["type"], olt_id=given["olt"], node_id=given["node"],
        text=given["text"] or "", since=given["since"], until=given["until"],
    ).bounded(clock.now())  # fmt: skip
    page = decision_log.page(wanted, args.begin(cursor, wanted.order), limit)
    following = _following(page.next, wanted) if page.next else None
    return Reply(decision_bodies.DecisionList([_decision(row) for row in page.rows], following, wanted.since))


def _following(cursor: str, wanted: decision_log.Filter) -> str:
    """Where the next page is; a search that was bounded keeps its bound."""
    same: dict[str, Any] = {**request.args, "cursor": cursor}
    if wanted.since is not None and "since" not in same:
        same["since"] = wanted.since.isoformat()
    return url_for("api.list_decisions", **same)


def _decision(row: decision_log.Row) -> decision_bodies.Decision:
    names = decision_bodies.Decision.__dataclass_fields__
    known = {name: getattr(row, name) for name in names if hasattr(row, name)}
    return decision_bodies.Decision(**known, event_type=row.event)


EXPLAIN_ARGS = (
    args.whole("node", "The node with this id."),
    args.moment("at", "The moment; the slot meant is the latest at or before it. Default: now."),
    args.word("language", "Of the text. Default: en.", Language),
)


@operation(
    "GET", "/explain/", Role.VIEWER, "Explain a slot",
    {200: ("What became of the slot, and why.", decision_bodies.Explanation)},
    tag=TAG, args=EXPLAIN_ARGS, errors=(404,),
)  # fmt: skip
def explain_slot(node: int | None, at: datetime | None, language: Language | None) -> Reply:
    """Why a node ran late, failed or did not run: who held its OLT and for how long against its usual, whether pollers
    were free, what was switched off. Only from recorded facts; what has none is said to have none.
    """
    if node is None:
        raise invalid({"node": "is missing: say which node"})
    now = clock.now()
    place, found = workflows.node(node), query.explain(node, at or now, now)
    if place is None or found is None:
        raise ApiError(404, f"There is no node {node}.")
    return Reply(_explanation(found, at or now, place, language or Language.EN))


def _explanation(
    found: Explanation, at: datetime, place: tuple[Any, Any], language: Language
) -> decision_bodies.Explanation:
    node, olt = place
    words = translating.read([current_app.config["BABEL_TRANSLATION_DIRECTORIES"]], language.value)
    said = (words.gettext, _local)
    return decision_bodies.Explanation(
        node_id=node.id, node_name=node.name, olt_id=olt.id, olt_name=olt.name, at=at, slot=found.slot,
        verdict=found.verdict, cause=found.cause, text=paragraph(found.sentences, *said),
        sentences=[say(one, *said) for one in found.sentences],
        links=[decision_bodies.ExplanationLink(link.kind, link.id, link.name, _url(link)) for link in found.links],
    )  # fmt: skip


def _local(moment: datetime) -> str:
    return f"{moment.astimezone(ZoneInfo(current_app.config['TIMEZONE'])):%Y-%m-%d %H:%M:%S}"


def _url(link: Link) -> str:
    if link.kind is not LinkKind.LOG:
        return url_for("api.show_execution", execution_id=link.id)
    times = {name: moment.isoformat() for name in ("since", "until") if (moment := getattr(link, name))}
    return url_for("api.list_decisions", olt=link.id, **times)
