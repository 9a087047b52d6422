"""Quirks of real OLTs in indexes and values, decoded by the shipped rows. No sockets."""

from functools import cache

import pytest

from portal.domain.catalogue_data import SECRET_COLUMNS
from portal.domain.formulas import IndexFormula, Position
from portal.domain.proof import Agreement, prove, read_interfaces
from portal.domain.readings import RawValue, Reading, decode
from portal.domain.recognising import By, KnownModel, by_subtree, shortlist
from portal.domain.statuses import NodeKind
from testing.shipped import brand, brands, column, formula, row


@cache
def models() -> list[KnownModel]:
    return [KnownModel(data.key, model) for data in brands() for model in data.models]


def meaning(key: str, raw: RawValue, model: str = "") -> Reading:
    """What the shipped row makes of one raw value."""
    return decode(column(key, model), "1", raw)


def values(key: str, *raws: RawValue, model: str = "") -> list[object]:
    return [meaning(key, raw, model).value for raw in raws]


def online(key: str, raw: RawValue, model: str = "") -> bool | None:
    return meaning(key, raw, model).online


# --- C. Indexes


def test_quirk_18_an_index_printed_as_negative_is_the_same_port() -> None:
    numbers = ("-100654848", "4194312448", "-100654848.2")
    port, onu = Position(slot=1, port=1), Position(slot=1, port=1, onu=2)
    assert [formula("huawei.huawei_gpon").decode(number) for number in numbers] == [port, port, onu]


def test_quirk_19_the_interface_table_is_no_witness_for_a_column_that_is_not_keyed_by_it() -> None:
    oid, interfaces = row("zte.onu_state").oid, read_interfaces([("268501248", "gpon_1/2/2")], names_of("zte"))
    proof = prove(f"{oid}.268501248.3", oid, formula("zte.zte_1012"), interfaces, by_ifindex=False)
    assert proof.position == Position(slot=1, port=1, onu=3, frame=1)
    assert proof.verdict is Agreement.NOT_CHECKED


def names_of(maker: str) -> list[IndexFormula]:
    built = [item.build() for key in (maker, "generic") for item in brand(key).formulas]
    return [one for one in built if one.reads_names]


@pytest.mark.parametrize(
    ("object_id", "subtree", "model"),
    [
        ("37950.1.1.5.10.14.1", "37950.1.1.6.1.1", "vsol.V1600G"),
        ("37950.1.1.5.10.14.1", "37950.1.1.5.12.1.29", "vsol.V1600D"),
        ("17409", "17409.2.3", "cdata.FD12XX"),
        ("17409", "17409.2.8", "cdata.FD16XX"),
        ("4413", "41112.1.5.6", "ufiber.UISP-FIBER"),
        ("41112.1.5", "41112.1.5.6", "ufiber.UF-OLT"),
        ("3902.1082.1001.320.2.1", "3902.1012.3.28.2", "zte.C320"),
        ("3902.1082.1001.320.2.1", "3902.1082.500.10.2.3", "zte.C320-1082"),
    ],
)
def test_quirk_21_where_a_sysobjectid_is_shared_the_subtree_that_answers_decides(
    object_id: str, subtree: str, model: str
) -> None:
    before = shortlist(models(), f"1.3.6.1.4.1.{object_id}", "site 7")
    found = by_subtree(before, {f"1.3.6.1.4.1.{subtree}"})
    assert found.decided is not None and found.decided.key == model
    if before.decided is None:
        assert (found.grounds[-1].by, found.grounds[-1].seen) == (By.SUBTREE, f"1.3.6.1.4.1.{subtree}")


def test_quirk_22_no_maker_is_told_by_sysdescr_alone_where_its_identity_is_known() -> None:
    assert shortlist(models(), "1.3.6.1.4.1.9.1.1", "Huawei Integrated Access Software").unknown
    for lying_or_broken in ("V1600GS", "BDCOM(tm) GP3600-16B Software\nhardware version"):
        found = shortlist(models(), "1.3.6.1.4.1.3320.1.390.0", lying_or_broken)
        assert found.decided is not None and found.decided.key == "bdcom.GP3600-16B"


def test_quirk_26_an_onu_number_is_what_the_index_says_however_large_the_gap() -> None:
    b = formula("zte.zte_1082")
    assert [b.decode(f"285278465.{number}").onu for number in (1, 15, 80, 81, 87)] == [1, 15, 80, 81, 87]  # type: ignore[union-attr]


# --- D. Values


