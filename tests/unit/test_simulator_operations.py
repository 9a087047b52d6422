"""The rules of GET, GETNEXT, GETBULK and SET, and what the subtree faults do to them; no sockets."""

from pathlib import Path

import pytest

from jobs.snmp.simulator.agent import responder
from jobs.snmp.simulator.clock import Clock
from jobs.snmp.simulator.faults import DeviceMuteError, Faults, Load
from jobs.snmp.simulator.mib import Kind, RecordedMib, Value, parse_oid
from jobs.snmp.simulator.operations import Answer, Ask
from jobs.snmp.simulator.snmprec import parse_snmprec
from jobs.snmp.simulator.wire import V1, V2C, PduType
from testing.tables import differing

NAME = "1.3.6.1.2.1.31.1.1.1.1"
OCTETS = "1.3.6.1.2.1.31.1.1.1.6"
SPEED = "1.3.6.1.2.1.31.1.1.1.15"
ROWS = "".join(
    f"{NAME}.{port}|4|GPON 0/1/{port}\n{OCTETS}.{port}|70|{port}\n{SPEED}.{port}|66|2488\n" for port in range(1, 21)
)
ALL_NAMES = [f"{NAME}.{port}" for port in range(1, 21)]
MIB = RecordedMib(parse_snmprec(ROWS.encode(), "ports"), 0.0)


def ask(pdu: PduType, *oids: str, version: int = V2C, fixed: int = 0, repetitions: int = 0) -> Ask:
    return Ask(version, pdu, [parse_oid(oid) for oid in oids], fixed, repetitions)


def answer(question: Ask, faults: Faults | None = None) -> Answer:
    return responder(MIB, faults or Faults(), Clock(0.0, 1.0)).answer(question, 0.0)


def oids(found: Answer) -> list[str]:
    return [".".join(map(str, row.oid)) for row in found.rows or ()]


def kinds(found: Answer) -> list[Kind]:
    return [row.value.kind for row in found.rows or ()]


def test_v2c_marks_each_missing_varbind_and_answers_the_others() -> None:
    found = answer(ask(PduType.GET, f"{NAME}.1", f"{NAME}.99", "1.3.6.1.9.9"))
    assert found.status == 0
    assert kinds(found) == [Kind.OCTETS, Kind.NO_SUCH_INSTANCE, Kind.NO_SUCH_OBJECT]


def test_v1_fails_the_whole_request_and_names_the_guilty_varbind() -> None:
    cases = {
        "a GET of a missing name": (
            answer(ask(PduType.GET, f"{NAME}.1", f"{NAME}.99", version=V1)),
            Answer(2, 2, None),
        ),
        "a GET of a Counter64": (answer(ask(PduType.GET, f"{OCTETS}.1", version=V1)), Answer(2, 1, None)),
        "a GETNEXT at the end": (answer(ask(PduType.GETNEXT, f"{SPEED}.20", version=V1)), Answer(2, 1, None)),
        "a SET": (answer(ask(PduType.SET, f"{NAME}.1", version=V1)), Answer(2, 1, None)),
        "a SET in v2c": (answer(ask(PduType.SET, f"{NAME}.1")), Answer(17, 1, None)),
    }
    assert differing(cases) == {}
    assert kinds(answer(ask(PduType.GETNEXT, f"{SPEED}.20"))) == [Kind.END_OF_MIB_VIEW]


def test_a_walk_in_v1_passes_over_counter64() -> None:
    assert oids(answer(ask(PduType.GETNEXT, f"{NAME}.20", version=V1))) == [f"{SPEED}.1"]
    assert oids(answer(ask(PduType.GETNEXT, f"{NAME}.20"))) == [f"{OCTETS}.1"]


def test_getbulk_takes_the_non_repeaters_once_and_the_columns_side_by_side() -> None:
    found = answer(ask(PduType.GETBULK, NAME, NAME, SPEED, fixed=1, repetitions=2))
    wanted = [f"{NAME}.1", f"{NAME}.1", f"{SPEED}.1", f"{NAME}.2", f"{SPEED}.2"]
    assert oids(found) == wanted


