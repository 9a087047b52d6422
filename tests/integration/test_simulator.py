"""Simulated OLTs as a manager meets them: real agents in a process of their own, easysnmp or bare datagrams."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import easysnmp
import pytest

from jobs.snmp.simulator import wire
from jobs.snmp.simulator.farm import Farm, FarmError, start_farm
from jobs.snmp.simulator.mib import Kind, Value, parse_oid
from jobs.snmp.simulator.spec import expected
from jobs.snmp.simulator.usm import V3User
from jobs.snmp.simulator.wire import PduType, encode_varbind, tlv

ROOT = Path(__file__).resolve().parents[2]
XPON = ".1.3.6.1.4.1.2011.6.128.1.1.2"
ZGPON = ".1.3.6.1.4.1.3902.1012.3"
IF_NAME = ".1.3.6.1.2.1.31.1.1.1.1"
SYS_NAME = ".1.3.6.1.2.1.1.5.0"
CLOCK = "at=1790000000,speed=0.001"
OPS = V3User("ops", "auth-password", "priv-password")
HUAWEI, ZTE, LOSSY, SMALL = range(4)


def session(port: int, **options: Any) -> easysnmp.Session:
    given: dict[str, Any] = {"version": 2, "community": "public", "timeout": 2, "retries": 1}
    return easysnmp.Session(hostname="127.0.0.1", remote_port=port, use_numeric=True, **(given | options))


def impatient(port: int, **options: Any) -> easysnmp.Session:
    """For what is to stay without an answer."""
    return session(port, timeout=0.3, retries=0, **options)


def v3(port: int, **options: Any) -> easysnmp.Session:
    given = {"version": 3, "security_level": "auth_with_privacy", "security_username": OPS.name}
    given |= {"auth_protocol": "SHA", "auth_password": OPS.auth_password}
    given |= {"privacy_protocol": "AES", "privacy_password": OPS.priv_password}
    return session(port, **(given | options))


def rows(client: easysnmp.Session, root: str, repetitions: int = 25) -> dict[str, str]:
    """Index below ``root`` → value of a GETBULK walk."""
    found = client.bulkwalk(root, 0, repetitions)
    names = [".".join(part for part in (one.oid, one.oid_index) if part) for one in found]
    return {name.removeprefix(root + "."): one.value for name, one in zip(names, found, strict=True)}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    specs = [
        f"huawei@0,onus=64,{CLOCK}",
        f"zte@0,onus=40,{CLOCK}",
        f"huawei@0,onus=20,generr={XPON}.51.1.4,mute={XPON}.51.1.6,{CLOCK}",
        f"huawei@0,onus=64,toobig=1400,maxrep=10,{CLOCK}",
    ]
    with start_farm(specs, v3=OPS) as running:
        yield running


def test_the_recorded_c320_has_its_125_distances(recorded: Farm) -> None:
    distances = rows(session(recorded.ports[0]), f"{ZGPON}.11.4.1.2")
    assert len(distances) == 125
    assert distances["268501248.1"] == "1235"


def test_the_recorded_ma5603t_names_its_32_pon_ports(recorded: Farm) -> None:
    names = rows(session(recorded.ports[1]), IF_NAME)
    assert names["4194312192"] == "GPON 0/1/0"
    assert sum(name.startswith("GPON 0/") for name in names.values()) == 32


def test_getbulk_getnext_and_get_tell_the_same_of_a_recording(recorded: Farm) -> None:
    client, root = session(recorded.ports[0]), f"{ZGPON}.13.1"
    by_bulk = rows(client, root)
    by_next = {f"{one.oid}.{one.oid_index}".removeprefix(root + "."): one.value for one in client.walk(root)}
    by_get = {key: client.get(f"{root}.{key}").value for key in list(by_bulk)[:30]}
    assert len(by_bulk) > 100
    assert by_next == by_bulk
    assert by_get.items() <= by_bulk.items()


@pytest.mark.parametrize("version", [1, 2])
def test_a_generated_huawei_is_walked_and_read(farm: Farm, version: int) -> None:
    client = session(farm.ports[HUAWEI], version=version)
    assert client.get(SYS_NAME).value == "SIM-HUAWEI-01"
    states = client.walk(f"{XPON}.46.1.15")
    assert len(states) == 64
    assert {one.value for one in states} <= {"1", "2"}


def test_a_generated_zte_has_one_row_per_onu_in_every_table(farm: Farm) -> None:
    client = session(farm.ports[ZTE])
    phases = rows(client, f"{ZGPON}.28.2.1.4")
    assert len(phases) == 40
    assert list(rows(client, f"{ZGPON}.50.12.1.1.10")) == [f"{key}.1" for key in phases]
    assert list(rows(client, ".1.3.6.1.4.1.3902.1015.1010.11.2.1.2")) == list(phases)


def test_many_instances_are_read_by_one_get(farm: Farm) -> None:
    client = session(farm.ports[HUAWEI])
    powers = rows(client, f"{XPON}.51.1.4")
    assert [one.value for one in client.get([f"{XPON}.51.1.4.{key}" for key in powers])] == list(powers.values())


def test_descriptions_arrive_as_the_octets_the_olt_holds(farm: Farm) -> None:
    texts = [text.encode("latin-1") for text in rows(session(farm.ports[HUAWEI]), f"{XPON}.43.1.9").values()]
    assert "C-004417 Begoña Muñoz".encode("latin-1") in texts
    assert b"<script>alert(1)</script>" in texts


def test_a_wrong_community_gets_no_answer(farm: Farm) -> None:
    with pytest.raises(easysnmp.EasySNMPTimeoutError):
        impatient(farm.ports[HUAWEI], community="private").get(SYS_NAME)


def test_v3_with_sha_and_aes_sees_what_v2c_sees(farm: Farm) -> None:
    root = f"{XPON}.46.1.20"
    assert rows(v3(farm.ports[HUAWEI]), root) == rows(session(farm.ports[HUAWEI]), root)
    missing = v3(farm.ports[HUAWEI]).get([f"{root}.4194312192.127", ".1.3.6.1.2.1.1.99.0"])
    assert [one.snmp_type for one in missing] == ["NOSUCHINSTANCE", "NOSUCHOBJECT"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"auth_password": "wrong-password"}, "Authentication failure"),
        ({"privacy_password": "wrong-password"}, "Decryption error"),
        ({"security_username": "nobody"}, "Unknown user name"),
        ({"security_level": "auth_without_privacy"}, "Unsupported security level"),
        ({"security_level": "no_auth_or_privacy"}, "Unsupported security level"),
    ],
)
def test_v3_with_wrong_keys_or_a_lower_level_is_refused(farm: Farm, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(easysnmp.EasySNMPError, match=complaint):
        v3(farm.ports[ZTE], **options).get(SYS_NAME)


def test_a_get_above_the_size_of_the_device_is_toobig_and_a_bulk_is_cut(farm: Farm) -> None:
    client = session(farm.ports[SMALL])
    powers = rows(client, f"{XPON}.51.1.4", repetitions=50)
    assert len(powers) == 64
    assert len(client.get_bulk(f"{XPON}.51.1.4", 0, 50)) == 10
    oids = [f"{XPON}.51.1.4.{key}" for key in powers]
    with pytest.raises(easysnmp.EasySNMPError, match="too big|tooBig|Packet too large"):
        client.get(oids)
    assert len(client.get(oids[:20])) == 20


def test_broken_subtrees_fail_or_stay_silent_and_the_rest_answers(farm: Farm) -> None:
    client = session(farm.ports[LOSSY])
    key = next(iter(rows(client, f"{XPON}.51.1.1")))
    with pytest.raises(easysnmp.EasySNMPError, match="(?i)gen"):
        client.get(f"{XPON}.51.1.4.{key}")
    with pytest.raises(easysnmp.EasySNMPTimeoutError):
        impatient(farm.ports[LOSSY]).get(f"{XPON}.51.1.6.{key}")
    assert client.get(f"{XPON}.51.1.3.{key}").snmp_type == "INTEGER"


def test_an_unplugged_olt_is_silent_until_it_is_plugged_in_again() -> None:
    with start_farm(["zte@0"], count=2) as running:
        first, second = (session(port) for port in running.ports)
        running.unplug(0)
        with pytest.raises(easysnmp.EasySNMPTimeoutError):
            impatient(running.ports[0]).get(SYS_NAME)
        assert second.get(SYS_NAME).value == "SIM-ZTE-02"
        running.plug_in(0)
        assert first.get(SYS_NAME).value == "SIM-ZTE-01"


def test_every_request_is_one_line_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    with start_farm(["huawei@0"], log=log, v3=OPS) as running:
        (port,) = running.ports
        session(port).get([SYS_NAME, ".1.3.6.1.2.1.1.1.0"])
        session(port).get_bulk(IF_NAME, 0, 5)
        v3(port).get(SYS_NAME)
    lines = [line.split() for line in log.read_text().splitlines()]
    requests = [(line[1], *line[3:5]) for line in lines if line[3] != "other"]
    assert requests == [(str(port), "get", "2"), (str(port), "getbulk", "1"), (str(port), "get", "1")]
    times = [float(line[0]) for line in lines]
    assert times == sorted(times)
    assert all(0 < int(line[2]) < 65536 for line in lines)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "jobs.cli_simulate", *words]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_command_cleanly(number: signal.Signals) -> None:
    with subprocess.Popen(command("--olt", "huawei@0", "--olt", "zte@0"), cwd=ROOT, stdout=subprocess.PIPE) as process:
        ready = [process.stdout.readline() for _ in range(2)]
        process.send_signal(number)
        rest = process.stdout.read()
    assert all(line.startswith(b"event=agent_ready host=127.0.0.1 port=") for line in ready)
    assert rest == b"event=simulator_stopped agents=2\n"
    assert process.returncode == 0


def test_the_simulator_dies_with_its_parent() -> None:
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", script, *command("--olt", "huawei@0", "--die-with-parent")]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        assert select.select([child], [], [], 5)[0], "a pidfd turns readable when the process is gone"
    finally:
        os.close(child)


def test_a_port_in_use_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = subprocess.run(command("--olt", f"huawei@{port}"), cwd=ROOT, capture_output=True, text=True)
        assert found.returncode == 1
        assert found.stderr.startswith(f"Error: UDP 127.0.0.1:{port} cannot be used: ")
        assert "choose another host or port" in found.stderr
        with pytest.raises(FarmError, match=f"ended before its OLTs were ready: Error: UDP 127.0.0.1:{port} cannot"):
            start_farm([f"huawei@{port}"])


STATE, RX = f"{XPON}.46.1.15", f"{XPON}.51.1.4"
SYS_UPTIME = ".1.3.6.1.2.1.1.3.0"
# The ports of the farm, by what is wrong with them; 40 ONUs on ports 4194312192, 4194312448 and 4194312704.
SEEDED = "at=1790000000,speed=0.001,seed=7,onus=40"
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
def faulty() -> Iterator[Farm]:
    with start_farm([f"huawei@0,{SEEDED},{fault}" for fault in FAULTS.values()]) as running:
        yield running


@pytest.fixture
def olt(faulty: Farm) -> Callable[..., easysnmp.Session]:
    """A session with the OLT that has this fault."""

    def opened(fault: str, **options: Any) -> easysnmp.Session:
        return session(faulty.ports[list(FAULTS).index(fault)], **({"retries": 0} | options))

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


def test_a_truncating_agent_answers_first_varbinds_of_a_get(faulty: Farm, olt: Callable[..., easysnmp.Session]) -> None:
    oids = [f"{STATE}.{key}" for key in rows(olt("healthy"), STATE)][:8]
    assert ask(faulty.ports[list(FAULTS).index("truncate")], PduType.GET, *oids) == [parse_oid(oid) for oid in oids[:3]]


def test_a_looping_table_answers_the_oid_it_was_asked_for(faulty: Farm, olt: Callable[..., easysnmp.Session]) -> None:
    first = f"{STATE}.{next(iter(rows(olt('healthy'), STATE)))}"
    assert ask(faulty.ports[list(FAULTS).index("loop")], PduType.GETNEXT, first) == [parse_oid(first)]
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
    told, truth = rows(olt("sentinels"), RX), expected(f"huawei@0,{SEEDED},sentinels=0.5")
    assert {one.index for one in truth if one.rx_power is None} == {key for key in told if told[key] == "2147483647"}
    assert rows(olt("sentinels"), STATE) == rows(olt("healthy"), STATE)
    assert 10 < sum(value == "2147483647" for value in told.values()) < 35


def test_a_cpu_sags_under_load_and_recovers_when_left_alone(faulty: Farm) -> None:
    port = faulty.ports[list(FAULTS).index("sag")]
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
