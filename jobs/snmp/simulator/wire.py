"""BER of SNMP v1 and v2c messages, both ways, for an agent; what the answer is gets decided elsewhere.

pysnmp's own codec (pyasn1) takes about 80 µs to read and 150 µs to write one varbind, 4,000 to 6,000 varbinds a second:
simulated OLTs would load a machine more than the pollers under test. Community messages need none of its generality.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from jobs.snmp.simulator.mib import Kind, Oid, Value

V1, V2C, V3 = 0, 1, 3
_SEQUENCE = 0x30
_NULL_BODY = b""


class WireError(ValueError):
    """Octets that are no SNMP request; an agent stays silent on them (RFC 3412, snmpInASNParseErrs)."""


class PduType(IntEnum):
    """Requests an agent answers, and the response, by their BER tag."""

    GET = 0xA0
    GETNEXT = 0xA1
    RESPONSE = 0xA2
    SET = 0xA3
    GETBULK = 0xA5


class Request(NamedTuple):
    """One decoded community message; ``second`` and ``third`` are non-repeaters and max-repetitions in a GETBULK."""

    version: int
    community: bytes
    pdu: PduType
    request_id: int
    second: int
    third: int
    oids: list[Oid]
    raw_varbinds: bytes


def peek_version(data: bytes) -> int:
    """The version field of any SNMP message (0, 1 or 3); WireError if there is none."""
    start, _ = _open(data, 0, _SEQUENCE)
    number, _ = _integer(data, start)
    return number


def decode_request(data: bytes) -> Request:
    """Read a v1 or v2c request; WireError on anything else."""
    at, end = _open(data, 0, _SEQUENCE)
    version, at = _integer(data, at)
    start, at = _open(data, at, Kind.OCTETS)
    community = data[start:at]
    if version not in (V1, V2C) or at >= end:
        raise WireError("no community message")
    pdu = _pdu_type(data[at])
    if version == V1 and pdu is PduType.GETBULK:
        raise WireError("GETBULK does not exist in v1")
    at, end = _open(data, at, pdu)
    request_id, at = _integer(data, at)
    second, at = _integer(data, at)
    third, at = _integer(data, at)
    at, end = _open(data, at, _SEQUENCE)
    return Request(version, community, pdu, request_id, second, third, _oids(data, at, end), data[at:end])


def encode_response(request: Request, status: int, index: int, varbinds: bytes) -> bytes:
    """The response message to ``request`` with an already encoded varbind list."""
    fields = _int_tlv(request.request_id) + _int_tlv(status) + _int_tlv(index) + tlv(_SEQUENCE, varbinds)
    head = _int_tlv(request.version) + tlv(Kind.OCTETS, request.community)
    return tlv(_SEQUENCE, head + tlv(PduType.RESPONSE, fields))


def encode_varbind(oid: Oid, value: Value) -> bytes:
    """One name and value as BER."""
    return tlv(_SEQUENCE, tlv(Kind.OID, _oid_body(oid)) + tlv(value.kind, _value_body(value)))


def tlv(tag: int, body: bytes) -> bytes:
    """Tag, definite length, body."""
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def _value_body(value: Value) -> bytes:
    data = value.data
    if isinstance(data, int):
        return _int_body(data)
    if isinstance(data, bytes):
        return data
    return _NULL_BODY if data is None else _oid_body(data)


def _int_body(number: int) -> bytes:
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _int_tlv(number: int) -> bytes:
    return tlv(Kind.INTEGER, _int_body(number))


def _oid_body(oid: Oid) -> bytes:
    out = bytearray()
    for arc in (oid[0] * 40 + oid[1], *oid[2:]):
        if arc < 0x80:
            out.append(arc)
        else:
            out += _base128(arc)
    return bytes(out)


# The large arcs of a tree are few: enterprises and ifIndexes come again in every row.
@lru_cache(maxsize=4096)
def _base128(arc: int) -> bytes:
    out = [arc & 0x7F]
    while arc := arc >> 7:
        out.append(0x80 | (arc & 0x7F))
    return bytes(reversed(out))


def _open(data: bytes, at: int, tag: int) -> tuple[int, int]:
    """Start and end of the body of the element at ``at``, which must have this tag and lie within the message."""
    if at + 2 > len(data) or data[at] != tag:
        raise WireError(f"tag {tag:#x} expected at octet {at}")
    size, at = data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise WireError("length not definite or too long")
        size, at = int.from_bytes(data[at : at + count], "big"), at + count
    if at + size > len(data):
        raise WireError("message cut short")
    return at, at + size


def _integer(data: bytes, at: int) -> tuple[int, int]:
    start, end = _open(data, at, Kind.INTEGER)
    if not 1 <= end - start <= 5:
        raise WireError("integer of a wrong size")
    return int.from_bytes(data[start:end], "big", signed=True), end


def _pdu_type(tag: int) -> PduType:
    if tag not in (PduType.GET, PduType.GETNEXT, PduType.SET, PduType.GETBULK):
        raise WireError(f"PDU {tag:#x} is no request")
    return PduType(tag)


def _oids(data: bytes, at: int, end: int) -> list[Oid]:
    oids = []
    while at < end:
        start, at = _open(data, at, _SEQUENCE)
        first, last = _open(data, start, Kind.OID)
        oids.append(_read_oid(data[first:last]))
    if at != end:
        raise WireError("varbind list longer than its PDU")
    return oids


def _read_oid(body: bytes) -> Oid:
    if not body or body[-1] & 0x80:
        raise WireError("OID cut short")
    arcs, arc = [], 0
    for octet in body:
        arc = (arc << 7) | (octet & 0x7F)
        if not octet & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return (first, arcs[0] - first * 40, *arcs[1:])
