"""The first message of SNMPv3, which any agent answers: is something there? Needs no credential and no library.

Net-SNMP keeps its SNMPv3 users and engines in lists of the whole process that no lock guards, so SNMPv3 sessions must
not be used in several threads at once; this can. And it is one datagram, where a session needs three for one value.
"""

import secrets
import socket
import time

LARGEST = 65_507  # octets of a datagram
_INTEGER, _OCTETS, _SEQUENCE, _GET = 0x02, 0x04, 0x30, 0xA0
_REPORTABLE = b"\x04"  # no authentication, no privacy, please report
_USM = b"\x03"
_EMPTY, _ZERO = bytes((_OCTETS, 0)), bytes((_INTEGER, 1, 0))


def _ber(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes((tag, len(content))) + content  # all of it is shorter than 128 octets


def request(number: bytes) -> bytes:
    """The discovery message of RFC 3414 §4, with msgID `number` (4 octets, the first from 0x40 to 0x7f)."""
    header = _ber(
        _SEQUENCE, _ber(_INTEGER, number), _ber(_INTEGER, LARGEST.to_bytes(3)), _ber(_OCTETS, _REPORTABLE),
        _ber(_INTEGER, _USM),
    )  # fmt: skip
    security = _ber(_OCTETS, _ber(_SEQUENCE, _EMPTY, _ZERO, _ZERO, _EMPTY, _EMPTY, _EMPTY))
    pdu = _ber(_GET, _ber(_INTEGER, number), _ZERO, _ZERO, _ber(_SEQUENCE))
    return _ber(_SEQUENCE, _ber(_INTEGER, _USM), header, security, _ber(_SEQUENCE, _EMPTY, _EMPTY, pdu))


class Greeting:
    """One discovery message to one agent. Opening resolves the name and sends nothing; OSError when that fails."""

    def __init__(self, address: str, port: int) -> None:
        family, kind, protocol, _, peer = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        self._peer = peer
        self._socket = socket.socket(family, kind, protocol)

    def send(self, timeout: float) -> bool:
        """Send it once; True when the answer to it comes within `timeout` seconds. OSError when it cannot be sent."""
        first, *rest = secrets.token_bytes(4)
        number = bytes((0x40 | first & 0x3F, *rest))
        deadline = time.monotonic() + timeout
        self._socket.sendto(request(number), self._peer)
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                if number in self._socket.recv(LARGEST):
                    return True
            except TimeoutError:
                break
        return False

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
