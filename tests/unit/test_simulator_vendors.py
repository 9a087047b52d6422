"""Generated OLTs of every family: whole trees, indexes, names, encodings, sentinels, ONUs that come and go."""

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jobs.snmp.simulator import fiberhome, nokia, spec, vsol
from jobs.snmp.simulator.built import ExpectedOnu
from jobs.snmp.simulator.mib import NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Kind, MibSource, Oid, parse_oid
from jobs.snmp.simulator.onus import BOX, CHASSIS, Layout, Population
from jobs.snmp.simulator.spec import build_mib, expected, parse_spec
from jobs.snmp.simulator.values import sixteen_bit_power
from jobs.snmp.simulator.vendors import VENDORS
from portal.domain import serials

NOW = 1_790_000_000.0
ENTERPRISES = "1.3.6.1.4.1"
IF_DESCR, IF_OPER, IF_NAME = "1.3.6.1.2.1.2.2.1.2", "1.3.6.1.2.1.2.2.1.8", "1.3.6.1.2.1.31.1.1.1.1"
IF_ALIAS, SYS_OBJECT_ID = "1.3.6.1.2.1.31.1.1.1.18", "1.3.6.1.2.1.1.2.0"
EVERY = [
    *(f"{source}@0,model={model}" for source, vendor in VENDORS.items() for model in vendor.models),
    "zte@0,family=B",
]
# Where each family keeps state, serial or MAC, and received power: the number that means online, how power is read.
HUAWEI = f"{ENTERPRISES}.2011.6.128.1.1.2"
C600 = f"{ENTERPRISES}.3902.1082.500"
FIBERHOME = f"{ENTERPRISES}.5875.800.3"
VSOL = f"{ENTERPRISES}.37950.1.1"
BDCOM = f"{ENTERPRISES}.3320"
CDATA = f"{ENTERPRISES}.17409.2"
NOKIA = f"{ENTERPRISES}.637.61.1.35"
UFIBER = f"{ENTERPRISES}.41112.1.5.6"
COLUMNS = {
    "huawei@0": (f"{HUAWEI}.46.1.15", {1}, f"{HUAWEI}.43.1.3", f"{HUAWEI}.51.1.4", 100),
    "zte@0": (
        f"{ENTERPRISES}.3902.1012.3.28.2.1.4", {3}, f"{ENTERPRISES}.3902.1012.3.28.1.1.5",
        f"{ENTERPRISES}.3902.1012.3.50.12.1.1.10", 0,
    ),
    "zte@0,model=C600": (f"{C600}.10.2.3.8.1.4", {4}, f"{C600}.10.2.3.3.1.18", f"{C600}.20.2.2.2.1.10", 0),
    "fiberhome@0": (f"{FIBERHOME}.10.1.1.11", {1}, f"{FIBERHOME}.10.1.1.10", f"{FIBERHOME}.9.3.3.1.6", 100),
    "vsol@0": (f"{VSOL}.6.1.1.1.1.5", {3}, f"{VSOL}.6.1.1.2.1.5", f"{VSOL}.6.1.1.3.1.7", 0),
    "vsol@0,model=V1600D": (f"{VSOL}.5.12.1.29.1.4", {1}, f"{VSOL}.5.12.1.29.1.5", f"{VSOL}.5.12.2.1.8.1.7", 0),
    "bdcom@0": (f"{BDCOM}.10.3.3.1.4", {3}, f"{BDCOM}.10.3.3.1.2", f"{BDCOM}.10.3.4.1.2", 10),
    "bdcom@0,model=P3310C": (f"{BDCOM}.101.10.1.1.26", {0, 3}, f"{BDCOM}.101.10.1.1.3", f"{BDCOM}.101.10.5.1.5", 10),
    "cdata@0": (f"{CDATA}.8.4.1.1.7", {1}, f"{CDATA}.8.4.1.1.3", f"{CDATA}.8.4.4.1.4", 100),
    "cdata@0,model=FD1208S": (f"{CDATA}.3.4.1.1.8", {1}, f"{CDATA}.3.4.1.1.7", f"{CDATA}.3.4.2.1.4", 100),
    "nokia@0": (IF_OPER, {1}, f"{NOKIA}.10.1.1.5", f"{NOKIA}.10.14.1.2", 500),
    "nokia@0,model=FGLT-B": (IF_OPER, {1}, f"{NOKIA}.10.1.1.5", f"{NOKIA}.10.14.1.2", 500),
    "ufiber@0": (f"{UFIBER}.2.1.3", {1}, f"{UFIBER}.2.1.1", f"{UFIBER}.2.1.9", 100),
}  # fmt: skip
NO_READINGS = {2147483647, 65535, 0, -65535, 32768, b"0.000", b"N/A"}


