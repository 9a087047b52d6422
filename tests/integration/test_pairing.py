"""A secret goes only where an administrator said: what is decided when it is paired, and what holds when it is sent."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.drivers import DRIVERS
from jobs.snmp.errors import SnmpError, SnmpUnreachable
from portal.domain import addresses
from portal.domain.composite import SnmpTarget
from portal.domain.fields import FieldError
from portal.services import pairing
from portal.services.dispatch import work
from portal.services.network import credentials, olts
from portal.services.pairing import Leave
from portal.services.trying import aims, probes
from portal.tables import AuditLog, Credential, Olt, Probe
from testing.builders import make_catalogue, make_credential, make_olt
from testing.cast import ACTOR, NOW
from testing.refusals import errors_of

GIVEN = {"name": "OLT-NEW", "address": "10.9.0.1", "brand": "huawei", "credential": "lab"}


@pytest.fixture(autouse=True)
def stocked(session: Session) -> None:
    make_catalogue()
    make_credential("lab", networks="10.20.0.0/16, fd00::/8")


def leave(session: Session, address: str, *, networks: str = "10.20.0.0/16, fd00::/8", **more: Any) -> Leave | None:
    """None: it may not be sent there."""
    given = {"port": 161, "by_admin": False} | more
    try:
        return pairing.decide(session, make_credential("lab"), networks, address, **given)
    except FieldError:
        return None


DECIDED: list[tuple[str, dict[str, Any], Leave | None]] = [
    ("10.20.7.7", {}, Leave.WITHIN),
    ("10.20.7.7", {"port": 9}, Leave.WITHIN),
    ("fd12::1", {}, Leave.WITHIN),
    ("olt.example", {}, Leave.WITHIN),  # what it stands for is checked when it is looked up
    ("10.21.0.1", {}, None),
    ("127.0.0.1", {}, None),
    ("fe80::1", {}, None),
    ("10.21.0.1", {"by_admin": True}, Leave.GRANTED),
    ("10.20.7.7", {"by_admin": True}, Leave.WITHIN),
    ("10.20.7.7", {"networks": ""}, None),
    ("olt.example", {"networks": ""}, None),
    ("olt.example", {"networks": "", "by_admin": True}, Leave.GRANTED),
    ("10.9.9.9", {}, Leave.APPROVED),  # an OLT has it there
    ("10.9.9.9", {"port": 1161}, None),
]


@pytest.mark.parametrize(("address", "given", "decided"), DECIDED)
def test_where_a_credential_may_be_sent(
    session: Session, address: str, given: dict[str, Any], decided: Leave | None
) -> None:
    olts.create(GIVEN | {"address": "10.9.9.9"}, ACTOR, NOW, by_admin=True)
    assert leave(session, address, **given) is decided


def test_what_an_administrator_approved_stays_with_the_olt_and_is_told(session: Session) -> None:
    assert errors_of(olts.create, GIVEN, ACTOR, NOW).keys() == {"address"}
    olt = session.get_one(Olt, olts.create(GIVEN, ACTOR, NOW, by_admin=True))
    told = session.scalars(select(AuditLog).where(AuditLog.action == "credential.approve")).one()
    assert (told.actor, told.subject_name, told.changes["address"], told.changes["port"]) == (
        ACTOR, "lab", "10.9.0.1", 161
    )  # fmt: skip
    olts.update(olt.id, {"name": "OLT-RENAMED", "timeout": 3}, ACTOR, NOW)
    assert work.target_of(olt, olt.credential).secret_networks is None
    olts.delete(olt.id, "sold", ACTOR, NOW)
    olts.restore(olt.id, ACTOR, NOW)
    assert olt.credential_approved
    olts.update(olt.id, {"address": "10.20.0.9"}, ACTOR, NOW)
    assert work.target_of(olt, olt.credential).secret_networks == ("10.20.0.0/16", "fd00::/8")
    assert errors_of(olts.update, olt.id, {"address": "10.9.0.1"}, ACTOR, NOW).keys() == {"address"}


def test_another_credential_is_another_question(session: Session) -> None:
    make_credential("secret", networks="")
    olt = make_olt(address="10.20.0.9")
    assert errors_of(olts.update, olt.id, {"credential": "secret"}, ACTOR, NOW).keys() == {"address"}
    olts.update(olt.id, {"credential": "secret"}, ACTOR, NOW, by_admin=True)
    assert olt.credential.name == "secret"


def test_who_types_the_secret_needs_nobody(session: Session) -> None:
    typed = {**GIVEN, "credential": "", "community": "typed-here"}
    olt = session.get_one(Olt, olts.create(typed, ACTOR, NOW))
    target = work.target_of(olt, olt.credential)
    assert (olt.credential.name, target.community, target.secret_networks) == ("OLT-NEW", "typed-here", None)
    assert leave(session, "10.9.0.1") is None, "it is approved for that credential alone"
    olts.update(olt.id, {"address": "10.9.0.2", "community": "typed-again"}, ACTOR, NOW)
    assert (olt.credential.name, olt.credential.community) == ("OLT-NEW 2", "typed-again")
    assert "typed" not in str([row.changes for row in session.scalars(select(AuditLog))])


def test_a_connection_test_asks_the_same_question_and_leaves_a_row(session: Session) -> None:
    lab = make_credential("lab")
    given: dict[str, Any] = {"port": 161, "credential_id": lab.id, "timeout": 1.0, "retries": 0, "now": NOW}
    assert errors_of(probes.request, address="10.9.0.1", actor="olga", **given).keys() == {"address"}
    probes.request(address="10.20.0.1", actor="olga", **given)
    probes.request(address="10.9.0.1", actor="ada", by_admin=True, **given)
    probes.of_olt(make_olt("OLT-OLD", address="10.20.0.3").id, "olga", NOW)
    rows = session.scalars(select(AuditLog).where(AuditLog.action == "probe.create").order_by(AuditLog.id)).all()
    told = [(row.actor, row.subject_name, row.changes["credential"], row.changes["address"]) for row in rows]
    assert told == [
        ("olga", "10.20.0.1:161", "lab", "10.20.0.1"),
        ("ada", "10.9.0.1:161", "lab", "10.9.0.1"),
        ("olga", "OLT-OLD", "lab", "10.20.0.3"),
    ]
    approved = session.scalars(select(Probe.credential_approved).order_by(Probe.id)).all()
    assert approved == [False, True, False]


def test_a_command_line_may_and_says_so(session: Session) -> None:
    assert aims.with_credential("lab", "10.20.0.1", 161, NOW).secret_networks == ("10.20.0.0/16", "fd00::/8")
    assert aims.with_credential("lab", "10.9.0.1", 161, NOW).secret_networks is None
    rows = session.scalars(select(AuditLog).where(AuditLog.action == "credential.approve")).all()
    assert [(row.actor, row.changes["address"]) for row in rows] == [("cli", "10.9.0.1")]


NETWORKS = {
    "": "",
    " 10.0.0.0/8 ,192.168.0.0/16;10.0.0.0/8\n": "10.0.0.0/8, 192.168.0.0/16",
    "10.0.0.5": "10.0.0.5/32",
    "FD00::/8": "fd00::/8",
    "10.0.0.1/8": None,
    "olt.example": None,
    "10.0.0.0/33": None,
}


@pytest.mark.parametrize("text", NETWORKS)
def test_networks_are_read_or_refused(session: Session, text: str) -> None:
    lab = make_credential("lab")
    if NETWORKS[text] is None:
        assert errors_of(credentials.save, {"networks": text}, ACTOR, NOW, lab.id).keys() == {"networks"}
    else:
        credentials.save({"networks": text}, ACTOR, NOW, lab.id)
        assert lab.networks == NETWORKS[text]


def test_a_version_3_credential_keeps_its_networks(session: Session) -> None:
    given = {"name": "three", "version": "3", "username": "facho", "networks": "10.0.0.0/8"}
    saved = session.get_one(Credential, credentials.save(given, ACTOR, NOW))
    assert saved.networks == "10.0.0.0/8"


# ------------------------------------------------------------------------------------------------------ when it is sent


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A UDP port on loopback that hears what would be sent there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.setblocking(False)
        yield heard


def target(address: str, heard: socket.socket, networks: tuple[str, ...] | None) -> SnmpTarget:
    port = heard.getsockname()[1]
    return SnmpTarget(
        address, port, "2c", community="planted", timeout=0.2, retries=0, secret_networks=networks
    )  # fmt: skip


@pytest.mark.parametrize("driver", sorted(DRIVERS))
@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "olt.example"])
@pytest.mark.parametrize("networks", [(), ("10.0.0.0/8",), ("10.0.0.0/8", "127.0.0.2/32", "::1/128")])
def test_no_datagram_leaves_for_what_stands_outside_the_networks(
    driver: str, address: str, networks: tuple[str, ...], listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_for_loopback(monkeypatch)
    with pytest.raises(SnmpUnreachable, match="outside the networks that its credential may be sent to"):
        DRIVERS[driver](target(address, listener, networks))
    with pytest.raises(BlockingIOError):
        listener.recv(2000)


@pytest.mark.parametrize("driver", sorted(DRIVERS))
@pytest.mark.parametrize("networks", [("127.0.0.0/8",), None])
def test_within_them_or_where_it_is_approved_it_leaves(
    driver: str, networks: tuple[str, ...] | None, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_for_loopback(monkeypatch)
    with closing(DRIVERS[driver](target("olt.example", listener, networks))) as opened, pytest.raises(SnmpError):
        opened.get(["1.3.6.1.2.1.1.1.0"])
    assert b"planted" in listener.recv(2000)


def stands_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """olt.example and localhost are 127.0.0.1."""
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        return real("127.0.0.1" if host in ("olt.example", "localhost") else host, port, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_a_bigger_network_of_the_setting_does_not_widen_those_of_a_credential(app: Flask, session: Session) -> None:
    app.config["OLT_NETWORKS"] = ("0.0.0.0/0",)
    olt = make_olt(address="10.20.0.9")
    sent = work.target_of(olt, olt.credential)
    assert (sent.networks, sent.secret_networks) == (("0.0.0.0/0",), addresses.listed("10.20.0.0/16, fd00::/8"))
