"""Serial numbers: one canonical form whatever the device or the person writes."""

from hypothesis import given
from hypothesis import strategies as st

from portal.domain.serials import canonical, printed

ZTE = "5A544547030C0914"


def test_every_written_form_gives_the_same_serial() -> None:
    octets = [bytes.fromhex(ZTE), b"ZTEG030C0914", b"1,ZTEG030C0914", b"5A 54 45 47 03 0C 09 14", b"ZTEG030C0914\0\0"]
    texts = ["ZTEG030C0914", " zteg030c0914 ", "1,ZTEG030C0914", "5a544547030c0914", "0x5A544547030C0914"]
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
