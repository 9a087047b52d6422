"""Unreachable OLTs asked over real UDP under real leases: one datagram each, in parallel, none without a lease."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from redis import Redis
from sqlalchemy.orm import Session

from jobs import claim as claims
from jobs import reviving
from jobs.snmp.discovery import Greeting
from jobs.snmp.simulator.farm import Farm, start_farm
from jobs.snmp.simulator.usm import V3User
from portal import queueing
from portal.domain.statuses import OltState
from portal.extensions import db
from portal.services.dispatch import reachability
from portal.services.network import credentials, olts
from portal.tables import Olt
from testing.builders import make_credential, make_olt
from testing.cast import ACTOR, MINUTE
from testing.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("redis")


class Mute:
    """A port on which nothing ever answers; it keeps what it was sent."""

    def __init__(self, exits: ExitStack) -> None:
        self._socket = exits.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def heard(self) -> int:
        """Datagrams since the last look."""
        number = 0
        while True:
            try:
                self._socket.recv(2000)
            except BlockingIOError:
                return number
            number += 1


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def mute(exits: ExitStack) -> Mute:
    return Mute(exits)


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    user = V3User("nms", auth_protocol="SHA", auth_password="a password of v3")
    with start_farm(["huawei@127.0.0.1:0,onus=1,churn=0", "huawei@127.0.0.1:0,onus=1,churn=0"], v3=user) as running:
        yield running


@pytest.fixture
def redis(server: RedisServer, app: Flask, session: Session) -> Redis:
    connection = queueing.connect(server.url)
    connection.flushall()
    app.extensions["facho-redis"] = connection
    app.config["QUARANTINE_SECONDS"] = 0
    return connection


def dead(name: str, port: int, minutes: float = 5, **fields: object) -> Olt:
    """An OLT that was found unreachable so long ago and is to be asked now."""
    olt = make_olt(name, address="127.0.0.1", port=port, timeout=1, **fields)
    olt.state, olt.consecutive_failures = OltState.UNREACHABLE, 3
    olt.state_since = datetime.now(UTC) - minutes * MINUTE
    olt.probe_at = datetime.now(UTC) - timedelta(seconds=1)
    db.session.commit()
    return olt


def leases(redis: Redis) -> list[bytes]:
    return list(redis.scan_iter(f"{queueing.LEASE_PREFIX}*"))


def test_who_answers_is_up_who_does_not_is_asked_later(redis: Redis, farm: Farm, mute: Mute) -> None:
    make_credential("right", community="public")
    alive = dead("ALIVE", farm.ports[0], credential="right")
    silent = dead("SILENT", mute.port, minutes=60)
    before = datetime.now(UTC)
    reviving.revive()
    assert (alive.state, alive.probe_at) == (OltState.UP, None)
    assert (silent.state, silent.probes_sent, mute.heard()) == (OltState.UNREACHABLE, 1, 1)
    assert silent.probe_at is not None and silent.probe_at - before >= 5 * MINUTE  # a twelfth of the outage
    assert leases(redis) == []
    reviving.revive()
    assert mute.heard() == 0


def test_an_olt_of_version_3_is_found_by_any_answer(farm: Farm, mute: Mute) -> None:
    make_credential("v3", version="3", community=None, username="nobody-knows", auth_protocol="SHA",
                    auth_password="another password")  # fmt: skip
    alive = dead("ALIVE", farm.ports[1], credential="v3")
    silent = dead("SILENT", mute.port, credential="v3")
    reviving.revive()
    assert (alive.state, silent.state, mute.heard()) == (OltState.UP, OltState.UNREACHABLE, 1)


def test_an_olt_that_refuses_its_credential_is_back_once_it_takes_it_and_not_before(farm: Farm) -> None:
    known = {"version": "3", "community": None, "username": "nms", "auth_protocol": "SHA"}
    credential = make_credential("v3", auth_password="not the password", **known)
    olt = dead("REFUSES", farm.ports[1], credential="v3")
    olt.refused = True
    db.session.commit()
    reviving.revive()
    assert (olt.state, olt.probes_sent) == (OltState.UNREACHABLE, 1)
    assert reachability.suspects(datetime.now(UTC), 64) == []
    credentials.save({"auth_password": "a password of v3"}, ACTOR, datetime.now(UTC), credential.id)
    reviving.revive()
    db.session.expire_all()
    assert (olt.state, olt.paused_reason, olt.probe_at) == (OltState.UP, "", None)


@pytest.mark.clock
def test_a_whole_round_takes_no_longer_than_one_silent_olt(exits: ExitStack) -> None:
    """By the clock."""
    mutes = [Mute(exits) for _ in range(20)]
    make_credential("v3", version="3", community=None, username="u", auth_protocol="SHA", auth_password="long enough")
    for number, mute in enumerate(mutes):
        dead(f"OLT-{number}", mute.port, credential=("lab", "v3")[number % 2])
    began = time.monotonic()
    reviving.revive()
    assert time.monotonic() - began < reviving.ROUND_SECONDS  # one after the other: 20 s
    assert [mute.heard() for mute in mutes] == [1] * 20


def test_an_olt_somebody_holds_is_not_asked_and_comes_next_time(redis: Redis, mute: Mute) -> None:
    olt = dead("HELD", mute.port)
    was = olt.probe_at
    mine = claims.hold(redis, olt.id, "a connection test", 30, 0)
    reviving.revive()
    assert (mute.heard(), olt.probes_sent, olt.probe_at) == (0, 0, was)
    assert claims.release(redis, mine)
    reviving.revive()
    assert (mute.heard(), olt.probes_sent) == (1, 1)


def test_nothing_is_sent_and_nothing_breaks_while_redis_is_away(server: RedisServer, mute: Mute) -> None:
    olt = dead("OLT", mute.port)
    server.kill()
    try:
        reviving.revive()
    finally:
        server.start()
    assert (mute.heard(), olt.probes_sent, olt.state) == (0, 0, OltState.UNREACHABLE)
    reviving.revive()
    assert mute.heard() == 1


def test_an_answer_counts_though_the_lease_could_not_be_given_back(
    redis: Redis, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_credential("right", community="public")
    olt = dead("OLT", farm.ports[0], credential="right")

    def gone(*_: object) -> bool:
        raise queueing.RedisError("away")

    monkeypatch.setattr(claims, "release", gone)
    reviving.revive()
    assert olt.state is OltState.UP
    assert 0 < redis.pttl(leases(redis)[0]) <= reviving.LEASE_SECONDS * 1000


def test_the_lease_is_held_while_the_question_is_out(mute: Mute, monkeypatch: pytest.MonkeyPatch) -> None:
    olt = dead("OLT", mute.port)
    seen: list[tuple[int, list[bytes]]] = []
    release = claims.release

    def look(connection: Redis, mine: claims.Claim) -> bool:
        seen.append((mute.heard(), leases(connection)))
        return release(connection, mine)

    monkeypatch.setattr(claims, "release", look)
    reviving.revive()
    assert seen == [(1, [f"{queueing.LEASE_PREFIX}{olt.id}".encode()])]


def test_a_credential_that_cannot_be_used_is_silence(mute: Mute) -> None:
    olt = dead("OLT", mute.port)
    make_credential("lab").community = None
    db.session.commit()
    reviving.revive()
    assert (mute.heard(), olt.state, olt.probes_sent) == (0, OltState.UNREACHABLE, 1)


def test_a_fault_of_ours_with_one_olt_costs_the_others_nothing(
    farm: Farm, mute: Mute, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_credential("right", community="public")
    bad, good = dead("BAD", mute.port), dead("GOOD", farm.ports[0], credential="right")
    bad_id, ask = bad.id, reviving.ask

    def ask_or_break(suspect: reviving.Suspect, *rest: object) -> bool | None:
        if suspect.olt_id == bad_id:
            raise ZeroDivisionError
        return ask(suspect, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(reviving, "ask", ask_or_break)
    reviving.revive()
    assert (bad.state, bad.probes_sent, good.state) == (OltState.UNREACHABLE, 1, OltState.UP)


@pytest.mark.clock
def test_one_that_does_not_come_to_an_end_does_not_hold_up_the_round(
    redis: Redis, mute: Mute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock."""
    olt = dead("OLT", mute.port)
    monkeypatch.setattr(reviving, "ROUND_SECONDS", 0.1)
    began = time.monotonic()
    reviving.revive()
    assert time.monotonic() - began < 0.9
    assert olt.probes_sent == 1
    while leases(redis):  # it ends in its own time, which must not be the next test's
        time.sleep(0.01)


