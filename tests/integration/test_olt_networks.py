"""No datagram leaves for an address outside OLT_NETWORKS, however it is spelled, by either driver."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from jobs import drivers, reviving
from jobs.drivers import DRIVERS
from jobs.snmp.errors import SnmpError
from portal.domain import addresses
from portal.domain.composite import SnmpTarget
from portal.domain.fields import FieldError
from portal.services.dispatch import work
from portal.services.dispatch.reachability import Suspect
from portal.services.trying import probes
from portal.tables import Olt, Probe, ProbeStatus
from testing import builders, seed
from testing.cast import NOW
from testing.web import english

pytestmark = pytest.mark.integration

NETWORKS = ("10.0.0.0/8",)
SPELLED = [
    "127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
    "127.0.0.1.", " 127.0.0.1 ", "[127.0.0.1]", "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1",
    "::ffff:7f00:1", "[::ffff:127.0.0.1]", "0.0.0.0", "0", "::", "localhost", "LOCALHOST", "localhost.", "Localhost",  # noqa: S104
    "ip6-localhost", "ip6-loopback", "localhost.localdomain", "127.0.0.1:161",
]  # fmt: skip
NAMED = [
    "olt.example", "olt-7.noc.example", "a.b.c.d.example", "xn--olt-ica.example", "127-0-0-1.example", "router",
    "olt_9.example", "gw.example.", "OLT.Example", "rebind.example", "db.internal",
]  # fmt: skip


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A UDP port on all of loopback, IPv6 too, that hears what would be sent there."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
        heard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        heard.bind(("::", 0))
        heard.setblocking(False)
        yield heard


def names_stand_for_loopback(monkeypatch: pytest.MonkeyPatch, *, first: str = "127.0.0.1") -> None:
    """A resolver that knows NAMED; it says `first` when it is asked for the first time, then 127.0.0.1."""
    real, asked = socket.getaddrinfo, set[Any]()

    def look_up(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if host not in NAMED:
            return real(host, port, *rest, **named)
        numeric = "127.0.0.1" if host in asked else first
        asked.add(host)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (numeric, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def ask(driver: str, address: str, port: int) -> None:
    target = SnmpTarget(address, port, "2c", community="planted", timeout=0.2, retries=0, networks=NETWORKS)
    session = DRIVERS[driver](target)
    try:
        session.get(["1.3.6.1.2.1.1.1.0"])
    finally:
        session.close()


@pytest.mark.parametrize("driver", sorted(DRIVERS))
def test_forty_names_and_spellings_of_loopback_get_no_datagram(
    driver: str, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_stand_for_loopback(monkeypatch)
    assert len(SPELLED + NAMED) == 40
    for address in SPELLED + NAMED:
        with pytest.raises(SnmpError):
            ask(driver, address, listener.getsockname()[1])
    with pytest.raises(BlockingIOError):
        listener.recv(2000)


@pytest.mark.parametrize("driver", sorted(DRIVERS))
def test_a_name_that_means_another_address_the_second_time_is_asked_where_it_was_looked_up(
    driver: str, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_stand_for_loopback(monkeypatch, first="10.255.255.1")
    with pytest.raises(SnmpError):
        ask(driver, "rebind.example", listener.getsockname()[1])
    with pytest.raises(BlockingIOError):
        listener.recv(2000)


@pytest.mark.parametrize("driver", sorted(DRIVERS))
def test_what_is_refused_names_the_address_and_the_setting(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names_stand_for_loopback(monkeypatch)
    with pytest.raises(SnmpError, match=r"olt\.example stands for 127\.0\.0\.1.*OLT_NETWORKS.*10\.0\.0\.0/8"):
        ask(driver, "olt.example", 161)


def test_no_spelling_of_an_address_outside_passes_the_form() -> None:
    passed = []
    for given in SPELLED:
        try:
            address = addresses.normalise(given)
            addresses.check_networks(address, NETWORKS)
        except FieldError:
            continue
        passed.append(address)
    assert set(passed) <= {"localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain"}


def test_forty_names_and_spellings_in_forms_and_tests_lead_to_no_datagram(
    app: Flask, session: Session, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_stand_for_loopback(monkeypatch)
    app.config["OLT_NETWORKS"] = NETWORKS
    seed.add_users(NOW)
    builders.make_catalogue()
    lab = builders.make_credential()
    person = english(app, "admin")
    given = {"port": listener.getsockname()[1], "credential": lab.id, "device": "huawei/MA5800", "timeout": 0.2,
             "retries": 0, "max_repetitions": 20, "max_varbinds": 50, "max_inflight": 2}  # fmt: skip
    for number, address in enumerate(SPELLED + NAMED):
        person.post("/probes/", address=address, **given)
        person.post("/olts/new", address=address, name=f"OLT-{number}", **given)
    session.execute(update(Probe).values(status=ProbeStatus.PENDING))  # without a queue each has failed
    session.commit()
    asked = [work.target_of(olt, olt.credential) for olt in session.scalars(select(Olt))]
    asked += [one.target for ident in session.scalars(select(Probe.id)).all() if (one := probes.start(ident))]
    assert len(asked) > 2 * len(NAMED), "names are let pass, and looked up when they are asked"
    for target in asked:
        with pytest.raises(SnmpError):
            drivers.open_session(target)
    with pytest.raises(BlockingIOError):
        listener.recv(2000)


def test_an_unreachable_olt_of_version_3_is_not_greeted_outside_them(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_stand_for_loopback(monkeypatch)
    for address in ("127.0.0.1", "::1", "localhost", "olt.example"):
        target = SnmpTarget(address, listener.getsockname()[1], "3", username="u", timeout=0.2, networks=NETWORKS)
        assert reviving.ask(Suspect(1, target), lambda _olt: None, lambda _claim: None) is False
    with pytest.raises(BlockingIOError):
        listener.recv(2000)
