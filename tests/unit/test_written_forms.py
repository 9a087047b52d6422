"""OIDs, serials and what people type: many written forms, one meaning."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.catalogue_fields import OID_READERS, states_of
from portal.domain.fields import FieldError
from portal.domain.formulas import Position
from portal.domain.oid_text import as_tuple, index_of, is_under, normalise
from portal.domain.readings import RawValue, ValueType
from portal.domain.serials import canonical, printed
from portal.domain.typed_values import position, raw_value

LONGEST = ".".join(["1", "3"] + ["7"] * 126)


def test_a_valid_oid_is_brought_to_one_form() -> None:
    forms = {" .1.3.6.1 ": "1.3.6.1", "1.03.006.1": "1.3.6.1"}
    forms |= {oid: oid for oid in ("1.3.6.1.2.1.1.3.0", "0.0", "2.999.3", "1.3.6.1.4294967295", LONGEST)}
    assert {given: normalise(given) for given in forms} == forms


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("numbers separated", ["", "..1.3", "1.3.", "1..3", "1.3.6 .1", "1.3.-6", "1.3.٣", "ifName.1"]),
        ("must be 2 to 128", ["1", ".".join(["1"] * 129)]),
        ("first number", ["3.1.2"]),
        ("second number", ["1.40.1"]),
        ("above 4294967295", ["1.3.4294967296", "1.3." + "9" * 5000]),
    ],
)
def test_an_invalid_oid_is_refused_with_the_reason(said: str, given: list[str]) -> None:
    for oid in given:
        with pytest.raises(ValueError, match=said):
            normalise(oid)


def test_only_whole_sub_identifiers_of_an_oid_count() -> None:
    column = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.1"
    assert as_tuple("1.3.6.10") > as_tuple(".1.3.6.9")
    assert [is_under(oid, "1.3.6") for oid in ("1.3.6.1", "1.3.61", "1.3.6")] == [True, False, False]
    assert index_of(f".{column}.4194312448.2", column) == "4194312448.2"
    with pytest.raises(ValueError, match="is not under"):
        index_of(f"{column}5.4194312448.2", column)


ZTE = "5A544547030C0914"


def test_every_written_form_gives_the_same_serial() -> None:
    octets = [bytes.fromhex(ZTE), b"ZTEG030C0914", b"1,ZTEG030C0914", b"5A 54 45 47 03 0C 09 14", b"ZTEG030C0914\0\0"]
    texts = ["ZTEG030C0914", " zteg030c0914 ", "1,ZTEG030C0914", "5a544547030c0914", "0x5A544547030C0914"]
    octets += [bytes.fromhex(ZTE) + b"\0\0", b"ZTEG-030C0914"]
    texts += ["5A:54:45:47:03:0C:09:14", "5A-54-45-47-03-0C-09-14", '"5A 54 45 47 03 0C 09 14 "']
    forms: list[bytes | str] = [*octets, *texts]
    assert {raw: canonical(raw) for raw in forms} == dict.fromkeys(forms, ZTE)


def test_eight_octets_are_never_taken_for_text() -> None:
    forms = [b"HWTCABCD", b'HWTC"\x5c\x0a\x00', b"HWTC\0\0\0\1", b"\0\0\0\0ABCD", b"12345678", b"        "]
    forms += [b"1,ZTEG03", b"HWTC\xf1\xff\x80\x22"]  # the first looks like the start of a text form
    assert [canonical(octets) for octets in forms] == [octets.hex().upper() for octets in forms]


def test_blank_and_garbage_and_mac_addresses_are_no_serial() -> None:
    blank: list[bytes | str] = ["", " ", b"", "--", "na", bytes(8), b"\xff" * 8, "0" * 16]
    garbage: list[bytes | str] = ["ZTEG030C091", "ZTEG030C091G", b"garbage", "8 chars!"]
    none = [*blank, *garbage, "0019C6A1B2C3", "00:19:C6:A1:B2:C3"]
    assert {raw: canonical(raw) for raw in none} == dict.fromkeys(none)


def test_the_label_shows_vendor_letters_and_hex_or_hex_alone_where_they_are_no_name() -> None:
    labels = {ZTE: "ZTEG030C0914", "485754431A2B3C4D": "HWTC1A2B3C4D"}
    labels |= {
        hexes: hexes for hexes in ("00010203030C0914", "5A5445C7030C0914", "5A542D47030C0914", "3132333435363738")
    }
    assert {serial: printed(serial) for serial in labels} == labels


@given(st.binary(min_size=8, max_size=8))
def test_whatever_is_printed_finds_its_serial_again(octets: bytes) -> None:
    serial = canonical(octets)
    if serial is not None:
        assert canonical(printed(serial)) == serial
        assert canonical(serial) == serial


def test_a_typed_value_is_what_the_device_would_send() -> None:
    raw: dict[tuple[str, ValueType], RawValue] = {
        ("-2254", ValueType.NUMBER): -2254,
        (" 3 ", ValueType.STATE): 3,
        ("18446744073709551615", ValueType.NUMBER): 2**64 - 1,
        ("0.03 mW (-14.61 dBm)", ValueType.NUMBER): b"0.03 mW (-14.61 dBm)",
        ("4857544311111111", ValueType.SERIAL): b"4857544311111111",
        ("0x4857 5443-11:22", ValueType.SERIAL): b"HWTC\x11\x22",
        ("0x", ValueType.TEXT): b"",
        ("0X07E5", ValueType.TIME): b"\x07\xe5",
        ("12", ValueType.TEXT): b"12",
        ("Pérez", ValueType.TEXT): "Pérez".encode(),
    }
    assert {typed: raw_value(*typed) for typed in raw} == raw


def test_a_position_is_read_as_people_write_it() -> None:
    places = {
        "1/3": Position(1, 3),
        "0/1/3": Position(1, 3),
        " 2/1/3:5 ": Position(1, 3, 5, 2),
        "1/3:0": Position(1, 3, 0),
    }
    assert {text: position(text) for text in places} == places


def as_text(text: str) -> RawValue:
    return raw_value(text, ValueType.TEXT)


@pytest.mark.parametrize(
    ("read", "texts", "told"),
    [
        (as_text, ["0x1", "0xZZ", "0x12 3"], "two digits for each octet"),
        (position, ["", "1", "1/2/3/4", "a/b", "-1/2", "1/3:", "１/２", "9999999999/1"], "frame/slot/port"),
        # Sentinels that only look like long numbers.
        (OID_READERS["sentinels"], ["--1111111111111111111", "1-111111111111111111", "-" * 20, "\u0661" * 19], None),
    ],
    ids=["half an octet", "no position", "no sentinel"],
)
def test_what_is_none_is_told(read: Callable[[str], object], texts: list[str], told: str | None) -> None:
    for text in texts:
        with pytest.raises(FieldError, match=told):
            read(text)


def test_rows_of_a_form_become_states_and_empty_rows_nothing() -> None:
    states, errors = states_of(["1", "-1", "", "3"], ["lit", "invalid", " ", "dark"], ["yes", "", "", "no"])
    assert errors == {}
    assert states == {"1": {"label": "lit", "online": True}, "-1": {"label": "invalid"},
                      "3": {"label": "dark", "online": False}}  # fmt: skip


def test_a_wrong_row_of_states_is_named() -> None:
    rows = {
        (("x",), ("lit",)): "state-0",
        (("1", "2"), ("lit", "")): "state-1",
        (("1", "1"), ("lit", "dark")): "state-1",
        (("", ""), ("", "")): "",
        (("1",), ()): "state-0",
    }
    found = {(codes, labels): states_of(list(codes), list(labels), [])[1] for codes, labels in rows}
    assert {row: set(errors) for row, errors in found.items()} == {row: {place} for row, place in rows.items()}


def test_the_largest_and_the_smallest_sentinels_are_read() -> None:
    read = OID_READERS["sentinels"]
    assert read("18446744073709551615, -9223372036854775808, 5") == [18446744073709551615, -9223372036854775808, 5]
