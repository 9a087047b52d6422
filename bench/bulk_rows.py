"""What a written row costs by each way there is: CPU of this process and of the database server, microseconds a row.

The rows are those of `onu_data`; each way writes the same ONUs and metrics, with other values.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from bench import inventory
from bench.collect import Server
from portal.extensions import db, transaction
from portal.services.bulk_rows import fetch_rows, moment, replace_rows, upsert_rows
from portal.services.upsert import upsert
from portal.tables import OnuData
from testing.measuring import grounds
from testing.postgres import postgres_cluster

COLUMNS = ("onu_id", "metric", "number", "text", "raw", "reason", "kept", "collected_at", "execution_id")
KEY, REST = COLUMNS[:2], COLUMNS[2:]
Rows = list[tuple[Any, ...]]


def rows(session: Session, ids: Iterable[int], turn: int) -> Rows:
    """In the order of the key; `turn` makes them differ."""
    at = moment(session, datetime.now(UTC))
    made = [
        (onu_id, metric, -20.0 - turn / 100, None, str(-2000 - turn), "", None, at, turn)
        for onu_id in ids
        for metric in inventory.METRICS
    ]
    return sorted(made)


def by_sqlalchemy(session: Session, given: Rows) -> None:
    """One statement, executed for each row."""
    now = datetime.now(UTC)
    upsert(session, OnuData, [dict(zip(COLUMNS, row, strict=True)) | {"collected_at": now} for row in given], KEY, REST)


def by_copy(session: Session, given: Rows) -> None:
    """COPY into a temporary table and INSERT … ON CONFLICT from there."""
    names, changes = ", ".join(COLUMNS), ", ".join(f"{name} = excluded.{name}" for name in REST)
    driver: Any = session.connection().connection.driver_connection
    with driver.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE given ON COMMIT DROP AS SELECT {names} FROM onu_data WITH NO DATA")  # noqa: S608
        with cursor.copy(f"COPY given ({names}) FROM STDIN") as copy:
            for row in given:
                copy.write_row(row)
        select = f"INSERT INTO onu_data ({names}) SELECT {names} FROM given"  # noqa: S608
        cursor.execute(f"{select} ON CONFLICT (onu_id, metric) DO UPDATE SET {changes}")


WAYS: dict[str, Callable[[Session, Rows], None]] = {
    "upsert_rows": lambda session, given: upsert_rows(session, OnuData, COLUMNS, given, KEY, REST),
    "replace_rows": lambda session, given: replace_rows(session, OnuData, COLUMNS, given, KEY, REST),
    "sqlalchemy": by_sqlalchemy,
    "copy": by_copy,
}


def measure(server: Server, onus: int, turns: int) -> dict[str, Any]:
    """Best of `turns` of each way, after the rows are there."""
    inventory.fill(onus, onus, seed=1)
    ids = [row[0] for row in fetch_rows(db.session(), "SELECT id FROM onus WHERE id > ?", (0,))]
    db.session.rollback()
    found: dict[str, Any] = {"database": db.engine.dialect.name, "rows": len(ids) * len(inventory.METRICS)}
    for name, way in WAYS.items():
        if name == "copy" and db.engine.dialect.name == "sqlite":
            continue
        costs = [_cost(way, server, ids, turn) for turn in range(turns)]
        client, served = min(costs, key=sum)
        found[name] = {"client_us": client, "server_us": served, "rows_a_cpu_s": round(1e6 / (client + served))}
    return found


def _cost(way: Callable[[Session, Rows], None], server: Server, ids: list[int], turn: int) -> tuple[float, float]:
    given = rows(db.session(), ids, turn + int(time.time()) % 1000)
    db.session.rollback()
    served, mine = server.cpu(), time.process_time()
    with transaction() as session:
        way(session, given)
    mine = time.process_time() - mine
    served = server.cpu() - served
    return round(mine / len(given) * 1e6, 2), round(served / len(given) * 1e6, 2)


def main() -> int:
    """Run it; one JSON line for each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onus", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=5)
    plan = parser.parse_args()
    for name in ("sqlite", "postgresql"):
        with ExitStack() as exits:
            folder, url, server = exits.enter_context(grounds.folder()), "", Server(None)
            if name == "postgresql":
                cluster = exits.enter_context(postgres_cluster())
                url, server = cluster.create_database(), Server(cluster.process.pid if cluster.process else None)
            exits.enter_context(inventory.product(folder, url))
            print(json.dumps(measure(server, plan.onus, plan.turns)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
