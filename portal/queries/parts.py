"""Reads what is known of an OLT's ports, cards and of itself: the latest readings, and one of them over time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from portal.domain import series
from portal.domain.series import Step
from portal.extensions import db
from portal.models.part import READ_AS
from portal.queries import histories
from portal.tables import OltData, OltHistory, OltRead, PonPort

MOST = 300  # parts of one kind
CARDS = ("card_", "mgmt_card_")


@dataclass(frozen=True)
class Reading:
    """One value. `read_at`: when it was last known to be so. `has_history`: numbers that are kept over time."""

    shape: str
    metric: str
    index: str
    number: float | None
    text: str | None
    unit: str
    reason: str
    read_at: datetime
    has_history: bool


@dataclass
class Part:
    """A port or a card. `label`: what its interface is called, with its place where the name does not say it."""

    index: str
    label: str
    readings: dict[str, Reading] = field(default_factory=dict)

    @property
    def read_at(self) -> datetime:
        """When any of it was read last."""
        return max(one.read_at for one in self.readings.values())


@dataclass(frozen=True)
class Parts:
    """All of one OLT. `others`: metric → rows that are neither ports nor cards. `more`: ports that are not listed."""

    itself: tuple[Reading, ...]
    ports: tuple[Part, ...]
    cards: tuple[Part, ...]
    others: Counter[str]
    more: int

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.itself or self.ports or self.cards or self.others)


def of_olt(olt_id: int) -> Parts:
    """Three SQL statements."""
    read_at = dict(db.session.execute(
        select(OltRead.metric, OltRead.read_at).where(OltRead.olt_id == olt_id, OltRead.metric.startswith(READ_AS))
    ).tuples().all())  # fmt: skip
    query = select(OltData).where(OltData.olt_id == olt_id).order_by(OltData.index_key, OltData.metric)
    rows = [_reading(row, read_at.get(READ_AS + row.metric)) for row in db.session.scalars(query)]
    cards = [one for one in rows if _of_card(one)]
    others = Counter(one.metric for one in rows if one.shape not in ("port", "scalar") and not _of_card(one))
    ports = _parts((one for one in rows if one.shape == "port"), _names(olt_id))
    itself = tuple(one for one in rows if one.shape == "scalar")
    return Parts(itself, ports[:MOST], _parts(cards, {})[:MOST], others, max(0, len(ports) - MOST))


def _of_card(one: Reading) -> bool:
    return one.shape == "row" and one.metric.startswith(CARDS)


def _reading(row: OltData, of_all: datetime | None) -> Reading:
    seen = max(row.collected_at, of_all) if of_all is not None else row.collected_at
    return Reading(
        row.shape, row.metric, row.index_key, row.number, row.text, row.unit, row.reason, seen,
        has_history=row.kept is not None,
    )  # fmt: skip


def _names(olt_id: int) -> dict[str, str]:
    columns = (PonPort.index_key, PonPort.name, PonPort.slot, PonPort.port)
    query = select(*columns).where(PonPort.olt_id == olt_id, PonPort.onu_number.is_(None))
    return {index: _label(name, slot, port) for index, name, slot, port in db.session.execute(query)}


def _label(name: str, slot: int | None, port: int | None) -> str:
    """Some makers call all PON ports of a board alike."""
    place = f"{slot}/{port}" if slot is not None and port is not None else ""
    return name if place in name else f"{place} · {name}"


def _parts(readings: Iterable[Reading], names: dict[str, str]) -> tuple[Part, ...]:
    """By index, in the order of its numbers."""
    found: dict[str, Part] = {}
    for one in readings:
        found.setdefault(one.index, Part(one.index, names.get(one.index) or one.index)).readings[one.metric] = one
    return tuple(sorted(found.values(), key=lambda part: _in_order(part.index)))


def _in_order(index: str) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in index.split("."))


def reading(olt_id: int, metric: str, index: str) -> tuple[Reading, str] | None:
    """One value and the name of its port; None where there is none."""
    row = db.session.get(OltData, (olt_id, metric, index))
    if row is None:
        return None
    of_all = db.session.get(OltRead, (olt_id, READ_AS + metric))
    return _reading(row, of_all.read_at if of_all else None), _names(olt_id).get(index, "")


def history(olt_id: int, metric: str, index: str, since: datetime, now: datetime) -> list[Step]:
    """That value over time, with the last change before `since`. One SQL statement."""
    mine = (OltHistory.olt_id == olt_id, OltHistory.metric == metric, OltHistory.index_key == index)
    found = db.session.execute(histories.rows(OltHistory, [mine], since))
    return list(series.steps([series.Row(*row) for row in found], series.gathering_edge(now)))