def an_olt(text: str, onus: int = 96, more: str = "", seed: int = 3) -> MibSource:
    return build_mib(parse_spec(f"{text},seed={seed},onus={onus}{more}"), "OLT", NOW)


def the_truth(text: str, onus: int = 96, more: str = "") -> list[ExpectedOnu]:
    return expected(f"{text},seed=3,onus={onus}{more}", NOW)


def walk(mib: MibSource, root: str, now: float = NOW) -> Iterator[tuple[str, int | bytes | Oid | None]]:
    prefix = parse_oid(root)
    oid = prefix
    while (found := mib.next(oid, now)) is not None and found[0][: len(prefix)] == prefix:
        oid = found[0]
        yield ".".join(map(str, oid[len(prefix) :])), found[1].data


def column(mib: MibSource, root: str, now: float = NOW) -> dict[str, int | bytes | Oid | None]:
    return dict(walk(mib, root, now))


def scalar(mib: MibSource, oid: str) -> int | bytes | Oid | None:
    return mib.get(parse_oid(oid), NOW).data


def words(mib: MibSource, root: str) -> dict[str, str]:
    return {index: value.decode() for index, value in walk(mib, root) if isinstance(value, bytes)}


def shown(mib: MibSource, root: str) -> set[str]:
    return set(words(mib, root).values())


def dbm(raw: int | bytes | Oid | None, scale: int) -> float | None:
    """Power as a reader of this family takes it; scale 0: ZTE's sixteen bits, or text with a number in it."""
    if raw in NO_READINGS:
        return None
    if isinstance(raw, bytes):
        return float(raw.decode().split("(")[-1].removesuffix(" dBm)"))
    assert isinstance(raw, int)
    if scale:
        return raw / scale
    return (raw if raw < 32768 else raw - 65536) * 0.002 - 30


@pytest.mark.parametrize("text", EVERY)
def test_the_whole_tree_is_in_order_and_every_row_can_be_read_by_get(text: str) -> None:
    mib = an_olt(text, 40)
    rows = [(parse_oid(f"1.3.{index}"), value) for index, value in walk(mib, "1.3")]
    oids = [oid for oid, _ in rows]
    assert len(oids) > 500 and oids == sorted(set(oids))
    assert [(oid, mib.get(oid, NOW).data) for oid in oids] == rows


@pytest.mark.parametrize("text", sorted(COLUMNS))
def test_the_same_seed_gives_the_same_olt_and_another_seed_another(text: str) -> None:
    once, again, other = (list(walk(an_olt(text, 20, seed=seed), "1.3")) for seed in (5, 5, 6))
    assert once == again != other


@pytest.mark.parametrize("text", sorted(COLUMNS))
@pytest.mark.parametrize("onus", [1, 17, 300])
def test_an_olt_has_exactly_the_onus_asked_for(text: str, onus: int) -> None:
    state, truth = column(an_olt(text, onus), COLUMNS[text][0]), {one.index for one in the_truth(text, onus)}
    assert len(truth) == onus and truth <= set(state)
    assert len(state) == onus or text.startswith("nokia")


