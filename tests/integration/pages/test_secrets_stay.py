"""No page lets an operator send a stored secret to an address of their choice: every route, against a listener."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session

from jobs.drivers import open_session
from jobs.snmp.errors import SnmpError
from portal import clock
from portal.domain.statuses import Role
from portal.extensions import db
from portal.services.dispatch import work
from portal.services.network import olts
from portal.services.trying import probes
from portal.tables import Credential, Olt, Probe, ProbeStatus
from portal.web import access
from testing import routes
from testing.cast import COMMUNITY
from testing.pages import FORM, Visitor, soup
from testing.web import english, form_values, written

# What takes an OLT's address or credential; the walk below looks at every route and must find these by itself.
PAIRING = {"olts.new", "olts.edit", "olts.import_confirm", "olt_deleted.restore", "probes.create"}
LEAVING = ("auth.", "account.")  # they end the session that the walk needs


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A UDP port on all of loopback: each try has an address of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("0.0.0.0", 0))  # noqa: S104
        heard.setblocking(False)
        yield heard


def _row(session: Session, find: Callable[[Session], int] | None) -> int:
    """The row that a parameter of a URL names; the first where there is none."""
    try:
        return find(session) if find else 1
    except NoResultFound:
        return 1


class Walk:
    """One person at every route that takes a POST, with an address of their own in each field that could be one."""

    def __init__(self, app: Flask, role: Role, listener: socket.socket) -> None:
        self.app, self.role, self.listener = app, role, listener
        self.port = listener.getsockname()[1]
        self.tries = 0

    def sends(self) -> set[str]:
        """The endpoints after which a stored secret went to the listener."""
        return {endpoint for endpoint in self.endpoints() if self.sent_by(endpoint)}

    def endpoints(self) -> list[str]:
        roles = access.declared(self.app)
        found = {rule.endpoint for rule in self.app.url_map.iter_rules() if "POST" in (rule.methods or ())}
        allowed = (Role.OPERATOR, Role.VIEWER)
        kept = (one for one in found if roles[one] in allowed and not one.startswith(LEAVING))
        return sorted(kept, key=lambda one: (one.endswith("delete"), one))  # what is deleted cannot be edited any more

    def sent_by(self, endpoint: str) -> bool:
        self.tries += 1
        person = english(self.app, self.role.value)
        for path in self.paths(endpoint):
            if endpoint.startswith("api."):
                headers = {"X-CSRFToken": person.token}
                person.client.post(path, json=self.given(), headers=headers)
            else:
                self.post(person, endpoint, path)
        return self.heard()

    def paths(self, endpoint: str) -> Iterator[str]:
        with self.app.app_context():
            session = db.session()
            for rule in self.app.url_map.iter_rules(endpoint):
                finders = routes.PARAMETERS | routes.OWN.get(endpoint, {})
                values = {name: _row(session, finders.get(name)) for name in rule.arguments}
                yield str(self.app.url_map.bind("localhost").build(endpoint, values, "POST"))

    def post(self, person: Visitor, endpoint: str, path: str) -> None:
        """The page's own form with the address in it, then once more with every field that there could be."""
        if endpoint == "olts.import_confirm":
            shown = person.post("/olts/import", text=self.given()["text"])
            mark = soup(shown).select_one("#import [name=mark]")
            person.post(path, text=self.given()["text"], mark=str(mark["value"]) if mark else "")
            return
        page = person.get(path)
        if page.status_code == 200 and soup(page).select_one(FORM):
            form = form_values(page, FORM)
            person.post(path, **form | {name: value for name, value in self.given().items() if name in form})
        person.post(path, **self.given())

    def given(self) -> dict[str, Any]:
        address, name = f"127.0.9.{self.tries}", f"OLT-EVIL-{self.tries}"
        head = "name,address,port,brand,model,credential\n"
        return {
            "name": name, "device": "huawei/MA5800", "brand": "huawei", "model": "MA5800", "address": address,
            "host": address, "port": self.port, "credential": 1, "credential_id": 1, "credential_confirmed": "y",
            "timeout": 1, "retries": 0, "max_repetitions": 20, "max_varbinds": 50, "max_inflight": 2, "enabled": "1",
            "text": f"{head}{name},{address},{self.port},huawei,MA5800,lab\n", "olt": 1, "olts": "1", "oid": "1.3.6.1",
            "networks": "0.0.0.0/0", "target": f"{address}:{self.port}", "reason": "x",
        }  # fmt: skip

    def heard(self) -> bool:
        """Whether the secret arrives when all that is stored now is asked, as the jobs would ask it."""
        with self.app.app_context():
            session = db.session()
            session.execute(update(Probe).values(status=ProbeStatus.PENDING))
            session.commit()
            here = Olt.address.startswith("127.0.9."), Probe.address.startswith("127.0.9.")
            asked = [work.target_of(olt, olt.credential) for olt in session.scalars(select(Olt).where(here[0]))]
            waiting = session.scalars(select(Probe.id).where(here[1])).all()
            asked += [started.target for one in waiting if (started := probes.start(one))]
            for target in asked:
                try:
                    with closing(open_session(target)) as opened:
                        opened.get(["1.3.6.1.2.1.1.1.0"])
                except SnmpError:
                    continue
            arrived = self.datagrams()
            session.query(Probe).filter(here[1]).delete(synchronize_session=False)
            session.execute(update(Olt).where(here[0]).values(address="10.1.1." + str(self.tries)))
            session.commit()
        return any(COMMUNITY.encode() in one for one in arrived)

    def datagrams(self) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(self.listener.recv(2000))
            except BlockingIOError:
                return found


@pytest.fixture
def guarded(seeded: Flask) -> Flask:
    """OLTs that an administrator gave a credential which may be sent nowhere else; one of them was deleted."""
    with seeded.app_context():
        olts.delete(2, "sold", "ada", clock.now())
    with written(seeded) as session:
        session.execute(update(Credential).values(networks=""))
        session.execute(update(Olt).values(credential_approved=True))
    return seeded


def test_no_route_sends_a_secret_that_the_operator_did_not_type(guarded: Flask, listener: socket.socket) -> None:
    walk = Walk(guarded, Role.OPERATOR, listener)
    assert walk.sends() == set()
    assert walk.tries > 40


def test_the_same_walk_by_an_administrator_finds_every_way_there_is(guarded: Flask, listener: socket.socket) -> None:
    assert Walk(guarded, Role.ADMIN, listener).sends() == PAIRING
