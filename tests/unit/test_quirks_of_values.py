"""Quirks of real OLTs in indexes and values, decoded by the shipped rows. No sockets."""

import pytest

from portal.domain.catalogue_data import SECRET_COLUMNS, BrandData, OidData
from portal.domain.formulas import IndexFormula, Position
from portal.domain.proof import Agreement, prove, read_interfaces
from portal.domain.readings import RawValue, Reading, decode
from portal.domain.recognising import By, KnownModel, by_subtree, shortlist
from portal.domain.statuses import NodeKind
from portal.services.cataloguing.catalogue import load_shipped

SHIPPED: dict[str, BrandData] = {data.key: data for data in load_shipped()}
MODELS = [KnownModel(data.key, model) for data in SHIPPED.values() for model in data.models]


def row(key: str, model: str = "") -> OidData:
    brand, _, name = key.partition(".")
    return next(
        one for one in SHIPPED[brand].oids if one.name == name and (model in one.models if model else not one.models)
    )


def meaning(key: str, raw: RawValue, model: str = "") -> Reading:
    """What the shipped row makes of one raw value."""
    return decode(row(key, model).value_spec(SHIPPED[key.partition(".")[0]].state_maps_by_name), "1", raw)


def formula(brand: str, name: str) -> IndexFormula:
    return next(item.build() for item in SHIPPED[brand].formulas if item.name == name)


# --- C. Indexes


def test_quirk_18_an_index_printed_as_negative_is_the_same_port() -> None:
    gpon = formula("huawei", "huawei_gpon")
    assert gpon.decode("-100654848") == gpon.decode("4194312448") == Position(slot=1, port=1)
    assert gpon.decode("-100654848.2") == Position(slot=1, port=1, onu=2)


def test_quirk_19_the_interface_table_is_no_witness_for_a_column_that_is_not_keyed_by_it() -> None:
    column, interfaces = row("zte.onu_state"), read_interfaces([("268501248", "gpon_1/2/2")], names_of("zte"))
    proof = prove(f"{column.oid}.268501248.3", column.oid, formula("zte", "zte_1012"), interfaces, by_ifindex=False)
    assert proof.position == Position(slot=1, port=1, onu=3, frame=1)
    assert proof.verdict is Agreement.NOT_CHECKED


def names_of(brand: str) -> list[IndexFormula]:
    built = [item.build() for key in (brand, "generic") for item in SHIPPED[key].formulas]
    return [one for one in built if one.reads_names]


@pytest.mark.parametrize(
    ("object_id", "subtree", "model"),
    [
        ("1.3.6.1.4.1.37950.1.1.5.10.14.1", "1.3.6.1.4.1.37950.1.1.6.1.1", "vsol.V1600G"),
        ("1.3.6.1.4.1.37950.1.1.5.10.14.1", "1.3.6.1.4.1.37950.1.1.5.12.1.29", "vsol.V1600D"),
        ("1.3.6.1.4.1.17409", "1.3.6.1.4.1.17409.2.3", "cdata.FD12XX"),
        ("1.3.6.1.4.1.17409", "1.3.6.1.4.1.17409.2.8", "cdata.FD16XX"),
        ("1.3.6.1.4.1.4413", "1.3.6.1.4.1.41112.1.5.6.2.1", "ufiber.UISP-FIBER"),
    ],
)
def test_quirk_21_where_a_sysobjectid_is_shared_the_subtree_that_answers_decides(
    object_id: str, subtree: str, model: str
) -> None:
    before = shortlist(MODELS, object_id, "site 7")
    found = by_subtree(before, {subtree})
    assert found.decided is not None
    assert found.decided.key == model
    if before.decided is None:
        assert (found.grounds[-1].by, found.grounds[-1].seen) == (By.SUBTREE, subtree)


def test_quirk_22_no_maker_is_told_by_sysdescr_alone_where_its_identity_is_known() -> None:
    said = shortlist(MODELS, "1.3.6.1.4.1.9.1.1", "Huawei Integrated Access Software")
    assert said.unknown
    lying = shortlist(MODELS, "1.3.6.1.4.1.3320.1.390.0", "V1600GS")
    assert lying.decided is not None
    assert lying.decided.key == "bdcom.GP3600-16B"
    broken = shortlist(MODELS, "1.3.6.1.4.1.3320.1.390.0", "BDCOM(tm) GP3600-16B Software\nhardware version")
    assert broken.decided == lying.decided


