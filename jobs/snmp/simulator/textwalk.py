"""Reader of what `snmpwalk -On` of Net-SNMP prints, such as ``.1.3.6.1.2.1.1.5.0 = STRING: "OLT-LIMA"``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

from jobs.snmp.simulator.mib import Kind, Oid, Value, parse_oid

_ROW = re.compile(rb"(?:\.|iso\.)?[0-9]+(?:\.[0-9]+)+ = ")
_NOTHING = (b"No Such Instance", b"No Such Object", b"No more variables left")
_WRONG_TYPE = re.compile(rb"Wrong Type \(should be [^)]*\): ")
_TYPED = re.compile(rb"([A-Z][A-Za-z0-9 -]*): ?", re.DOTALL)
_NUMBER = re.compile(rb"(?:[^(]*\()?(-?[0-9]+)\)?")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def is_text_walk(data: bytes) -> bool:
    """Whether the first row looks like Net-SNMP's."""
    lines = (line for line in data.split(b"\n") if line.strip() and not line.startswith(b"#"))
    return _ROW.match(next(lines, b"")) is not None


def rows_of(data: bytes) -> Iterator[tuple[int, Callable[[], tuple[Oid, Value] | None]]]:
    """(number of the line, what reads the row that begins there). None for a line that says there is no row.

    A text may go on in the next lines. ValueError from the reader says what is wrong.
    """
    found: list[bytes] = []
    first = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if found and (_is_open(found) or not (_ROW.match(line) or line.startswith(_NOTHING))):
            found.append(line)
            continue
        if found:
            yield first, _reader(found)
        found, first = ([line] if line.strip() and not line.startswith(b"#") else []), number
    if found:
        yield first, _reader(found)


def _is_open(lines: list[bytes]) -> bool:
    """Whether a quoted text has not ended yet."""
    _, _, text = b"\n".join(lines).partition(b' = STRING: "')
    return bool(text) and _end_of_quoted(text) is None


def _end_of_quoted(text: bytes) -> int | None:
    at = 0
    while at < len(text):
        if text[at : at + 1] == b'"':
            return at
        at += 2 if text[at : at + 1] == b"\\" else 1
    return None


def _reader(lines: list[bytes]) -> Callable[[], tuple[Oid, Value] | None]:
    text = b"\n".join(lines).rstrip(b"\n")
    return lambda: _row(text)


def _row(text: bytes) -> tuple[Oid, Value] | None:
    name, _, value = text.partition(b" = ")
    value = _WRONG_TYPE.sub(b"", value, count=1)
    if text.startswith(_NOTHING) or value.startswith(_NOTHING):
        return None
    if not _ROW.match(text):
        raise ValueError(f"expected OID = TYPE: value, found {_shown(text)}")
    oid = parse_oid(name.decode("latin-1").replace("iso.", "1.", 1))
    if value.rstrip() == b"NULL":
        return oid, Value(Kind.NULL, None)
    if value.rstrip() == b'""':
        return oid, Value(Kind.OCTETS, b"")
    typed = _TYPED.match(value)
    reader = _READERS.get(typed[1].decode("latin-1")) if typed else None
    if typed is None or reader is None:
        raise ValueError(f"expected a type, one of {', '.join(_READERS)}, found {_shown(value)}")
    return oid, reader(value[typed.end() :])


def _string(text: bytes) -> Value:
    if not text.startswith(b'"'):
        return Value(Kind.OCTETS, text)
    end = _end_of_quoted(text[1:])
    if end is None:
        raise ValueError(f"the text has no closing quote: {_shown(text)}")
    return Value(Kind.OCTETS, _ESCAPED.sub(rb"\1", text[1 : end + 1]))


def _hexadecimal(text: bytes) -> Value:
    try:
        return Value(Kind.OCTETS, bytes.fromhex(text.decode("latin-1")))
    except ValueError as error:
        raise ValueError(f"expected hexadecimal, found {_shown(text)}") from error


def _bits(text: bytes) -> Value:
    """The octets; the names of the bits that are set follow them."""
    found = re.match(rb"(?:[0-9A-Fa-f]{2}(?:\s+|$))*", text)
    return _hexadecimal(found[0] if found else text)


def _integer(kind: Kind, low: int, high: int) -> Callable[[bytes], Value]:
    def read(text: bytes) -> Value:
        found = _NUMBER.match(text)
        if found is None:
            raise ValueError(f"expected a whole number, found {_shown(text)}")
        number = int(found[1])
        if not low <= number <= high:
            raise ValueError(f"{number} does not fit {kind.name} ({low} to {high})")
        return Value(kind, number)

    return read


def _oid(text: bytes) -> Value:
    return Value(Kind.OID, parse_oid(text.decode("latin-1").replace("iso.", "1.", 1)))


def _address(text: bytes) -> Value:
    try:
        return Value(Kind.IP_ADDRESS, ipaddress.IPv4Address(text.decode("latin-1").strip()).packed)
    except ValueError as error:
        raise ValueError(f"expected an IPv4 address, found {_shown(text)}") from error


def _network_address(text: bytes) -> Value:
    return Value(Kind.IP_ADDRESS, bytes.fromhex(text.decode("latin-1").replace(":", " ")))


_READERS: dict[str, Callable[[bytes], Value]] = {
    "STRING": _string,
    "Hex-STRING": _hexadecimal,
    "BITS": _bits,
    "INTEGER": _integer(Kind.INTEGER, -(2**31), 2**31 - 1),
    "Gauge32": _integer(Kind.GAUGE32, 0, 2**32 - 1),
    "Unsigned32": _integer(Kind.GAUGE32, 0, 2**32 - 1),
    "Counter32": _integer(Kind.COUNTER32, 0, 2**32 - 1),
    "Counter64": _integer(Kind.COUNTER64, 0, 2**64 - 1),
    "Timeticks": _integer(Kind.TIMETICKS, 0, 2**32 - 1),
    "OID": _oid,
    "IpAddress": _address,
    "Network Address": _network_address,
}


def _shown(octets: bytes) -> str:
    text = octets.decode("latin-1")
    return repr(text if len(text) <= 60 else text[:60] + "…")