@pytest.mark.parametrize("text", sorted(COLUMNS))
def test_states_serials_and_powers_are_those_of_the_truth(text: str) -> None:
    states, online, serial_column, rx_column, scale = COLUMNS[text]
    mib, truth = an_olt(text, 300), the_truth(text, 300)
    state, serial, rx = column(mib, states), column(mib, serial_column), column(mib, rx_column)
    powers = {index.removesuffix(".0.0") if "cdata" in text else index: value for index, value in rx.items()}
    for one in truth:
        read, told = serials.mac if one.mac and not one.serial else serials.canonical, serial[one.index]
        assert isinstance(told, bytes) and read(told) == (one.serial or one.mac)
        assert (state[one.index] in online) == one.online
        power = dbm(powers[f"{one.index}.1" if text.startswith("zte") else one.index], scale)
        assert power == pytest.approx(one.rx_power, abs=1e-6)
    assert 0 < sum(one.rx_power is None for one in truth) < 40


@pytest.mark.parametrize("text", sorted(COLUMNS))
def test_a_sentinel_storm_takes_its_share_of_the_powers_and_no_state(text: str) -> None:
    calm, storm = the_truth(text, 300), the_truth(text, 300, ",sentinels=0.5")
    assert [one.online for one in calm] == [one.online for one in storm]
    assert 110 < sum(one.rx_power is None and one.online for one in storm) < 190
    rx = column(an_olt(text, 300, ",sentinels=0.5"), COLUMNS[text][3])
    assert sum(value in NO_READINGS for value in rx.values()) == sum(one.rx_power is None for one in storm)


def test_the_same_seed_gives_the_same_customers_on_every_vendor() -> None:
    seen = {text: the_truth(text, 16) for text in COLUMNS}
    first = seen["huawei@0"]
    for truth in seen.values():
        assert [one.online for one in truth] == [one.online for one in first]
        assert all(one.description in (None, other.description) for one, other in zip(truth, first, strict=True))
        tails = [one.serial[8:] for one in truth if one.serial]
        assert tails in ([], [one.serial[8:] for one in first if one.serial])


def test_serials_hold_octets_on_which_readers_stumble() -> None:
    tails = [bytes.fromhex(one.serial[8:]) for one in the_truth("huawei@0", 16) if one.serial]
    assert len(set(tails)) == 16 and any(tail.isalnum() and tail.isascii() for tail in tails)
    for stumbles in (b'"\n', b"\\\0"):
        assert any(set(stumbles) <= set(tail) for tail in tails)


@pytest.mark.parametrize("text", ["huawei@0", "zte@0,model=C600", "cdata@0", "nokia@0"])
def test_numbers_have_gaps_and_fit_into_what_the_index_allows(text: str) -> None:
    truth = the_truth(text, 1500)
    assert len({(one.slot, one.port, one.number) for one in truth}) == 1500
    first = (truth[0].slot, truth[0].port)
    numbers = [one.number or 0 for one in truth if (one.slot, one.port) == first and one.number is not None]
    assert len(numbers) == sum((one.slot, one.port) == first for one in truth)
    assert len(numbers) < max(numbers) <= 128


@pytest.mark.parametrize("layout", [CHASSIS, BOX, Layout(most=80, spread=16, ports=242)])
def test_a_layout_never_needs_more_ports_or_numbers_than_it_has(layout: Layout) -> None:
    population = Population(1, layout.capacity, layout=layout)
    assert population.ports <= layout.ports
    assert population.position(population.places - 1)[1] < 128


def test_huawei_models_differ_by_their_sysobjectid() -> None:
    kinds = {model: scalar(an_olt(f"huawei@0,model={model}"), SYS_OBJECT_ID) for model in VENDORS["huawei"].models}
    assert kinds["MA5801"] == parse_oid(f"{ENTERPRISES}.2011.2.381")
    assert len(set(kinds.values())) == 5