@pytest.mark.parametrize(
    ("key", "model", "raws"),
    [
        ("huawei.onu_rx_power", "", [2147483647]),
        ("huawei.onu_distance", "", [-1, 2147483647]),
        ("zte.onu_rx_power", "", [65535, 0]),
        ("zte.onu_olt_rx_power", "", [-80000, 65535, 65535000]),
        ("nokia.onu_rx_power", "", [32768]),
        ("nokia.onu_olt_rx_power", "", [65534]),
        ("cdata.onu_rx_power", "FD16XX", [0]),
        ("cdata.last_down_cause", "FD16XX", [b""]),
        ("raisecom.onu_rx_power", "", [0, -40000]),
        ("hioso.onu_rx_power", "", [b"na"]),
        ("vsol.onu_rx_power", "V1600G", [b"0.000", b""]),
        ("ufiber.onu_rx_power", "", [0]),
        ("bdcom.onu_rx_power", "P3310C", [-65535, 0]),
    ],
)
def test_quirk_29_a_makers_way_of_saying_nothing_is_no_value_and_says_why(
    key: str, model: str, raws: list[RawValue]
) -> None:
    found = [meaning(key, raw, model) for raw in raws]
    assert all(reading.value is None and reading.reason for reading in found), found


def test_quirk_30_a_state_comes_from_a_state_column_only() -> None:
    assert online("hioso.onu_rx_power", b"na") is online("zte.onu_olt_rx_power", -80000) is None
    assert online("hioso.onu_state", 1) is True


def test_quirk_31_each_column_is_decoded_by_its_own_offset_and_scale() -> None:
    powers = {
        "huawei.onu_olt_rx_power": {7755: -22.45, 8775: -12.25},
        "huawei.onu_rx_power": {-2107: -21.07},
        "huawei.onu_tx_power": {215: 2.15},
        "huawei.epon_onu_olt_rx_power": {7612: -23.88},
        "zte.onu_rx_power": {3560: -22.88, 64036: -33.0},
        "raisecom.onu_rx_power": {4500: -21.0},
        "nokia.onu_rx_power": {-11000: -22.0},
        "fiberhome.onu_rx_power": {-1850: -18.5},
    }
    assert {key: {raw: meaning(key, raw).value for raw in known} for key, known in powers.items()} == powers


def test_quirk_31_light_that_no_module_can_report_is_no_reading_and_the_raw_value_stays_beside_it() -> None:
    for key in ("huawei.onu_rx_power", "fiberhome.onu_rx_power", "nokia.onu_olt_rx_power"):
        assert (meaning(key, -9000).value, meaning(key, -9000).raw) == (None, "-9000")


def test_quirk_32_the_phases_of_the_two_zte_trees_differ_by_one() -> None:
    labels = ["logging", "LOS", "sync MIB", "working", "dying gasp", "authentication failed"]
    assert values("zte.onu_state", *range(6)) == values("zte.onu_state", *range(1, 7), model="C600") == labels
    assert online("zte.onu_state", 3) is online("zte.onu_state", 4, "C600") is True
    assert online("zte.onu_state", 4) is False


def test_quirk_32_an_unknown_code_is_shown_as_such_and_says_nothing_of_the_light() -> None:
    found = meaning("zte.last_down_cause", 42)
    assert (found.value, found.raw, found.online) == ("unknown(42)", "42", None)


def test_quirk_33_codes_beyond_the_syntax_of_the_mib_are_understood() -> None:
    assert values("fiberhome.onu_state", 3) == ["offline"]
    assert values("vsol.onu_state", 8, model="V1600G") == ["configuration failed"]
    assert values("dasan.onu_rx_power", -215) == [-21.5]


def test_quirk_34_columns_that_look_alike_have_names_and_meanings_of_their_own() -> None:
    admin, state = row("huawei.onu_admin_state"), row("huawei.onu_state")
    assert (admin.oid.rpartition(".46.1.")[2], state.oid.rpartition(".46.1.")[2]) == ("1", "15")
    assert (online("huawei.onu_admin_state", 1), online("huawei.onu_state", 1)) == (None, True)
    bound = "1.3.6.1.4.1.3320.101.11.1.1.6"
    assert all(one.oid != bound for one in brand("bdcom").oids), "the bind table has another enumeration"


def test_quirk_35_a_serial_in_any_of_its_forms_is_one_serial() -> None:
    octets = bytes.fromhex("5A544547030C0914")
    forms = [octets, b"ZTEG030C0914", b"1,ZTEG030C0914", b"5A544547030C0914", b"ALCLABCD", b"HWTC\x00\x5c\x22\x0a"]
    serials = [*["5A544547030C0914"] * 4, "414C434C41424344", "48575443005C220A"]
    for key, model in (("zte.onu_serial", ""), ("zte.onu_serial_text", "C600"), ("nokia.onu_serial", "")):
        assert values(key, *forms, model=model) == serials


def test_quirk_36_every_octet_of_a_mac_survives() -> None:
    assert values("vsol.onu_mac", bytes.fromhex("C328FF000A5C"), model="V1600D") == ["C3:28:FF:00:0A:5C"]


