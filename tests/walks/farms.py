"""One process that serves every recording and every built table over UDP, for all tests of this folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.snmp.simulator.farm import start_farm
from tests.walks import recordings, tables


@contextmanager
def served(folder: Path) -> Iterator[dict[str, int]]:
    """Name of a table ("built:x") or recording → UDP port on 127.0.0.1."""
    files = {}
    for table in tables.load_all():
        path = folder / f"{table.name}.snmprec"
        path.write_text(table.snmprec(), encoding="utf-8")
        files[f"built:{table.name}"] = path
    if recordings.WALKS.is_dir():
        files |= {name: recordings.WALKS / f"{name}.snmprec" for name in recordings.DEVICES}
    with start_farm([f"{path}@127.0.0.1:0" for path in files.values()], timeout=60) as farm:
        yield dict(zip(files, farm.ports, strict=True))
