"""OLTs that answer wrongly, each in a manner of its own, on raw UDP sockets in one process. No test logic."""

import heapq
import json
import random
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.snmp.simulator import wire
from jobs.snmp.simulator.mib import END_OF_MIB_VIEW, NO_SUCH_INSTANCE, Kind, Oid, Value, parse_oid
from jobs.snmp.simulator.wire import PduType, Request, WireError, encode_response, encode_varbind, tlv

ROOT = Path(__file__).resolve().parents[2]
STATE = parse_oid("1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15")
DESCRIPTION = parse_oid("1.3.6.1.4.1.2011.6.128.1.1.2.43.1.9")
ONUS: tuple[Oid, ...] = ((4194304000, 0), (4194304000, 1))
ROWS = {STATE + onu: Value(Kind.INTEGER, 1) for onu in ONUS} | {
    DESCRIPTION + onu: Value(Kind.OCTETS, b"casa %d" % onu[1]) for onu in ONUS
}
ORDER = sorted(ROWS)

LATE_SECONDS = 1.5  # longer than the tests wait for an answer
LARGEST = 65_507  # octets of a datagram
NOISE = random.Random(20)

Pair = tuple[Oid, Value]
Answers = list[tuple[float, bytes]]  # seconds to wait, datagram


def honest_pairs(request: Request) -> list[Pair]:
    """What a good agent of two ONUs would answer."""
    if request.pdu is PduType.GET:
        return [(oid, ROWS.get(oid, NO_SUCH_INSTANCE)) for oid in request.oids]
    rounds = request.third if request.pdu is PduType.GETBULK else 1
    pairs, asked = [], list(request.oids)
    for _ in range(max(1, min(rounds, 20))):
        row = [following(oid) for oid in asked]
        pairs += row
        asked = [oid for oid, _ in row]
    return pairs


def following(oid: Oid) -> Pair:
    """The row after `oid`."""
    return next(((row, ROWS[row]) for row in ORDER if row > oid), (oid, END_OF_MIB_VIEW))


def encoded(request: Request, pairs: list[Pair], status: int = 0, index: int = 0) -> bytes:
    """A response message."""
    return encode_response(request, status, index, b"".join(encode_varbind(*pair) for pair in pairs))


def honest(request: Request) -> bytes:
    """The right answer."""
    return encoded(request, honest_pairs(request))


def with_values(request: Request, value: bytes) -> bytes:
    """The right names, each with this BER as its value; the end of the tree stays what it is."""
    varbinds = b""
    for oid, right in honest_pairs(request):
        whole = encode_varbind(oid, END_OF_MIB_VIEW)  # two octets of tag and length before its name, two of value
        varbinds += whole if right is END_OF_MIB_VIEW else tlv(0x30, whole[2:-2] + value)
    return encode_response(request, 0, 0, varbinds)


def with_names(request: Request, name: bytes) -> bytes:
    """Each value under this BER as its name."""
    return encode_response(request, 0, 0, tlv(0x30, name + tlv(Kind.INTEGER, b"\x01")))


def retagged(request: Request, tag: int) -> bytes:
    """The right answer in a PDU of another kind."""
    answer = honest(request)
    return answer.replace(bytes((PduType.RESPONSE,)), bytes((tag,)), 1)


