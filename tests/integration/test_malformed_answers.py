"""Answers that no agent should send, through both drivers: the same rows, the same end, the same error, nobody gone.

Where gufo-snmp would see less than there is, or more, or something else, its driver has to ask the exact one.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs import poller
from jobs.drivers import DRIVERS
from jobs.identifying import uptime
from jobs.snmp.getting import get_many
from jobs.snmp.patient import PatientSession
from jobs.snmp.simulator import wire
from jobs.snmp.simulator.mib import END_OF_MIB_VIEW, NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Oid
from jobs.snmp.simulator.wire import tlv
from jobs.snmp.walking import WalkedColumn, walk
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork, telling
from portal.domain.readings import ValueSpec
from portal.domain.statuses import ErrorKind, NodeKind, Presence
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.tables import Onu
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW
from testing.raw_agent import Answer, Bind, Spoil, integer, number, raw_agent

pytestmark = pytest.mark.integration

COLUMN: Oid = (1, 3, 6, 1, 4, 1, 2011, 6, 128, 1, 1, 2, 46, 1, 15)
PORT = 4194312448
ROWS = {(*COLUMN, PORT, onu): number(1 + onu % 2) for onu in range(8)}
BEHIND = {(*COLUMN[:-1], 16, PORT, onu): number(7) for onu in range(8)}  # so that the MIB does not end with the column
BAD = (*COLUMN, PORT, 3)
ROOT, NAMES = ".".join(map(str, COLUMN)), [".".join(map(str, oid)) for oid in ROWS]
LONG = b"\x30\x84"


def at_row(**changes: object) -> Spoil:
    """One row comes as something else."""

    def spoil(answer: Answer) -> list[bytes]:
        return [answer.but(binds=[replace(b, **changes) if b.oid == BAD else b for b in answer.binds]).ber]

    return spoil


def as_value(kind: int, body: bytes) -> Spoil:
    return at_row(data=tlv(kind, body))


def as_octets(element: str) -> Spoil:
    return at_row(data=bytes.fromhex(element))


def as_name(element: str) -> Spoil:
    return at_row(name=bytes.fromhex(element))


def message(**changes: object) -> Spoil:
    return lambda answer: [answer.but(**changes).ber]


def datagrams(make: Callable[[Answer], Sequence[bytes]]) -> Spoil:
    return make


def reordered(order: Callable[[list[Bind]], list[Bind]]) -> Spoil:
    return lambda answer: [answer.but(binds=order(list(answer.binds))).ber]


def swapped(binds: list[Bind]) -> list[Bind]:
    places = {bind.oid: place for place, bind in enumerate(binds)}
    after = (*BAD[:-1], BAD[-1] + 1)
    if BAD in places and after in places:
        one, two = places[BAD], places[after]
        binds[one], binds[two] = binds[two], binds[one]
    return binds


def doubled(binds: list[Bind]) -> list[Bind]:
    return [copy for bind in binds for copy in ([bind, bind] if bind.oid == BAD else [bind])][: max(1, len(binds))]


def jumped_back(binds: list[Bind]) -> list[Bind]:
    return [replace(b, oid=(*COLUMN, PORT, 0)) if b.oid == BAD else b for b in binds]


def looping(binds: list[Bind]) -> list[Bind]:
    return [replace(b, oid=BAD) if b.oid > BAD else b for b in binds]


def into_the_next_column(binds: list[Bind]) -> list[Bind]:
    return [replace(b, oid=(*COLUMN[:-1], 16, 1)) if b.oid == BAD else b for b in binds]


def wrong_id(answer: Answer) -> Answer:
    return answer.but(request_id=integer((answer.request.request_id + 1) % 2**30))


def list_of(answer: Answer, more: int) -> bytes:
    """The message with a list of varbinds that calls itself longer or shorter than it is."""
    body = b"".join(bind.ber for bind in answer.binds)
    return answer.around(b"\x30\x82" + (len(body) + more).to_bytes(2, "big") + body)


def with_a_third(answer: Answer) -> bytes:
    body = [tlv(0x30, b.ber[2:] + b"\x05\x00") if b.oid == BAD else b.ber for b in answer.binds]
    return answer.around(tlv(0x30, b"".join(body)))


def in_long_form(answer: Answer) -> bytes:
    body = b"".join(LONG + (len(bind.ber) - 2).to_bytes(4, "big") + bind.ber[2:] for bind in answer.binds)
    return answer.around(LONG + len(body).to_bytes(4, "big") + body)


PREFIX = wire.encode_varbind(COLUMN, number(0))[4:-3].hex()  # of COLUMN
MALFORMED: dict[str, Spoil] = {
    "sound": at_row(),
    # values
    "noSuchInstance for a row": at_row(value=NO_SUCH_INSTANCE),
    "noSuchObject for a row": at_row(value=NO_SUCH_OBJECT),
    "endOfMibView with rows behind it": at_row(value=END_OF_MIB_VIEW),
    "a marker with a content": as_octets("810101"),
    "NULL for a row": as_octets("0500"),
    "NULL with a content": as_octets("050100"),
    "INTEGER without octets": as_octets("0200"),
    "negative INTEGER of 8 octets": at_row(data=integer(-2002, 8)),
    "-1 in 8 octets": at_row(data=integer(-1, 8)),
    "small INTEGER of 8 octets": at_row(data=integer(2, 8)),
    "negative INTEGER of 6 octets": at_row(data=integer(-2002, 6)),
    "INTEGER of 5 octets, above 2^31": at_row(data=integer(4294965296, 5)),
    "INTEGER of 9 octets": at_row(data=integer(2, 9)),
    "Gauge32 of 4 octets with the highest bit": as_octets("4204fffff82e"),
    "Gauge32 of 5 octets": as_octets("420500fffff82e"),
    "Gauge32 of 8 octets": as_octets("4208000000000000f82e"),
    "Gauge32 without octets": as_octets("4200"),
    "TimeTicks of 3 octets with the highest bit": as_octets("4303ffffff"),
    "Counter64 of 8 octets with the highest bit": as_octets("4608ffffffffffffffff"),
    "Counter64 of 9 octets": as_octets("460900ffffffffffffffff"),
    "Counter64 of 10 octets": as_octets("460a0000ffffffffffffffff"),
    "UInteger32": as_octets("470101"),
    "IpAddress of 3 octets": as_octets("40030a0000"),
    "IpAddress of 16 octets": as_octets("4010" + "0a" * 16),
    "Opaque float": as_octets("44079f780441a00000"),
    "Opaque of nothing": as_octets("4400"),
    "NsapAddress": as_octets("4503010203"),
    "a type nobody knows": as_octets("480101"),
    "a marker nobody knows": as_octets("8300"),
    "BIT STRING": as_octets("03020780"),
    "BOOLEAN": as_octets("0101ff"),
    "UTF8String": as_octets("0c0161"),
    "REAL": as_octets("0903800001"),
    "octets in parts": as_octets("2403040131"),
    "octets without octets": as_octets("0400"),
    "a length in a longer form than needed": as_octets("02810102"),
    "a length in four octets": as_octets("02840000000102"),
    "an indefinite length": as_octets("0280020000"),
    "a value longer than its varbind": as_octets("027f01"),
    "an OID of nothing as value": as_octets("0600"),
    "an OID cut short as value": as_octets("06032b0681"),
    "an OID with a number above 2^32 as value": as_octets("06082b069f8f8f8f8f01"),
    # names
    "a name with a number above 2^32": as_name("0616" + PREFIX + "9fffffff7f" + "03"),
    "a name that is cut short": as_name("0616" + PREFIX + "8fd080c200" + "83"),
    "a name without octets": as_name("0600"),
    "a name of one octet": as_name("06012b"),
    "a name with padding": as_name("0617" + PREFIX + "8fd080c200" + "8003"),
    "a name of 140 numbers": as_name("06818e" + PREFIX + "01" * 126),
    "a name that is no OID": as_name("040131"),
    "a name of another tree": at_row(oid=(0, 0)),
    # order
    "one name again and again": reordered(looping),
    "a jump back": reordered(jumped_back),
    "two rows swapped": reordered(swapped),
    "a row doubled": reordered(doubled),
    "the next column in the midst": reordered(into_the_next_column),
    # messages
    "another community": message(community=b"private"),
    "no community": message(community=b""),
    "an answer of version 1": message(version=0),
    "an answer of version 3": message(version=3),
    "a Report": message(pdu=0xA8),
    "the request sent back": message(pdu=0xA0),
    "a trap": message(pdu=0xA7),
    "genErr without an index": message(status=integer(5)),
    "genErr with an index that is none": message(status=integer(5), index=integer(99)),
    "tooBig": datagrams(lambda answer: [answer.but(status=integer(1), binds=[]).ber]),
    "an error status nobody knows": message(status=integer(99)),
    "a negative error status": message(status=integer(-1)),
    "no error, but an error index": message(index=integer(3)),
    "another request's id": datagrams(lambda answer: [wrong_id(answer).ber]),
    "another request's id first": datagrams(lambda answer: [wrong_id(answer).ber, answer.ber]),
    "another request's id, then a hole": datagrams(lambda a: [wrong_id(a).ber, *at_row(value=NO_SUCH_INSTANCE)(a)]),
    "a request id of 5 octets": datagrams(lambda a: [a.but(request_id=integer(a.request.request_id, 5)).ber]),
    "everything twice": datagrams(lambda answer: [answer.ber, answer.ber]),
    "half a datagram": datagrams(lambda answer: [answer.ber[: len(answer.ber) // 2]]),
    "a datagram cut by one octet": datagrams(lambda answer: [answer.ber[:-1]]),
    "a datagram with more behind": datagrams(lambda answer: [answer.ber + b"\x00\x01\x02"]),
    "garbage": datagrams(lambda _answer: [b"\x00garbage\xff"]),
    "garbage first": datagrams(lambda answer: [b"\x00garbage\xff", answer.ber]),
    "nothing in a datagram": datagrams(lambda _answer: [b""]),
    "no varbinds": message(binds=()),
    "fewer varbinds than asked for": reordered(lambda binds: binds[: max(1, len(binds) - 2)]),
    "one varbind more than asked for": reordered(lambda binds: [*binds, Bind((*COLUMN, PORT, 9), number(1))]),
    "a list longer than its message": datagrams(lambda answer: [list_of(answer, 20)]),
    "a list shorter than its content": datagrams(lambda answer: [list_of(answer, -5)]),
    "a varbind of three": datagrams(lambda answer: [with_a_third(answer)]),
    "long lengths everywhere": datagrams(lambda answer: [in_long_form(answer)]),
    "silence": datagrams(lambda _answer: []),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What a driver made of it."""

    rows: tuple[tuple[str, object], ...]
    complete: bool
    walk_error: object
    supported: bool
    values: tuple[tuple[str, object], ...]
    failed: tuple[tuple[str, object], ...]
    stopped: object


