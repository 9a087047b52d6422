"""What every OLT has to do now, as canonical texts, beside what the coordinator saw last. One statement each."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.services.bulk_rows import fetch_rows
from portal.tables import CoordinatorState
from scheduler.coordinator import decide

# The rule of `WorkflowNode.runs` as text, in two columns: an OLT is in service; a node is on for all but its OLT.
_SEEN = """
SELECT o.id, n.id, CASE WHEN o.enabled AND o.deleted_at IS NULL THEN 1 ELSE 0 END,
       n.id || '|' || n.key || '|' || n.kind || '|' ||
       CASE WHEN n.enabled AND w.enabled AND (n.template_node_id IS NULL OR t.id IS NULL OR t.enabled)
            THEN '1' ELSE '0' END || '|' ||
       COALESCE(CAST(n.interval_seconds AS TEXT), '') || '|' || COALESCE(n.cron, '') || '|' || n.priority || '|' ||
       COALESCE(CAST(n.master_id AS TEXT), '') || '|' || COALESCE(CAST({anchor} AS TEXT), '')
FROM olts o
LEFT JOIN workflows w ON w.olt_id = o.id
LEFT JOIN workflow_nodes n ON n.workflow_id = w.id
LEFT JOIN workflow_templates t ON t.id = w.template_id
{where}
"""
# Seconds since 1970: a time as text would depend on the zone of the session.
_ANCHOR = {"sqlite": "strftime('%s', n.anchor_at)", "postgresql": "EXTRACT(EPOCH FROM n.anchor_at)::bigint"}


@dataclass(frozen=True)
class Known:
    """What the coordinator saw last of an OLT. `hour`: the last one that it opened."""

    version: int
    digest: str
    hour: datetime | None


def texts(session: Session, olt_ids: Iterable[int] | None = None) -> dict[int, str]:
    """OLT id → canonical text, of these OLTs (None: of all, deleted ones too: they are out of service)."""
    wanted = None if olt_ids is None else sorted(olt_ids)
    marks = "" if wanted is None else f"WHERE o.id IN ({', '.join('?' * len(wanted))})"
    anchor = _ANCHOR[session.get_bind().dialect.name]
    rows = fetch_rows(session, _SEEN.format(where=marks, anchor=anchor), wanted or ())
    rows.sort(key=itemgetter(0, 1))  # here: PostgreSQL would sort so many rows on disk
    found: dict[int, str] = {}
    for ident, group in groupby(rows, key=itemgetter(0)):
        of_olt = list(group)
        lines = [row[3] for row in of_olt if row[3] is not None]
        found[ident] = decide.canonical(bool(of_olt[0][2]), lines)
    return found


def known(session: Session) -> dict[int, Known]:
    """OLT id → what was seen of it last."""
    query = select(
        CoordinatorState.olt_id, CoordinatorState.version, CoordinatorState.digest, CoordinatorState.hour
    )  # fmt: skip
    return {row[0]: Known(*row[1:]) for row in session.execute(query)}


def differing(session: Session, hour: datetime) -> tuple[list[int], list[int]]:
    """OLTs that are not as they were seen last, and OLTs that are, or are new, but whose promises of `hour` are not

    opened.
    """
    seen, before = texts(session), known(session)
    changed, unopened = [], []
    for ident, text in seen.items():
        last = before.get(ident)
        if last is not None and (last.version, last.digest) != (decide.VERSION, decide.digest(text)):
            changed.append(ident)
        elif last is None or last.hour is None or last.hour < hour:
            unopened.append(ident)
    return changed, unopened
