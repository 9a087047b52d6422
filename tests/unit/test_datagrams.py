"""Whether an SNMPv2c answer is a plain one: looked at many values at once, it is judged as value by value."""

from collections.abc import Iterator
from itertools import chain

import pytest

from jobs.snmp import datagrams
from jobs.snmp.datagrams import is_plain

COMMUNITY, NUMBER = b"public", b"\x02\x04\x01\x02\x03\x04"
PORT = bytes.fromhex("2b060104018f5b010106818001")  # a name of 12 numbers, without that of the ONU
NEXT_PORT = PORT[:-1] + b"\x02"


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes((tag, size) if size < 128 else (tag, 0x82, size >> 8, size & 0xFF)) + content


def bind(name: bytes, value: bytes) -> bytes:
    return element(0x30, element(0x06, name) + value)


def answer(*binds: bytes) -> bytes:
    numbered = NUMBER + b"\x02\x01\x00\x02\x01\x00"
    pdu = element(0xA2, numbered + element(0x30, b"".join(binds)))
    return element(0x30, b"\x02\x01\x01" + element(0x04, COMMUNITY) + pdu)


def integers(port: bytes = PORT, count: int = 6) -> list[bytes]:
    """Of one and of two octets."""
    return [bind(port + bytes((onu,)), element(0x02, b"\xf6\x01"[onu % 2 :])) for onu in range(1, count + 1)]


def text(onu: int, content: bytes) -> bytes:
    return bind(PORT + bytes((onu,)), element(0x04, content))


ANSWERS = {
    "integers": answer(*integers()),
    "texts": answer(*(text(onu, b"casa" * onu) for onu in range(1, 7))),
    "two ports": answer(*integers(), *integers(NEXT_PORT)),
    "two columns in turns": answer(*chain(*zip(integers(), integers(NEXT_PORT), strict=True))),
    "a text that holds a name": answer(*integers(), text(7, bytes((6, 14)) + PORT + b"\x02")),
    "a text too long for a short length": answer(*integers(), text(7, b"x" * 120), *integers()),
    "long texts alone": answer(text(1, b"x" * 120), text(2, b"y" * 150)),
    "an OID among integers": answer(*integers(), bind(PORT + b"\x07", element(0x06, PORT)), *integers(NEXT_PORT)),
    "one value": answer(*integers(count=1)),
}


def plain(data: bytes, holes: bool = False) -> bool:
    return is_plain(data, COMMUNITY, NUMBER, holes)


def twisted(data: bytes) -> Iterator[bytes]:
    """Each octet changed in some ways, left out, or doubled."""
    for at, octet in enumerate(data):
        for other in {0, 1, 0x05, 0x30, 0x7F, 0x80, 0xFF, octet ^ 1, (octet + 2) & 0xFF} - {octet}:
            yield data[:at] + bytes((other,)) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at] + data[at : at + 1] + data[at:]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_as_the_standard_has_it_is_plain(name: str) -> None:
    assert plain(ANSWERS[name])


@pytest.mark.parametrize("name", ANSWERS)
def test_values_looked_at_together_are_judged_as_each_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = list(twisted(ANSWERS[name]))
    together = [plain(data) for data in variants]
    monkeypatch.setattr(datagrams, "_run", lambda data, at: at)

    assert together == [plain(data) for data in variants]
    assert {True, False} == set(together)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (element(0x02, b""), "an integer of no octet"),
        (element(0x02, b"\x00" * 7), "an integer of 7 octets"),
        (element(0x41, b"\x00" * 6), "a counter of 6 octets"),
        (element(0x40, b"\x0a\x00\x00"), "an address of 3 octets"),
        (element(0x44, b"\x01"), "a type that not both decoders know"),
        (b"\x05\x00", "NULL"),
        (b"\x81\x00", "noSuchInstance"),
    ],
)
def test_one_odd_value_among_plain_ones_is_seen(value: bytes, why: str) -> None:
    rows = integers()

    for at in range(len(rows) + 1):
        assert not plain(answer(*rows[:at], bind(PORT + b"\x70", value), *rows[at:])), why


def test_a_name_without_a_value_is_plain_only_where_names_may_be_without() -> None:
    rows = [*integers(), bind(PORT + b"\x70", b"\x81\x00")]

    assert (plain(answer(*rows), holes=True), plain(answer(*rows))) == (True, False)


def test_a_number_of_a_name_that_does_not_end_is_seen() -> None:
    assert not plain(answer(*integers(), bind(PORT + b"\x87", element(0x02, b"\x01"))))