def target(port: int, seconds: float) -> SnmpTarget:
    return SnmpTarget("127.0.0.1", port, "2c", community="public", timeout=seconds, retries=0)


def seen_by(driver: str, spoil: Spoil, seconds: float) -> Seen:
    limits = {"deadline": time.monotonic() + 60, "checkpoint": lambda: None, "clock": time.monotonic}
    with raw_agent({**ROWS, **BEHIND}, spoil) as agent:
        place = target(agent.port, seconds)
        with closing(PatientSession(DRIVERS[driver], place, lambda: None)) as session:
            walked: WalkedColumn = walk(
                session, [ROOT], max_repetitions=20, max_rows=1000, pause=lambda _s: None, **limits
            ).columns[0]
        with closing(PatientSession(DRIVERS[driver], place, lambda: None)) as session:
            got = get_many(session, NAMES, max_varbinds=20, pause=lambda _s: None, **limits)
    values = tuple((name, bind.type if bind.missing else bind.value) for name, bind in got.values.items())
    return Seen(
        tuple(walked.rows), walked.complete, walked.error_kind, walked.supported,
        values, tuple(got.failed.items()), got.error_kind,
    )  # fmt: skip


def both(case: str) -> tuple[Seen, Seen]:
    """What easysnmp and gufo see. An agent that this machine kept from answering in time is asked once more."""
    exact, fast = (seen_by(driver, MALFORMED[case], 0.08) for driver in ("easysnmp", "gufo"))
    if exact != fast:
        exact, fast = (seen_by(driver, MALFORMED[case], 0.5) for driver in ("easysnmp", "gufo"))
    return exact, fast


