"""Serial numbers: one canonical form whatever the device or the person writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.serials import canonical, printed

ZTE = "5A544547030C0914"


@pytest.mark.parametrize(
    "raw",
    [
        bytes.fromhex(ZTE),
        b"ZTEG030C0914",
        b"1,ZTEG030C0914",
        b"5A 54 45 47 03 0C 09 14",
        b"ZTEG030C0914\x00\x00",
        "ZTEG030C0914",
        " zteg030c0914 ",
        "1,ZTEG030C0914",
        "5a544547030c0914",
        "0x5A544547030C0914",
        "5A:54:45:47:03:0C:09:14",
        "5A-54-45-47-03-0C-09-14",
        '"5A 54 45 47 03 0C 09 14 "',
    ],
)
def test_every_written_form_gives_the_same_serial(raw: bytes | str) -> None:
    assert canonical(raw) == ZTE


@pytest.mark.parametrize(
    "octets",
    [
        b"HWTCABCD",  # all printable
        b'HWTC"\x5c\x0a\x00',  # quote, backslash, line feed, NUL
        b"HWTC\x00\x00\x00\x01",
        b"\x00\x00\x00\x00ABCD",
        b"12345678",
        b"        ",
        b"1,ZTEG03",  # eight octets that look like the start of a text form
        "HWTCñÿ".encode("latin-1") + b"\x80\x22",
    ],
)
def test_eight_octets_are_never_taken_for_text(octets: bytes) -> None:
    assert canonical(octets) == octets.hex().upper()


@pytest.mark.parametrize(
    "raw",
    ["", " ", b"", "--", "na", bytes(8), b"\xff" * 8, "0" * 16, "ZTEG030C091", "ZTEG030C091G", b"garbage", "8 chars!"],
)
def test_blank_and_garbage_are_no_serial(raw: bytes | str) -> None:
    assert canonical(raw) is None


def test_a_mac_address_is_no_serial() -> None:
    assert canonical("0019C6A1B2C3") is None
    assert canonical("00:19:C6:A1:B2:C3") is None


def test_the_label_shows_vendor_letters_and_hex() -> None:
    assert printed(ZTE) == "ZTEG030C0914"
    assert printed("485754431A2B3C4D") == "HWTC1A2B3C4D"


@pytest.mark.parametrize("serial", ["00010203030C0914", "5A5445C7030C0914", "5A542D47030C0914", "3132333435363738"])
def test_a_vendor_part_that_is_no_name_is_shown_as_hex(serial: str) -> None:
    assert printed(serial) == serial


@given(st.binary(min_size=8, max_size=8))
def test_whatever_is_printed_finds_its_serial_again(octets: bytes) -> None:
    serial = canonical(octets)
    if serial is not None:
        assert canonical(printed(serial)) == serial
        assert canonical(serial) == serial
