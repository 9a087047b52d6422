"""Generated Huawei and ZTE OLTs: shapes and sentinels, ONUs that come and go; no sockets."""

from collections import Counter
from itertools import pairwise

import pytest

from jobs.snmp.simulator.mib import NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Kind, MibSource, parse_oid
from jobs.snmp.simulator.onus import Population
from jobs.snmp.simulator.values import sixteen_bit_power
from tests.unit.test_simulator_vendors import IF_NAME, NOW, SYS_OBJECT_ID, an_olt, column, scalar, words

HOUR = 3600.0
XPON = "1.3.6.1.4.1.2011.6.128.1.1.2"
ZGPON = "1.3.6.1.4.1.3902.1012.3"
ZRX = "1.3.6.1.4.1.3902.1015.1010.11.2.1.2"


def a_huawei(onus: int = 64, churn: float = 0.0) -> MibSource:
    return an_olt("huawei@0", onus, f",churn={churn}", seed=1)


def a_zte(onus: int = 64, family: str = "C") -> MibSource:
    return an_olt("zte@0", onus, f",family={family}", seed=1)


def test_a_huawei_names_its_ports_as_its_indexes_decode() -> None:
    mib = a_huawei(onus=600)
    gpon = {int(index): name for index, name in words(mib, IF_NAME).items() if name.startswith("GPON")}
    assert (gpon[4194312192], gpon[4194316032]) == ("GPON 0/1/0", "GPON 0/1/15")
    assert gpon == {i: f"GPON 0/{(i >> 13) & 63}/{(i >> 8) & 31}" for i in gpon}
    assert {int(index.split(".")[0]) for index in column(mib, f"{XPON}.46.1.15")} == set(gpon)


def test_olts_say_what_they_are_and_a_huawei_by_its_size() -> None:
    kinds = [scalar(mib, SYS_OBJECT_ID) for mib in (a_huawei(onus=64), a_huawei(onus=2000), a_zte())]
    wanted = ["2011.2.248", "2011.2.115", "3902.1082.1001.320.2.1"]
    assert kinds == [parse_oid(f"1.3.6.1.4.1.{oid}") for oid in wanted]


def test_huawei_rows_have_sentinels_when_offline_and_plausible_powers_when_online() -> None:
    mib = a_huawei(onus=512)
    state = column(mib, f"{XPON}.46.1.15")
    distance, temperature = column(mib, f"{XPON}.46.1.20"), column(mib, f"{XPON}.51.1.1")
    rx, tx, olt_rx = (column(mib, f"{XPON}.51.1.{arc}") for arc in (4, 3, 6))
    assert set(state.values()) == {1, 2}
    for key, up in state.items():
        power, heard = rx[key], olt_rx[key]
        if up == 2:
            assert distance[key] == -1
            assert power == tx[key] == heard == temperature[key] == 2147483647
        else:
            assert isinstance(power, int) and isinstance(heard, int)
            assert -3000 < power < -1500 and power - 300 < heard - 10000 < power


def test_huawei_serials_are_eight_octets_and_all_different() -> None:
    serials = list(column(a_huawei(onus=512), f"{XPON}.43.1.3").values())
    assert all(isinstance(serial, bytes) and len(serial) == 8 and serial[:4] == b"HWTC" for serial in serials)
    assert len(set(serials)) == 512


def test_descriptions_hold_what_a_poller_has_to_survive() -> None:
    texts = list(column(a_huawei(), f"{XPON}.43.1.9").values())
    assert b"<script>alert(1)</script>" in texts
    assert b"=1+1" in texts
    assert "C-004417 Begoña Muñoz".encode("latin-1") in texts
    assert sum(isinstance(text, bytes) and b"\xc3" in text for text in texts) > 10
    assert all(isinstance(text, bytes) and len(text) <= 128 for text in texts)


def test_a_zte_uses_family_a_for_its_onus_and_family_b_or_c_for_its_ports() -> None:
    assert next(iter(column(a_zte(), f"{ZGPON}.28.2.1.4"))).split(".")[0] == "268501248"
    assert words(a_zte(family="C"), IF_NAME)["268435456"] == "gpon_1/1/1"
    assert words(a_zte(family="B"), IF_NAME)["285278465"] == "gpon_1/1/1"