def test_a_pause_that_is_over_ends_in_the_same_round() -> None:
    olt, now = make_olt(), datetime.now(UTC)
    olts.pause([olt.id], "fibre work", now - MINUTE, ACTOR, now - 2 * MINUTE)
    reviving.revive()
    assert olt.state is OltState.UNKNOWN


def test_a_greeting_takes_only_the_answer_to_its_own_question(exits: ExitStack) -> None:
    agent = exits.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    agent.bind(("127.0.0.1", 0))
    greeting = Greeting("127.0.0.1", agent.getsockname()[1])
    exits.callback(greeting.close)
    stranger = exits.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    greeting._socket.bind(("127.0.0.1", 0))
    stranger.sendto(b"hello", greeting._socket.getsockname())
    assert greeting.send(0.2) is False
    question, peer = agent.recvfrom(2000)
    assert question[:5] == bytes((0x30, len(question) - 2, 2, 1, 3))


@pytest.mark.clock
def test_the_longest_wait_is_ours_not_the_olts(mute: Mute) -> None:
    """By the clock."""
    olt = dead("OLT", mute.port)
    olt.timeout = 12.0
    db.session.commit()
    (suspect,) = reachability.suspects(datetime.now(UTC), 1)
    began = time.monotonic()
    assert reviving.ask(suspect, lambda _: claims.Claim(olt.id, "", 1, "x"), lambda _: None) is False
    assert time.monotonic() - began < reviving.LONGEST_WAIT + 0.9


def test_no_datagram_goes_out_under_a_lease_that_has_run_out_meanwhile(mute: Mute) -> None:
    """A process that was frozen while the answer to its hold lay in the socket."""
    olt = dead("OLT", mute.port)
    (suspect,) = reachability.suspects(datetime.now(UTC), 1)
    long_ago = time.monotonic() - reviving.LEASE_SECONDS
    assert reviving.ask(suspect, lambda _: claims.Claim(olt.id, "", 1, "x", long_ago), lambda _: None) is None
    assert mute.heard() == 0
