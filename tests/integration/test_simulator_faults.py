"""Each fault of a simulated OLT as a manager meets it over UDP: one agent per fault, easysnmp or bare datagrams."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import easysnmp
import pytest

from jobs.snmp.simulator import wire
from jobs.snmp.simulator.farm import Farm, start_farm
from jobs.snmp.simulator.mib import Kind, Value, parse_oid
from jobs.snmp.simulator.spec import expected
from jobs.snmp.simulator.usm import V3User
from jobs.snmp.simulator.wire import PduType, encode_varbind, tlv
from tests.integration.test_simulator import XPON, rows, session

STATE, RX = f"{XPON}.46.1.15", f"{XPON}.51.1.4"
SYS_UPTIME = ".1.3.6.1.2.1.1.3.0"
# The ports of the farm, by what is wrong with them; 40 ONUs on ports 4194312192, 4194312448 and 4194312704.
CLOCK = "at=1790000000,speed=0.001,seed=7,onus=40"
SECOND_PORT = "4194312448"
FAULTS = {
    "rowdelay": "rowdelay=0.01",
    "maxvars": "maxvars=5",
    "truncate": "truncate=3",
    "loop": f"loop={STATE}",
    "die": f"die={STATE}.{SECOND_PORT}",
    "mute": f"mute={STATE}.{SECOND_PORT}",
    "vanish": f"vanish={XPON}.46,vanishfor=3600",
    "later": f"vanish={XPON}.46,vanishat=3600",
    "sentinels": "sentinels=0.5",
    "sag": "sag=0.02",
    "healthy": "delay=0",
}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    with start_farm([f"huawei@0,{CLOCK},{fault}" for fault in FAULTS.values()]) as running:
        yield running


@pytest.fixture
def olt(farm: Farm) -> Callable[..., easysnmp.Session]:
    """A session with the OLT that has this fault."""

    def opened(fault: str, **options: Any) -> easysnmp.Session:
        return session(farm.ports[list(FAULTS).index(fault)], **({"retries": 0} | options))

    return opened


def timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_every_varbind_of_an_answer_costs_its_time(olt: Callable[..., easysnmp.Session]) -> None:
    client = olt("rowdelay")
    one = timed(lambda: client.get_bulk(STATE, 0, 1))
    many = timed(lambda: client.get_bulk(STATE, 0, 40))
    assert one >= 0.01 and many >= 0.4 and one < many


def test_a_get_above_maxvars_is_toobig_and_a_getbulk_is_cut(olt: Callable[..., easysnmp.Session]) -> None:
    client, oids = olt("maxvars"), [f"{STATE}.{key}" for key in rows(olt("healthy"), STATE)]
    assert len(client.get(oids[:5])) == 5
    with pytest.raises(easysnmp.EasySNMPError, match="too big|tooBig|Packet too large"):
        client.get(oids[:6])
    assert len(client.get_bulk(STATE, 0, 20)) == 5
    assert rows(client, STATE) == rows(olt("healthy"), STATE)


def request(pdu: PduType, *oids: str) -> bytes:
    varbinds = b"".join(encode_varbind(parse_oid(oid), Value(Kind.NULL, None)) for oid in oids)
    fields = tlv(Kind.INTEGER, b"\x4d") + tlv(Kind.INTEGER, b"\0") * 2 + tlv(0x30, varbinds)
    return tlv(0x30, tlv(Kind.INTEGER, b"\1") + tlv(Kind.OCTETS, b"public") + tlv(pdu, fields))


def ask(port: int, pdu: PduType, *oids: str, timeout: float = 2.0) -> list[tuple[int, ...]]:
    """OIDs of the answer to one bare request; TimeoutError when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(timeout)
        client.sendto(request(pdu, *oids), ("127.0.0.1", port))
        answer = client.recv(65535)
    # A response is built as a request is: with the tag of one it can be read as one.
    return list(wire.decode_request(answer.replace(bytes((PduType.RESPONSE,)), bytes((PduType.GET,)), 1)).oids)


def test_a_truncating_agent_answers_first_varbinds_of_a_get(farm: Farm, olt: Callable[..., easysnmp.Session]) -> None:
    oids = [f"{STATE}.{key}" for key in rows(olt("healthy"), STATE)][:8]
    assert ask(farm.ports[list(FAULTS).index("truncate")], PduType.GET, *oids) == [parse_oid(oid) for oid in oids[:3]]


def test_a_looping_table_answers_the_oid_it_was_asked_for(farm: Farm, olt: Callable[..., easysnmp.Session]) -> None:
    first = f"{STATE}.{next(iter(rows(olt('healthy'), STATE)))}"
    assert ask(farm.ports[list(FAULTS).index("loop")], PduType.GETNEXT, first) == [parse_oid(first)]
    assert [f"{one.oid}.{one.oid_index}" for one in olt("loop").get_bulk(STATE, 0, 5)] == [first] * 5


@pytest.mark.parametrize("fault", ["die", "mute"])
def test_a_walk_dies_in_the_middle_of_its_table(fault: str, olt: Callable[..., easysnmp.Session]) -> None:
    client, whole = olt(fault, timeout=0.3), rows(olt("healthy"), STATE)
    first = [key for key in whole if not key.startswith(("4194312448", "4194312704"))]
    # A GETBULK that starts before the fault brings what lies before it.
    assert len(client.get_bulk(STATE, 0, 50)) in (len(first), len(first) + 1)
    with pytest.raises(easysnmp.EasySNMPTimeoutError):
        client.bulkwalk(STATE, 0, 50)
    last = f"{STATE}.{list(whole)[-1]}"
    if fault == "die":
        with pytest.raises(easysnmp.EasySNMPTimeoutError):
            client.get(last)
    else:
        assert olt(fault).get(last).value in {"1", "2"}
    assert rows(olt(fault), RX) == rows(olt("healthy"), RX)