def test_a_c600_has_no_1012_tree_numbers_in_family_b_and_says_so_in_ifname() -> None:
    mib = an_olt("zte@0,model=C620")
    assert mib.get(parse_oid(f"{ENTERPRISES}.3902.1012.3.28.2.1.4.268501248.1"), NOW) == NO_SUCH_OBJECT
    assert column(mib, f"{ENTERPRISES}.3902.1012") == {}
    names = words(mib, IF_NAME)
    assert (names["285278465"], words(mib, IF_DESCR)["285278465"]) == ("gpon_olt-1/1/1", "")
    for one in the_truth("zte@0,model=C620"):
        assert names[one.index.split(".")[0]] == f"gpon_olt-1/{one.slot}/{one.port}"


def test_a_c600_without_a_reading_says_65535_or_0() -> None:
    rx = column(an_olt("zte@0,model=C600", 600), COLUMNS["zte@0,model=C600"][3])
    assert {0, 65535} <= set(rx.values())


def test_a_fiberhome_tells_slot_pon_and_onu_in_columns_as_its_index_does() -> None:
    mib = an_olt("fiberhome@0", 300)
    slots, pons, onus = (column(mib, f"{FIBERHOME}.10.1.1.{arc}") for arc in (2, 3, 4))
    assert fiberhome.pon_index(0) == 34078720
    for index, slot in slots.items():
        number = int(index)
        assert (number >> 25, (number >> 19) & 63, (number >> 8) & 2047) == (slot, pons[index], onus[index])
    # Slots 9 and 10 hold the core cards.
    assert [fiberhome.slot_port(pon) for pon in (127, 128)] == [(8, 16), (11, 1)]
    by_port = {f"{int(index) & 0xFFF80000}.{(int(index) >> 8) & 2047}" for index in slots}
    assert set(column(mib, f"{FIBERHOME}.9.3.7.1.2")) == by_port


def test_a_vsol_names_each_onu_in_its_interfaces() -> None:
    truth, gpon, epon = the_truth("vsol@0"), an_olt("vsol@0"), an_olt("vsol@0,model=V1600D")
    assert {f"GPON0/{one.port}:{one.number}" for one in truth} <= shown(gpon, IF_ALIAS)
    assert {f"GPON{one.port:02d}ONU{one.number}" for one in truth} <= shown(gpon, IF_NAME)
    assert {f"EPON0/{one.port}:{one.number}" for one in truth} <= shown(epon, IF_NAME)


def test_a_vsol_writes_power_in_two_units() -> None:
    assert vsol.both_units(-14.61) == "0.03 mW (-14.61 dBm)"


def test_a_bdcom_numbers_its_onus_in_the_order_of_their_creation() -> None:
    names, truth = words(an_olt("bdcom@0"), IF_DESCR), the_truth("bdcom@0")
    assert all(names[one.index] == f"GPON0/{one.port}:{one.number}" for one in truth)
    indexes = [int(one.index) for one in truth]
    assert indexes != sorted(indexes) and min(indexes) >= 1179
    assert len(set(indexes)) < max(indexes) - min(indexes) + 1


def test_the_roster_of_a_full_bdcom_port_is_cut_at_255_octets() -> None:
    mib = an_olt("bdcom@0", 2000)
    active, idle = (column(mib, f"{BDCOM}.10.2.1.1.{arc}") for arc in (4, 5))
    assert {len(roster) for roster in words(mib, f"{BDCOM}.10.2.1.1.6").values()} == {255}
    assert sum(number for number in (*active.values(), *idle.values()) if isinstance(number, int)) == 2000


def test_cdata_families_are_told_apart_by_their_subtree_alone() -> None:
    gpon, epon = an_olt("cdata@0"), an_olt("cdata@0,model=FD1208S")
    for oid in ("1.3.6.1.2.1.1.1.0", SYS_OBJECT_ID):
        assert gpon.get(parse_oid(oid), NOW) == epon.get(parse_oid(oid), NOW)
    assert column(gpon, f"{CDATA}.3") == column(epon, f"{CDATA}.8") == {}
    assert words(gpon, IF_NAME)["16779008"] == words(epon, IF_NAME)["16780544"] == "pon0/0/1"
    assert min(int(one.index) for one in the_truth("cdata@0")) >> 8 == 16779008 >> 8