def test_quirk_26_an_onu_number_is_what_the_index_says_however_large_the_gap() -> None:
    b = formula("zte", "zte_1082")
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
    for raw in raws:
        found = meaning(key, raw, model)
        assert found.value is None
        assert found.reason


def test_quirk_30_a_state_comes_from_a_state_column_only() -> None:
    assert meaning("hioso.onu_rx_power", b"na").online is None
    assert meaning("zte.onu_olt_rx_power", -80000).online is None
    assert meaning("hioso.onu_state", 1).online is True


@pytest.mark.parametrize(
    ("key", "raw", "dbm"),
    [
        ("huawei.onu_olt_rx_power", 7755, -22.45),
        ("huawei.onu_olt_rx_power", 8775, -12.25),
        ("huawei.onu_rx_power", -2107, -21.07),
        ("huawei.onu_tx_power", 215, 2.15),
        ("huawei.epon_onu_olt_rx_power", 7612, -23.88),
        ("zte.onu_rx_power", 3560, -22.88),
        ("zte.onu_rx_power", 64036, -33.0),
        ("raisecom.onu_rx_power", 4500, -21.0),
        ("nokia.onu_rx_power", -11000, -22.0),
        ("fiberhome.onu_rx_power", -1850, -18.5),
    ],
)
def test_quirk_31_each_column_is_decoded_by_its_own_offset_and_scale(key: str, raw: int, dbm: float) -> None:
    assert meaning(key, raw).value == dbm


def test_quirk_31_light_that_no_module_can_report_is_no_reading() -> None:
    for key in ("huawei.onu_rx_power", "fiberhome.onu_rx_power", "nokia.onu_olt_rx_power"):
        assert meaning(key, -9000).value is None
        assert meaning(key, -9000).raw == "-9000", "the raw value stays beside it"


def test_quirk_32_the_phases_of_the_two_zte_trees_differ_by_one() -> None:
    for code, label in enumerate(("logging", "LOS", "sync MIB", "working", "dying gasp", "authentication failed")):
        assert meaning("zte.onu_state", code).value == label
        assert meaning("zte.onu_state", code + 1, "C600").value == label
    assert (meaning("zte.onu_state", 3).online, meaning("zte.onu_state", 4, "C600").online) == (True, True)
    assert meaning("zte.onu_state", 4).online is False


def test_quirk_32_an_unknown_code_is_shown_as_such_and_says_nothing_of_the_light() -> None:
    found = meaning("zte.last_down_cause", 42)
    assert (found.value, found.raw, found.online) == ("unknown(42)", "42", None)


def test_quirk_33_codes_beyond_the_syntax_of_the_mib_are_understood() -> None:
    assert meaning("fiberhome.onu_state", 3).value == "offline"
    assert meaning("vsol.onu_state", 8, "V1600G").value == "configuration failed"
    assert meaning("dasan.onu_rx_power", -215).value == -21.5


def test_quirk_34_columns_that_look_alike_have_names_and_meanings_of_their_own() -> None:
    admin, state = row("huawei.onu_admin_state"), row("huawei.onu_state")
    assert (admin.oid.rpartition(".46.1.")[2], state.oid.rpartition(".46.1.")[2]) == ("1", "15")
    assert meaning("huawei.onu_admin_state", 1).online is None
    assert meaning("huawei.onu_state", 1).online is True
    bound = "1.3.6.1.4.1.3320.101.11.1.1.6"
    assert all(one.oid != bound for one in SHIPPED["bdcom"].oids), "the bind table has another enumeration"


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        (bytes.fromhex("5A544547030C0914"), "5A544547030C0914"),
        (b"ZTEG030C0914", "5A544547030C0914"),
        (b"1,ZTEG030C0914", "5A544547030C0914"),
        (b"5A544547030C0914", "5A544547030C0914"),
        (b"ALCLABCD", "414C434C41424344"),
        (bytes.fromhex("48575443005C220A"), "48575443005C220A"),
    ],
)
def test_quirk_35_a_serial_in_any_of_its_forms_is_one_serial(raw: bytes, canonical: str) -> None:
    for key, model in (("zte.onu_serial", ""), ("zte.onu_serial_text", "C600"), ("nokia.onu_serial", "")):
        assert meaning(key, raw, model).value == canonical