def mutated(answer: bytes) -> bytes:
    """Up to three octets changed, and at times the end cut off or drawn out."""
    octets = bytearray(answer)
    for _ in range(NOISE.randint(1, 3)):
        octets[NOISE.randrange(len(octets))] = NOISE.randrange(256)
    return bytes(octets[: NOISE.randint(len(octets) // 2, len(octets))]) if NOISE.random() < 0.2 else bytes(octets)


def in_descriptions(wrong: Callable[[Request], bytes]) -> Callable[[Request], bytes]:
    """Wrong where descriptions are asked for, right elsewhere: the ONUs are found first."""

    def answer(request: Request) -> bytes:
        ours = all(oid[: len(DESCRIPTION)] == DESCRIPTION for oid in request.oids)
        return wrong(request) if ours else honest(request)

    return answer


def one_further(request: Request) -> bytes:
    """GETNEXT without end: after each name comes another one."""
    pairs, asked = [], list(request.oids)
    for _ in range(request.third if request.pdu is PduType.GETBULK else 1):
        asked = [(*oid, 1) if len(oid) <= len(STATE) else (*oid[:-1], oid[-1] + 1) for oid in asked]
        pairs += [(oid, Value(Kind.INTEGER, 1)) for oid in asked]
    return encoded(request, pairs)


def to_and_fro(request: Request) -> bytes:
    """GETNEXT in a circle of two."""
    first, second = (STATE + onu for onu in ONUS)
    return encoded(request, [(second if oid == first else first, Value(Kind.INTEGER, 1)) for oid in request.oids])


def far_too_many(request: Request) -> bytes:
    """Hundreds of rows where a few were asked for."""
    if request.pdu is PduType.GET or request.oids[0] > STATE:
        return honest(request)
    return encoded(request, [(STATE + (ONUS[0][0], number), Value(Kind.INTEGER, 1)) for number in range(500)])


HOSTILE_TEXT = b"caf\xc3\xa9 \x00\x01\x1b[31m \xff\xfe \xe2\x80\xae <script>alert(1)</script> '; DROP TABLE onus; --"


@dataclass(frozen=True)
class Manner:
    """How one OLT behaves: request and its running number (from 1) → what goes back."""

    answers: Callable[[Request, int], Answers]


def at_once(answer: Callable[[Request], bytes]) -> Manner:
    """One datagram for each request."""
    return Manner(lambda request, _: [(0.0, answer(request))])


def wrong_then_late(request: Request, number: int) -> Answers:
    """The first answer comes after its time-out and holds other values; the repeat is answered well."""
    if number == 1:
        return [(LATE_SECONDS, encoded(request, [(STATE + (1, 1), Value(Kind.INTEGER, 2))]))]
    return [(0.0, honest(request))]


MANNERS: dict[str, Manner] = {
    "garbage": at_once(lambda _: NOISE.randbytes(200)),
    "garbage_after_a_good_discovery": at_once(in_descriptions(lambda _: NOISE.randbytes(200))),
    "empty_datagram": at_once(lambda _: b""),
    "truncated": at_once(lambda request: honest(request)[: len(honest(request)) // 2]),
    "length_of_4_gigabytes": at_once(lambda request: b"\x30\x84\xff\xff\xff\xff" + honest(request)[2:]),
    "nested_without_end": at_once(lambda _: b"\x30\x80" * 20_000),
    "wrong_request_id": at_once(lambda request: honest(request._replace(request_id=request.request_id ^ 1))),
    "other_version": at_once(lambda request: honest(request._replace(version=0))),
    "other_community": at_once(lambda request: honest(request._replace(community=b"other" * 50))),
    "request_sent_back": at_once(lambda request: retagged(request, PduType.GET)),
    "report": at_once(lambda request: retagged(request, 0xA8)),
    "trap": at_once(lambda request: retagged(request, 0xA7)),
    "late": Manner(lambda request, _: [(LATE_SECONDS, honest(request))]),
    "late_with_other_values": Manner(wrong_then_late),
    "duplicated": Manner(lambda request, _: [(0.0, honest(request))] * 3),
    "junk_up_to_64_kib": at_once(lambda request: honest(request).ljust(LARGEST, b"\x00")),
    "octets_of_60_kb": at_once(in_descriptions(lambda request: with_values(request, tlv(4, b"x" * 30_000)))),
    "far_more_rows_than_asked": at_once(far_too_many),
    "text_for_a_number": at_once(lambda request: with_values(request, tlv(4, b"up"))),
    "number_for_a_text": at_once(in_descriptions(lambda request: with_values(request, tlv(2, b"\x07")))),
    "null": at_once(lambda request: with_values(request, b"\x05\x00")),
    "opaque": at_once(lambda request: with_values(request, b"\x44\x07\x9f\x78\x04\x42\xf6\xe9\x79")),
    "opaque_cut_short": at_once(lambda request: with_values(request, b"\x44\x07\x9f\x78\x7f\x42\xf6\xe9\x79")),
    "unknown_type": at_once(lambda request: with_values(request, b"\x9c\x02\x01\x02")),
    "integer_of_9_octets": at_once(lambda request: with_values(request, tlv(2, b"\x7f" * 9))),
    "integer_of_no_octets": at_once(lambda request: with_values(request, b"\x02\x00")),
    "counter_of_20_octets": at_once(lambda request: with_values(request, tlv(0x46, b"\x01" * 20))),
    "address_of_3_octets": at_once(lambda request: with_values(request, tlv(0x40, b"\x0a\x00\x01"))),
    "address_of_60_octets": at_once(lambda request: with_values(request, tlv(0x40, b"\x0a" * 60))),
    "value_longer_than_the_message": at_once(lambda request: with_values(request, b"\x04\x7fab")),
    "name_of_200_numbers": at_once(lambda request: with_names(request, tlv(6, b"\x2b" + b"\x01" * 200))),
    "name_of_2000_numbers": at_once(lambda request: with_names(request, tlv(6, b"\x2b" + b"\x01" * 2000))),
    "name_without_numbers": at_once(lambda request: with_names(request, b"\x06\x00")),
    "name_that_never_ends": at_once(lambda request: with_names(request, tlv(6, b"\x2b" + b"\xff" * 30))),
    "value_that_is_a_name_of_200_numbers": at_once(
        lambda request: with_values(request, tlv(6, b"\x2b" + b"\x01" * 200))
    ),
    "hostile_text": at_once(in_descriptions(lambda request: with_values(request, tlv(4, HOSTILE_TEXT)))),
    "error_status_99": at_once(lambda request: encoded(request, honest_pairs(request), status=99, index=77)),
    "error_status_negative": at_once(lambda request: encoded(request, honest_pairs(request), status=-5, index=-1)),
    "no_varbinds": at_once(lambda request: encoded(request, [])),
    "other_names": at_once(lambda request: encoded(request, [((1, 3, 6, 1, 2, 1, 1, 1, 0), Value(Kind.INTEGER, 1))])),
    "the_same_name_for_ever": at_once(
        lambda request: encoded(request, [(oid, Value(Kind.INTEGER, 1)) for oid in request.oids])
    ),
    "names_in_a_circle": at_once(to_and_fro),
    "names_without_end": at_once(one_further),
    "mutated": at_once(lambda request: mutated(honest(request))),
}


@dataclass
class _Farm:
    """All manners on one socket each."""

    sockets: dict[str, socket.socket]
    numbers: dict[str, int] = field(default_factory=dict)
    later: list[tuple[float, int, str, bytes, tuple[str, int]]] = field(default_factory=list)

    def serve(self) -> None:
        """Until killed."""
        with selectors.DefaultSelector() as selector:
            for name, opened in self.sockets.items():
                selector.register(opened, selectors.EVENT_READ, name)
            while True:
                wait = max(0.0, self.later[0][0] - time.monotonic()) if self.later else None
                for key, _ in selector.select(wait):
                    self._take(str(key.data))
                self._send_due()

    def _take(self, name: str) -> None:
        data, sender = self.sockets[name].recvfrom(LARGEST)
        self.numbers[name] = self.numbers.get(name, 0) + 1
        try:
            answers = MANNERS[name].answers(wire.decode_request(data), self.numbers[name])
        except WireError:
            return
        for seconds, answer in answers:
            heapq.heappush(self.later, (time.monotonic() + seconds, len(self.later), name, answer, sender))

    def _send_due(self) -> None:
        while self.later and self.later[0][0] <= time.monotonic():
            _, _, name, answer, sender = heapq.heappop(self.later)
            self.sockets[name].sendto(answer, sender)


@contextmanager
def rogue_olts() -> Iterator[dict[str, int]]:
    """One OLT of each manner on 127.0.0.1; manner → port."""
    command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "tests.faults.rogue_olt"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Bind, print the ports, serve."""
    sockets = {name: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for name in MANNERS}
    for opened in sockets.values():
        opened.bind(("127.0.0.1", 0))
    print(json.dumps({name: opened.getsockname()[1] for name, opened in sockets.items()}), flush=True)
    _Farm(sockets).serve()


if __name__ == "__main__":
    main()