def test_nokia_interfaces_are_numbered_as_recorded() -> None:
    indexes = {
        (8, 14, 3, 1, nokia.NARROW): 331481088,
        (1, 14, 1, 1, nokia.NARROW): 96468992,
        (1, 14, 5, 2, nokia.NARROW): 96731648,
        (2, 14, 1, 2, nokia.WIDE): 130024448,
        (2, 13, 2, 1, nokia.WIDE): 128057344,
        (1, 13, 1, 1, nokia.NARROW): 94380032,
    }
    for (slot, level, port, number, board), index in indexes.items():
        rest = (port - 1) * board.pon_step + ((number - 1) * board.ont_step if level == 14 else board.pon_offset)
        assert nokia.if_index(slot, level, rest) == index


def test_a_nokia_with_two_kinds_of_boards_steps_differently_in_each_slot() -> None:
    names = words(an_olt("nokia@0,model=FWLT-C+FGLT-B", 600), IF_DESCR)
    pons = [int(index) for index, name in names.items() if name.endswith(" PON")]
    steps = {(b >> 25, b - a) for a, b in pairwise(pons) if a >> 25 == b >> 25}
    assert {step for step in steps if step[0] in (2, 3)} == {(2, 65536), (3, 131072)}


def test_a_ufiber_is_indexed_by_the_serial_and_forgets_the_port_of_a_dark_onu() -> None:
    mib, truth = an_olt("ufiber@0", 200), the_truth("ufiber@0", 200)
    ports, labels = column(mib, f"{UFIBER}.2.1.5"), words(mib, f"{UFIBER}.2.1.1")
    for one in truth:
        length, *letters = (int(part) for part in one.index.split("."))
        assert (length, bytes(letters).decode(), ports[one.index]) == (12, labels[one.index], one.port or 0)
        assert (one.port is None) == (not one.online)
    assert scalar(mib, f"{UFIBER}.1.0") == 200


def test_interfaces_of_onus_come_and_go_with_them() -> None:
    mib = an_olt("bdcom@0", 320, ",churn=0.9")
    first, later = set(column(mib, IF_DESCR)), set(column(mib, IF_DESCR, NOW + 7200))
    count = mib.get(parse_oid("1.3.6.1.2.1.2.1.0"), NOW + 7200)
    assert (count.kind, count.data) == (Kind.INTEGER, len(later))
    assert first - later and later - first


def test_no_vendor_module_imports_another() -> None:
    names = {"huawei", "zte", "zte_c600", "fiberhome", "vsol", "bdcom", "cdata", "nokia", "ufiber"}
    folder = Path(spec.__file__).parent
    for name in names:
        tree = ast.parse((folder / f"{name}.py").read_text())
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {module.rpartition(".")[2] for module in imported} & names


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
    assert {b"<script>alert(1)</script>", b"=1+1", "C-004417 Begoña Muñoz".encode("latin-1")} <= set(texts)
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


def test_without_churn_nothing_comes_or_goes_in_a_month_and_with_it_within_an_epoch_for_walks_to_be_consistent() -> (
    None
):
    calm, busy, start = a_huawei(), a_huawei(onus=320, churn=1.0), NOW - NOW % 30
    assert column(calm, f"{XPON}.46.1.15") == column(calm, f"{XPON}.46.1.15", NOW + 30 * 24 * HOUR)
    assert set(column(busy, f"{XPON}.43.1.3", start)) == set(column(busy, f"{XPON}.43.1.3", start + 29.9))


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
    absent = {
        f"{XPON}.46.1.15.4194312192.127": NO_SUCH_INSTANCE,
        f"{XPON}.46.1.99.4194312192.0": NO_SUCH_OBJECT,
        f"{ZGPON}.28.2.1.4.268501248.1": NO_SUCH_OBJECT,
    }
    assert {oid: a_huawei().get(parse_oid(oid), NOW) for oid in absent} == absent
