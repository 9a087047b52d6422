"""BER of community messages, checked against pysnmp's own codec; no sockets."""

from typing import Any

import pytest
from pyasn1.codec.ber import decoder, encoder
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.proto.api import v1, v2c

from jobs.snmp.simulator.mib import END_OF_MIB_VIEW, NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Kind, Oid, Value
from jobs.snmp.simulator.wire import PduType, WireError, decode_request, encode_response, encode_varbind, peek_version

OIDS: list[Oid] = [(1, 3, 6, 1, 2, 1, 1, 1, 0), (2, 100, 3), (1, 3, 6, 1, 4, 1, 2011, 4194312448, 4294967295, 127, 128)]


def message(api: Any, pdu: Any, oids: list[Oid]) -> bytes:
    api.apiPDU.set_defaults(pdu)
    api.apiPDU.set_request_id(pdu, -77)
    api.apiPDU.set_varbinds(pdu, [(oid, api.null) for oid in oids])
    whole = api.Message()
    api.apiMessage.set_defaults(whole)
    api.apiMessage.set_community(whole, "s3cret")
    api.apiMessage.set_pdu(whole, pdu)
    octets: bytes = encoder.encode(whole)
    return octets


def bulk(oids: list[Oid], repetitions: int) -> bytes:
    pdu = v2c.GetBulkRequestPDU()
    v2c.apiBulkPDU.set_defaults(pdu)
    octets = message(v2c, pdu, oids)
    # set_defaults of a plain PDU put 0 where max-repetitions are; the second and third field follow the request id.
    return octets.replace(
        b"\x02\x01\xb3\x02\x01\x00\x02\x01\x00", b"\x02\x01\xb3\x02\x01\x01\x02\x01" + bytes((repetitions,))
    )


@pytest.mark.parametrize(
    ("api", "pdu", "kind", "version"),
    [
        (v1, v1.GetRequestPDU, PduType.GET, 0),
        (v1, v1.GetNextRequestPDU, PduType.GETNEXT, 0),
        (v2c, v2c.GetRequestPDU, PduType.GET, 1),
        (v2c, v2c.SetRequestPDU, PduType.SET, 1),
    ],
)
def test_a_request_encoded_by_pysnmp_is_read(api: Any, pdu: Any, kind: PduType, version: int) -> None:
    octets = message(api, pdu(), OIDS)
    request = decode_request(octets)
    assert peek_version(octets) == version
    assert (request.version, request.community, request.pdu, request.request_id) == (version, b"s3cret", kind, -77)
    assert request.oids == OIDS


def test_the_two_numbers_of_a_getbulk_are_read() -> None:
    request = decode_request(bulk(OIDS, 25))
    assert (request.pdu, request.second, request.third) == (PduType.GETBULK, 1, 25)


@pytest.mark.parametrize(
    ("value", "theirs"),
    [
        (Value(Kind.INTEGER, -80000), rfc1902.Integer32(-80000)),
        (Value(Kind.INTEGER, 2147483647), rfc1902.Integer32(2147483647)),
        (Value(Kind.INTEGER, -128), rfc1902.Integer32(-128)),
        (Value(Kind.OCTETS, b"HWTC\x00\xff" * 40), rfc1902.OctetString(b"HWTC\x00\xff" * 40)),
        (Value(Kind.OID, OIDS[2]), rfc1902.ObjectName(OIDS[2])),
        (Value(Kind.IP_ADDRESS, bytes((10, 0, 0, 1))), rfc1902.IpAddress("10.0.0.1")),
        (Value(Kind.GAUGE32, 4294967295), rfc1902.Gauge32(4294967295)),
        (Value(Kind.TIMETICKS, 128), rfc1902.TimeTicks(128)),
        (Value(Kind.COUNTER64, 2**64 - 1), rfc1902.Counter64(2**64 - 1)),
        (NO_SUCH_OBJECT, rfc1905.noSuchObject),
        (NO_SUCH_INSTANCE, rfc1905.noSuchInstance),
        (END_OF_MIB_VIEW, rfc1905.endOfMibView),
    ],
)
def test_pysnmp_reads_every_value_as_it_was_meant(value: Value, theirs: Any) -> None:
    request = decode_request(message(v2c, v2c.GetRequestPDU(), OIDS[:1]))
    octets = encode_response(request, 0, 0, encode_varbind(OIDS[2], value))
    whole, rest = decoder.decode(octets, asn1Spec=v2c.Message())
    answer = v2c.apiMessage.get_pdu(whole)
    ((oid, read),) = v2c.apiPDU.get_varbinds(answer)
    assert not rest
    assert int(v2c.apiPDU.get_request_id(answer)) == -77
    assert tuple(oid) == OIDS[2]
    assert read.tagSet == theirs.tagSet
    assert read == theirs


def test_no_cut_of_a_message_is_taken_for_a_request() -> None:
    octets = message(v2c, v2c.GetRequestPDU(), OIDS)
    for size in range(len(octets)):
        with pytest.raises(WireError):
            decode_request(octets[:size])


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"hello",
        b"\x30\x80\x02\x01\x01",
        message(v2c, v2c.ResponsePDU(), OIDS),
        bulk(OIDS, 5).replace(b"\x02\x01\x01\x04\x06", b"\x02\x01\x00\x04\x06"),
    ],
    ids=["nothing", "text", "indefinite length", "a response", "GETBULK in v1"],
)
def test_what_is_no_request_is_refused(octets: bytes) -> None:
    with pytest.raises(WireError):
        decode_request(octets)
