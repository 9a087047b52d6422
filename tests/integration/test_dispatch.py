"""The real thing: schedulers, pollers and reaper as processes, real Redis, real agents over UDP, on both databases."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from rq import Worker
from sqlalchemy import select

from jobs.snmp.simulator.farm import Farm, start_farm
from portal.domain import tempo
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import pool, run_requests
from portal.services.network import olts
from portal.services.trying import probes
from portal.tables import Execution, ExecutionStep, Poller, Pool, Probe, SchedulerState
from testing.cast import ACTOR
from testing.live import Live
from testing.stack import TEMPO

SUCCESS, FAILED, RUNNING = ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.RUNNING
pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]
PACES = tempo.at(TEMPO)
SLACK = 1.5  # seconds for a loaded machine to start, log and be looked at


def test_two_olts_are_discovered_and_read(live: Live, two_olts: Farm) -> None:
    for brand, port in zip(("huawei", "zte"), two_olts.ports, strict=True):
        olt = live.olt(f"OLT-{brand}", port, brand)
        master = live.node(olt, "discovery", f"{brand}.onu_state", "discovery")
        for name in ("onu_serial", "onu_rx_power"):
            live.node(olt, name, f"{brand}.{name}", master_id=master)
    live.due_now()
    live.start()
    live.wait_for(SUCCESS, count=2)
    huawei = live.onus(1)
    assert len(huawei) == 64 and len(live.onus(2)) == 48
    assert all(onu.serial and onu.slot is not None and onu.port is not None for onu in huawei)
    powers = [data.number for onu in huawei for data in onu.data if data.metric == "onu_rx_power" and data.number]
    assert powers and all(-35 < power < -5 for power in powers)


def test_pollers_are_rq_workers_with_stable_numbers(live: Live, two_olts: Farm) -> None:
    live.start("pollers")
    redis = Redis.from_url(live.stack.redis.url)
    live.stack.wait_until(lambda: len(Worker.all(connection=redis)) == 2, "2 workers")
    assert sorted(worker.name.rsplit("-", 2)[1] for worker in Worker.all(connection=redis)) == ["1", "2"]
    live.stack.wait_until(lambda: numbers(live) == [1, 2], "their rows")


def rq_info(live: Live) -> str:
    command = [Path(sys.executable).with_name("rq"), "info", "--url", live.stack.redis.url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_rq_info_lists_the_pollers_and_a_queue_per_olt_with_work(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    live.start("pollers")
    live.stack.wait_until(lambda: rq_info(live).count("poller-") == 2, "pollers in rq info")
    Redis.from_url(live.stack.redis.url).flushall()
    live.stack.wait_until(lambda: rq_info(live).count("poller-") == 2, "pollers again, after Redis lost them")
    live.stack.stop("pollers")
    run_requests.run_now(live.node(olt, "discovery", "huawei.onu_state", "discovery"), ACTOR, live.now)
    assert f"olt-{olt}-high" in rq_info(live)


def test_a_wrong_community_fails_with_a_reason_that_says_what_to_check(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0], community="planted", timeout=0.3, retries=0)
    live.node(olt, "discovery", "huawei.onu_state", "discovery", max_retries=0)
    live.due_now()
    live.start()
    live.wait_for(FAILED)
    failed = live.executions()[0]
    assert failed.error_kind is ErrorKind.TIMEOUT
    assert "community" in failed.error_message and "planted" not in failed.error_message


def test_an_oid_the_device_does_not_have_fails_its_step_and_the_chain_goes_on(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    master = live.node(olt, "discovery", "huawei.onu_state", "discovery", max_retries=0)
    live.node(olt, "nonsense", "1.3.6.1.4.1.2011.6.128.1.1.2.99.1.1", "walk", master_id=master)
    live.node(olt, "serial", "huawei.onu_serial", master_id=master)
    live.due_now()
    live.start()
    live.wait_for(FAILED)
    steps = list(db.session.scalars(select(ExecutionStep).order_by(ExecutionStep.position)))
    told = [(step.node_key, step.status.value) for step in steps]
    assert told == [("discovery", "SUCCESS"), ("serial", "SUCCESS"), ("nonsense", "FAILED")], "serials come first"
    assert steps[2].error_kind is ErrorKind.NO_SUCH_OBJECT
    assert len(live.onus(olt)) == 64


@pytest.fixture
def slow_olt() -> Iterator[Farm]:
    with start_farm(["huawei@127.0.0.1:0,onus=64,delay=0.15,churn=0"]) as farm:
        yield farm


def a_running_composite(live: Live, farm: Farm) -> int:
    olt = live.olt("OLT-LIMA", farm.ports[0], max_repetitions=2)
    live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.due_now()
    live.start()
    live.busy_poller()
    return olt


def hurry(live: Live, olt: int) -> None:
    """The next run of the slow OLT takes a few requests, not dozens; what is being read stays as slow."""
    olts.update(olt, {"max_repetitions": 50}, ACTOR, live.now)


def probed(live: Live, port: int, timeout: float) -> Probe:
    """A connection test of a port of this machine, once it has ended."""
    live.start("probes")
    probe = probes.request(
        address="127.0.0.1", port=port, credential_id=1, timeout=timeout, retries=0, actor=ACTOR, now=live.now
    )

    def found() -> Probe:
        db.session.rollback()
        return db.session.get_one(Probe, probe, populate_existing=True)

    live.stack.wait_until(lambda: found().finished_at, "an answer")
    return found()


def attempts_of(live: Live) -> list[AttemptStatus]:
    return [attempt.status for attempt in live.attempts()]


@pytest.mark.fault
def test_a_killed_poller_loses_nothing(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    hurry(live, olt)
    os.kill(live.busy_poller().pid, signal.SIGKILL)
    live.wait_for(SUCCESS, olt)
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS]
    assert len(live.onus(olt)) == 64


@pytest.mark.fault
def test_a_killed_pool_leaves_its_pollers_time_to_end(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    live.stack.stop("pollers", signal.SIGKILL)
    live.wait_for(SUCCESS, olt)
    assert attempts_of(live) == [AttemptStatus.SUCCESS]


@pytest.mark.fault
def test_a_host_that_went_away_frees_its_olts_by_their_leases(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    live.stack.kill_tree("pollers")
    hurry(live, olt)
    live.stack.start("pollers")
    live.wait_for(SUCCESS, olt)
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS]


@pytest.mark.fault
def test_a_warm_shutdown_lets_the_composite_end(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    live.stack.stop("pollers", signal.SIGTERM, timeout=60)
    assert [e.status for e in live.executions(olt)][0] is SUCCESS
    assert attempts_of(live) == [AttemptStatus.SUCCESS]


@pytest.mark.fault
def test_a_composite_that_outlasts_a_warm_shutdown_is_handed_over_and_is_no_loss(live: Live, slow_olt: Farm) -> None:
    live.stack.environment["STOP_SECONDS"] = "0"  # they have no patience
    olt = a_running_composite(live, slow_olt)
    live.stack.stop("pollers", signal.SIGTERM)
    (handed_over,) = live.executions(olt)
    assert (handed_over.status, handed_over.losses) == (ExecutionStatus.PENDING, 0)
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED]
    hurry(live, olt)
    live.stack.start("pollers")
    live.wait_for(SUCCESS, olt)
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS]


@pytest.mark.fault
def test_a_redis_that_lost_everything_is_filled_again(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.start("pollers", "maintenance")
    execution, _ = run_requests.run_now(1, ACTOR, live.now)
    Redis.from_url(live.stack.redis.url).flushall()
    live.start("scheduler")
    live.wait_for(SUCCESS, olt)
    assert [e.id for e in live.executions(olt)][0] == execution


def an_olt_and_a_leader(live: Live, farm: Farm) -> int:
    olt = live.olt("OLT-LIMA", farm.ports[0])
    live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.start()
    live.stack.wait_until(lambda: "event=leading" in live.stack.log("scheduler"), "a leader")
    return olt


@pytest.mark.fault
def test_processes_survive_a_redis_that_is_away(live: Live, two_olts: Farm) -> None:
    olt = an_olt_and_a_leader(live, two_olts)
    live.stack.redis.kill()
    live.due_now()
    live.stack.wait_until(lambda: live.executions(), "a slot taken without Redis")
    live.stack.wait_until(lambda: "event=redis_away" in live.stack.log("pollers"), "pollers notice")
    live.stack.redis.start()
    live.wait_for(SUCCESS, olt)
    assert all(process.poll() is None for process in live.stack.processes.values())


@pytest.mark.fault
def test_a_second_scheduler_stands_by_and_takes_over(live: Live, two_olts: Farm) -> None:
    olt = an_olt_and_a_leader(live, two_olts)
    live.stack.start("second", "scheduler", "run")
    live.stack.stop("scheduler", signal.SIGKILL)
    live.stack.wait_until(lambda: "event=leading" in live.stack.log("second"), "take-over")
    live.due_now()
    live.wait_for(SUCCESS, olt)


def test_disabling_an_olt_stops_what_runs_on_it(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    olts.set_enabled(olt, False, ACTOR, live.now)
    live.wait_for(ExecutionStatus.INTERRUPTED, olt)
    assert live.executions(olt)[0].error_kind is ErrorKind.ABORTED
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED]


@pytest.mark.fault
def test_a_frozen_horse_that_wakes_up_writes_nothing(live: Live, slow_olt: Farm) -> None:
    olt = a_running_composite(live, slow_olt)
    horse = live.horse()
    os.kill(horse, signal.SIGSTOP)
    live.stack.wait_until(lambda: len(attempts_of(live)) == 2, "a second attempt")
    os.kill(horse, signal.SIGCONT)
    live.wait_for(SUCCESS, olt)
    assert attempts_of(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS]


def test_a_connection_test_says_what_answers_and_what_it_is(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    found = probed(live, two_olts.ports[0], 1.0)
    assert (found.olt_id, found.status.value) == (olt, "SUCCESS")
    assert (found.result["brand"], found.result["model"]) == ("huawei", "MA5608T")


def test_a_connection_test_of_a_silent_address_says_what_to_check(live: Live) -> None:
    live.olt("OLT-LIMA", 9)
    found = probed(live, 10, 0.3)
    assert found.status.value == "FAILED" and "community" in found.error_message


def numbers(live: Live) -> list[int]:
    db.session.rollback()
    return sorted(db.session.scalars(select(Poller.poller_id)))


def test_a_pool_follows_its_size_while_it_runs_and_breaks_nothing_off(live: Live, slow_olt: Farm) -> None:
    a_running_composite(live, slow_olt)
    before = {row.worker for row in db.session.scalars(select(Poller))}
    name = db.session.scalars(select(Pool.name)).one()
    pool.scale(name, 4, ACTOR, live.now)
    live.stack.wait_until(lambda: numbers(live) == [1, 2, 3, 4], "4 pollers")
    assert before <= {row.worker for row in db.session.scalars(select(Poller))}
    pool.scale(name, 1, ACTOR, live.now)
    live.stack.wait_until(lambda: numbers(live) == [1], "1 poller")
    live.wait_for(SUCCESS)
    assert attempts_of(live) == [AttemptStatus.SUCCESS]


def test_a_poller_is_replaced_under_its_number_without_touching_the_rest(live: Live, two_olts: Farm) -> None:
    live.start("pollers")
    live.stack.wait_until(lambda: numbers(live) == [1, 2], "2 pollers")

    def workers() -> list[str]:
        db.session.rollback()
        return list(db.session.scalars(select(Poller.worker).order_by(Poller.poller_id)))

    old, other = workers()
    pool.request_restart(db.session.scalars(select(Poller.id).where(Poller.poller_id == 1)).one(), ACTOR, live.now)
    live.stack.wait_until(lambda: workers()[0] != old, "a fresh poller 1")
    assert workers()[1] == other


def test_the_same_pool_is_not_started_twice(live: Live, two_olts: Farm) -> None:
    live.start("pollers")
    live.stack.wait_until(lambda: numbers(live) == [1, 2], "2 pollers")
    assert live.stack.start("second", "work").wait(30) != 0
    assert "is running already" in live.stack.log("second")
    assert numbers(live) == [1, 2]


def test_a_cancelled_run_stops_before_its_next_pdu(live: Live, slow_olt: Farm) -> None:
    a_running_composite(live, slow_olt)
    assert run_requests.cancel(live.executions()[0].id, ACTOR, live.now) is RUNNING
    live.wait_for(ExecutionStatus.INTERRUPTED)
    assert ACTOR in live.executions()[0].error_message


def test_pollers_of_a_site_leave_the_olts_of_others_alone(live: Live, two_olts: Farm) -> None:
    lima = live.olt("OLT-LIMA", two_olts.ports[0], site="lima")
    cusco = live.olt("OLT-CUSCO", two_olts.ports[1], "zte", site="cusco")
    asked = [
        run_requests.run_now(live.node(olt, "discovery", f"{brand}.onu_state", "discovery"), ACTOR, live.now)[0]
        for olt, brand in ((lima, "huawei"), (cusco, "zte"))
    ]
    live.stack.start("pollers", "work", "--site", "cusco")
    live.wait_for(SUCCESS)
    assert {one.id: one.status for one in live.executions()} == {asked[0]: ExecutionStatus.PENDING, asked[1]: SUCCESS}


def leader(live: Live) -> str:
    """Name of who ticked last."""
    db.session.rollback()
    return db.session.scalar(select(SchedulerState.leader)) or ""


def last_tick(live: Live) -> float:
    db.session.rollback()
    moment = db.session.scalar(select(SchedulerState.last_tick_at))
    return moment.timestamp() if moment else 0.0


@pytest.mark.fault
@pytest.mark.clock
def test_a_frozen_leader_is_replaced_within_its_lease_and_stands_by_when_it_wakes(live: Live) -> None:
    """By the clock: within its lease."""
    live.node(live.olt("OLT-LIMA", 9), "discovery", "huawei.onu_state", "discovery")
    first = live.stack.start("first", "scheduler", "run")
    live.stack.wait_until(lambda: leader(live), "a leader")
    live.stack.start("second", "scheduler", "run")
    before = leader(live)
    live.due_now()
    live.stack.wait_until(lambda: live.executions(), "a slot taken")

    first.send_signal(signal.SIGSTOP)
    frozen_at = time.monotonic()
    live.stack.wait_until(lambda: leader(live) != before, "a take-over")
    assert time.monotonic() - frozen_at <= PACES.leader_lease + PACES.tick + SLACK
    after = leader(live)

    live.stack.wait_until(lambda: time.monotonic() - frozen_at > 2 * PACES.leader_lease, "two leases gone by")
    first.send_signal(signal.SIGCONT)
    live.stack.wait_until(lambda: "event=standby" in live.stack.log("first"), "the frozen one to stand by")
    # It was frozen in the middle of its tick: it ends that one, and does no other.
    live.stack.wait_until(lambda: leader(live) == after, "the pulse of the one that leads", 2 * PACES.tick + SLACK)
    slots = [(row.node_id, row.scheduled_for) for row in db.session.scalars(select(Execution))]
    assert len(slots) == len(set(slots)) == 1


@pytest.mark.fault
@pytest.mark.clock
def test_the_clock_goes_on_while_redis_is_frozen_and_while_it_is_away(live: Live) -> None:
    """By the clock: ticks come though Redis does not answer."""
    live.node(live.olt("OLT-LIMA", 9), "discovery", "huawei.onu_state", "discovery")
    live.stack.start("scheduler")
    live.stack.wait_until(lambda: leader(live), "a leader")
    live.stack.redis.freeze()
    live.due_now()
    live.stack.wait_until(lambda: live.executions(), "a slot taken", 2 * PACES.clock_waits + SLACK)
    frozen = last_tick(live)
    live.stack.wait_until(lambda: last_tick(live) - frozen > 4 * PACES.tick, "ticks", 6 * PACES.clock_waits + SLACK)
    live.stack.redis.thaw()
    live.stack.redis.kill()
    away = last_tick(live)
    live.stack.wait_until(lambda: last_tick(live) - away > 3 * PACES.tick, "ticks", 5 * PACES.tick + SLACK)
    assert live.stack.processes["scheduler"].poll() is None
