"""A trial reads under the OLT's lease and is stored nowhere but in its own row, which says whatever became of it."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from flask import current_app
from redis import Redis
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs import claim as claims
from jobs import trying
from jobs.snmp.fake import FakeSession, Faults, Request, fake_factory
from portal import queueing
from portal.domain.statuses import ErrorKind, OltState, Presence
from portal.extensions import Base, db
from portal.services import retention
from portal.services.cataloguing import catalogue
from portal.services.errors import Invalid
from portal.services.network import olts
from portal.services.trying import probes, trials
from portal.tables import Execution, Olt, Onu, OnuData, PonPort, Probe, ProbeStatus, Trial, TrialMode, TrialStatus
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, NOW
from testing.rows import set_rows

pytestmark = pytest.mark.usefixtures("session")

STATE = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15"
POWER = "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4"
PASSWORD = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4"
PORT = 4194312448  # frame 0, slot 1, port 1

Answers = Callable[[FakeSession], FakeSession]
Device, Ask = Callable[..., FakeSession], Callable[[Olt], Trial | Probe]


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


def broken(_request: Request) -> None:
    raise ZeroDivisionError


def run(trial_id: int) -> Trial:
    trying.run_trial(trial_id)
    db.session.expire_all()
    return db.session.get_one(Trial, trial_id)


def counts(*tables: type[Base]) -> list[int]:
    return [db.session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


def add_onus(olt: Olt, count: int) -> None:
    for n in range(count):
        db.session.add(Onu(olt_id=olt.id, index_key=f"{PORT}.{n}", presence=Presence.ENABLED, first_seen=NOW,
                        last_seen=NOW, presence_since=NOW))  # fmt: skip
    db.session.commit()


def system(**settings: Any) -> FakeSession:
    return FakeSession({"1.3.6.1.2.1.1.1.0": b"MA5608T", "1.3.6.1.2.1.1.2.0": "1.3.6.1.4.1.2011.2.262"}, **settings)


def requested(olt: Olt, retries: int = 0) -> int:
    return probes.request(address=olt.address, port=olt.port, credential_id=olt.credential_id, timeout=olt.timeout,
                          retries=retries, actor=ACTOR, now=NOW)  # fmt: skip


def probed(olt: Olt, retries: int = 0) -> Probe:
    probe_id = requested(olt, retries)
    trying.run_probe(probe_id)
    db.session.expire_all()
    return db.session.get_one(Probe, probe_id)


def trial_of(olt: Olt) -> Trial:
    return run(trials.of_node(make_node(olt).id, ACTOR, NOW))


def test_a_trial_shows_what_a_node_reads_and_stores_nothing(answers: Answers) -> None:
    node = make_node(make_olt())
    answers(huawei())
    trial = run(trials.of_node(node.id, ACTOR, NOW))
    assert (trial.status, trial.error_message, trial.requested_by) == (TrialStatus.SUCCESS, "", ACTOR)
    result = trial.result
    assert (result["rows"], result["complete"], result["cut"]) == (3, True, False)
    first = result["columns"][0]["shown"][0]
    assert first == {"index": f"{PORT}.0", "at": [0, 1, 1, 0], "raw": "1", "value": "online", "reason": "",
                     "online": True}  # fmt: skip
    assert result["pdus"] > 0
    assert counts(Onu, OnuData, Execution) == [0, 0, 0]


def owners_of(redis: Redis, olt: Olt, fake: FakeSession) -> set[bytes | str | None]:
    """Who holds the OLT at each request that it gets."""
    owners = set[bytes | str | None]()
    fake.on_request = lambda _request: owners.add(redis.hget(f"lock:snmp:host:{olt.id}", "owner"))
    return owners


@pytest.fixture
def being_read(session: Session, redis: Redis) -> Olt:
    """An OLT that a poller holds."""
    olt = make_olt()
    assert claims.hold(redis, olt.id, "poller-1", 15, 0) is not None
    return olt


BOTH = pytest.mark.parametrize(("device", "ask"), [(huawei, trial_of), (system, probed)], ids=["trial", "probe"])


@BOTH
def test_an_olt_is_held_while_asked_and_free_after(answers: Answers, redis: Redis, device: Device, ask: Ask) -> None:
    olt = make_olt()
    owners = owners_of(redis, olt, answers(device()))
    asked = ask(olt)
    assert (asked.status, asked.error_message) == ("SUCCESS", "")
    assert owners == {f"{type(asked).__name__.lower()}-{asked.id}".encode()}
    assert redis.exists(f"lock:snmp:host:{olt.id}") == 0


@BOTH
def test_a_busy_olt_is_left_alone_and_that_is_told(answers: Answers, being_read: Olt, device: Device, ask: Ask) -> None:
    fake = answers(device())
    asked = ask(being_read)
    assert (asked.status, asked.error_message, fake.requests) == ("FAILED", trials.BUSY, [])


@BOTH
def test_a_fault_of_ours_is_told_as_one(answers: Answers, device: Device, ask: Ask) -> None:
    answers(device(on_request=broken))
    asked = ask(make_olt())
    assert (asked.status, asked.error_kind, asked.error_message) == ("FAILED", ErrorKind.INTERNAL, trials.FAULT)


def test_a_lease_that_is_lost_stops_the_trial_before_the_next_request(answers: Answers, redis: Redis) -> None:
    olt = make_olt(max_repetitions=1)
    fake = answers(huawei(on_request=lambda _request: redis.delete(f"lock:snmp:host:{olt.id}")))
    trial = trial_of(olt)
    assert (trial.status, trial.error_kind) == (TrialStatus.FAILED, ErrorKind.LEASE_LOST)
    assert (trial.error_message, len(fake.requests)) == (trials.LOST, 1)


def test_a_walk_ends_at_the_bound_of_a_trial_which_is_no_failure(answers: Answers) -> None:
    answers(huawei(trials.ROWS_READ + 40))
    trial = run(trials.of_node(make_node(make_olt()).id, ACTOR, NOW))
    assert (trial.status, trial.result["cut"], trial.result["complete"]) == (TrialStatus.SUCCESS, True, False)
    assert trial.result["rows"] == trials.ROWS_READ
    assert len(trial.result["columns"][0]["shown"]) == trials.ROWS_SHOWN


def test_a_get_asks_for_the_first_known_onus_only(answers: Answers) -> None:
    olt = make_olt()
    add_onus(olt, trials.ONUS_ASKED + 10)
    fake = answers(huawei(200))
    trial = run(trials.of_node(make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power").id, ACTOR, NOW))
    asked = {oid for request in fake.requests if request.kind == "get" for oid in request.oids if oid.startswith(POWER)}
    assert len(asked) == trials.ONUS_ASKED
    assert trial.result["columns"][0]["shown"][1]["value"] == -21.51


def test_a_get_without_a_known_onu_says_what_to_do(answers: Answers) -> None:
    answers(huawei())
    node = make_node(make_olt(), "rx", kind="get", oid="huawei.onu_rx_power")
    trial = run(trials.of_node(node.id, ACTOR, NOW))
    assert (trial.status, trial.error_message) == (TrialStatus.FAILED, trials.NO_ONUS)


def test_what_arrived_before_a_failure_is_shown_beside_it(answers: Answers) -> None:
    olt = make_olt(max_repetitions=1, retries=0)
    answers(huawei(5, faults=Faults(dies_after=2)))
    trial = run(trials.of_node(make_node(olt).id, ACTOR, NOW))
    assert (trial.status, trial.error_kind, trial.result["rows"]) == (TrialStatus.FAILED, ErrorKind.TIMEOUT, 2)


def test_an_unsaved_oid_is_walked(answers: Answers) -> None:
    answers(FakeSession({"1.3.6.1.4.1.9.1.1": b"one", "1.3.6.1.4.1.9.1.2": b"two"}))
    trial = run(trials.of_oid(make_olt().id, " .1.3.6.1.4.1.9.1 ", TrialMode.WALK, ACTOR, NOW))
    shown = trial.result["columns"][0]["shown"]
    assert [(row["index"], row["value"]) for row in shown] == [("1", "one"), ("2", "two")]
    assert shown[0]["at"] is None


def test_one_exact_instance_is_understood_as_its_column(answers: Answers) -> None:
    fake = answers(huawei())
    trial = run(trials.of_oid(make_olt().id, f"{POWER}.{PORT}.2", TrialMode.EXACT, ACTOR, NOW))
    (row,) = trial.result["columns"][0]["shown"]
    assert (row["index"], row["at"], row["value"]) == (f"{PORT}.2", [0, 1, 1, 2], -21.52)
    assert [request.kind for request in fake.requests] == ["get"]


def test_an_oid_that_the_olt_does_not_have_is_told(answers: Answers) -> None:
    answers(huawei())
    trial = run(trials.of_oid(make_olt().id, "1.3.6.1.4.1.5765.1", TrialMode.WALK, ACTOR, NOW))
    assert (trial.status, trial.error_kind) == (TrialStatus.FAILED, ErrorKind.NO_SUCH_OBJECT)


def test_quirk_19_an_interface_keyed_column_takes_its_position_from_the_name(answers: Answers) -> None:
    olt = make_olt()
    db.session.add(PonPort(olt_id=olt.id, index_key="7", name="GPON 0/3/4", frame=0, slot=3, port=4, last_seen=NOW))
    db.session.commit()
    assert trials.named_positions(db.session, olt.id)["7"].port == 4


@pytest.mark.parametrize("oid", [PASSWORD, f"{PASSWORD}.{PORT}.1", "1.3.6.1.4.1.2011.6.128.1.1.2.43", "1.3.6.1"])
def test_quirk_57_secret_columns_are_refused_before_anything_is_queued(queued: list[tuple[Any, ...]], oid: str) -> None:
    for mode in TrialMode:
        with pytest.raises(Invalid, match="password"):
            trials.of_oid(make_olt(f"OLT-{mode}").id, oid, mode, ACTOR, NOW)
    assert queued == []
    assert counts(Trial) == [0]


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
    queued: list[tuple[Any, ...]], oid: str, mode: TrialMode, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        trials.of_oid(make_olt().id, oid, mode, ACTOR, NOW)
    assert queued == []


def test_a_second_click_gives_the_trial_that_is_on_its_way(queued: list[tuple[Any, ...]]) -> None:
    node = make_node(make_olt())
    first = trials.of_node(node.id, ACTOR, NOW)
    assert trials.of_node(node.id, "juan", NOW + timedelta(seconds=5)) == first
    assert queued == [(queueing.RUN_TRIAL, first)]
    assert trials.of_node(node.id, "juan", NOW + timedelta(minutes=5)) != first  # nobody will answer the first any more


def test_a_disabled_olt_is_never_asked(queued: list[tuple[Any, ...]]) -> None:
    olt = make_olt()
    node = make_node(olt)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_node(node.id, ACTOR, NOW)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_oid(olt.id, STATE, TrialMode.WALK, ACTOR, NOW)
    assert queued == []


def test_without_redis_the_row_fails_at_once_and_says_what_to_do() -> None:
    trial = db.session.get_one(Trial, trials.of_node(make_node(make_olt()).id, ACTOR, NOW))
    assert (trial.status, trial.error_message) == (TrialStatus.FAILED, trials.QUEUE_AWAY)


def test_a_job_that_runs_twice_reads_once(answers: Answers) -> None:
    fake = answers(huawei())
    trial_id = trials.of_node(make_node(make_olt()).id, ACTOR, NOW)
    run(trial_id)
    sent = len(fake.requests)
    run(trial_id)
    assert len(fake.requests) == sent


def test_trials_are_deleted_after_a_day(queued: list[tuple[Any, ...]]) -> None:
    trials.of_node(make_node(make_olt()).id, ACTOR, NOW)
    retention.clean_up(NOW + timedelta(hours=20), 14, 30)
    assert counts(Trial) == [1]
    retention.clean_up(NOW + timedelta(hours=25), 14, 30)
    assert counts(Trial) == [0]


def test_a_connection_test_of_the_address_of_a_deleted_olt_is_of_no_olt(queued: list[tuple[Any, ...]]) -> None:
    olt = make_olt()
    olts.delete(olt.id, "replaced", ACTOR, NOW)
    assert db.session.get_one(Probe, requested(olt)).olt_id is None


def test_a_connection_test_whose_lease_is_lost_sends_nothing_more(answers: Answers, redis: Redis) -> None:
    catalogue.sync(catalogue.load_shipped(), NOW)  # so that a test asks for more than the system group
    olt = make_olt()
    fake = answers(system(on_request=lambda _request: redis.delete(f"lock:snmp:host:{olt.id}")))
    probe = probed(olt)
    assert (probe.status, probe.error_kind) == (ProbeStatus.FAILED, ErrorKind.LEASE_LOST)
    assert (probe.error_message, len(fake.requests)) == (trials.LOST, 1)


def test_a_connection_test_repeats_nothing_once_its_lease_is_lost(answers: Answers, redis: Redis) -> None:
    olt = make_olt()
    lose = partial(redis.delete, f"lock:snmp:host:{olt.id}")
    fake = answers(system(faults=Faults(dead=True), on_request=lambda _request: lose()))
    assert (probed(olt, retries=3).error_kind, len(fake.requests)) == (ErrorKind.LEASE_LOST, 1)


def first_onu(olt: Olt) -> Onu:
    return db.session.scalars(select(Onu).where(Onu.olt_id == olt.id).order_by(Onu.id)).first() or Onu()


def wire(fake: FakeSession) -> set[str]:
    return {oid for request in fake.requests for oid in request.oids}


def test_an_onu_is_read_now_by_one_get_of_what_its_workflow_reads(answers: Answers, redis: Redis) -> None:
    olt = make_olt()
    make_node(olt)
    make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", name="Potencia RX")
    add_onus(olt, 3)
    fake = answers(huawei())
    owners = owners_of(redis, olt, fake)
    trial_id = trials.of_onu(first_onu(olt).id, ACTOR, NOW)
    trial = run(trial_id)
    assert (trial.status, trial.error_message, trial.onu_id) == (TrialStatus.SUCCESS, "", first_onu(olt).id)
    assert [request.kind for request in fake.requests] == ["get"]
    assert wire(fake) == {f"{STATE}.{PORT}.0", f"{POWER}.{PORT}.0"}
    assert owners == {f"trial-{trial_id}".encode()}
    shown = {column["metric"]: column["shown"][0]["value"] for column in (trial.result or {})["columns"]}
    assert shown == {"onu_state": "online", "onu_rx_power": -21.5}
    assert counts(OnuData, Execution) == [0, 0]


def test_what_is_disabled_or_of_another_table_is_not_asked_of_an_onu(answers: Answers) -> None:
    olt = make_olt()
    make_node(olt, "other")
    mine = make_node(olt, "mine", oid="1.3.6.1.4.1.9.1", kind="discovery")
    make_node(olt, "off", kind="get", oid="huawei.onu_rx_power", enabled=False)
    make_node(olt, "ports", kind="table", oid="1.3.6.1.2.1.31.1.1.1.1")
    make_node(olt, "walked", kind="walk", oid="1.3.6.1.4.1.9.2")
    make_node(olt, "uptime", kind="get", oid="1.3.6.1.2.1.1.3.0")
    add_onus(olt, 1)
    set_rows(Onu, found_by=mine.id)
    fake = answers(FakeSession({f"1.3.6.1.4.1.9.1.{PORT}.0": 1}))
    run(trials.of_onu(first_onu(olt).id, ACTOR, NOW))
    assert wire(fake) == {f"1.3.6.1.4.1.9.1.{PORT}.0"}


def test_a_walked_column_is_asked_of_an_onu_when_something_of_it_is_stored_under_that_name(answers: Answers) -> None:
    olt = make_olt()
    make_node(olt, "rx", kind="walk", oid="huawei.onu_rx_power")
    add_onus(olt, 1)
    onu = first_onu(olt)
    fake = answers(huawei())
    nothing = run(trials.of_onu(onu.id, ACTOR, NOW))
    assert (nothing.status, nothing.error_message, wire(fake)) == (TrialStatus.FAILED, trials.NOTHING_TO_GET, set())
    db.session.add(OnuData(onu_id=onu.id, metric="onu_rx_power", number=-20, raw="-2000", collected_at=NOW))
    db.session.commit()
    assert run(trials.of_onu(onu.id, ACTOR, NOW)).status is TrialStatus.SUCCESS
    assert wire(fake) == {f"{POWER}.{PORT}.0"}


def test_an_onu_that_lost_its_place_is_not_asked_and_a_paused_olt_is(queued: list[tuple[Any, ...]]) -> None:
    olt = make_olt()
    make_node(olt)
    add_onus(olt, 2)
    onu = first_onu(olt)
    set_rows(Olt, state=OltState.PAUSED, paused_reason="obra")
    trial_id = trials.of_onu(onu.id, ACTOR, NOW)
    assert trials.of_onu(onu.id, "juan", NOW) == trial_id
    assert queued == [(queueing.RUN_TRIAL, trial_id)]
    set_rows(Onu, Onu.id == onu.id, index_key=None)
    with pytest.raises(Invalid, match="another one has taken its place"):
        trials.of_onu(onu.id, ACTOR, NOW)
    db.session.expire_all()
    assert trials.start(trial_id, NOW) is None  # it was asked for before
    assert db.session.get_one(Trial, trial_id).error_message == trials.GONE
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    with pytest.raises(Invalid, match="is disabled: enable it first"):
        trials.of_onu(onu.id + 1, ACTOR, NOW)
