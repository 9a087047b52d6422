"""Decoding of raw values: the worked examples of the reference data, and every way a device says "no value"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.readings import RawValue, Reading, StateLabel, ValueSpec, ValueType, decode, printable
from testing.shipped import column

Spec = ValueSpec | tuple[str, ...]


def known(spec: Spec) -> ValueSpec:
    """A specification of this file, or that of a shipped column by name and model."""
    return column(*spec) if isinstance(spec, tuple) else spec


def number(**given: object) -> ValueSpec:
    return ValueSpec(type=ValueType.NUMBER, **given)  # type: ignore[arg-type]


ZTE_ONU = ("zte.onu_rx_power",)
ZTE_ONU_1082 = ("zte.onu_rx_power", "C600")
ZTE_OLT = ("zte.onu_olt_rx_power",)
HUAWEI_ONU = ("huawei.onu_rx_power",)
HUAWEI_OLT = ("huawei.onu_olt_rx_power",)
NOKIA_ONU = number(scale=0.002, sentinels=(32768,), signed_bits=16, unit="dBm")
NOKIA_OLT = number(scale=0.1, sentinels=(65534,), unit="dBm")
RAISECOM = number(scale=0.002, offset=-30, sentinels=(0,), unit="dBm")
HUNDREDTHS = number(scale=0.01, sentinels=(0,), unit="dBm")
DBM_TEXT = number(unit="dBm")


ZTE_POWERS = {3560: -22.88, 5000: -20.0, 16050: 2.1, 64036: -33.0}


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (ZTE_ONU, ZTE_POWERS),
        (ZTE_ONU_1082, ZTE_POWERS),
        (ZTE_OLT, {-23419: -23.419}),
        (HUAWEI_OLT, {7755: -22.45, 8775: -12.25}),
        (HUAWEI_ONU, {-2107: -21.07, 4294965296: -20.0}),
        (NOKIA_ONU, {-11000: -22.0}),
        (NOKIA_OLT, {-274: -27.4}),
        (RAISECOM, {4500: -21.0}),
        (HUNDREDTHS, {-1850: -18.5, -2481: -24.81}),
        (HUNDREDTHS, {b"-20.05 dBm": -20.05, b"-20 dBm": -20.0, b"-20.05": -20.05, b"-2005": -20.05, -2005: -20.05}),
        (number(unit="m"), {b"1.2km": 1200.0, b"1200 m": 1200.0, b"1200": 1200.0}),
        (number(scale=0.1, unit="°C"), {b"47.5 \xb0C": 47.5, b"475": 47.5}),
        (DBM_TEXT, {b"0.03 mW (-14.61 dBm)": -14.61, b"-10.47": -10.47, -50: -50.0, 10: 10.0}),  # the limits themselves
        (("zte.onu_temperature",), {11264: 44.0, 65536 - 1280: -5.0}),
        (("zte.onu_voltage",), {165: 3.3}),
        (("huawei.onu_voltage",), {3284: 3.284}),
        (("huawei.onu_distance",), {1852: 1852.0}),
        (("huawei.pon_port_tx_power",), {711: 7.11}),
        (("generic.sys_up_time",), {4294967295: 42949672.95}),
        (number(), {b"30.67 C": 30.67, "12": 12.0, 0: 0.0}),
        (number(scale=-1.0), {0: 0.0}),
        (number(scale=0.0001, unit="dBm", sent_in="mW"), {301: -15.2143, 17: -27.6955, 43032: 6.3379, b"17": -27.6955}),
        (number(scale=0.1, unit="dBm", sent_in="µW"), {301: -15.2143, 1: -40.0}),
        (number(unit="dBm", sent_in="uw"), {30: -15.2288}),
        (number(unit="dBm", sent_in="nW"), {100: -40.0}),
        (
            number(scale=0.0001, unit="dBm", sent_in="mW"),
            {b"-20.05 dBm": -20.05, b"0.01 mW": -20.0, "10 \u03bcW": -20.0},
        ),
        (number(unit="V", sent_in="mV"), {3307: 3.307, b"3.3 V": 3.3}),
        (number(unit="mA", sent_in="µA"), {12478: 12.478}),
    ],
)
def test_a_worked_value_decodes_exactly(spec: Spec, values: dict[RawValue, float]) -> None:
    found = {raw: decode(known(spec), "1.1", raw) for raw in values}
    # As Python writes them: no -22.880000000000003, no -0.0.
    assert {raw: repr(one.value) for raw, one in found.items()} == {raw: repr(value) for raw, value in values.items()}
    assert {one.reason for one in found.values()} == {""}


def test_a_power_of_nothing_is_no_light_and_an_unknown_unit_no_value() -> None:
    milliwatts, foreign = (number(scale=0.0001, unit="dBm", sent_in=unit) for unit in ("mW", "furlong"))
    dark = {decode(milliwatts, "1", raw)[1::2] for raw in (0, -1, -(2**63), b"0", b"0.00 mW", b"-0.5", 1 << 63)}
    assert dark == {(None, "no light"), (None, "out of range")}
    assert decode(DBM_TEXT, "1", b"0.00 mW")[1::2] == (None, "no light")
    assert decode(foreign, "1", 301)[1::2] == (None, "no way from furlong to dBm")


SENTINELS = [
    (ZTE_ONU, [65535, 0]),
    (ZTE_OLT, [-80000, 65535, 65535000]),
    (HUAWEI_OLT, [2147483647]),
    (HUAWEI_ONU, [2147483647]),
    (("huawei.onu_distance",), [-1, 0]),
    (("zte.onu_distance",), [0]),
    (NOKIA_ONU, [32768]),
    (NOKIA_OLT, [65534]),
    (RAISECOM, [0]),
    (HUNDREDTHS, [0]),
]
WORDS = ["No Power", "--", "na", "not-available", "Lane0: No-Power; Lane1: No-Power", "0.00 mW (-inf dBm)", "-10,47"]


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        *[(spec, {raw: f"sentinel {raw}" for raw in raws}) for spec, raws in SENTINELS],
        (HUNDREDTHS, {b"0.000": "sentinel 0"}),
        (HUAWEI_ONU, {-5001: "out of range", 1001: "out of range"}),
        (DBM_TEXT, {-51: "out of range", 11: "out of range"}),
        (HUAWEI_OLT, {-1: "out of range"}),
        (HUAWEI_ONU, {4294962295: "out of range", 2147483648: "out of range"}),
        (number(scale=0.01, unit="dBm", sentinels=(-1,)), {4294967295: "sentinel -1"}),
        (number(minimum=1), {0: "out of range"}),
        (number(maximum=5), {6: "out of range"}),
        (DBM_TEXT, {words.encode(): f"no number in '{words}'" for words in WORDS}),
        (number(), {"10.0.0.1": "no number in '10.0.0.1'", b"": "empty", b"\0\0": "empty", None: "no such instance"}),
    ],
)
def test_no_value_is_told_with_its_reason(spec: Spec, reasons: dict[RawValue, str]) -> None:
    found = {raw: decode(known(spec), "1.1", raw) for raw in reasons}
    assert {raw: (one.value, one.reason) for raw, one in found.items()} == {
        raw: (None, why) for raw, why in reasons.items()
    }


def test_the_sentinel_is_seen_before_the_sign_is_folded() -> None:
    folded = number(signed_bits=16, sentinels=(-1,))
    assert decode(folded, "1", 65535).value == -1.0
    assert decode(number(signed_bits=16, sentinels=(65535,)), "1", 65535).reason == "sentinel 65535"


TEXTS: dict[RawValue, str] = {
    b"Cliente 0042": "Cliente 0042",
    "Peñón".encode(): "Peñón",
    "Peñón".encode("latin-1"): "Peñón",
    "José “Pepe” — €5".encode("cp1252"): "José “Pepe” — €5",
    b"Jos\xe9 \x81": "José \ufffd",  # nothing in any of the usual encodings
    "Peñón".encode()[:-2] + b"\xc3": "Peñ\ufffd",  # the device cut it inside a character
    "Ñandú".encode("latin-1")[:1]: "Ñ",
    b"ESPA\xd1": "ESPAÑ",
    "光纤".encode(): "光纤",
    b"F660V5\x00\x00\x00\x00": "F660V5",
    b"F660\x00garbage\xff": "F660",
    b"  padded   ": "padded",
    b"two\r\nlines": "two lines",
    b"\x1b[31mred\x07": "[31mred",
    "abc\u202edef\u200b\ufeff".encode(): "abcdef",
    b"=1+1": "=1+1",
    b"x" * 400: "x" * 255,
    "1.3.6.1.4.1.2011.2.123": "1.3.6.1.4.1.2011.2.123",
    7: "7",
}


def test_text_is_made_fit_for_database_and_page() -> None:
    assert {raw: decode(ValueSpec(), "1", raw).value for raw in TEXTS} == TEXTS


def test_text_in_the_encoding_of_its_olt_may_be_cut_inside_a_character() -> None:
    whole = "光纤".encode("gbk")
    told = {raw: decode(ValueSpec(encoding="gbk"), "1", raw).value for raw in (whole, whole[:-1], whole[:2])}
    assert list(told.values()) == ["光纤", "光\ufffd", "光"]
    assert decode(ValueSpec(encoding="cp1250"), "1", "Łódź".encode("cp1250")).value == "Łódź"


def test_text_without_a_character_is_empty() -> None:
    found = [decode(ValueSpec(), "1", raw) for raw in (b"", b"   ", b"\x00abc", b"\xff" * 16, b"\x01\x02", "")]
    assert [(reading.value, reading.reason) for reading in found] == [(None, "empty")] * 6


def test_a_serial_becomes_sixteen_hex_digits() -> None:
    spec = ValueSpec(type=ValueType.SERIAL)
    raw = {bytes.fromhex("5A544547030C0914"): "0x5A544547030C0914", b"1,ZTEG030C0914": "1,ZTEG030C0914"}
    assert [decode(spec, "1", one) for one in raw] == [Reading("1", "5A544547030C0914", one) for one in raw.values()]
    assert [decode(spec, "1", one).reason for one in (bytes(8), b"", 5)] == ["no serial", "empty", "no serial"]


def test_a_state_has_a_label_and_says_whether_there_is_light() -> None:
    states = {1: ("online", True), 2: ("offline", False), -1: ("invalid", None)}
    spec, index = column("huawei.onu_state"), "4194312448.2"
    found = {raw: decode(spec, index, raw) for raw in states}
    assert found == {raw: Reading(index, label, str(raw), online=lit) for raw, (label, lit) in states.items()}
    assert decode(spec, index, b"1").value == "online"


def test_an_unknown_state_keeps_its_number() -> None:
    assert decode(column("zte.last_down_cause"), "1", 77) == Reading("1", "unknown(77)", "77")


def test_the_same_phase_has_other_numbers_in_the_other_zte_tree() -> None:
    newer = column("zte.onu_state", "C600")
    assert decode(column("zte.onu_state"), "1", 3).value == decode(newer, "1", 4).value == "working"
    assert decode(column("zte.onu_state"), "1", 4).online is False


def test_a_state_can_have_sentinels_and_words_are_no_state() -> None:
    spec = ValueSpec(type=ValueType.STATE, sentinels=(255,), states={1: StateLabel("up", True)})
    reasons: dict[RawValue, str] = {255: "sentinel 255", b"up": "no state number", b"": "empty"}
    assert {raw: decode(spec, "1", raw).reason for raw in reasons} == reasons


TIMES: dict[RawValue, tuple[str | None, str]] = {
    bytes.fromhex("07E50B060D2A1506"): ("2021-11-06 13:42:21.6", ""),
    bytes.fromhex("07E50B060D2A15062B0200"): ("2021-11-06 13:42:21.6 +02:00", ""),
    bytes.fromhex("07E50B060D2A3C00"): ("2021-11-06 13:42:59.0", ""),
    bytes(8): (None, "never"),
    bytes(11): (None, "never"),
    b"": (None, "never"),
    bytes.fromhex("000001010000FF00"): (None, "never"),
    bytes.fromhex("07E50D060D2A1506"): (None, "no date and time"),
    b"2021-11-06": (None, "no date and time"),
    12: (None, "no date and time"),
    None: (None, "no such instance"),
}


def test_a_date_and_time_is_read() -> None:
    found = {raw: decode(ValueSpec(type=ValueType.TIME), "1", raw) for raw in TIMES}
    assert {raw: (reading.value, reading.reason) for raw, reading in found.items()} == TIMES


def test_raw_is_always_printable() -> None:
    shown: dict[RawValue, str] = {-2107: "-2107", b"ONT 1": "ONT 1", "ñ".encode(): "ñ", b"\xf1": "0xF1", None: ""}
    shown |= {b"abc\x00": "0x61626300", b"a\nb": "0x610A62", "1.3.6\x00": "1.3.6", b"": ""}
    shown |= {b"y" * 600: "y" * 511 + "…"}
    assert {raw: printable(raw) for raw in shown} == shown


@pytest.mark.slow
@given(st.sampled_from(list(ValueType)), st.none() | st.integers(-(2**63), 2**64) | st.binary(max_size=600) | st.text())
def test_no_device_can_make_decoding_fail(kind: ValueType, raw: RawValue) -> None:
    reading = decode(ValueSpec(type=kind, signed_bits=16), "1", raw)
    assert "\x00" not in f"{reading.raw}{reading.value}{reading.reason}"
    assert len(reading.raw) <= 512
    assert (reading.value is None) is bool(reading.reason)
