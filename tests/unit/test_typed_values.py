"""What a person types to try a decoding becomes what a device would send."""

from collections.abc import Callable

import pytest

from portal.domain.catalogue_fields import OID_READERS, states_of
from portal.domain.fields import FieldError
from portal.domain.formulas import Position
from portal.domain.readings import RawValue, ValueType
from portal.domain.typed_values import position, raw_value


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
