"""The narrow SNMP session protocol and the values that cross it. No library, no retry rule, no decoding.

A lease must be checked before *every* request that goes out, so a method here is exactly one request;
`jobs.snmp.walking.walk` and `jobs.snmp.getting.get_many` build whole walks and large GETs from these primitives and
call the checkpoint in between. A driver holds no loop of its own.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from jobs.snmp.errors import SnmpBadOid
from portal.domain.composite import SnmpTarget
from portal.domain.oid_text import normalise

PROBE_OID = "1.3.6.1.2.1.1.3.0"  # sysUpTime (RFC 3418): any answer to it, even "no such object", shows a living OLT
MAX_REPETITIONS = 50  # rows in one GETBULK: above this weak line cards stall; 0 would ask for nothing and loop
# All but the last number of canonical OIDs as devices use them. Thousands of instances share it: see checked_oid.
_PLAIN = re.compile(r"1\.3(?:\.(?:0|[1-9][0-9]{0,8}|[1-3][0-9]{9}|4[01][0-9]{8})){0,125}", re.ASCII)


class SnmpType(StrEnum):
    """Type of one value on the wire. The last three are the markers of RFC 3416 for "there is no value"."""

    INTEGER = "Integer32"
    OCTETS = "OctetString"
    OID = "ObjectIdentifier"
    IP_ADDRESS = "IpAddress"
    COUNTER32 = "Counter32"
    COUNTER64 = "Counter64"
    GAUGE32 = "Gauge32"
    TIME_TICKS = "TimeTicks"
    OPAQUE = "Opaque"
    BITS = "Bits"
    NULL = "Null"
    UNKNOWN = "Unknown"
    NO_SUCH_OBJECT = "noSuchObject"
    NO_SUCH_INSTANCE = "noSuchInstance"
    END_OF_MIB_VIEW = "endOfMibView"


MARKERS = frozenset({SnmpType.NO_SUCH_OBJECT, SnmpType.NO_SUCH_INSTANCE, SnmpType.END_OF_MIB_VIEW})


class VarBind(NamedTuple):
    """One name and its value: octets are `bytes`, numbers `int`, OIDs and IP addresses dotted `str`, else `None`."""

    oid: str  # dotted numbers, no leading dot
    type: SnmpType
    value: int | bytes | str | None = None

    @property
    def missing(self) -> bool:
        """True for the three markers: the device has no such object or instance, or nothing comes after it."""
        return self.type in MARKERS


class SnmpSession(Protocol):
    """A conversation with one OLT. Belongs to one thread. Every method raises `SnmpError` kinds only."""

    @property
    def columns_per_request(self) -> int:
        """How many columns one `next_rows` may ask for."""
        ...

    @property
    def parallel(self) -> bool:
        """True when several sessions to this OLT may be in use at once, each in a thread of its own."""
        ...

    @property
    def repeats(self) -> int:
        """Further tries of silent requests that this session has made by itself. 0 for a driver."""
        ...

    @property
    def checks(self) -> int:
        """Further questions that this session has put by itself, and that were answered. 0 for a driver."""
        ...

    @property
    def exact(self) -> "SnmpSession":
        """The session to ask when this one raises SnmpUnclear or leaves names out; itself where it is always clear."""
        ...

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """One GET request. The answer may hold fewer values than asked for: some devices cut it. Empty for no OIDs.

        A session that is not its own `exact` one leaves out every name without a value, whatever the reason.
        """
        ...

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """One GETBULK (or GETNEXT) request: what comes after each OID, row by row; value i belongs to OID i modulo n.

        At most `max_repetitions` rows; the device may send fewer and may cut inside a row. Empty for no OIDs.
        """
        ...

    def close(self) -> None:
        """Free the socket. May be called twice; nothing else may be called afterwards."""
        ...


@lru_cache(maxsize=4096)  # ports times columns of one large OLT
def _is_plain(above: str) -> bool:
    return _PLAIN.fullmatch(above) is not None


SessionFactory = Callable[[SnmpTarget], SnmpSession]


def checked_oid(oid: str) -> str:
    """`oid` in canonical form, once it is sure that it can be sent. Raises SnmpBadOid otherwise.

    The full check costs as much as reading the value, so the common case is told by its last number, and by what comes
    before, which was mostly seen a moment ago.
    """
    above, _, last = oid.rpartition(".")
    if last.isdigit() and len(last) < 10 and last.isascii() and (last[0] != "0" or last == "0") and _is_plain(above):
        return oid
    try:
        return normalise(oid)
    except ValueError as error:
        raise SnmpBadOid(str(error)) from None
