"""The time machine: days of trouble explained truly, queues that do as those in Redis, and `flask whatif run`."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from redis import Redis
from sqlalchemy import event
from sqlalchemy.orm import Session

from jobs import claim as claims
from portal import queueing
from portal.domain import schedule
from portal.domain.explain import explain
from portal.domain.statuses import TERMINAL, ExecutionStatus, LossCause, OltState, SkipReason
from portal.domain.tickets import Ticket
from portal.extensions import db
from portal.tables import WorkflowNode
from scheduler.timemachine import loading
from scheduler.timemachine.book import Book
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import Havoc, scenario
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.recall import Recall
from scheduler.timemachine.witness import Witness
from scheduler.timemachine.world import ALL_SITES
from testing.builders import make_chained, make_execution, make_node, make_olt
from testing.cast import DAY, TEN
from testing.databases import Databases
from testing.virtual import cron_in, many_olts

GAPS = 1000
NOW = datetime.now(UTC).replace(microsecond=0)

pytestmark = pytest.mark.timeout(240)


def lived(seed: int, length: timedelta, havoc: Havoc, **more: Any) -> Machine:
    """A world with its trouble, lived for so long."""
    next_cron = cron_in("America/Santiago")
    world = many_olts(TEN, seed, next_cron, **more)
    events = scenario(world, TEN, TEN + length, seed, havoc)
    machine = Machine(world, TEN, next_cron=next_cron, fortune=Fortune(seed, drift=0.4), history=events, keep_all=True)
    machine.run(TEN + length)
    return machine


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "pollers"), [(1, 12), (2, 2), (3, 5)])
def test_in_a_day_of_trouble_every_slot_is_in_one_state_and_the_trackers_are_true(seed: int, pollers: int) -> None:
    machine = lived(seed, DAY, Havoc(edits=120, restarts=12), pollers=pollers)
    assert machine.wrong_slots() == []
    assert machine.audit() == []
    assert machine.state.figures.composites > 12_000
    statuses = {run.status for runs in machine.history().runs.values() for run in runs}
    assert statuses >= {ExecutionStatus.SUCCESS, ExecutionStatus.FAILED}
    reasons = {*machine.state.figures.skipped}
    assert reasons >= {SkipReason.SCHEDULER_DOWN, SkipReason.OLT_UNREACHABLE, SkipReason.OLT_BUSY}


def test_explain_answers_a_thousand_random_gaps_with_the_true_cause() -> None:
    machine, chance = lived(7, DAY / 3, Havoc(300, 90, 150, 150, 12), olts=30, pollers=3), Random(7)
    book = machine.history()
    witness, recall = Witness(machine.state, book), Recall(machine.state, book)
    nodes = {name[0]: run.node for name, runs in book.runs.items() for run in runs}
    nodes |= {skip.node.node_id: skip.node for skip in book.skips}
    wrong: list[Any] = []
    kinds: Counter[LossCause | None] = Counter()
    for ident, slot in chance.sample(gaps(book), GAPS):
        answer, truth = explain(recall.facts(nodes[ident], slot)), witness.causes(ident, slot)
        kinds[answer.cause] += 1
        if answer.slot != slot or answer.cause not in truth:
            wrong.append((ident, slot, answer, truth))
    assert wrong == []
    assert len(kinds) >= 8 and kinds[LossCause.UNKNOWN] == 0


def gaps(book: Book) -> list[tuple[int, datetime]]:
    """Every slot that was skipped, or whose execution ended without success."""
    failed = [
        name for name, runs in book.runs.items()
        if any(run.status in TERMINAL and run.status is not ExecutionStatus.SUCCESS for run in runs)
    ]  # fmt: skip
    return sorted({*failed, *(name for name, skips in book.skipped.items() if skips)})


def test_every_gap_has_a_true_cause_and_slots_skipped_for_none_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_cause() -> list[tuple[int, datetime]]:
        machine = lived(5, DAY / 12, Havoc(300, 90, 150, 150, 24), olts=20, pollers=3)
        book = machine.history()
        witness = Witness(machine.state, book)
        return [name for name in gaps(book) if not witness.causes(*name)]

    assert without_cause() == []
    truly = schedule.blocked

    def lying(state: OltState, until: datetime | None, now: datetime) -> SkipReason | None:
        return truly(state, until, now) or (SkipReason.OLT_PAUSED if now.minute % 10 == 7 else None)

    monkeypatch.setattr(schedule, "blocked", lying)
    assert len(without_cause()) > 20


STEPS = 250
SITES = {1: "", 2: "", 3: "lima", 4: "lima", 5: "cusco"}


class Both:
    """One history in Redis and in memory; what is claimed must be equal."""

    def __init__(self, redis: Redis, chance: Random) -> None:
        self.redis, self.chance, self.queues = redis, chance, Queues()
        self.held: list[claims.Claim] = []
        self.waiting: dict[str, Ticket] = {}
        self.count = 0

    def push(self) -> None:
        """A job of a random OLT: often overdue or of equal place, now and then asked for by a person."""
        self.count += 1
        olt = self.chance.choice(list(SITES))
        slot = NOW - timedelta(seconds=self.chance.randrange(0, 4000, 400))
        overdue = NOW + timedelta(seconds=self.chance.choice((-3000, -300, -299, 5000, 90_000)))
        one = Ticket(self.count, 1, olt, self.chance.choice((10, 40, 90)), slot, overdue,
                     self.chance.random() < 0.1, SITES[olt])  # fmt: skip
        self.waiting[one.job_id] = one
        queueing.push([one])
        self.queues.push(one)

    def claim(self) -> None:
        """By a poller of every site or of one."""
        site = self.chance.choice((None, None, "", "lima"))
        mine = claims.claim(self.redis, f"owner-{self.count}-{len(self.held)}-{self.chance.random()}", 600, 0, site)
        own = self.queues.claim(int(datetime.now(UTC).timestamp()), ALL_SITES if site is None else site)
        assert (mine.job_id if mine else None) == (own.job_id if own else None)
        if mine is not None:
            self.held.append(mine)
            del self.waiting[mine.job_id]

    def release(self) -> None:
        if self.held:
            mine = self.held.pop(self.chance.randrange(len(self.held)))
            claims.release(self.redis, mine)
            self.queues.release(mine.olt_id)

    def withdraw(self) -> None:
        if self.waiting:
            one = self.waiting.pop(self.chance.choice(sorted(self.waiting)))
            queueing.withdraw({one.job_id: one.olt_id})
            assert self.queues.withdraw(one)


@pytest.mark.parametrize("seed", range(6))
def test_memory_and_redis_claim_the_same_jobs_in_the_same_order(redis: Redis, seed: int) -> None:
    chance = Random(seed)
    both = Both(redis, chance)
    for _ in range(STEPS):
        chance.choice((both.push, both.push, both.claim, both.claim, both.release, both.withdraw))()
    assert both.queues.waiting == len(both.waiting)


def add_runs(node: WorkflowNode, count: int, milliseconds: int) -> None:
    """So many runs that took so long, the latest a minute ago."""
    for number in range(count):
        slot = NOW - timedelta(minutes=1 + number)
        make_execution(node, slot, started_at=slot, finished_at=slot, status=ExecutionStatus.SUCCESS,
                       duration_ms=milliseconds)  # fmt: skip


def add_two_olts(app: Flask) -> None:
    with app.app_context():
        for name in ("OLT-A", "OLT-B"):
            olt = make_olt(name, NOW)
            add_runs(make_node(olt, "discovery", NOW, interval="5m"), 3, 4_000)
            add_runs(make_node(olt, "text", NOW, kind="get", oid="huawei.onu_description", interval="60s"), 3, 20_000)


@pytest.fixture
def two_olts(app: Flask, databases: Databases) -> Flask:
    """OLT-A and OLT-B: a discovery of 4 s and a GET of 20 s on each, both with runs on record."""
    return databases.prepare(app, add_two_olts)


def run(app: Flask, *arguments: str) -> Result:
    return app.test_cli_runner().invoke(args=["whatif", "run", "--hours", "2", *arguments])


def told(app: Flask, *arguments: str) -> Any:
    result = run(app, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_present_and_changed_settings_stand_side_by_side(two_olts: Flask) -> None:
    result = run(two_olts, "--pollers", "1", "--interval", "text=2m")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 h of 2 OLTs with 4 masters, seed 1\n")
    assert "present settings" in result.stdout and "changed settings" in result.stdout


def test_recorded_durations_are_lived_again(two_olts: Flask) -> None:
    present = told(two_olts)["present"]
    assert present["olt_busiest"] == pytest.approx(100 * (20 / 60 + 4 / 300), abs=1)
    assert present["pool_busy"] == pytest.approx(2 * present["olt_busiest"] / 10, abs=0.5)  # ten pollers (POLLERS)
    assert present["violations"] == 0 and present["met"] == present["quotas"]


def test_a_pool_too_small_shows_in_the_changed_column_only(two_olts: Flask) -> None:
    both = told(two_olts, "--pollers", "1", "--interval", "discovery=30s", "--interval", "text=30s")
    assert both["changed"]["losses"] and not both["present"]["losses"]
    assert both["changed"]["pool_busy"] > 90


def test_only_the_named_olts_and_without_what_is_disabled(two_olts: Flask) -> None:
    both = told(two_olts, "--olts", "OLT-B", "--disable", "text")
    assert both["present"]["quotas"] > both["changed"]["quotas"] > 0
    head = "2 h of 1 OLTs with 2 masters (beside 1 others on the same pollers)"
    assert head in run(two_olts, "--olts", "OLT-B").stdout


def test_named_olts_are_shown_with_what_the_others_leave_them_of_the_pool(two_olts: Flask) -> None:
    with two_olts.app_context():
        for number in range(6):
            olt = make_olt(f"OLT-C{number}", NOW)
            add_runs(make_node(olt, "text", NOW, kind="get", oid="huawei.onu_description", interval="60s"), 3, 50_000)
    both = told(two_olts, "--olts", "OLT-B", "--pollers", "2")
    assert both["present"]["required"] == both["changed"]["required"] == 2 * (60 + 12)
    assert both["present"]["losses"] == {} and both["changed"]["losses"]["pool_full"] > 10


def test_a_cron_line_that_is_due_at_this_moment_is_lived(two_olts: Flask) -> None:
    with two_olts.app_context():
        node = make_node(make_olt("OLT-C", NOW), "discovery", NOW, cron="*/5 * * * *")
        node.next_run_at = NOW.replace(minute=NOW.minute - NOW.minute % 5, second=0)
        add_runs(node, 3, 4_000)
    present = told(two_olts, "--olts", "OLT-C")["present"]
    assert present["required"] == present["completed"] == 24


def test_a_recorded_success_is_lived_as_one_however_long_it_took(two_olts: Flask) -> None:
    with two_olts.app_context():
        add_runs(make_node(make_olt("OLT-C", NOW), "discovery", NOW, interval="30m"), 3, 660_000)
    present = told(two_olts, "--olts", "OLT-C")["present"]
    assert (present["required"], present["completed"]) == (4, 4)


def test_chained_nodes_are_known_but_cannot_be_tried(two_olts: Flask) -> None:
    with two_olts.app_context():
        master = make_node(make_olt("OLT-C", NOW), "discovery", NOW)
        add_runs(master, 3, 4_000)
        make_chained(master, "description", NOW)
    words = "description is chained to discovery; only masters can be tried"
    assert words in run(two_olts, "--interval", "description=10m").output
    assert words in run(two_olts, "--olts", "OLT-C", "--disable", "description").output
    assert "no node has the key description" in run(two_olts, "--olts", "OLT-A", "--disable", "description").output


def test_the_same_seed_says_the_same_and_nothing_is_written(two_olts: Flask) -> None:
    writes: list[str] = []
    with two_olts.app_context():
        event.listen(db.engine, "before_cursor_execute", lambda c, cur, sql, *rest: writes.append(sql))
    first, again = told(two_olts, "--seed", "7"), told(two_olts, "--seed", "7")
    assert first["present"]["completed"] == pytest.approx(again["present"]["completed"], abs=4)  # begins at another now
    assert writes and not [sql for sql in writes if sql.split()[0] in ("INSERT", "UPDATE", "DELETE")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--olts", "OLT-A,OLT-Z"), "there is no enabled OLT OLT-Z"),
        (("--olts", " , "), "name at least one OLT"),
        (("--interval", "power=60s"), "no node has the key power; there are: discovery, text"),
        (("--interval", "text=often"), "is no duration"),
        (("--interval", "text=5s"), "an interval is at least 30 s"),
        (("--interval", "text"), "write key=interval"),
        (("--interval", "text=400d"), "text: an interval is at most 31d"),
        (("--interval", "text=9999999d"), "text: an interval is at most 31d"),
        (("--interval", "text=2m", "--interval", "text=3m"), "text is given twice"),
        (("--disable", "gone"), "no node has the key gone"),
        (("--disable", "discovery", "--disable", "text"), "would be switched off"),
        (("--pollers", "0"), "0 is not in the range"),
        (("--hours", "0"), "0 is not in the range"),
    ],
)
def test_nonsense_is_refused_in_clear_words(two_olts: Flask, arguments: tuple[str, ...], words: str) -> None:
    result = run(two_olts, *arguments)
    assert result.exit_code != 0 and words in result.output


def test_without_nodes_or_without_runs_it_says_so(app: Flask) -> None:
    assert "no node of these OLTs runs" in run(app).output
    with app.app_context():
        make_node(make_olt("OLT-A", NOW), "discovery", NOW)
    assert "none of these nodes has a successful run on record" in run(app).output


def test_of_each_node_its_last_runs_are_read_and_failures_are_left_out(session: Session) -> None:
    add_runs(make_node(make_olt("OLT-A", NOW), "discovery", NOW), loading.LAST_RUNS + 50, 3_000)
    assert loading.load(session, NOW).nodes[0].durations == (3.0,) * loading.LAST_RUNS


def test_chained_nodes_are_those_of_the_watched_olts_only(session: Session) -> None:
    for name, key in (("OLT-A", "rx"), ("OLT-B", "serial")):
        master = make_node(make_olt(name, NOW), "discovery", NOW)
        make_chained(master, key, NOW)
        add_runs(master, 3, 3_000)
    chained = {names: loading.load(session, NOW, names).chained for names in (None, ("OLT-A",))}
    assert chained == {
        None: {"rx": {"discovery"}, "serial": {"discovery"}},
        ("OLT-A",): {"rx": {"discovery"}},
    }  # fmt: skip
