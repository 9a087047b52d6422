"""200 open tabs beside ten working pollers on one machine: how fast are fragments, and do the pollers read as much?

The portal is served as the Procfile says; the tabs ask as live.js does, each for its page's fragment and for the strip
every two seconds, with the digests they show. More is planned than the pollers can do, and OLTs take their time as real
ones do (a table of ONUs: seconds to minutes), so that every poller is busy all the time. With `--answer-ms 20` the CPU
is short, and whatever a tab costs the pollers lose. Minutes with and without tabs take turns.
Run: `python -m bench.web_tabs [--postgres]`; prints one line of JSON.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import re
import signal
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from sqlalchemy import func, select

from portal.domain.statuses import ExecutionStatus, Role
from portal.extensions import db
from portal.services.people import users
from portal.tables import Execution, Olt
from testing.measuring import clocks, grounds
from testing.measuring.grounds import Agents
from testing.measuring.quantiles import quantile
from testing.served import free_port, served

GOAL_MS, GOAL_SHARE = 60, 0.95
EVERY = 2.0  # seconds between two looks of a tab
WARM = 6  # seconds before anything counts
ONUS = 64
PASSWORD = "a password of the bench"  # noqa: S105  (of a database that goes away)
ROLES = (Role.VIEWER, Role.VIEWER, Role.OPERATOR, Role.OPERATOR, Role.ADMIN)
PAGES = (("/", "dashboard_live"), ("/olts/", "olts_live"), ("/executions/", "executions_live"),
         ("/queue/", "queue_live"), ("/pollers/", "pollers_live"), ("/olts/{olt}", "olt_live"))  # fmt: skip
TEMPLATE = """
      - key: discovery
        kind: discovery
        oid: huawei.onu_state
        interval: 60s
        override: bench
        chain:
          - {key: rx, kind: get, oid: huawei.onu_rx_power}
"""


@dataclass(frozen=True)
class Plan:
    """What to run. `seconds`: of each turn; `turns`: with tabs, and as many without."""

    tabs: int
    olts: int
    pollers: int
    interval: int
    seconds: int
    turns: int
    answer_ms: int  # what an OLT takes for a request
    postgres: bool


class Seen(NamedTuple):
    """An answer: its status and how long it took. `counts`: it was asked for once all was warm."""

    counts: bool
    status: int
    ms: float


@dataclass
class Look:
    """What one tab shows, and how long its answers took."""

    path: str
    target: str
    cookie: str
    digest: str = ""

    def request(self) -> bytes:
        """As htmx sends it."""
        lines = [f"GET {self.path} HTTP/1.1", "Host: localhost", f"Cookie: {self.cookie}", "HX-Request: true",
                 f"HX-Target: {self.target}", "Accept-Encoding: gzip", "User-Agent: tab"]  # fmt: skip
        lines += [f"X-Digest: {self.digest}"] if self.digest else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


# ------------------------------------------------------------------------------------------------------ the tabs' side


async def _asked(look: Look, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    writer.write(look.request())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    await reader.readexactly(int(headers.get("content-length", "0")))
    look.digest = headers.get("x-digest", look.digest)
    return int(head.split(" ", 2)[1])


async def _tab(looks: list[Look], port: int, late: float, span: tuple[float, float], seen: list[Seen]) -> None:
    """One browser tab: a connection that stays open, both fragments every EVERY seconds. `span`: what counts."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(late)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = loop.time()
    while loop.time() < span[1]:
        for look in looks:
            begun = loop.time()
            status = await _asked(look, reader, writer)
            seen.append(Seen(begun >= span[0], status, (loop.time() - begun) * 1000))
        due = max(due + EVERY, loop.time() + 0.1)
        await asyncio.sleep(due - loop.time())
    writer.close()


async def _browse(tabs: list[list[Look]], port: int, seconds: float) -> tuple[list[Seen], list[str]]:
    seen: list[Seen] = []
    now = asyncio.get_running_loop().time()
    span = now + WARM, now + WARM + seconds
    work = [_tab(looks, port, EVERY * at / len(tabs), span, seen) for at, looks in enumerate(tabs)]
    ended = await asyncio.gather(*work, return_exceptions=True)
    return seen, [repr(one) for one in ended if one is not None]


def browse(tabs: list[list[Look]], port: int, seconds: float, answer: Any) -> None:
    """In a process of its own: the tabs; what they saw goes to `answer`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer.send("ready")
    begun = time.process_time()
    seen, errors = asyncio.run(_browse(tabs, port, seconds))
    answer.send((seen, errors, time.process_time() - begun))


# -------------------------------------------------------------------------------------------------- the portal's side


def cookie_of(username: str, port: int) -> str:
    """Log in as a browser does; the session's cookie."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/login")
    answer = connection.getresponse()
    token = re.search(r'name="csrf-token" content="([^"]+)"', answer.read().decode())
    first = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    body = urlencode({"username": username, "password": PASSWORD, "csrf_token": token[1] if token else ""})
    headers = {"Cookie": first, "Content-Type": "application/x-www-form-urlencoded", "User-Agent": "tab"}
    connection.request("POST", "/login", body, headers)
    answer = connection.getresponse()
    answer.read()
    found = re.search(r"session=[^;]+", ", ".join(answer.headers.get_all("Set-Cookie") or []))
    assert found, (answer.status, username)  # noqa: S101
    return found[0]