def test_zte_optics_carry_the_pon_port_and_its_sixteen_bit_coding() -> None:
    mib = a_zte(onus=512)
    phase, rx, olt_rx = column(mib, f"{ZGPON}.28.2.1.4"), column(mib, f"{ZGPON}.50.12.1.1.10"), column(mib, ZRX)
    assert set(rx) == {f"{key}.1" for key in phase}
    assert {3} < set(phase.values()) <= {1, 3, 4, 6}
    for key, state in phase.items():
        raw, heard = rx[f"{key}.1"], olt_rx[key]
        assert isinstance(raw, int) and isinstance(heard, int)
        assert raw == 65535 if state != 3 else -30 < raw * 0.002 - 30 < -15
        assert heard == -80000 if state != 3 else heard == -80000 or -33000 < heard < -15000
    assert -80000 in [olt_rx[key] for key, state in phase.items() if state == 3]


def test_power_below_minus_thirty_wraps_in_the_coding_of_zte() -> None:
    assert [sixteen_bit_power(dbm) for dbm in (-20.0, -30.2)] == [5000, 65436]


def test_powers_wander_slowly_and_uptime_ticks() -> None:
    mib, oid, uptime = a_huawei(), parse_oid(f"{XPON}.51.1.4.4194312192.0"), parse_oid("1.3.6.1.2.1.1.3.0")
    values = [mib.get(oid, NOW + minute * 60).data for minute in range(600)]
    assert len(set(values)) > 20
    assert all(isinstance(a, int) and isinstance(b, int) and abs(a - b) <= 20 for a, b in pairwise(values))
    before, after = mib.get(uptime, NOW), mib.get(uptime, NOW + 10)
    assert (before.kind, after.data) == (Kind.TIMETICKS, before.data + 1000 if isinstance(before.data, int) else None)


def test_without_churn_nothing_comes_or_goes_in_a_month() -> None:
    mib = a_huawei()
    assert column(mib, f"{XPON}.46.1.15") == column(mib, f"{XPON}.46.1.15", NOW + 30 * 24 * HOUR)


@pytest.mark.slow
def test_with_churn_onus_go_dark_vanish_and_appear_around_the_number_asked_for() -> None:
    mib = a_huawei(onus=320, churn=0.5)
    times = [NOW + minute * 60 for minute in range(0, 600, 10)]
    states = [column(mib, f"{XPON}.46.1.15", now) for now in times]
    assert any(a != b for a, b in pairwise(states))
    everyone = set().union(*states)
    always = set(states[0]).intersection(*states)
    assert len(everyone) > 330
    assert len(always) < 315
    assert all(290 < len(state) < 350 for state in states)
    flapped = [key for key in always if {state[key] for state in states} == {1, 2}]
    assert len(flapped) > 50


def test_rows_stay_within_an_epoch_so_that_a_walk_is_consistent() -> None:
    mib = a_huawei(onus=320, churn=1.0)
    start = NOW - NOW % 30
    assert set(column(mib, f"{XPON}.43.1.3", start)) == set(column(mib, f"{XPON}.43.1.3", start + 29.9))


def test_an_onu_that_came_back_says_when_and_why_it_was_down() -> None:
    population = Population(1, 64, churn=0.5)
    mib = a_huawei(churn=0.5)
    causes = column(mib, f"{XPON}.46.1.24")
    last_down = column(mib, f"{XPON}.46.1.23")
    assert {cause for cause in causes.values() if cause != -1} <= {1, 3, 13, 31}
    assert all((causes[key] == -1) == (last_down[key] == bytes(8)) for key in causes)
    online = [onu for onu in population.members(NOW) if population.online(onu, NOW)]
    assert all(population.state(onu, NOW).online for onu in online)
    assert all(population.state(onu, NOW).up_since <= NOW for onu in online)


def test_the_port_counts_the_onus_added_to_it() -> None:
    mib = a_huawei(onus=100)
    assert column(mib, f"{XPON}.21.1.16") == Counter(key.split(".")[0] for key in column(mib, f"{XPON}.43.1.3"))


def test_absent_rows_and_absent_objects_are_told_apart() -> None:
    mib = a_huawei()
    assert mib.get(parse_oid(f"{XPON}.46.1.15.4194312192.127"), NOW) == NO_SUCH_INSTANCE
    assert mib.get(parse_oid(f"{XPON}.46.1.99.4194312192.0"), NOW) == NO_SUCH_OBJECT
    assert mib.get(parse_oid(f"{ZGPON}.28.2.1.4.268501248.1"), NOW) == NO_SUCH_OBJECT
