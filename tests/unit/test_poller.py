"""One composite, many steps, one session: what is run, what is skipped and why, which readings are kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs import poller
from jobs.identifying import SYSTEM
from jobs.snmp.errors import SnmpAuthError, SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults, fake_factory
from jobs.snmp.getting import PROBE_OID
from portal.domain.composite import CompositeResult, CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.device import Device
from portal.domain.readings import ValueSpec, ValueType
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason, StepStatus
from testing.fake_olts import Gone, Lease, Ticking, failing

TABLE = "1.3.6.1.4.1.2011.6"
STATE = ReadingSpec("onu_state", f"{TABLE}.1", ValueSpec(ValueType.NUMBER))
POWER = ReadingSpec("onu_rx_power", f"{TABLE}.2", ValueSpec(ValueType.NUMBER, scale=0.01), index_suffix=".1")
NAME = ReadingSpec("onu_name", f"{TABLE}.3", ValueSpec(ValueType.TEXT))
UNKNOWN = ReadingSpec("onu_age", f"{TABLE}.8", ValueSpec(ValueType.NUMBER))
UPTIME = ReadingSpec("uptime", PROBE_OID, ValueSpec(ValueType.NUMBER), scalar=True)
KEYS = tuple(f"4194304000.{onu}" for onu in (0, 1, 2, 5))
START = datetime(2026, 11, 2, 10, 0, tzinfo=UTC)
SECRET = "s3cret-community"  # noqa: S105  # planted, to be looked for


def olt(keys=KEYS, **settings) -> FakeSession:
    rows: dict[str, int | bytes] = {PROBE_OID: 12345, f"{TABLE}.9.0": 0}
    for place, key in enumerate(keys):
        rows[f"{STATE.oid}.{key}"] = 1
        rows[f"{POWER.oid}.{key}.1"] = -2000 - place
        rows[f"{POWER.oid}.{key}.2"] = 7
        rows[f"{NAME.oid}.{key}"] = f"CLI-{place}".encode()
    return FakeSession(rows, columns=(STATE.oid, POWER.oid, NAME.oid), **settings)


def step(kind: NodeKind, *specs: ReadingSpec, node_id: int = 1, **settings) -> StepWork:
    return StepWork(node_id, f"node-{node_id}", kind, specs, **settings)


DISCOVERY = step(NodeKind.DISCOVERY, STATE, node_id=1)
GET_POWER = step(NodeKind.GET, POWER, node_id=2)
GET_NAME = step(NodeKind.GET, NAME, node_id=3)


def run(session, *steps: StepWork, keys=(), checkpoint=lambda: None, monotonic=lambda: 0.0) -> CompositeResult:
    target = SnmpTarget("192.0.2.7", 161, "2c", community=SECRET, retries=0)
    opened = session if callable(session) else fake_factory(session)
    ticks = iter(range(1000))
    work = CompositeWork(1, 1, 1, target, steps, onu_keys=keys)
    return poller.run(work, opened, checkpoint, lambda: START + timedelta(seconds=next(ticks)), monotonic)


def indexes(result: CompositeResult, place: int) -> list[str]:
    return [reading.index for reading in result.steps[place].columns[0].readings]


def test_a_discovery_tells_the_gets_after_it_which_onus_to_ask_for():
    session = olt()
    result = run(session, DISCOVERY, GET_POWER, keys=("4194304000.77",))
    assert result.succeeded
    assert indexes(result, 0) == indexes(result, 1) == list(KEYS)
    assert [reading.value for reading in result.steps[1].columns[0].readings] == [-20.0, -20.01, -20.02, -20.03]
    assert session.requests[-1].oids == tuple(f"{POWER.oid}.{key}.1" for key in KEYS)


def test_every_step_has_its_own_times_and_counts():
    result = run(olt(), DISCOVERY, GET_POWER)
    first, second = result.steps
    assert (first.node_id, second.node_id) == (1, 2)
    assert (first.pdus, first.rows, second.pdus, second.rows) == (1, 4, 1, 4)
    assert START == first.started_at < first.finished_at < second.started_at < second.finished_at


def test_a_get_without_a_discovery_asks_for_the_known_onus():
    result = run(olt(), GET_NAME, keys=KEYS[:2])
    assert indexes(result, 0) == list(KEYS[:2]) and result.steps[0].columns[0].complete


def test_a_discovery_that_was_cut_short_adds_to_the_known_onus():
    stuck = f"{STATE.oid}.{KEYS[1]}"
    result = run(olt(faults=Faults(stuck_at=stuck)), DISCOVERY, GET_NAME, keys=KEYS[2:])
    assert result.steps[0].error_kind is ErrorKind.NOT_INCREASING
    assert not result.steps[0].columns[0].complete and indexes(result, 0) == list(KEYS[:2])
    assert sorted(indexes(result, 1)) == sorted(KEYS)
    assert result.steps[1].status is StepStatus.SUCCESS and not result.succeeded


def test_a_get_with_no_onu_to_ask_for_is_skipped_and_does_not_fail_the_composite():
    result = run(olt(), GET_POWER, step(NodeKind.GET, UPTIME, node_id=9))
    skipped, after = result.steps
    assert (skipped.status, skipped.skip_reason) == (StepStatus.SKIPPED, SkipReason.NO_ONUS)
    assert result.succeeded and after.rows == 1


def test_a_composite_with_nothing_to_ask_opens_no_session():
    targets = []
    assert run(fake_factory(olt(), targets), GET_POWER).succeeded
    assert targets == []


def test_a_get_after_a_complete_discovery_of_nobody_succeeds_with_no_rows():
    result = run(olt(keys=()), DISCOVERY, GET_POWER, keys=KEYS)
    assert [item.status for item in result.steps] == [StepStatus.SUCCESS, StepStatus.SUCCESS]
    assert result.steps[1].rows == 0 and result.steps[1].columns[0].complete


def test_scalars_are_read_by_get_whatever_the_kind_of_the_step():
    result = run(olt(), step(NodeKind.BULK, UPTIME, STATE, NAME))
    by_metric = {column.spec.metric: column for column in result.steps[0].columns}
    assert [reading.value for reading in by_metric["uptime"].readings] == [12345]
    assert by_metric["uptime"].readings[0].index == "0"
    assert len(by_metric["onu_state"].readings) == len(by_metric["onu_name"].readings) == 4


def test_a_walk_strips_the_suffix_and_leaves_out_rows_with_another_one():
    result = run(olt(), step(NodeKind.WALK, POWER))
    assert indexes(result, 0) == list(KEYS)
    assert all(reading.value < 0 for reading in result.steps[0].columns[0].readings)


def test_an_onu_without_data_is_a_reading_without_value_not_a_failure():
    result = run(olt(), GET_NAME, keys=(*KEYS, "4194304000.99"))
    assert result.succeeded
    last = result.steps[0].columns[0].readings[-1]
    assert (last.index, last.value) == ("4194304000.99", None) and last.reason
    assert result.steps[0].rows == 4


@pytest.mark.parametrize("kind", [NodeKind.GET, NodeKind.WALK])
def test_an_unsupported_column_fails_its_step_and_the_next_one_still_runs(kind):
    result = run(olt(), step(kind, UNKNOWN), GET_NAME, keys=KEYS)
    failed, after = result.steps
    assert failed.error_kind is ErrorKind.NO_SUCH_OBJECT and not failed.columns[0].complete
    assert UNKNOWN.oid in failed.error_message and "view" in failed.error_message
    assert after.status is StepStatus.SUCCESS and result.first_failure is failed


def test_an_unsupported_discovery_never_looks_like_an_empty_olt():
    result = run(olt(), step(NodeKind.DISCOVERY, UNKNOWN), GET_NAME, keys=KEYS)
    assert result.steps[0].status is StepStatus.FAILED
    assert indexes(result, 1) == list(KEYS)


def test_one_unsupported_column_leaves_the_others_readable():
    result = run(olt(), step(NodeKind.GET, UNKNOWN, NAME), keys=KEYS)
    bad, good = result.steps[0].columns
    assert result.steps[0].error_kind is ErrorKind.NO_SUCH_OBJECT
    assert bad.readings == () and len(good.readings) == 4 and good.complete


def test_a_dead_olt_is_given_up_after_the_first_request_and_the_rest_is_skipped():
    session = olt(faults=Faults(dead=True))
    result = run(session, DISCOVERY, GET_POWER, GET_NAME, keys=KEYS)
    assert len(session.requests) == 1 and not result.answered
    assert result.steps[0].error_kind is ErrorKind.TIMEOUT
    assert [item.skip_reason for item in result.steps[1:]] == [SkipReason.TIMED_OUT_EARLIER] * 2
    assert result.steps[1].started_at is None


def test_an_olt_that_dies_midway_keeps_the_readings_of_the_steps_before():
    result = run(olt(faults=Faults(dies_after=2)), DISCOVERY, GET_POWER, GET_NAME, DISCOVERY)
    assert [item.status.value for item in result.steps] == ["SUCCESS", "SUCCESS", "FAILED", "SKIPPED"]
    assert result.answered and len(result.steps[1].columns[0].readings) == 4


def test_stop_on_failure_ends_the_chain_with_its_own_reason():
    result = run(olt(), step(NodeKind.WALK, UNKNOWN, stop_on_failure=True), GET_NAME, keys=KEYS)
    assert result.steps[1].skip_reason is SkipReason.STOPPED_ON_FAILURE


def test_one_guilty_instance_does_not_fail_a_get_but_is_named():
    guilty = f"{NAME.oid}.{KEYS[2]}"
    result = run(olt(faults=Faults(guilty=frozenset({guilty}))), GET_NAME, keys=KEYS)
    (item,) = result.steps
    assert item.status is StepStatus.SUCCESS and not item.columns[0].complete
    assert len(item.columns[0].readings) == 3 and guilty in item.error_message


def test_a_get_whose_every_instance_failed_is_failed():
    everything = frozenset(f"{NAME.oid}.{key}" for key in KEYS)
    result = run(olt(faults=Faults(generr=everything)), GET_NAME, keys=KEYS)
    assert result.steps[0].error_kind is ErrorKind.DEVICE and NAME.oid in result.steps[0].error_message


def test_the_time_limit_of_a_step_keeps_its_rows_and_does_not_stop_the_chain():
    clock, keys = Ticking(6.0), tuple(f"4194304000.{onu}" for onu in range(100))
    slow = step(NodeKind.DISCOVERY, STATE, time_limit=10.0)
    first, second = run(olt(keys, on_request=clock.tick), slow, GET_NAME, monotonic=clock).steps
    assert (first.error_kind, first.rows) == (ErrorKind.TIME_LIMIT, 40)
    assert (second.status, second.rows) == (StepStatus.SUCCESS, 40)


@pytest.mark.parametrize(
    ("error", "kind"), [(SnmpUnreachable("no route"), ErrorKind.UNREACHABLE), (SnmpAuthError("no"), ErrorKind.AUTH)]
)
def test_a_session_that_cannot_be_opened_fails_the_first_step_and_skips_the_rest(error, kind):
    result = run(fake_factory(error), DISCOVERY, GET_NAME, keys=KEYS)
    assert result.steps[0].error_kind is kind and result.steps[0].pdus == 0
    assert result.steps[1].skip_reason is SkipReason.OLT_UNREACHABLE


def test_one_session_serves_the_whole_composite_and_is_closed():
    session, targets = olt(), []
    run(fake_factory(session, targets), DISCOVERY, GET_POWER, GET_NAME)
    assert len(targets) == 1 and session.closed


def test_a_lost_lease_passes_through_after_the_session_is_closed():
    session = olt()
    lease = Lease(session, lost_at=3)
    with pytest.raises(Gone):
        run(session, DISCOVERY, GET_POWER, checkpoint=lease)
    assert session.closed and len(session.requests) == 1
    assert lease.seen == [0, 0, 1]  # before opening, before the walk, before the GET


def test_a_fault_of_our_own_code_is_raised_after_the_session_is_closed():
    session = FakeSession(on_request=failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        run(session, DISCOVERY)
    assert session.closed


def test_no_secret_is_in_any_result():
    for faults in (Faults(dead=True), Faults(generr=frozenset({f"{STATE.oid}.{KEYS[0]}"})), Faults(cut_answers_to=0)):
        assert SECRET not in repr(run(olt(faults=faults), DISCOVERY, GET_NAME, keys=KEYS))


KNOWN = Device(
    "1.3.6.1.4.1.2011.2.248",
    "OLT-LIMA",
    8_640_000,
    START,
    witnesses={f"{NAME.oid}.{KEYS[n]}": f"CLI-{n}" for n in range(4)},
)


def identified(keys=KEYS, **changes) -> FakeSession:
    """An OLT that says who it is; `changes` of single rows."""
    session = olt(keys)
    said = {"sysobjectid": KNOWN.object_id, "sysname": KNOWN.name.encode(), "uptime": 8_670_000}
    rows = {**session.rows, **{SYSTEM[name]: value for name, value in said.items()}}
    rows |= {SYSTEM[name]: value for name, value in changes.items() if name in SYSTEM}
    return FakeSession(rows, columns=(STATE.oid, POWER.oid, NAME.oid), on_request=changes.get("on_request"))


def run_known(session, *steps: StepWork, keys=KEYS, known=KNOWN) -> CompositeResult:
    target = SnmpTarget("192.0.2.7", 161, "2c", retries=0)
    ticks = iter(range(1000))
    work = CompositeWork(1, 1, 1, target, steps, onu_keys=keys, device=known)
    now = lambda: START + timedelta(minutes=5, seconds=next(ticks))  # noqa: E731
    return poller.run(work, fake_factory(session), lambda: None, now, lambda: 0.0)


def test_who_answers_is_asked_first_in_one_request_with_a_few_known_onus():
    session = identified()
    result = run_known(session, DISCOVERY, GET_NAME)
    assert result.succeeded and result.answer is not None
    assert (result.answer.name, result.answer.uptime, result.answer.same, result.answer.other) == (
        "OLT-LIMA", 8_670_000, 4, 0
    )  # fmt: skip
    assert session.requests[0].kind == "get" and set(KNOWN.witnesses) < set(session.requests[0].oids)
    assert sum(SYSTEM["sysname"] in request.oids for request in session.requests) == 1
    assert [step.restarted_at for step in result.steps] == [None, None]


def test_nothing_is_read_of_a_device_on_which_all_onus_are_others():
    others = {f"{NAME.oid}.{key}": b"OTHER" for key in KEYS}
    session = FakeSession({**identified().rows, **others}, columns=(STATE.oid, POWER.oid, NAME.oid))
    result = run_known(session, DISCOVERY, GET_NAME)
    assert result.other_device and len(session.requests) == 1
    assert (result.steps[0].error_kind, result.steps[1].skip_reason) == (
        ErrorKind.OTHER_DEVICE, SkipReason.OTHER_DEVICE
    )  # fmt: skip
    assert not any(step.columns for step in result.steps) and "OLT-LIMA" in result.steps[0].error_message


def test_a_renamed_olt_is_read_on_while_its_onus_stand_where_they_stood():
    assert run_known(identified(sysname=b"LIM-01"), DISCOVERY).succeeded
    strange = run_known(identified(sysname=b"LIM-01"), DISCOVERY, known=replace(KNOWN, witnesses={}))
    assert strange.other_device and "LIM-01" in strange.steps[0].error_message
    assert run_known(identified(sysname=b"LIM-01"), DISCOVERY, keys=(), known=replace(KNOWN, witnesses={})).succeeded


def test_all_witnesses_are_asked_before_a_device_is_called_another_one():
    many = {f"{NAME.oid}.{KEYS[0]}": "CLI-0"}
    replaced = {f"{POWER.oid}.{key}.1": "was" for key in KEYS} | {f"{STATE.oid}.{key}": "was" for key in KEYS}
    result = run_known(identified(), DISCOVERY, known=replace(KNOWN, witnesses={**replaced, **many}))
    assert result.succeeded and result.answer is not None and (result.answer.same, result.answer.other) == (1, 8)


def test_a_step_says_when_the_device_restarted_and_for_how_long_that_matters():
    session = identified(uptime=6000)
    result = run_known(session, DISCOVERY)
    assert result.succeeded and result.steps[0].restarted_at == START + timedelta(minutes=4, seconds=1)
    long_ago = replace(KNOWN, restarted_at=START - timedelta(hours=2))
    assert run_known(identified(), DISCOVERY, known=long_ago).steps[0].restarted_at is None


def test_a_table_is_not_whole_when_the_device_restarted_while_it_was_read():
    rows = dict(identified().rows)

    def restart(request):
        if request.kind == "next":
            rows[SYSTEM["uptime"]] = 1

    session = FakeSession(rows, columns=(STATE.oid, POWER.oid, NAME.oid), on_request=restart)
    result = run_known(session, DISCOVERY, GET_NAME)
    first = result.steps[0]
    assert (first.status, first.error_kind) == (StepStatus.FAILED, ErrorKind.INCOMPLETE)
    assert first.rows == 4 and not first.columns[0].complete and "restarted" in first.error_message


def test_a_silent_olt_costs_one_request_also_where_no_onu_is_known():
    session = FakeSession(identified().rows, faults=Faults(dead=True))
    result = run_known(session, GET_POWER, GET_NAME, keys=())
    assert result.steps[0].error_kind is ErrorKind.TIMEOUT and not result.answered and len(session.requests) == 1
    assert result.steps[1].skip_reason is SkipReason.TIMED_OUT_EARLIER


def test_an_olt_that_answers_and_has_no_known_onu_leaves_a_get_with_nothing_to_ask():
    result = run_known(identified(), GET_POWER, keys=())
    assert result.answered and result.empty and result.steps[0].skip_reason is SkipReason.NO_ONUS


def test_an_olt_that_hides_or_refuses_its_system_group_is_read_all_the_same():
    assert run_known(olt(), DISCOVERY).succeeded
    refusing = FakeSession(
        identified().rows, columns=(STATE.oid,), faults=Faults(generr=frozenset({SYSTEM["sysname"]}))
    )
    assert run_known(refusing, DISCOVERY).succeeded