def test_getbulk_stops_once_every_column_is_past_the_end_and_without_repetitions_after_the_non_repeaters() -> None:
    assert kinds(answer(ask(PduType.GETBULK, f"{SPEED}.19", repetitions=50))) == [Kind.GAUGE32, Kind.END_OF_MIB_VIEW]
    assert len(oids(answer(ask(PduType.GETBULK, NAME, SPEED, fixed=1, repetitions=0)))) == 1


def test_an_answer_too_large_is_toobig_for_get_and_cut_short_for_getbulk() -> None:
    small = Faults(toobig=484)
    assert answer(ask(PduType.GET, *ALL_NAMES), small) == Answer(1, 0, [])
    assert answer(ask(PduType.GET, *ALL_NAMES, version=V1), small) == Answer(1, 0, None)
    found = answer(ask(PduType.GETBULK, NAME, repetitions=20), small)
    assert found.status == 0
    assert 0 < len(oids(found)) < 20
    assert sum(len(row.ber) for row in found.rows or ()) <= 484


def test_maxrep_bounds_the_rows_per_column() -> None:
    assert len(oids(answer(ask(PduType.GETBULK, NAME, SPEED, repetitions=20), Faults(maxrep=3)))) == 6


def test_a_looping_subtree_answers_getnext_with_the_oid_it_was_asked_for() -> None:
    faults = Faults(loop=parse_oid(NAME))
    assert oids(answer(ask(PduType.GETNEXT, NAME), faults)) == [f"{NAME}.1"]
    assert oids(answer(ask(PduType.GETNEXT, f"{NAME}.1"), faults)) == [f"{NAME}.1"]
    assert oids(answer(ask(PduType.GETNEXT, SPEED), faults)) == [f"{SPEED}.1"]


def test_a_mute_subtree_lets_a_walk_die_halfway_and_swallows_each_get_that_reaches_it() -> None:
    faults = Faults(mute=parse_oid(f"{NAME}.5"))
    assert oids(answer(ask(PduType.GETBULK, NAME, repetitions=20), faults))[-1] == f"{NAME}.4"
    for question in (ask(PduType.GETBULK, f"{NAME}.4", repetitions=20), ask(PduType.GET, f"{NAME}.1", f"{NAME}.5")):
        with pytest.raises(DeviceMuteError):
            answer(question, faults)


def test_a_failing_instance_is_named_by_its_place() -> None:
    faults = Faults(generr=parse_oid(f"{NAME}.2"))
    assert answer(ask(PduType.GET, f"{NAME}.1", f"{NAME}.2", f"{NAME}.3"), faults) == Answer(5, 2, None)
    assert answer(ask(PduType.GET, f"{NAME}.1", f"{NAME}.3"), faults).status == 0


def test_a_dead_or_unplugged_device_is_silent_and_drop_takes_its_share(tmp_path: Path) -> None:
    unplugged = Faults(deadfile=tmp_path / "off-%p").at_port(20000)
    assert (Faults(dead=True).silent(1, 1), unplugged.silent(1, 1)) == (True, False)
    (tmp_path / "off-20000").touch()
    assert unplugged.silent(1, 1)
    lost, again = ([Faults(drop=0.3).silent(7, serial) for serial in range(2000)] for _ in range(2))
    assert 500 < sum(lost) < 700 and lost == again


def test_the_pause_is_the_delay_and_a_part_of_the_jitter_and_grows_with_the_rows_answered_and_with_the_load() -> None:
    pauses = [Faults(delay=0.05, jitter=0.01).pause(1, serial) for serial in range(200)]
    assert all(0.05 <= pause < 0.06 for pause in pauses)
    assert len(set(pauses)) > 100
    assert Faults().pause(1, 1) == 0
    assert Faults(rowdelay=0.01).pause(1, 1, rows=25) == pytest.approx(0.25)
    assert Faults(sag=0.02).pause(1, 1, load=10) == pytest.approx(0.2)


def test_a_value_keeps_its_type_on_the_way() -> None:
    found = answer(ask(PduType.GET, f"{SPEED}.3")).rows or []
    assert [row.value for row in found] == [Value(Kind.GAUGE32, 2488)]