def test_a_vanished_table_is_empty_and_its_neighbours_are_not(olt: Callable[..., easysnmp.Session]) -> None:
    assert rows(olt("vanish"), STATE) == {}
    key = next(iter(rows(olt("healthy"), STATE)))
    assert olt("vanish").get(f"{STATE}.{key}").snmp_type == "NOSUCHINSTANCE"
    assert rows(olt("vanish"), RX) == rows(olt("healthy"), RX)
    assert rows(olt("later"), STATE) == rows(olt("healthy"), STATE)


def test_a_sentinel_storm_takes_about_its_share_of_the_powers(olt: Callable[..., easysnmp.Session]) -> None:
    told, truth = rows(olt("sentinels"), RX), expected(f"huawei@0,{CLOCK},sentinels=0.5")
    assert {one.index for one in truth if one.rx_power is None} == {key for key in told if told[key] == "2147483647"}
    assert rows(olt("sentinels"), STATE) == rows(olt("healthy"), STATE)
    assert 10 < sum(value == "2147483647" for value in told.values()) < 35


def test_a_cpu_sags_under_load_and_recovers_when_left_alone(farm: Farm) -> None:
    port = farm.ports[list(FAULTS).index("sag")]
    before = timed(lambda: ask(port, PduType.GET, SYS_UPTIME))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        for _ in range(25):
            noise.sendto(request(PduType.GET, SYS_UPTIME), ("127.0.0.1", port))
        under_load = timed(lambda: ask(port, PduType.GET, SYS_UPTIME))
    # Twenty-six requests of the last second, 20 ms each.
    assert under_load >= 0.5
    assert before < under_load / 2
    assert min(timed(lambda: ask(port, PduType.GET, SYS_UPTIME)) for _ in range(12)) < under_load / 2


def test_an_olt_that_reboots_is_silent_and_counts_its_uptime_anew() -> None:
    with start_farm(["huawei@0,at=1790000000,seed=7,reboot=2,rebootfor=0.5"]) as running:
        (port,) = running.ports
        client = session(port, timeout=0.1, retries=0)
        uptime = before = int(client.get(SYS_UPTIME).value)
        lost, deadline = 0, time.monotonic() + 20
        while not (lost >= 3 and uptime < min(before, 200)) and time.monotonic() < deadline:
            if uptime < before:
                lost = 0  # the test itself stood still over this reboot: the next one counts
            before = uptime
            try:
                uptime = int(client.get(SYS_UPTIME).value)
            except easysnmp.EasySNMPTimeoutError:
                lost += 1
    assert uptime < min(before, 200)
    assert lost >= 3


def engine(port: int, timeout: float = 0.2) -> tuple[int, int] | None:
    """Boots and time an agent tells in answer to an SNMPv3 discovery (RFC 3414, section 4), None when it is silent."""
    zero, empty = tlv(Kind.INTEGER, b"\0"), tlv(Kind.OCTETS, b"")
    number = tlv(Kind.INTEGER, b"\x4d")
    header = tlv(0x30, number + tlv(Kind.INTEGER, b"\0\xff\xe3") + tlv(Kind.OCTETS, b"\4") + tlv(Kind.INTEGER, b"\3"))
    security = tlv(Kind.OCTETS, tlv(0x30, empty + zero + zero + empty * 3))
    scoped = tlv(0x30, empty + empty + tlv(PduType.GET, number + zero + zero + tlv(0x30, b"")))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(timeout)
        client.sendto(tlv(0x30, tlv(Kind.INTEGER, b"\3") + header + security + scoped), ("127.0.0.1", port))
        try:
            answer = client.recv(65535)
        except TimeoutError:
            return None
    # Boots and time are the two integers behind the engine id of 17 octets.
    at = answer.index(b"\x04\x11\x80\x00\x1f\x88") + 19
    boots, at = _integer(answer, at)
    return boots, _integer(answer, at)[0]


def _integer(data: bytes, at: int) -> tuple[int, int]:
    end = at + 2 + data[at + 1]
    return int.from_bytes(data[at + 2 : end], "big"), end


@pytest.mark.parametrize(("frozen", "grows"), [("", 1), (",frozenboots=1", 0)])
def test_a_reboot_starts_the_engine_time_anew_and_counts_its_boots_unless_frozen(frozen: str, grows: int) -> None:
    spec = f"huawei@0,seed=7,reboot=3.5,rebootfor=0.3{frozen}"
    with start_farm([spec], v3=V3User("ops", "auth-password")) as running:
        (port,) = running.ports
        # The first answer takes as long as it takes to build an SNMPv3 engine.
        before = after = engine(port, timeout=3.0)
        silent, deadline = False, time.monotonic() + 20
        while before and not (silent and after) and time.monotonic() < deadline:
            after = engine(port)
            silent = silent or after is None
            before = after if after and not silent else before
    assert before and after and after[0] == before[0] + grows
    assert before[1] >= 1
    assert after[1] < before[1]