@pytest.mark.parametrize("case", MALFORMED)
def test_both_drivers_make_the_same_of_a_malformed_answer_and_no_row_is_missing_from_a_complete_walk(case):
    exact, fast = both(case)
    assert fast == exact
    assert not exact.complete or {index for index, _ in exact.rows} == {f"{PORT}.{onu}" for onu in range(8)}


HOLES = ("noSuchInstance for a row", "endOfMibView with rows behind it", "the next column in the midst")
UNREADABLE = ("INTEGER without octets", "a type nobody knows", "a name with a number above 2^32", "a varbind of three")


@pytest.mark.parametrize("case", [*HOLES, *UNREADABLE])
def test_a_row_that_is_a_hole_or_cannot_be_read_costs_itself_and_no_other(case):
    exact, fast = both(case)
    assert [index for index, _ in fast.rows] == [f"{PORT}.{onu}" for onu in (0, 1, 2, 4, 5, 6, 7)]
    assert len(fast.values) - ("for a row" in case or "endOf" in case) == 7
    assert (case in UNREADABLE) == (fast.walk_error is ErrorKind.DEVICE)


@pytest.mark.parametrize(
    "case", ["half a datagram", "garbage", "an answer of version 1", "a list longer than its message"]
)
@pytest.mark.parametrize("driver", DRIVERS)
def test_what_cannot_be_read_is_an_answer_and_no_silence(driver, case):
    with raw_agent({**ROWS, **BEHIND}, MALFORMED[case]) as agent:
        result = poller.run(discovery(agent.port), DRIVERS[driver], lambda: None, lambda: NOW, time.monotonic)
    (step,) = result.steps
    assert step.error_kind is ErrorKind.DEVICE and "answered, but what it sent can't be read" in step.error_message