def test_quirk_37_a_description_that_is_not_utf_8_is_text_all_the_same() -> None:
    assert values("huawei.onu_description", "Begoña".encode(), "Begoña".encode("latin-1")) == ["Begoña"] * 2


def test_quirk_38_padding_is_cut_and_all_ones_are_empty() -> None:
    assert values("huawei.onu_model", b"EG8040H6\0\0\0\0", b"\xff\xff\xff\xff") == ["EG8040H6", None]
    assert values("huawei.pon_port_sfp_vendor", b"HUAWEI          ") == ["HUAWEI"]


def test_quirk_39_a_time_of_zeros_is_never_and_eleven_octets_name_their_zone() -> None:
    assert [meaning("zte.last_offline", raw).reason for raw in (bytes(8), b"")] == ["never"] * 2
    assert values("zte.last_online", bytes.fromhex("07E50B060D2A1506")) == ["2021-11-06 13:42:21.6"]
    assert values("huawei.last_online", bytes.fromhex("07EA0301081E00052D0500")) == ["2026-03-01 08:30:00.5 -05:00"]


@pytest.mark.parametrize("raw", [b"No Power", b"not-available", b"Lane0: No-Power; Lane1: No-Power;"])
def test_quirk_40_words_where_a_number_belongs_are_no_value(raw: bytes) -> None:
    found = meaning("nokia.pon_port_tx_power_sfp", raw)
    assert found.value is None
    assert found.raw == raw.decode()


def test_quirk_42_a_column_that_counts_the_wrong_thing_says_so_in_the_catalogue() -> None:
    assert "hint" in row("zte.pon_port_onu_count").description
    assert row("zte.pon_port_onu_count").zero_unsupported
    assert "not ONTs online" in row("huawei.pon_port_onu_count").description


def test_quirk_43_a_distance_of_zero_or_less_is_no_distance() -> None:
    for data in brands():
        for one in (one for one in data.oids if one.name.endswith("onu_distance")):
            spec = one.value_spec(data.state_maps_by_name)
            assert [decode(spec, "1", raw).value for raw in (0, -1)] == [None, None], data.key


def test_quirk_44_a_port_is_known_in_each_of_its_spellings() -> None:
    names = ["gpon_1/1/1", "gpon_olt-1/1/1", "gpon-olt_1/1/1", "xgspon-1/1/1", "GPON 1/1/1", "epon_1/1/1"]
    found = read_interfaces([(name, name) for name in names], names_of("zte"))
    assert {name: str(interface.position) for name, interface in found.items()} == dict.fromkeys(names, "1/1/1")


def test_quirk_46_no_list_of_onus_or_ports_is_made_from_the_type_or_state_of_interfaces() -> None:
    discoveries = [one for data in brands() for one in data.oids if one.kind is NodeKind.DISCOVERY]
    assert discoveries and not [one.name for one in discoveries if one.oid.startswith("1.3.6.1.2.1.")]


def test_quirk_47_the_largest_counter_is_no_count() -> None:
    assert values("generic.if_in_octets", 2**64 - 1, 2**64 - 2) == [None, float(2**64 - 2)]
    assert values("ufiber.onu_traffic_up", 2**64 - 1) == [None]


def test_quirk_48_where_a_counter_is_offered_so_is_what_tells_that_it_started_over() -> None:
    """The product makes no rates; who makes them from what it read needs ifCounterDiscontinuityTime beside."""
    names = {row.name for row in brand("generic").oids}
    assert {"if_in_octets", "if_out_octets", "if_counter_discontinuity"} <= names


def test_quirk_50_traffic_is_counted_with_64_bits_or_not_at_all() -> None:
    """ifInOctets and ifOutOctets wrap within 34 s at 1 Gbit/s."""
    short = {"1.3.6.1.2.1.2.2.1.10", "1.3.6.1.2.1.2.2.1.16"}
    assert [row.name for data in brands() for row in data.oids if row.oid in short] == []


def test_quirk_54_no_tree_that_was_only_ever_copied_is_in_the_catalogue() -> None:
    invented = ("5765.", "6527.3.1.2.33.", "6321.1.2.2.4.", "3902.1082.500.10.2.8.")
    trees = tuple(f"1.3.6.1.4.1.{tree}" for tree in invented)
    assert [one.name for data in brands() for one in data.oids if one.oid.startswith(trees)] == []


def test_quirk_57_no_shipped_column_holds_a_password() -> None:
    held = {one.oid for data in brands() for one in data.oids}
    assert not held & set(SECRET_COLUMNS)


def test_an_onu_of_a_c_data_that_is_down_has_no_light() -> None:
    assert values("cdata.onu_rx_power", -1, -2231, model="FD16XX") == [None, -22.31]
    assert values("cdata.onu_tx_power", -3000, 212, model="FD16XX") == [None, 2.12]
