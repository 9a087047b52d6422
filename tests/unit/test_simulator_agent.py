"""One agent without its socket: datagrams in, datagrams out, damaged ones among them."""

import random
from pathlib import Path
from typing import Any, cast

import pytest

from jobs.snmp.simulator.agent import Agent, RequestLog
from jobs.snmp.simulator.clock import Clock
from jobs.snmp.simulator.mib import Kind, Oid, Value
from jobs.snmp.simulator.spec import build_mib, parse_spec
from jobs.snmp.simulator.usm import V3User
from jobs.snmp.simulator.wire import PduType, encode_varbind, tlv

CLIENT = ("127.0.0.1", 40000)
SYS_NAME: Oid = (1, 3, 6, 1, 2, 1, 1, 5, 0)
ZERO = tlv(Kind.INTEGER, b"\0")
EMPTY = tlv(Kind.OCTETS, b"")


class Bound:
    """Stands in for a bound socket."""

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "127.0.0.1", 20000


def sequence(*parts: bytes) -> bytes:
    return tlv(0x30, b"".join(parts))


def request(community: bytes = b"public", pdu: PduType = PduType.GET, version: int = 1) -> bytes:
    varbinds = sequence(encode_varbind(SYS_NAME, Value(Kind.NULL, None)))
    fields = tlv(Kind.INTEGER, b"\x4d") + ZERO + ZERO + varbinds
    return sequence(tlv(Kind.INTEGER, bytes((version,))), tlv(Kind.OCTETS, community), tlv(pdu, fields))


def discovery() -> bytes:
    """What a manager sends first to an SNMPv3 agent: no engine id, no user, a GET of nothing (RFC 3414, section 4)."""
    number = tlv(Kind.INTEGER, b"\x4d")
    header = sequence(number, tlv(Kind.INTEGER, b"\0\xff\xe3"), tlv(Kind.OCTETS, b"\4"), tlv(Kind.INTEGER, b"\3"))
    security = tlv(Kind.OCTETS, sequence(EMPTY, ZERO, ZERO, EMPTY, EMPTY, EMPTY))
    scoped = sequence(EMPTY, EMPTY, tlv(PduType.GET, number + ZERO + ZERO + sequence()))
    return sequence(tlv(Kind.INTEGER, b"\3"), header, security, scoped)


def agent(text: str = "huawei@0", log: Path | None = None, user: V3User | None = None) -> Agent:
    spec = parse_spec(text)
    clock = Clock(1_790_000_000.0, 1.0)
    found = Agent(spec, build_mib(spec, "OLT-7", clock()), clock, RequestLog(log), user)
    found.connection_made(cast(Any, Bound()))
    return found


def test_a_get_is_answered_with_the_value_and_its_request_id() -> None:
    answer = agent().answer(request(), CLIENT)
    assert answer is not None and answer.endswith(encode_varbind(SYS_NAME, Value(Kind.OCTETS, b"OLT-7")))
    assert b"\xa2" in answer and b"\x02\x01\x4d\x02\x01\x00\x02\x01\x00" in answer


def test_a_dead_lossy_or_foreign_agent_is_silent_and_one_without_a_v3_user_ignores_v3() -> None:
    silent = ["huawei@0,dead=1", "huawei@0,drop=1", "huawei@0,community=other"]
    assert [agent(spec).answer(request(), CLIENT) for spec in silent] == [None] * 3
    assert agent().answer(discovery(), CLIENT) is None


def test_the_log_tells_time_ports_type_and_number_even_of_what_gets_no_answer(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    silent = agent("huawei@0,dead=1", log)
    for datagram in (request(), request(b"wrong"), request(pdu=PduType.GETBULK), b"noise", discovery()):
        silent.answer(datagram, CLIENT)
    lines = [line.split() for line in log.read_text().splitlines()]
    told = [["get", "1"], ["badcommunity", "1"], ["getbulk", "1"], ["other", "0"], ["other", "0"]]
    assert [line[1:] for line in lines] == [["20000", "40000", *one] for one in told]
    assert all("." in line[0] for line in lines)


def test_discovery_is_answered_with_an_engine_id_that_differs_between_olts() -> None:
    user = V3User("ops", "auth-password", "priv-password")
    first, second = (agent(f"huawei@0,seed={seed}", user=user).answer(discovery(), CLIENT) for seed in (1, 2))
    assert first is not None and b"\x80\x00\x1f\x88\x05" in first
    assert second is not None and first != second


@pytest.mark.slow
def test_no_damaged_datagram_brings_an_agent_down() -> None:
    victim = agent(user=V3User("ops"))
    chance = random.Random(1)
    for _ in range(1500):
        data = bytearray(chance.choice((request(), request(version=0, pdu=PduType.GETNEXT), discovery())))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        victim.answer(bytes(data[: chance.randint(1, len(data))] if chance.random() < 0.3 else data), CLIENT)
    assert victim.answer(request(), CLIENT) is not None
    assert victim.answer(discovery(), CLIENT) is not None
