"""What the two SNMP drivers cost and keep: values a CPU second, datagrams, memory, descriptors. Prints one JSON line.

`python -m bench.drivers` walks 5 columns of 2,048 ONUs and reads 2,048 instances of each by GET, several times, each
driver in a process of its own (CPU seconds of that process; the agent is another). `--requests 1000000` sends so many
requests instead and says how memory and descriptors have grown since the first tenth; `--delay-us 20000` shows the time
against datagrams x delay.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from jobs.drivers import DRIVERS
from jobs.snmp.getting import get_many
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import SessionFactory
from jobs.snmp.walking import MAX_ANSWER_VALUES, walk
from portal.domain.composite import SnmpTarget
from testing.oltsim_c import DESCRIPTION, DISTANCE, ONU_RX_POWER, RUN_STATE, SERIAL, oltsim

COLUMNS = (SERIAL, DESCRIPTION, RUN_STATE, DISTANCE, ONU_RX_POWER)
ROWS = 50  # max_repetitions and max_varbinds
CYCLE = 20  # requests through one session before it is closed and another opened


def limits() -> dict[str, Any]:
    """Nothing is limited, nothing checked."""
    return {"deadline": float("inf"), "checkpoint": lambda: None, "clock": time.monotonic}


def target(port: int) -> SnmpTarget:
    """The simulated OLT."""
    return SnmpTarget("127.0.0.1", port, "2c", community="public", timeout=2.0, retries=1)


def timed(work: Callable[[], tuple[int, int]], rounds: int) -> dict[str, Any]:
    """Values a CPU second and a second, and datagrams, of `work` done `rounds` times after one that warms up."""
    work()
    cpu, wall, values, pdus = time.process_time(), time.monotonic(), 0, 0
    for _ in range(rounds):
        got, sent = work()
        values, pdus = values + got, pdus + sent
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    return {
        "values_a_cpu_second": round(values / cpu),
        "microseconds_a_value": round(cpu / values * 1e6, 2),
        "pdus": pdus // rounds,
        "seconds": round(wall / rounds, 3),
    }


def speed(name: str, port: int, onus: int, rounds: int) -> dict[str, Any]:
    """Walk and GET through one session."""
    session = PatientSession(DRIVERS[name], target(port), lambda: None)

    def by_walk() -> tuple[int, int]:
        result = walk(session, COLUMNS, max_repetitions=ROWS, max_rows=100_000, **limits())
        if not result.complete or result.rows != onus * len(COLUMNS):
            raise RuntimeError(f"the walk is not complete: {result.first_error}")
        return result.rows, result.pdus

    def by_get() -> tuple[int, int]:
        result = get_many(session, names, max_varbinds=ROWS, roots=COLUMNS, **limits())
        if len(result.values) != len(names):
            raise RuntimeError(f"not all was read: {result.message}")
        return len(names), result.pdus

    with closing(session):
        indexes = [index for index, _ in walk(
            session, COLUMNS[:1], max_repetitions=ROWS, max_rows=100_000, **limits()
        ).columns[0].rows]  # fmt: skip
        names = [f"{column}.{index}" for column in COLUMNS for index in indexes]
        return {"walk": timed(by_walk, rounds), "get": timed(by_get, rounds)}


def held() -> tuple[int, int]:
    """Resident memory in KiB and open descriptors of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir("/proc/self/fd"))


def endurance(open_session: SessionFactory, port: int, requests: int) -> dict[str, Any]:
    """So many requests, GET and GETBULK in turn, a new session each `CYCLE`; each hundredth asks for what is absent."""
    started, sent = time.monotonic(), 0
    samples: list[tuple[int, int]] = []
    while sent < requests:
        with closing(PatientSession(open_session, target(port), lambda: None)) as session:
            for turn in range(CYCLE):
                sent += 1
                if sent % 100 == 0:
                    session.exact.get([f"{SERIAL}.9.9"])
                elif turn % 2:
                    session.next_rows([SERIAL], 10)
                else:
                    session.get([f"{SERIAL}.4194304000.{onu}" for onu in range(10)])
        if sent * 10 // requests > len(samples):
            samples.append(held())
    first, last = samples[0], samples[-1]
    return {
        "requests": sent,
        "seconds": round(time.monotonic() - started),
        "kib_after_a_tenth": first[0],
        "kib_at_the_end": last[0],
        "descriptors": [first[1], last[1]],
    }


def in_child(name: str, given: argparse.Namespace, port: int) -> dict[str, Any]:
    """The same bench for one driver, in a process that has seen no other."""
    command = [
        sys.executable, "-m", "bench.drivers", "--driver", name, "--port", str(port), "--onus", str(given.onus),
        "--requests", str(given.requests), "--rounds", str(given.rounds),
    ]  # fmt: skip
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onus", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=0, help="send so many instead of measuring speed")
    parser.add_argument("--delay-us", type=int, default=0, help="service time of one request")
    parser.add_argument("--driver", choices=sorted(DRIVERS), help="one driver, against an agent on --port")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    if given.driver:
        if given.requests:
            found = endurance(DRIVERS[given.driver], given.port, given.requests)
        else:
            found = speed(given.driver, given.port, given.onus, given.rounds)
    else:
        options = ["--delay-us", str(given.delay_us)] if given.delay_us else []
        with oltsim(*options, onus=given.onus) as port:
            found = {name: in_child(name, given, port) for name in sorted(DRIVERS)}
        found |= {"bench": "drivers", "onus": given.onus, "delay_us": given.delay_us, "most_values": MAX_ANSWER_VALUES}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
