"""Reader of recordings: ``.snmprec`` files (``OID|type|value`` a line, as snmpsim has them), and what snmpwalk prints.

Serving is not done here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from jobs.snmp.simulator import textwalk
from jobs.snmp.simulator.mib import Kind, Oid, Value, parse_oid

T = TypeVar("T")

_KINDS = {
    "2": Kind.INTEGER,
    "4": Kind.OCTETS,
    "5": Kind.NULL,
    "6": Kind.OID,
    "64": Kind.IP_ADDRESS,
    "65": Kind.COUNTER32,
    "66": Kind.GAUGE32,
    "67": Kind.TIMETICKS,
    "70": Kind.COUNTER64,
}
_HEX_KINDS = {"4x": Kind.OCTETS, "64x": Kind.IP_ADDRESS}
_ESCAPED_KINDS = {"4e": Kind.OCTETS}  # a text on one line, with the escapes of C
_ESCAPES = {b"\\": b"\\", b"'": b"'", b'"': b'"', b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r",
            b"t": b"\t", b"v": b"\v"}  # fmt: skip
_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)")
_RANGES = {
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.COUNTER32: (0, 2**32 - 1),
    Kind.GAUGE32: (0, 2**32 - 1),
    Kind.TIMETICKS: (0, 2**32 - 1),
    Kind.COUNTER64: (0, 2**64 - 1),
}


class SnmprecError(ValueError):
    """A file that cannot be served; the message names the file and the line."""


def load_snmprec(path: Path) -> dict[Oid, Value]:
    """Read a recording into OID → value; SnmprecError if it is missing, empty or has a bad line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SnmprecError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_snmprec(data, str(path))


def parse_snmprec(data: bytes, name: str) -> dict[Oid, Value]:
    """Parse the octets of a recording; blank lines and lines that start with ``#`` are passed over."""
    rows: dict[Oid, Value] = {}
    for number, read in textwalk.rows_of(data) if textwalk.is_text_walk(data) else _lines_of(data):
        try:
            row = read()
            if row is not None and row[0] in rows:
                raise ValueError("the OID is already in the file; keep one of the two lines")
        except ValueError as error:
            raise SnmprecError(f"{name}: line {number}: {error}") from error
        if row is not None:
            rows[row[0]] = row[1]
    if not rows:
        raise SnmprecError(f"{name}: holds no OID; a recording has one OID|type|value a line")
    return rows


def _lines_of(data: bytes) -> Iterator[tuple[int, Callable[[], tuple[Oid, Value] | None]]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if line.strip() and not line.startswith(b"#"):
            yield number, partial(_parse_line, line)


def _parse_line(line: bytes) -> tuple[Oid, Value]:
    parts = line.split(b"|", 2)
    if len(parts) != 3:
        raise ValueError(f"expected OID|type|value, found {_shown(line)}")
    tag = parts[1].decode("latin-1").strip()
    kind = _HEX_KINDS.get(tag) or _ESCAPED_KINDS.get(tag) or _KINDS.get(tag)
    if kind is None:
        raise ValueError(f"unknown type {tag!r}; known are {', '.join((*_KINDS, *_HEX_KINDS, *_ESCAPED_KINDS))}")
    octets = _unhex(parts[2]) if tag in _HEX_KINDS else _unescaped(parts[2]) if tag in _ESCAPED_KINDS else None
    return parse_oid(parts[0].decode("latin-1")), _value(kind, parts[2], octets)


def _value(kind: Kind, text: bytes, octets: bytes | None) -> Value:
    if kind is Kind.NULL:
        return Value(kind, None)
    if kind is Kind.OCTETS:
        return Value(kind, text if octets is None else octets)
    if kind is Kind.IP_ADDRESS:
        return Value(kind, _address(text) if octets is None else _four(octets))
    if kind is Kind.OID:
        return Value(kind, parse_oid(text.decode("latin-1")))
    return Value(kind, _number(kind, text))


def _number(kind: Kind, text: bytes) -> int:
    low, high = _RANGES[kind]
    number = _checked(int, text, "a whole number")
    if not low <= number <= high:
        raise ValueError(f"{number} does not fit {kind.name} ({low} to {high})")
    return number


def _address(text: bytes) -> bytes:
    return _checked(ipaddress.IPv4Address, text, "an IPv4 address").packed


def _four(octets: bytes) -> bytes:
    if len(octets) != 4:
        raise ValueError(f"an IPv4 address has 4 octets, found {len(octets)}")
    return octets


def _unhex(text: bytes) -> bytes:
    return _checked(bytes.fromhex, text, "hexadecimal")


def _unescaped(text: bytes) -> bytes:
    def one(found: re.Match[bytes]) -> bytes:
        letter = found[1]
        if letter.startswith(b"x") and len(letter) == 3:
            return bytes.fromhex(letter[1:].decode())
        if letter not in _ESCAPES:
            raise ValueError(f"unknown escape {_shown(found[0])} in {_shown(text)}")
        return _ESCAPES[letter]

    return _ESCAPE.sub(one, text)


def _checked(reader: Callable[[str], T], text: bytes, wanted: str) -> T:
    try:
        return reader(text.decode("latin-1").strip())
    except ValueError as error:
        raise ValueError(f"expected {wanted}, found {_shown(text)}") from error


def _shown(octets: bytes) -> str:
    text = octets.decode("latin-1")
    return repr(text if len(text) <= 60 else text[:60] + "…")