def test_quirk_36_every_octet_of_a_mac_survives() -> None:
    raw = bytes((0xC3, 0x28, 0xFF, 0x00, 0x0A, 0x5C))
    assert meaning("vsol.onu_mac", raw, "V1600D").value == "C3:28:FF:00:0A:5C"


def test_quirk_37_a_description_that_is_not_utf_8_is_text_all_the_same() -> None:
    assert meaning("huawei.onu_description", "Begoña".encode()).value == "Begoña"
    assert meaning("huawei.onu_description", "Begoña".encode("latin-1")).value == "Begoña"


def test_quirk_38_padding_is_cut_and_all_ones_are_empty() -> None:
    assert meaning("huawei.onu_model", b"EG8040H6\0\0\0\0").value == "EG8040H6"
    assert meaning("huawei.pon_port_sfp_vendor", b"HUAWEI          ").value == "HUAWEI"
    assert meaning("huawei.onu_model", b"\xff\xff\xff\xff").value is None


def test_quirk_39_a_time_of_zeros_is_never_and_eleven_octets_name_their_zone() -> None:
    assert meaning("zte.last_offline", bytes(8)).reason == "never"
    assert meaning("zte.last_offline", b"").reason == "never"
    assert meaning("zte.last_online", bytes.fromhex("07E50B060D2A1506")).value == "2021-11-06 13:42:21.6"
    zoned = meaning("huawei.last_online", bytes.fromhex("07EA0301081E00052D0500"))
    assert zoned.value == "2026-03-01 08:30:00.5 -05:00"


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
    for data in SHIPPED.values():
        for one in data.oids:
            if one.name.endswith("onu_distance"):
                spec = one.value_spec(data.state_maps_by_name)
                assert decode(spec, "1", 0).value is None, data.key
                assert decode(spec, "1", -1).value is None, data.key


@pytest.mark.parametrize(
    "name", ["gpon_1/1/1", "gpon_olt-1/1/1", "gpon-olt_1/1/1", "xgspon-1/1/1", "GPON 1/1/1", "epon_1/1/1"]
)
def test_quirk_44_a_port_is_known_in_each_of_its_spellings(name: str) -> None:
    (interface,) = read_interfaces([("1", name)], names_of("zte")).values()
    assert interface.position == Position(slot=1, port=1, frame=1)


def test_quirk_46_no_list_of_onus_or_ports_is_made_from_the_type_or_state_of_interfaces() -> None:
    for data in SHIPPED.values():
        for one in data.oids:
            if one.kind is NodeKind.DISCOVERY:
                assert not one.oid.startswith("1.3.6.1.2.1."), f"{data.key}.{one.name}"


def test_quirk_47_the_largest_counter_is_no_count() -> None:
    assert meaning("generic.if_in_octets", 18446744073709551615).value is None
    assert meaning("ufiber.onu_traffic_up", 18446744073709551615).value is None
    assert meaning("generic.if_in_octets", 18446744073709551614).value is not None


def test_quirk_48_where_a_counter_is_offered_so_is_what_tells_that_it_started_over() -> None:
    """The product makes no rates; who makes them from what it read needs ifCounterDiscontinuityTime beside."""
    names = {row.name for row in SHIPPED["generic"].oids}
    assert {"if_in_octets", "if_out_octets", "if_counter_discontinuity"} <= names


def test_quirk_50_traffic_is_counted_with_64_bits_or_not_at_all() -> None:
    """ifInOctets and ifOutOctets wrap within 34 s at 1 Gbit/s."""
    short = {"1.3.6.1.2.1.2.2.1.10", "1.3.6.1.2.1.2.2.1.16"}
    assert [row.name for data in SHIPPED.values() for row in data.oids if row.oid in short] == []


def test_quirk_54_no_tree_that_was_only_ever_copied_is_in_the_catalogue() -> None:
    invented = ("1.3.6.1.4.1.5765.", "1.3.6.1.4.1.6527.3.1.2.33.", "1.3.6.1.4.1.6321.1.2.2.4.",
                "1.3.6.1.4.1.3902.1082.500.10.2.8.")  # fmt: skip
    for data in SHIPPED.values():
        for one in data.oids:
            assert not one.oid.startswith(invented), f"{data.key}.{one.name}"


def test_quirk_57_no_shipped_column_holds_a_password() -> None:
    held = {one.oid for data in SHIPPED.values() for one in data.oids}
    assert not held & set(SECRET_COLUMNS)
