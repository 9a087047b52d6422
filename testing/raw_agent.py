"""A UDP agent that answers from rows as a test has it: each answer passes through `spoil` on its way out."""

import socket
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.snmp.simulator import wire
from jobs.snmp.simulator.mib import END_OF_MIB_VIEW, NO_SUCH_INSTANCE, Kind, Oid, Value
from jobs.snmp.simulator.wire import PduType, Request, tlv

SEQUENCE, INTEGER, OCTETS = 0x30, 0x02, 0x04


@dataclass(frozen=True)
class Bind:
    """One name and value of an answer; the octets of each may be given as they shall be sent."""

    oid: Oid
    value: Value = END_OF_MIB_VIEW
    name: bytes | None = None  # the name's element, tag and length included
    data: bytes | None = None  # the value's element

    @property
    def ber(self) -> bytes:
        """As it goes out."""
        plain = wire.encode_varbind(self.oid, self.value)
        if self.name is None and self.data is None:
            return plain
        content = plain[2:]
        cut = 2 + content[1]
        return tlv(SEQUENCE, (self.name or content[:cut]) + (content[cut:] if self.data is None else self.data))


@dataclass(frozen=True)
class Answer:
    """What an agent is about to send."""

    request: Request
    binds: Sequence[Bind]
    version: int = wire.V2C
    community: bytes = b"public"
    request_id: bytes = b""  # the element
    status: bytes = b"\x02\x01\x00"
    index: bytes = b"\x02\x01\x00"
    pdu: int = PduType.RESPONSE

    @property
    def ber(self) -> bytes:
        """As it goes out."""
        return self.around(tlv(SEQUENCE, b"".join(bind.ber for bind in self.binds)))

    def around(self, varbinds: bytes) -> bytes:
        """The message around an encoded list of varbinds."""
        number = self.request_id or integer(self.request.request_id)
        head = integer(self.version) + tlv(OCTETS, self.community)
        return tlv(SEQUENCE, head + tlv(self.pdu, number + self.status + self.index + varbinds))

    def but(self, **changes: Any) -> "Answer":
        """The same with some of it changed."""
        return replace(self, **changes)


def integer(number: int, octets: int = 0) -> bytes:
    """An INTEGER element, in its shortest form or in so many octets."""
    size = octets or (number if number >= 0 else ~number).bit_length() // 8 + 1
    return tlv(INTEGER, number.to_bytes(size, "big", signed=True))


Spoil = Callable[[Answer], Sequence[bytes]]


def sound(answer: Answer) -> list[bytes]:
    """Nothing spoiled."""
    return [answer.ber]


@dataclass
class RawAgent:
    """Serves one request after the other.

    `cost`: seconds an answer takes, by its request. `order`: what its names are sorted by. `asked`: every request.
    """

    rows: Mapping[Oid, Value]
    spoil: Spoil = sound
    cost: Callable[[Request], float] = lambda _request: 0.0
    order: Callable[[Oid], Any] = lambda oid: oid
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._order = sorted(self.rows, key=self.order)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            datagram, asker = self._socket.recvfrom(65535)
            if not datagram:
                return
            request = wire.decode_request(datagram)
            self.asked.append(request)
            if seconds := self.cost(request):
                time.sleep(seconds)
            for answer in self.spoil(Answer(request, self._answer(request), request.version)):
                self._socket.sendto(answer, asker)

    def _answer(self, request: Request) -> list[Bind]:
        if request.pdu is PduType.GET:
            return [Bind(oid, self.rows.get(oid, NO_SUCH_INSTANCE)) for oid in request.oids]
        binds: list[Bind] = []
        oids = list(request.oids)
        for _ in range(request.third if request.pdu is PduType.GETBULK else 1):
            row = [self._next(oid) for oid in oids]
            oids = [bind.oid for bind in row]
            binds += row
        return binds

    def _next(self, oid: Oid) -> Bind:
        place = bisect_right(self._order, self.order(oid), key=self.order)
        if place == len(self._order):
            return Bind(oid)
        return Bind(self._order[place], self.rows[self._order[place]])


@contextmanager
def raw_agent(
    rows: Mapping[Oid, Value],
    spoil: Spoil = sound,
    cost: Callable[[Request], float] = lambda _request: 0.0,
    order: Callable[[Oid], Any] = lambda oid: oid,
) -> Iterator[RawAgent]:
    """A running agent."""
    agent = RawAgent(rows, spoil, cost, order)
    try:
        yield agent
    finally:
        agent.close()


def number(value: int, kind: Kind = Kind.INTEGER) -> Value:
    """A value that is a number."""
    return Value(kind, value)
