"""A catalogue in the database without reconciling it each time: the rows of the first time are copied in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, func, insert, select, text

from portal.domain.catalogue_data import BrandData
from portal.extensions import Base, db, transaction
from portal.services import audit
from portal.services.cataloguing import catalogue

TABLES: tuple[Table, ...] = tuple(
    Base.metadata.tables[name] for name in ("brands", "olt_models", "index_formulas", "state_maps", "oids")
)


@dataclass(frozen=True)
class Synced:
    """What the first synchronisation wrote: rows by table, and the counts of its audit row."""

    rows: tuple[list[dict[str, Any]], ...]
    counts: dict[str, int]


_SYNCED: dict[str, Synced] = {}


def sync(name: str, load: Callable[[], Iterable[BrandData]], now: datetime) -> None:
    """catalogue.sync(load(), now) into a database without any catalogue. `name`: of what `load` gives."""
    known = _SYNCED.get(name)
    if known is not None:
        _copy(known, now)
        return
    counts = catalogue.sync(load(), now)
    read = [[dict(row) for row in db.session.execute(select(table)).mappings()] for table in TABLES]
    _SYNCED[name] = Synced(tuple(read), counts)


def _copy(synced: Synced, now: datetime) -> None:
    with transaction() as session:
        for table, rows in zip(TABLES, synced.rows, strict=True):
            if rows:
                session.execute(insert(table), rows)
        if session.get_bind().dialect.name == "postgresql":
            ends = (f"setval('{table.name}_id_seq', {max(row['id'] for row in rows)})"
                    for table, rows in zip(TABLES, synced.rows, strict=True) if rows)  # fmt: skip
            session.execute(text(f"SELECT {', '.join(ends)}"))
        subject = audit.Subject(type="catalogue", name="shipped files")
        audit.record(session, actor="cli", action="catalogue.sync", subject=subject, changes=synced.counts, now=now)


def is_empty() -> bool:
    """No brand is known yet."""
    return not db.session.scalar(select(func.count()).select_from(TABLES[0]))
