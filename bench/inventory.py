"""Searching a large inventory, and what an ONU weighs in the database. Both databases, 100,000 ONUs unless told.

Each question is asked as the page asks it: the number of ONUs, the counts by state, one page of rows with readings.
"""

import argparse
import json
import logging
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask_migrate import upgrade
from sqlalchemy import func, insert, select, text
from sqlalchemy.orm import Session

from app import create_app
from config import load_settings
from portal.domain.statuses import Presence
from portal.extensions import db, transaction
from portal.queries import onus
from portal.services.bulk_rows import moment, upsert_rows
from portal.services.cataloguing import catalogue
from portal.tables import Brand, Credential, Olt, OltRead, Onu, OnuData, OnuHistory
from testing.measuring import grounds

MIGRATIONS = str(Path(__file__).resolve().parents[1] / "migrations")
METRICS = ("onu_state", "onu_rx_power", "onu_olt_rx_power", "onu_distance", "onu_description")
GOAL_MS = 100
_ROWS = ("onu_id", "metric", "number", "text", "raw", "reason", "kept", "collected_at", "execution_id")
SURNAMES = ("Quispe", "Flores", "Mamani", "Rojas", "Huamán", "Castro", "Vargas", "Ramírez", "Chávez", "Núñez")


@contextmanager
def product(folder: Path, url: str) -> Iterator[None]:
    """An empty database with the catalogue, and an app context."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    environment = {"DATABASE_URL": url or f"sqlite:///{folder}/bench.db", "INSTANCE": str(folder), "SECRET_KEY": "x"}
    app = create_app(load_settings(os.environ | environment))
    with app.test_request_context():
        try:
            upgrade(MIGRATIONS)
            catalogue.sync(catalogue.load_shipped(), datetime.now(UTC))
            yield
        finally:
            db.session.remove()
            db.engine.dispose()


def fill(count: int, each: int, seed: int) -> None:
    """`count` ONUs, `each` to an OLT, 128 to a port, with five readings and a day's history of one of them."""
    now, chance = datetime.now(UTC), random.Random(seed)
    with transaction() as session:
        brand = session.scalars(select(Brand).where(Brand.key == "huawei")).one()
        credential = Credential(name="bench", version="2c", community="public")
        session.add(credential)
        session.flush()
        for number in range(count // each):
            olt = Olt(name=f"OLT-{number:03}", address=f"10.1.{number // 250}.{number % 250}", port=161, brand=brand,
                      credential=credential, created_at=now)  # fmt: skip
            session.add(olt)
            session.flush()
            _fill_olt(session, olt.id, each, number, now, chance)


def _fill_olt(session: Session, olt_id: int, each: int, number: int, now: datetime, chance: random.Random) -> None:
    table: Any = Onu.__table__
    session.execute(insert(table), [_onu(olt_id, at, number * each + at, now, chance) for at in range(each)])
    ids = session.scalars(select(Onu.id).where(Onu.olt_id == olt_id).order_by(Onu.id)).all()
    at, rows, history = moment(session, now), [], []
    for onu_id in ids:
        power = round(-15 - chance.random() * 12, 2)
        values = ("online", power, round(power - 2, 2), float(chance.randrange(20_000)), f"CLI-{onu_id:08}")
        for metric, value in zip(METRICS, values, strict=True):
            numeric = isinstance(value, float)
            rows.append((onu_id, metric, value if numeric else None, None if numeric else value, str(value), "",
                         power if metric == "onu_rx_power" else None, at, 1))  # fmt: skip
        for hour in range(6):
            past = moment(session, now - timedelta(hours=hour))
            history.append((onu_id, "onu_rx_power", past, power, power, power, power, 1, 0, 0))
    upsert_rows(session, OnuData, _ROWS, rows, ("onu_id", "metric"), ())
    columns = ("onu_id", "metric", "collected_at", "mean", "minimum", "maximum", "last", "samples", "span", "without")
    upsert_rows(session, OnuHistory, columns, history, columns[:3], ())
    session.add_all(OltRead(olt_id=olt_id, metric=metric, read_at=now) for metric in ("presence:1", *METRICS))


def _onu(olt_id: int, at: int, number: int, now: datetime, chance: random.Random) -> dict[str, Any]:
    slot, port, onu = at // 2048, at // 128 % 16, at % 128
    return {
        "olt_id": olt_id, "index_key": f"{4194304000 + slot * 8192 + port * 256}.{onu}", "frame": 0, "slot": slot,
        "port": port, "onu_number": onu, "decoded": True, "found_by": 1,
        "serial": f"48575443{chance.getrandbits(32):08X}",
        "description": f"C-{number:07} {chance.choice(SURNAMES)} {chance.choice(SURNAMES)}", "model": "HG8245H",
        "presence": Presence.ENABLED, "presence_since": now, "state": 1, "state_label": "online",
        "online": chance.random() > 0.02, "misses": 0, "first_seen": now, "last_seen": now,
    }  # fmt: skip


def asked(q: str) -> tuple[int, float]:
    """Rows on the first page, and milliseconds of the whole page's queries, the best of five."""
    wanted = onus.OnuFilter(q=q)
    best, rows = float("inf"), 0
    for _ in range(5):
        begin = time.perf_counter()
        found = onus.find(wanted)
        size = onus.scope_size(wanted) if found and found.found is None else 0
        small, large = bool(found and size <= onus.SORT_LIMIT), size > onus.LARGE
        if found and small:
            onus.counts(found, large=large)
        rows = len(onus.page(found or wanted, sorted_rows=small, large=large).rows)
        best = min(best, time.perf_counter() - begin)
        db.session.rollback()
    return rows, round(best * 1000, 1)


def questions() -> dict[str, str]:
    """What a person in support types."""
    onu = db.session.scalars(select(Onu).order_by(Onu.id).offset(54_321 % (onu_count() - 1)).limit(1)).one()
    serial = onu.serial or ""
    found = {
        "serial as on the label": f"HWTC{serial[8:]}", "end of a serial": serial[-6:],
        "customer code": onu.description.split()[0], "part of a description": onu.description.split(" ", 1)[1][2:],
        "a frequent surname": "Quispe", "slot/port/onu": f"{onu.slot}/{onu.port}/{onu.onu_number}",
        "nothing that exists": "zzzyyyxxx", "the whole list": "",
    }  # fmt: skip
    db.session.rollback()
    return found


def onu_count() -> int:
    """ONUs in the database."""
    return db.session.scalar(select(func.count()).select_from(Onu)) or 0


def size(folder: Path) -> int:
    """Octets of the database."""
    if db.engine.dialect.name == "postgresql":
        return db.session.scalar(text("SELECT pg_database_size(current_database())")) or 0
    db.session.remove()
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    return (folder / "bench.db").stat().st_size


def measure(folder: Path, plan: argparse.Namespace) -> dict[str, Any]:
    """Fill, ask, weigh."""
    empty = size(folder)
    begin = time.monotonic()
    fill(plan.onus, plan.each, plan.seed)
    filled = time.monotonic() - begin
    if db.engine.dialect.name == "postgresql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    times = {name: asked(q) for name, q in questions().items()}
    return {
        "database": db.engine.dialect.name, "onus": onu_count(), "fill_s": round(filled, 1),
        "octets_per_onu": round((size(folder) - empty) / plan.onus),
        "page_ms": {name: {"rows": rows, "ms": took} for name, (rows, took) in times.items()},
        "missed": [name for name, (_, took) in times.items() if took > GOAL_MS],
    }  # fmt: skip


def main() -> int:
    """Run it; one JSON line for each database. Exit code 1 when a question took longer than the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onus", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=1_000, help="ONUs of one OLT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    plan = parser.parse_args()
    missed = False
    for name in ("sqlite", "postgresql") if plan.database == "both" else (plan.database,):
        with ExitStack() as exits:
            folder = exits.enter_context(grounds.folder())
            url = exits.enter_context(grounds.database(postgres=name == "postgresql"))
            exits.enter_context(product(folder, url))
            found = measure(folder, plan)
            missed |= bool(found["missed"])
            print(json.dumps(found, ensure_ascii=False), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
