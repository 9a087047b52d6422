"""F23: 16 writers and 20 readers on SQLite. None is ever told that the database is locked.

How long a commit takes is for an idle machine to say: `python -m bench.sqlite_writers`.
By the clock: a writer that is not given a processor for long makes the others wait, to the end of their patience.
"""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from testing.measuring import sqlite_writers
from testing.measuring.sqlite_writers import GOAL_WAL_MIB, Load

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(300)]

CYCLES = 4  # composites of each writer, three transactions each


def test_f23_sixteen_writers_and_twenty_readers_never_find_the_database_locked(tmp_path: Path) -> None:
    load = Load(cycles=CYCLES, seconds=250, pause=0.5, reader_pause=1.0)
    found = sqlite_writers.run(load, tmp_path)
    assert found["errors"] == {} and found["locked"] == 0
    assert found["transactions"] == load.writers * CYCLES * 3
    assert int(str(found["pages"])) >= load.readers, "the readers read"
    assert float(str(found["wal_mib"])) < GOAL_WAL_MIB
    with create_engine(f"sqlite:///{tmp_path}/facho.db").connect() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
        ended = connection.execute(text("SELECT count(*) FROM executions WHERE status = 'SUCCESS'")).scalar_one()
    assert ended == load.writers * CYCLES
