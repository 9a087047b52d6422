"""Reads the optical power of one ONU over time, as steps: a value holds until the next change."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select, union_all

from portal.domain import series
from portal.domain.series import Step
from portal.domain.statuses import OnuEventKind
from portal.extensions import db
from portal.queries.onus import OLT_RX, RX, read_of_all
from portal.tables import Olt, OltRead, Onu, OnuData, OnuEvent, OnuHistory

SERIES = (RX, OLT_RX)
MOST_POINTS = 750  # of one series
MOST_MARKS = 120
_KEPT_OF_BUCKET = 5  # first, last, least, greatest, and where the reading stopped


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
    for metric, *row in db.session.execute(_samples(onu_id, series.hour_of(since))):
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


def _samples(onu_id: int, since: datetime) -> Any:
    """Metric and series.Row, oldest first: of each metric the last before `since`, and all from then on."""
    values = (OnuHistory.collected_at, OnuHistory.mean, OnuHistory.minimum, OnuHistory.maximum, OnuHistory.last,
              OnuHistory.samples, OnuHistory.span, OnuHistory.without)  # fmt: skip
    mine = select(OnuHistory.metric, *values).where(OnuHistory.onu_id == onu_id)
    before = [
        mine.where(OnuHistory.metric == metric, OnuHistory.collected_at < since)
        .order_by(OnuHistory.collected_at.desc()).limit(1).subquery()
        for metric in SERIES
    ]  # fmt: skip
    inside = mine.where(OnuHistory.metric.in_(SERIES), OnuHistory.collected_at >= since)
    rows = union_all(*(select(one) for one in before), inside).subquery()
    return select(rows).order_by(rows.c.collected_at)


def _marks(onu_id: int, since: datetime) -> list[tuple[datetime, OnuEventKind, str]]:
    query = (
        select(OnuEvent.happened_at, OnuEvent.kind, OnuEvent.after)
        .where(OnuEvent.onu_id == onu_id, OnuEvent.happened_at >= since)
        .where(OnuEvent.kind.in_((OnuEventKind.STATE, OnuEventKind.PRESENCE)))
        .order_by(OnuEvent.happened_at.desc(), OnuEvent.id.desc()).limit(MOST_MARKS)
    )  # fmt: skip
    return [(row[0], row[1], row[2]) for row in db.session.execute(query)][::-1]


def thinned(samples: Sequence[Step], most: int = MOST_POINTS) -> list[Step]:
    """At most about `most` of the samples, by equal times: of each the first, the last, the least and the greatest,

    and the first without a value. So neither a dip nor a gap is lost.
    """
    if len(samples) <= most:
        return list(samples)
    start, buckets = samples[0].at, most // _KEPT_OF_BUCKET
    width = max((samples[-1].at - start).total_seconds() / buckets, 1.0)
    groups: dict[int, list[Step]] = {}
    for sample in samples:
        groups.setdefault(int((sample.at - start).total_seconds() // width), []).append(sample)
    return [sample for group in groups.values() for sample in _telling(group)]


def _telling(group: Sequence[Step]) -> list[Step]:
    values = [sample for sample in group if sample.value is not None]
    stops = [sample for sample in group if sample.value is None]
    telling = {group[0], group[-1], *stops[:1]}
    if values:
        telling |= {min(values, key=_least), max(values, key=_most)}
    return sorted(telling, key=lambda sample: sample.at)


def _least(step: Step) -> float:
    return step.range[0] if step.range else 0.0


def _most(step: Step) -> float:
    return step.range[1] if step.range else 0.0