def discovery(port: int, node: int = 1) -> CompositeWork:
    spec = ReadingSpec("onu_state", ROOT, ValueSpec())
    return CompositeWork(1, 1, 1, target(port, 0.2), (StepWork(node, "discovery", NodeKind.DISCOVERY, (spec,)),))


@pytest.mark.parametrize("driver", DRIVERS)
def test_who_answers_is_known_with_either_driver_however_its_lengths_are_written(driver):
    rows = {(1, 3, 6, 1, 2, 1, 1, 3, 0): number(4711)}
    with raw_agent(rows, MALFORMED["long lengths everywhere"]) as agent:
        with closing(PatientSession(DRIVERS[driver], target(agent.port, 0.5), lambda: None)) as session:
            assert uptime(session) == 4711
            assert len(agent.asked) == 1 + session.checks


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_onu_whose_row_is_a_hole_is_not_declared_gone(session: Session, driver):
    olt = make_olt()
    node = make_node(olt)
    for turn, case in enumerate(["sound", *HOLES, *UNREADABLE, "NULL for a row"]):
        at = NOW + turn * 15 * MINUTE
        with raw_agent({**ROWS, **BEHIND}, MALFORMED[case]) as agent:
            work = discovery(agent.port, node.id)
            result = poller.run(work, DRIVERS[driver], lambda: None, lambda at=at: at, time.monotonic)
        execution_id, _ = run_requests.run_now(node.id, ACTOR, at)
        executions.start(execution_id, 1, "poller-1", at, at)
        executions.finish(execution_id, 1, result, at, Books(olt.id, execution_id, telling(result.steps)))
        session.rollback()
        states = session.scalars(select(Onu.presence).where(Onu.olt_id == olt.id)).all()
        assert [*states] == [Presence.ENABLED] * 8, case
