"""A trial reads under the OLT's lease and is stored nowhere but in its own row, which says whatever became of it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import current_app
from redis import Redis
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs import claim as claims
from jobs import trying
from jobs.snmp.fake import FakeSession, Faults, Request, fake_factory
from portal import queueing
from portal.domain.statuses import ErrorKind, OltState, Presence
from portal.services import retention
from portal.services.cataloguing import catalogue
from portal.services.errors import Invalid
from portal.services.network import olts
from portal.services.trying import probes, trials
from portal.tables import Execution, Olt, Onu, OnuData, PonPort, Probe, ProbeStatus, Trial, TrialMode, TrialStatus
from testing.builders import make_node, make_olt
from testing.cast import ACTOR

STATE = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15"
POWER = "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4"
PASSWORD = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4"
PORT = 4194312448  # frame 0, slot 1, port 1

Answers = Callable[[FakeSession], FakeSession]


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The tasks that were queued; none is run."""
    tasks: list[tuple[Any, ...]] = []
    monkeypatch.setattr(queueing, "enqueue_task", lambda *words, **_options: tasks.append(words))
    return tasks


@pytest.fixture
def answers(session: Session, redis: Redis, queued: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> Answers:
    """What the OLT is: a fake session that the job opens. Nobody waits for a lease."""
    monkeypatch.setitem(current_app.config, "QUARANTINE_SECONDS", 0)
    monkeypatch.setattr(trying, "PATIENCE", 0.0)
    monkeypatch.setattr(trying, "PROBE_PATIENCE", 0.0)

    def play(fake: FakeSession) -> FakeSession:
        monkeypatch.setattr(trying, "open_session", fake_factory(fake))
        return fake

    return play


def huawei(onus: int = 3, **settings: Any) -> FakeSession:
    rows: dict[str, int | bytes | str | None] = {f"{STATE}.{PORT}.{n}": 1 + n % 2 for n in range(onus)}
    rows |= {f"{POWER}.{PORT}.{n}": -2150 - n for n in range(onus)}
    return FakeSession(rows, columns=(STATE, POWER), **settings)


def run(session: Session, trial_id: int) -> Trial:
    trying.run_trial(trial_id)
    session.expire_all()
    return session.get_one(Trial, trial_id)


def add_onus(session: Session, olt: Olt, count: int, now: datetime) -> None:
    for n in range(count):
        session.add(Onu(olt_id=olt.id, index_key=f"{PORT}.{n}", presence=Presence.ENABLED, first_seen=now,
                        last_seen=now, presence_since=now))  # fmt: skip
    session.commit()


def test_a_trial_shows_what_a_node_reads_and_stores_nothing(session: Session, answers: Answers, now: datetime) -> None:
    node = make_node(make_olt())
    answers(huawei())
    trial = run(session, trials.of_node(node.id, ACTOR, now))
    assert (trial.status, trial.error_message, trial.requested_by) == (TrialStatus.SUCCESS, "", ACTOR)
    result = trial.result
    assert result is not None
    assert (result["rows"], result["complete"], result["cut"]) == (3, True, False)
    first = result["columns"][0]["shown"][0]
    assert first == {"index": f"{PORT}.0", "at": [0, 1, 1, 0], "raw": "1", "value": "online", "reason": "",
                     "online": True}  # fmt: skip
    assert result["pdus"] > 0
    assert [session.scalar(select(func.count()).select_from(table)) for table in (Onu, OnuData, Execution)] == [0, 0, 0]


def owners_of(redis: Redis, olt: Olt, fake: FakeSession) -> set[bytes | str | None]:
    """Who holds the OLT at each request that it gets."""
    owners = set[bytes | str | None]()
    fake.on_request = lambda _request: owners.add(redis.hget(f"lock:snmp:host:{olt.id}", "owner"))
    return owners


def test_the_olt_is_held_while_it_is_read_and_free_afterwards(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    olt = make_olt()
    owners = owners_of(redis, olt, answers(huawei()))
    trial_id = trials.of_node(make_node(olt).id, ACTOR, now)
    run(session, trial_id)
    assert owners == {f"trial-{trial_id}".encode()}
    assert redis.exists(f"lock:snmp:host:{olt.id}") == 0


@pytest.fixture
def being_read(session: Session, redis: Redis) -> Olt:
    """An OLT that a poller holds."""
    olt = make_olt()
    assert claims.hold(redis, olt.id, "poller-1", 15, 0) is not None
    return olt


def test_an_olt_that_is_being_read_is_left_alone_and_the_row_says_so(
    session: Session, answers: Answers, being_read: Olt, now: datetime
) -> None:
    fake = answers(huawei())
    trial = run(session, trials.of_node(make_node(being_read).id, ACTOR, now))
    assert (trial.status, trial.error_message) == (TrialStatus.FAILED, trials.BUSY)
    assert fake.requests == []


def test_a_lease_that_is_lost_stops_the_trial_before_the_next_request(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    olt = make_olt(max_repetitions=1)
    fake = answers(huawei(on_request=lambda _request: redis.delete(f"lock:snmp:host:{olt.id}")))
    trial = run(session, trials.of_node(make_node(olt).id, ACTOR, now))
    assert (trial.status, trial.error_kind, trial.error_message) == (
        TrialStatus.FAILED, ErrorKind.LEASE_LOST, trials.LOST,
    )  # fmt: skip
    assert len(fake.requests) == 1


def test_a_walk_ends_at_the_bound_of_a_trial_which_is_no_failure(
    session: Session, answers: Answers, now: datetime
) -> None:
    answers(huawei(trials.ROWS_READ + 40))
    trial = run(session, trials.of_node(make_node(make_olt()).id, ACTOR, now))
    assert trial.result is not None
    assert (trial.status, trial.result["cut"], trial.result["complete"]) == (TrialStatus.SUCCESS, True, False)
    assert trial.result["rows"] == trials.ROWS_READ
    assert len(trial.result["columns"][0]["shown"]) == trials.ROWS_SHOWN


def test_a_get_asks_for_the_first_known_onus_only(session: Session, answers: Answers, now: datetime) -> None:
    olt = make_olt()
    add_onus(session, olt, trials.ONUS_ASKED + 10, now)
    fake = answers(huawei(200))
    node = make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power")
    trial = run(session, trials.of_node(node.id, ACTOR, now))
    asked = {oid for request in fake.requests if request.kind == "get" for oid in request.oids if oid.startswith(POWER)}
    assert len(asked) == trials.ONUS_ASKED
    assert trial.result is not None
    assert trial.result["columns"][0]["shown"][1]["value"] == -21.51


def test_a_get_without_a_known_onu_says_what_to_do(session: Session, answers: Answers, now: datetime) -> None:
    answers(huawei())
    node = make_node(make_olt(), "rx", kind="get", oid="huawei.onu_rx_power")
    trial = run(session, trials.of_node(node.id, ACTOR, now))
    assert (trial.status, trial.error_message) == (TrialStatus.FAILED, trials.NO_ONUS)


def test_what_arrived_before_a_failure_is_shown_beside_it(session: Session, answers: Answers, now: datetime) -> None:
    olt = make_olt(max_repetitions=1, retries=0)
    answers(huawei(5, faults=Faults(dies_after=2)))
    trial = run(session, trials.of_node(make_node(olt).id, ACTOR, now))
    assert (trial.status, trial.error_kind) == (TrialStatus.FAILED, ErrorKind.TIMEOUT)
    assert trial.result is not None
    assert trial.result["rows"] == 2


def test_an_unsaved_oid_is_walked(session: Session, answers: Answers, now: datetime) -> None:
    answers(FakeSession({"1.3.6.1.4.1.9.1.1": b"one", "1.3.6.1.4.1.9.1.2": b"two"}))
    trial = run(session, trials.of_oid(make_olt().id, " .1.3.6.1.4.1.9.1 ", TrialMode.WALK, ACTOR, now))
    assert trial.result is not None
    shown = trial.result["columns"][0]["shown"]
    assert [(row["index"], row["value"]) for row in shown] == [("1", "one"), ("2", "two")]
    assert shown[0]["at"] is None


def test_one_exact_instance_is_understood_as_its_column(session: Session, answers: Answers, now: datetime) -> None:
    fake = answers(huawei())
    trial = run(session, trials.of_oid(make_olt().id, f"{POWER}.{PORT}.2", TrialMode.EXACT, ACTOR, now))
    assert trial.result is not None
    (row,) = trial.result["columns"][0]["shown"]
    assert (row["index"], row["at"], row["value"]) == (f"{PORT}.2", [0, 1, 1, 2], -21.52)
    assert [request.kind for request in fake.requests] == ["get"]


def test_an_oid_that_the_olt_does_not_have_is_told(session: Session, answers: Answers, now: datetime) -> None:
    answers(huawei())
    trial = run(session, trials.of_oid(make_olt().id, "1.3.6.1.4.1.5765.1", TrialMode.WALK, ACTOR, now))
    assert (trial.status, trial.error_kind) == (TrialStatus.FAILED, ErrorKind.NO_SUCH_OBJECT)


def test_quirk_19_an_interface_keyed_column_takes_its_position_from_the_name(
    session: Session, answers: Answers, now: datetime
) -> None:
    olt = make_olt()
    session.add(PonPort(olt_id=olt.id, index_key="7", name="GPON 0/3/4", frame=0, slot=3, port=4, last_seen=now))
    session.commit()
    assert trials.named_positions(session, olt.id)["7"].port == 4


@pytest.mark.parametrize("oid", [PASSWORD, f"{PASSWORD}.{PORT}.1", "1.3.6.1.4.1.2011.6.128.1.1.2.43", "1.3.6.1"])
def test_quirk_57_secret_columns_are_refused_before_anything_is_queued(
    session: Session, queued: list[tuple[Any, ...]], now: datetime, oid: str
) -> None:
    for mode in TrialMode:
        with pytest.raises(Invalid, match="password"):
            trials.of_oid(make_olt(f"OLT-{mode}").id, oid, mode, ACTOR, now)
    assert queued == []
    assert session.scalar(select(func.count()).select_from(Trial)) == 0


@pytest.mark.parametrize(
    ("oid", "mode", "message"),
    [
        ("", TrialMode.WALK, "is missing"),
        ("nonsense", TrialMode.WALK, "must be a catalogue key"),
        ("huawei.onu_stat", TrialMode.WALK, "did you mean huawei.onu_state"),
        ("zte.onu_state", TrialMode.WALK, "not for this OLT"),
        ("huawei.onu_state", TrialMode.EXACT, "one dotted OID"),
    ],
)
def test_what_is_no_oid_of_this_olt_is_refused_with_what_to_do(
    session: Session, queued: list[tuple[Any, ...]], now: datetime, oid: str, mode: TrialMode, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        trials.of_oid(make_olt().id, oid, mode, ACTOR, now)
    assert queued == []


def test_a_second_click_gives_the_trial_that_is_on_its_way(
    session: Session, queued: list[tuple[Any, ...]], now: datetime
) -> None:
    node = make_node(make_olt())
    first = trials.of_node(node.id, ACTOR, now)
    assert trials.of_node(node.id, "juan", now + timedelta(seconds=5)) == first
    assert queued == [(queueing.RUN_TRIAL, first)]
    assert trials.of_node(node.id, "juan", now + timedelta(minutes=5)) != first  # nobody will answer the first any more


def test_a_disabled_olt_is_never_asked(session: Session, queued: list[tuple[Any, ...]], now: datetime) -> None:
    olt = make_olt()
    node = make_node(olt)
    olts.set_enabled(olt.id, False, ACTOR, now)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_node(node.id, ACTOR, now)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_oid(olt.id, STATE, TrialMode.WALK, ACTOR, now)
    assert queued == []


def test_without_redis_the_row_fails_at_once_and_says_what_to_do(session: Session, now: datetime) -> None:
    trial = session.get(Trial, trials.of_node(make_node(make_olt()).id, ACTOR, now))
    assert trial is not None
    assert (trial.status, trial.error_message) == (TrialStatus.FAILED, trials.QUEUE_AWAY)


def test_a_job_that_runs_twice_reads_once(session: Session, answers: Answers, now: datetime) -> None:
    fake = answers(huawei())
    trial_id = trials.of_node(make_node(make_olt()).id, ACTOR, now)
    run(session, trial_id)
    sent = len(fake.requests)
    run(session, trial_id)
    assert len(fake.requests) == sent


def test_a_fault_of_ours_is_told_as_one(session: Session, answers: Answers, now: datetime) -> None:
    def broken(_request: Request) -> None:
        raise ZeroDivisionError

    answers(huawei(on_request=broken))
    trial = run(session, trials.of_node(make_node(make_olt()).id, ACTOR, now))
    assert (trial.status, trial.error_kind, trial.error_message) == (
        TrialStatus.FAILED, ErrorKind.INTERNAL, trials.FAULT,
    )  # fmt: skip


def test_trials_are_deleted_after_a_day(session: Session, queued: list[tuple[Any, ...]], now: datetime) -> None:
    trials.of_node(make_node(make_olt()).id, ACTOR, now)
    retention.clean_up(now + timedelta(hours=20), 14, 30)
    assert session.scalar(select(func.count()).select_from(Trial)) == 1
    retention.clean_up(now + timedelta(hours=25), 14, 30)
    assert session.scalar(select(func.count()).select_from(Trial)) == 0


def requested(olt: Olt, now: datetime, retries: int = 0) -> int:
    return probes.request(
        address=olt.address, port=olt.port, credential_id=olt.credential_id, timeout=olt.timeout, retries=retries,
        actor=ACTOR, now=now,
    )  # fmt: skip


def probed(session: Session, olt: Olt, now: datetime, retries: int = 0) -> Probe:
    probe_id = requested(olt, now, retries)
    trying.run_probe(probe_id)
    session.expire_all()
    return session.get_one(Probe, probe_id)


def test_a_connection_test_of_the_address_of_a_deleted_olt_is_of_no_olt(
    session: Session, queued: list[tuple[Any, ...]], now: datetime
) -> None:
    olt = make_olt()
    olts.delete(olt.id, "replaced", ACTOR, now)
    assert session.get_one(Probe, requested(olt, now)).olt_id is None


def system(**settings: Any) -> FakeSession:
    return FakeSession({"1.3.6.1.2.1.1.1.0": b"MA5608T", "1.3.6.1.2.1.1.2.0": "1.3.6.1.4.1.2011.2.262"}, **settings)


def test_a_connection_test_holds_an_olt_of_ours_and_gives_it_back(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    olt = make_olt()
    owners = owners_of(redis, olt, answers(system()))
    probe = probed(session, olt, now)
    assert (probe.status, probe.error_message) == (ProbeStatus.SUCCESS, "")
    assert owners == {f"probe-{probe.id}".encode()}
    assert redis.exists(f"lock:snmp:host:{olt.id}") == 0


def test_a_connection_test_whose_lease_is_lost_sends_nothing_more(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    catalogue.sync(catalogue.load_shipped(), now)  # so that a test asks for more than the system group
    olt = make_olt()
    fake = answers(system(on_request=lambda _request: redis.delete(f"lock:snmp:host:{olt.id}")))
    probe = probed(session, olt, now)
    assert (probe.status, probe.error_kind, probe.error_message) == (
        ProbeStatus.FAILED, ErrorKind.LEASE_LOST, trials.LOST,
    )  # fmt: skip
    assert len(fake.requests) == 1


def test_a_connection_test_leaves_an_olt_alone_that_is_being_read(
    session: Session, answers: Answers, being_read: Olt, now: datetime
) -> None:
    fake = answers(system())
    probe = probed(session, being_read, now)
    assert (probe.status, probe.error_message) == (ProbeStatus.FAILED, trials.BUSY)
    assert fake.requests == []


def test_a_connection_test_that_meets_a_fault_of_ours_says_so(
    session: Session, answers: Answers, now: datetime
) -> None:
    def fault(_request: Request) -> None:
        raise ZeroDivisionError

    answers(system(on_request=fault))
    probe = probed(session, make_olt(), now)
    assert (probe.status, probe.error_kind, probe.error_message) == (
        ProbeStatus.FAILED, ErrorKind.INTERNAL, trials.FAULT,
    )  # fmt: skip


def test_a_connection_test_repeats_nothing_once_its_lease_is_lost(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    olt = make_olt()
    fake = answers(
        system(faults=Faults(dead=True), on_request=lambda _request: redis.delete(f"lock:snmp:host:{olt.id}"))
    )
    probe = probed(session, olt, now, retries=3)
    assert (probe.error_kind, len(fake.requests)) == (ErrorKind.LEASE_LOST, 1)


# ---------------------------------------------------------------------------------------------------- one ONU, read now


def first_onu(session: Session, olt: Olt) -> Onu:
    return session.scalars(select(Onu).where(Onu.olt_id == olt.id).order_by(Onu.id)).first() or Onu()


def wire(fake: FakeSession) -> set[str]:
    return {oid for request in fake.requests for oid in request.oids}


def test_an_onu_is_read_now_by_one_get_of_what_its_workflow_reads(
    session: Session, answers: Answers, redis: Redis, now: datetime
) -> None:
    olt = make_olt()
    make_node(olt)
    make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", name="Potencia RX")
    add_onus(session, olt, 3, now)
    held: list[bytes | str | None] = []
    fake = answers(huawei(on_request=lambda _request: held.append(redis.hget(f"lock:snmp:host:{olt.id}", "owner"))))
    trial_id = trials.of_onu(first_onu(session, olt).id, ACTOR, now)
    trial = run(session, trial_id)
    assert (trial.status, trial.error_message, trial.onu_id) == (TrialStatus.SUCCESS, "", first_onu(session, olt).id)
    assert [request.kind for request in fake.requests] == ["get"]
    assert wire(fake) == {f"{STATE}.{PORT}.0", f"{POWER}.{PORT}.0"}
    assert set(held) == {f"trial-{trial_id}".encode()}
    shown = {column["metric"]: column["shown"][0]["value"] for column in (trial.result or {})["columns"]}
    assert shown == {"onu_state": "online", "onu_rx_power": -21.5}
    assert [session.scalar(select(func.count()).select_from(table)) for table in (OnuData, Execution)] == [0, 0]


def test_what_is_disabled_or_of_another_table_is_not_asked_of_an_onu(
    session: Session, answers: Answers, now: datetime
) -> None:
    olt = make_olt()
    make_node(olt, "other")
    mine = make_node(olt, "mine", oid="1.3.6.1.4.1.9.1", kind="discovery")
    make_node(olt, "off", kind="get", oid="huawei.onu_rx_power", enabled=False)
    make_node(olt, "ports", kind="table", oid="1.3.6.1.2.1.31.1.1.1.1")
    make_node(olt, "walked", kind="walk", oid="1.3.6.1.4.1.9.2")
    make_node(olt, "uptime", kind="get", oid="1.3.6.1.2.1.1.3.0")
    add_onus(session, olt, 1, now)
    session.execute(update(Onu).values(found_by=mine.id))
    session.commit()
    fake = answers(FakeSession({f"1.3.6.1.4.1.9.1.{PORT}.0": 1}))
    run(session, trials.of_onu(first_onu(session, olt).id, ACTOR, now))
    assert wire(fake) == {f"1.3.6.1.4.1.9.1.{PORT}.0"}


def test_a_walked_column_is_asked_of_an_onu_when_something_of_it_is_stored_under_that_name(
    session: Session, answers: Answers, now: datetime
) -> None:
    olt = make_olt()
    make_node(olt, "rx", kind="walk", oid="huawei.onu_rx_power")
    add_onus(session, olt, 1, now)
    onu = first_onu(session, olt)
    fake = answers(huawei())
    nothing = run(session, trials.of_onu(onu.id, ACTOR, now))
    assert (nothing.status, nothing.error_message, wire(fake)) == (TrialStatus.FAILED, trials.NOTHING_TO_GET, set())
    session.add(OnuData(onu_id=onu.id, metric="onu_rx_power", number=-20, raw="-2000", collected_at=now))
    session.commit()
    assert run(session, trials.of_onu(onu.id, ACTOR, now)).status is TrialStatus.SUCCESS
    assert wire(fake) == {f"{POWER}.{PORT}.0"}


def test_an_onu_that_lost_its_place_is_not_asked_and_a_paused_olt_is(
    session: Session, queued: list[tuple[Any, ...]], now: datetime
) -> None:
    olt = make_olt()
    make_node(olt)
    add_onus(session, olt, 2, now)
    onu = first_onu(session, olt)
    session.execute(update(Olt).values(state=OltState.PAUSED, paused_reason="obra"))
    session.commit()
    trial_id = trials.of_onu(onu.id, ACTOR, now)
    assert trials.of_onu(onu.id, "juan", now) == trial_id
    assert queued == [(queueing.RUN_TRIAL, trial_id)]
    session.execute(update(Onu).where(Onu.id == onu.id).values(index_key=None))
    session.commit()
    with pytest.raises(Invalid, match="another one has taken its place"):
        trials.of_onu(onu.id, ACTOR, now)
    session.expire_all()
    assert trials.start(trial_id, now) is None  # it was asked for before
    assert session.get_one(Trial, trial_id).error_message == trials.GONE
    olts.set_enabled(olt.id, False, ACTOR, now)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_onu(onu.id + 1, ACTOR, now)