def tabs_of(plan: Plan, cookies: list[str], olts: list[int]) -> list[list[Look]]:
    """Each tab's two fragments; people and pages by turns."""
    made = []
    for number in range(plan.tabs):
        path, target = PAGES[number % len(PAGES)]
        cookie = cookies[number // len(PAGES) % len(cookies)]
        own = path.format(olt=olts[number % 5])
        made.append([Look(own, target, cookie), Look("/pulse", "pulse", cookie)])
    return made


# ------------------------------------------------------------------------------------------------------------- judging


def cpu_seconds(pids: set[int]) -> float:
    """CPU that processes have used so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def done_between(begin: datetime, end: datetime) -> int:
    """Composites that ended well in that time."""
    db.session.rollback()
    ended = select(func.count()).where(Execution.finished_at >= begin, Execution.finished_at < end)
    return db.session.scalar(ended.where(Execution.status == ExecutionStatus.SUCCESS)) or 0


@dataclass
class Turn:
    """What one stretch of time brought."""

    runs: int
    web_cpu_s: float
    seen: list[Seen]
    errors: list[str]
    tabs_cpu_s: float = 0.0


def turn(plan: Plan, web: tuple[int, int], tabs: list[list[Look]]) -> Turn:
    """`seconds` of the product at work, looked at by `tabs`."""
    port, pid = web
    pids = {pid, *_below(pid)}
    here, there = multiprocessing.Pipe()
    fork = multiprocessing.get_context("spawn")
    watcher = fork.Process(target=browse, args=(tabs, port, plan.seconds, there)) if tabs else None
    if watcher:
        watcher.start()
        here.recv()  # it has loaded what it needs
    time.sleep(WARM)  # connections are made, templates are compiled, the first answers are whole
    begin, before = datetime.now(UTC), cpu_seconds(pids)
    clocks.sleep_until(begin + timedelta(seconds=plan.seconds))
    made = Turn(done_between(begin, datetime.now(UTC)), cpu_seconds(pids) - before, [], [])
    if watcher:
        made.seen, made.errors, made.tabs_cpu_s = here.recv()
        watcher.join()
    return made


def _below(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def run(plan: Plan) -> dict[str, Any]:
    """Everything; the figures."""
    agents = Agents(plan.olts, ONUS, 1000 * plan.answer_ms)
    with (
        grounds.folder() as folder,
        grounds.ground(folder, agents, TEMPLATE, postgres=plan.postgres, pollers=plan.pollers) as ground,
    ):
        for number, role in enumerate(ROLES):
            users.create(f"bench{number}", PASSWORD, role, "bench", datetime.now(UTC))
        for name in ("scheduler", "pollers", "maintenance"):
            ground.running.start(name)
        ground.running.wait_until(lambda: grounds.fresh_pollers() == plan.pollers, "all pollers", 60)
        clocks.spread_first_runs(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5), plan.interval)
        port = free_port()
        with served(ground.running, port) as process:
            web = (port, process.pid)
            cookies = [cookie_of(f"bench{number}", port) for number in range(len(ROLES))]
            olts = list(db.session.scalars(select(Olt.id).order_by(Olt.id)))
            time.sleep(15)  # all pollers have work
            turns = [turn(plan, web, tabs_of(plan, cookies, olts) if at % 2 else []) for at in range(2 * plan.turns)]
        return judged(plan, turns[::2], turns[1::2])


def judged(plan: Plan, calm: list[Turn], watched: list[Turn]) -> dict[str, Any]:
    """The line of figures."""
    seen = [one for each in watched for one in each.seen]
    cold, seen = [one for one in seen if not one.counts], [one for one in seen if one.counts]
    spans, alone = [one.ms for one in seen], sum(one.runs for one in calm)
    share = sum(one.runs for one in watched) / alone if alone else 0.0
    p95, errors = quantile(spans, 0.95), [text for each in watched for text in each.errors]
    seconds = plan.seconds * plan.turns
    passed = {"fragment_p95": p95 <= GOAL_MS, "throughput": share >= GOAL_SHARE, "no_errors": not errors}
    return {
        "requests_a_second": round(len(seen) / seconds, 1), "statuses": dict(Counter(one.status for one in seen)),
        "fragment_ms": {"p50": round(quantile(spans, 0.5), 1), "p95": round(p95, 1),
                        "p99": round(quantile(spans, 0.99), 1)},
        "first_seconds_ms": {"p95": round(quantile([one.ms for one in cold], 0.95), 1)},
        "runs_a_second": {"without": round(alone / seconds, 2), "with": round(alone * share / seconds, 2)},
        "runs_by_turn": [[one.runs, other.runs] for one, other in zip(calm, watched, strict=True)],
        "throughput_share": round(share, 3), "errors": errors[:5],
        "web_cpu_share": {"without": round(sum(one.web_cpu_s for one in calm) / seconds, 3),
                          "with": round(sum(one.web_cpu_s for one in watched) / seconds, 3)},
        "tabs_cpu_share": round(sum(one.tabs_cpu_s for one in watched) / seconds, 3),
        "load_average": os.getloadavg()[0], "pass": passed,
    }  # fmt: skip


def main() -> None:
    """Read the command line, run, print one line of JSON; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tabs", type=int, default=200)
    parser.add_argument("--olts", type=int, default=60)
    parser.add_argument("--pollers", type=int, default=10)
    parser.add_argument("--interval", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--answer-ms", type=int, default=200)
    parser.add_argument("--postgres", action="store_true")
    plan = Plan(**vars(parser.parse_args()))
    found = run(plan)
    print(json.dumps({"bench": "web_tabs", **asdict(plan), **found}))
    raise SystemExit(0 if all(found["pass"].values()) else 1)


if __name__ == "__main__":
    main()
