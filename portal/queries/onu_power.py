"""Reads the optical power of one ONU over time, as steps: a value holds until the next change."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from portal.domain import series
from portal.domain.series import Step
from portal.domain.statuses import OnuEventKind
from portal.extensions import db
from portal.queries import histories
from portal.queries.onus import OLT_RX, RX, read_of_all
from portal.tables import Olt, OltRead, Onu, OnuData, OnuEvent, OnuHistory

SERIES = (RX, OLT_RX)
MOST_MARKS = 120


@dataclass(frozen=True)
class Power:
    """Steps of an ONU's readings by metric, oldest first, each with the last one before the span.

    `read_at`: by metric, until when the last value is known to hold: after that nobody read it. `marks`: (moment,
    kind, what it became) of the newest events that say whether it was lit or listed, oldest first.
    """

    samples: dict[str, tuple[Step, ...]]
    read_at: dict[str, datetime]
    marks: list[tuple[datetime, OnuEventKind, str]] = field(default_factory=list)


def history(onu_id: int, since: datetime, now: datetime) -> Power | None:
    """Power from a moment on; None when the ONU or its OLT is gone. Three SQL statements.

    What is older than two days is drawn by the hour, whether it has been gathered yet or not.
    """
    read_at = _read_at(onu_id)
    if read_at is None:
        return None
    found: dict[str, list[series.Row]] = {metric: [] for metric in SERIES}
    powers = [(OnuHistory.onu_id == onu_id, OnuHistory.metric == metric) for metric in SERIES]
    for metric, *row in db.session.execute(histories.rows(OnuHistory, powers, since, OnuHistory.metric)):
        found[metric].append(series.Row(*row))
    edge = series.gathering_edge(now)
    drawn = {metric: tuple(series.steps(rows, edge)) for metric, rows in found.items()}
    return Power(drawn, read_at, _marks(onu_id, since))


def _read_at(onu_id: int) -> dict[str, datetime] | None:
    query = (
        select(Onu.id, OnuData.metric, OnuData.collected_at, OltRead.read_at)
        .join(Olt, Olt.id == Onu.olt_id)
        .outerjoin(OnuData, (OnuData.onu_id == Onu.id) & OnuData.metric.in_(SERIES))
        .outerjoin(OltRead, read_of_all())
        .where(Onu.id == onu_id, Olt.deleted_at.is_(None))
    )
    rows = db.session.execute(query).all()
    found: dict[str, datetime] = {}
    for _id, metric, *moments in rows:
        if metric is not None:
            found[metric] = max(at for at in (*moments, found.get(metric)) if at is not None)
    return found if rows else None


def _marks(onu_id: int, since: datetime) -> list[tuple[datetime, OnuEventKind, str]]:
    query = (
        select(OnuEvent.happened_at, OnuEvent.kind, OnuEvent.after)
        .where(OnuEvent.onu_id == onu_id, OnuEvent.happened_at >= since)
        .where(OnuEvent.kind.in_((OnuEventKind.STATE, OnuEventKind.PRESENCE)))
        .order_by(OnuEvent.happened_at.desc(), OnuEvent.id.desc()).limit(MOST_MARKS)
    )  # fmt: skip
    return [(row[0], row[1], row[2]) for row in db.session.execute(query)][::-1]
