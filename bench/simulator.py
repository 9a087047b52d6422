"""Simulator: how fast generated OLTs start and answer, and what memory they take, for every vendor and three sizes.

Each OLT runs in a process of its own and is walked by GETBULK over UDP from this one, both on the same machine.
Run: `python -m bench.simulator [--olt huawei] [--onus 1000] [--seconds 2] [--table]`; prints one JSON line, with
--table the rows of the table in docs/simulator.md instead.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import easysnmp

from jobs.snmp.simulator.farm import start_farm
from jobs.snmp.simulator.vendors import VENDORS

SIZES = (10, 1000, 10_000)
BRANCH = {
    "huawei": "2011.6.128.1.1.2.43",
    "zte": "3902.1012.3.28",
    "zte C600": "3902.1082.500.10.2.3",
    "fiberhome": "5875.800.3.10.1.1",
    "vsol V1600G": "37950.1.1.6.1.1",
    "vsol V1600D": "37950.1.1.5.12",
    "bdcom GP3600-16B": "3320.10.3",
    "bdcom P3310C": "3320.101.10",
    "cdata FD1608S": "17409.2.8.4.1.1",
    "cdata FD1208S": "17409.2.3.4.1.1",
    "nokia": "637.61.1.35.10",
    "ufiber": "41112.1.5.6.2.1",
}
ROWS = 40


@dataclass(frozen=True)
class Figures:
    """One OLT: seconds until it listens, megabytes resident after a walk, values a second in GETBULK answers.

    ``per_cpu``: values a second of the agent's own CPU time, which other work on the machine hardly moves.
    """

    olt: str
    onus: int
    start: float
    megabytes: float
    values: int
    per_cpu: int


def measured(olt: str, onus: int, seconds: float) -> Figures:
    """Start, walk, stop."""
    source, _, model = olt.partition(" ")
    spec = f"{source}@0,seed=1,onus={onus}" + (f",model={model}" if model else "")
    began = time.monotonic()
    with start_farm([spec], timeout=60.0) as farm:
        start = time.monotonic() - began
        before = _cpu(farm.pid)
        values = _walked(farm.ports[0], f".1.3.6.1.4.1.{BRANCH[olt]}", seconds)
        per_cpu = round(values / (_cpu(farm.pid) - before))
        return Figures(olt, onus, round(start, 2), round(_resident(farm.pid), 1), round(values / seconds), per_cpu)


def _walked(port: int, root: str, seconds: float) -> int:
    """Values received in so many seconds, walking the branch again and again."""
    session = easysnmp.Session(
        hostname="127.0.0.1", remote_port=port, version=2, community="public", use_numeric=True, timeout=10, retries=0
    )
    end = time.monotonic() + seconds
    values, at = 0, root
    while time.monotonic() < end:
        answer = session.get_bulk(at, 0, ROWS)
        last = ".".join(part for part in (answer[-1].oid, answer[-1].oid_index) if part)
        values += len(answer)
        at = last if last.startswith(root + ".") and answer[-1].snmp_type != "ENDOFMIBVIEW" else root
    return values


def _cpu(pid: int) -> float:
    """Seconds of CPU a process has used (Linux; utime and stime of proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    """Megabytes a process holds (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def table(rows: list[Figures]) -> str:
    """Markdown: one line per OLT, the three figures of each size in a cell."""
    sizes = sorted({row.onus for row in rows})
    lines = ["| OLT | " + " | ".join(f"{size:,} ONUs" for size in sizes) + " |", "| --- |" + " ---: |" * len(sizes)]
    for olt in dict.fromkeys(row.olt for row in rows):
        cells = [f"{one.start:.1f} s, {one.megabytes:.0f} MB, {one.per_cpu:,}" for one in rows if one.olt == olt]
        lines.append(f"| {olt} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--olt", choices=list(BRANCH), action="append", help="only this one; repeatable")
    parser.add_argument("--onus", type=int, action="append", help="only this size; repeatable")
    parser.add_argument("--seconds", type=float, default=2.0, help="walk for so long")
    parser.add_argument("--table", action="store_true", help="print Markdown instead of JSON")
    given = parser.parse_args()
    rows = [
        measured(olt, onus, given.seconds)
        for olt in given.olt or BRANCH
        for onus in given.onus or SIZES
    ]  # fmt: skip
    missing = set(VENDORS) - {olt.partition(" ")[0] for olt in BRANCH}
    slow = [row for row in rows if row.start > 3.0]
    found = {"bench": "simulator", "ok": not missing and not slow, "olts": [asdict(row) for row in rows]}
    print(table(rows) if given.table else json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