def test_maxvars_is_toobig_for_a_longer_get_or_getnext_and_cuts_a_getbulk() -> None:
    few, names = Faults(maxvars=3), ALL_NAMES[:4]
    assert answer(ask(PduType.GET, *names), few) == Answer(1, 0, [])
    assert answer(ask(PduType.GETNEXT, *names), few) == Answer(1, 0, [])
    assert len(oids(answer(ask(PduType.GET, *names[:3]), few))) == 3
    assert oids(answer(ask(PduType.GETBULK, NAME, SPEED, repetitions=20), few)) == [
        f"{NAME}.1",
        f"{SPEED}.1",
        f"{NAME}.2",
    ]


def test_a_truncating_agent_leaves_out_the_rest_of_a_get_and_calls_it_a_success() -> None:
    broken = Faults(truncate=2)
    found = answer(ask(PduType.GET, *ALL_NAMES[:5]), broken)
    assert (found.status, len(oids(found))) == (0, 2)
    assert len(oids(answer(ask(PduType.GETBULK, NAME, repetitions=5), broken))) == 5


def test_a_walk_dies_in_the_middle_of_its_table_and_what_follows_the_table_still_answers() -> None:
    faults = Faults(die=parse_oid(f"{NAME}.5"))
    assert oids(answer(ask(PduType.GETBULK, NAME, repetitions=20), faults))[-1] == f"{NAME}.5"
    for pdu, port in ((PduType.GETNEXT, 5), (PduType.GET, 9), (PduType.GETBULK, 20)):
        with pytest.raises(DeviceMuteError):
            answer(ask(pdu, f"{NAME}.{port}", repetitions=10), faults)
    assert oids(answer(ask(PduType.GETNEXT, OCTETS), faults)) == [f"{OCTETS}.1"]
    assert answer(ask(PduType.GET, f"{NAME}.4"), faults).status == 0


class Seconds:
    """A clock a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_table_that_vanishes_is_empty_for_its_time_and_whole_before_and_after() -> None:
    seconds = Seconds()
    faults = Faults(vanish=parse_oid(NAME), vanishat=60.0, vanishfor=120.0)
    agent = responder(MIB, faults, Clock(0.0, 1.0, seconds))
    walk, get = ask(PduType.GETNEXT, NAME), ask(PduType.GET, f"{NAME}.1")
    seen = []
    for seconds.now in (0.0, 59.9, 60.0, 179.9, 180.0):
        seen.append((oids(agent.answer(walk, 0.0))[0], kinds(agent.answer(get, 0.0))[0]))
    there, gone = (f"{NAME}.1", Kind.OCTETS), (f"{OCTETS}.1", Kind.NO_SUCH_INSTANCE)
    assert seen == [there, there, gone, gone, there]


def test_a_table_at_the_end_of_the_tree_can_vanish_too() -> None:
    faults = Faults(vanish=parse_oid(SPEED))
    assert kinds(answer(ask(PduType.GETNEXT, f"{OCTETS}.20"), faults)) == [Kind.END_OF_MIB_VIEW]


def test_a_reboot_silences_the_device_and_starts_sysuptime_anew() -> None:
    seconds = Seconds()
    faults = Faults(reboot=100.0, rebootfor=10.0)
    clock = Clock(5000.0, 2.0, seconds)
    mib = RecordedMib(parse_snmprec(b"1.3.6.1.2.1.1.3.0|67|900000", "uptime"), 5000.0)
    agent = responder(mib, faults, clock)
    uptimes = {}
    for seconds.now in (0.0, 99.0, 100.0, 109.9, 110.0, 115.0, 215.0):
        up = not faults.silent(1, 1, clock.elapsed())
        row = (agent.answer(ask(PduType.GET, "1.3.6.1.2.1.1.3.0"), clock()).rows or [])[0]
        uptimes[seconds.now] = row.value.data if up else None
    # The device's clock runs at twice the pace, so five seconds are a thousand ticks.
    assert uptimes == {0.0: 900000, 99.0: 919800, 100.0: None, 109.9: None, 110.0: 0, 115.0: 1000, 215.0: 1000}


def test_the_load_is_the_requests_of_the_last_second_and_goes_away_when_left_alone() -> None:
    load = Load()
    assert [load.add(at) for at in (0.0, 0.25, 0.5, 1.0, 1.25, 9.0)] == [1, 2, 3, 3, 3, 1]
