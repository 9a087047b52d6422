"""Simulated OLTs as a manager meets them: real agents in a process of their own, easysnmp as the client."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import easysnmp
import pytest

from jobs.snmp.simulator.farm import Farm, FarmError, start_farm
from jobs.snmp.simulator.usm import V3User

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
