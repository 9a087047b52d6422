"""Both drivers against real agents over UDP, by one contract: every answer and every failure in our own words.

Where gufo-snmp cannot tell, it says so and its exact session is asked: `clearly` does what the walker and getter do.
"""

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from flask import Flask

from jobs import drivers, poller
from jobs.drivers import DRIVERS
from jobs.snmp.easysnmp_driver import EasySnmpSession
from jobs.snmp.errors import (
    SnmpAuthError,
    SnmpBadOid,
    SnmpDeviceError,
    SnmpEngineRestarted,
    SnmpError,
    SnmpNoSuchObject,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnclear,
    SnmpUnreachable,
)
from jobs.snmp.getting import PROBE_OID, get_many
from jobs.snmp.gufo_driver import GufoSession
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import SessionFactory, SnmpSession, SnmpType, VarBind
from jobs.snmp.walking import walk
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.readings import ValueSpec, ValueType
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason
from portal.domain.statuses import StepStatus as Step
from portal.domain.table_sizes import GET, learn, table_of
from testing import oltsim_c
from testing.oltsim_c import DESCRIPTION, DISTANCE, MODEL, RUN_STATE, SERIAL, key_of
from testing.versatile_agent import (
    BIG,
    CONTEXT,
    GENERR,
    HUGE,
    HUGE_OID,
    PASSWORDS,
    SYS,
    VALUES,
    VersatileAgent,
    versatile_agent,
)

pytestmark = pytest.mark.integration

ABSENT = "1.3.6.1.2.1.55.0"
SEALED = {"priv_protocol": "AES", "priv_password": PASSWORDS[1]}
LEVELS = [("plain", {"auth": ""}), ("signed", {}), ("md5", {"auth": "MD5"}), ("sealed", SEALED)]


@pytest.fixture(params=sorted(DRIVERS))
def open_session(request: pytest.FixtureRequest) -> SessionFactory:
    """Each driver in turn: a test that uses it holds for both."""
    return DRIVERS[request.param]


@pytest.fixture(scope="module")
def huge() -> Iterator[int]:
    with oltsim_c.oltsim(onus=1024) as port:
        yield port


@pytest.fixture(scope="module")
def two_one_dead() -> Iterator[int]:
    """Two OLTs that cut or refuse answers above 1,400 octets; the second is dead."""
    with oltsim_c.oltsim("--max-pdu", "1400", "--dead", "1-1", olts=2, onus=256) as port:
        yield port


@pytest.fixture(scope="module")
def agent() -> Iterator[VersatileAgent]:
    with versatile_agent() as running:
        yield running


@pytest.fixture
def versatile(agent: VersatileAgent) -> int:
    return agent.port


def clearly(session: SnmpSession, ask: Callable[[SnmpSession], list[VarBind]]) -> list[VarBind]:
    """One request, and once more to the exact session where the driver cannot tell."""
    try:
        return ask(session)
    except SnmpUnclear:
        return ask(session.exact)


def gets(session: SnmpSession, names: Sequence[str]) -> list[VarBind]:
    """GET of these names, the doubtful ones asked exactly, in the order of the names."""
    found = {bind.oid: bind for bind in clearly(session, lambda s: s.get(names))}
    rest = [name for name in names if name not in found]
    if rest:
        found |= {bind.oid: bind for bind in session.exact.get(rest)}
    return [found[name] for name in names if name in found]


def target(port: int, **settings) -> SnmpTarget:
    return replace(SnmpTarget("127.0.0.1", port, "2c", community="public", timeout=2.0, retries=1), **settings)


def silent(port: int, **settings) -> SnmpTarget:
    """A target whose time-outs are awaited: short ones."""
    return target(port, **({"timeout": 0.15, "retries": 1} | settings))


def v3(port: int, user: str, auth="SHA", auth_password=PASSWORDS[0], **privacy: str) -> SnmpTarget:
    named = {"username": user, "auth_protocol": auth, "auth_password": auth_password}
    return SnmpTarget("127.0.0.1", port, "3", timeout=2.0, **named, **privacy)


def limits(**settings) -> dict:
    return {"deadline": time.monotonic() + 60, "checkpoint": lambda: None, "clock": time.monotonic} | settings


def walked(session, *roots, max_repetitions=50, **settings):
    return walk(session, roots, max_repetitions=max_repetitions, max_rows=100_000, **(limits() | settings))


def instances(column: str, count: int) -> list[str]:
    return [f"{column}.{key_of(onu)}" for onu in range(count)]


def expected_serial(onu: int) -> bytes:
    return b"HWTC" + bytes((0x9F * (k + 1) + onu * 7 + (onu >> (2 * k))) & 0xFF for k in range(4))


def test_a_walk_reads_the_raw_octets_of_1024_serials(open_session, huge):
    with closing(open_session(target(huge))) as session:
        result = walked(session, SERIAL)
    assert result.complete and result.timeouts == 0 and result.pdus <= 22  # the first is of one frame
    got = list(result.columns[0].rows)
    assert got == [(key_of(onu), expected_serial(onu)) for onu in range(1024)]
    assert any(byte >= 0x80 for _, value in got for byte in value)


def test_columns_are_walked_side_by_side(open_session, huge):
    with closing(open_session(target(huge))) as session:
        result = walked(session, RUN_STATE, DISTANCE, DESCRIPTION)
    assert result.complete and [len(column.rows) for column in result.columns] == [1024] * 3
    assert result.columns[0].rows[17][1] == 2 and result.columns[1].rows[17][1] == -1
    assert result.columns[2].rows[1023][1] == b"CLI-10001023"


def test_two_hundred_instances_are_read_in_packed_requests(open_session, huge):
    with closing(open_session(target(huge))) as session:
        asked = instances(SERIAL, 200)
        result = get_many(session, asked, max_varbinds=50, **limits())
    assert result.pdus == 5 and list(result.values) == asked and not result.failed
    assert [bind.value for bind in result.values.values()] == [expected_serial(onu) for onu in range(200)]


def test_version_1_walks_by_getnext_and_reads_the_same(open_session, huge):
    with closing(open_session(target(huge, version="1"))) as session:
        (column,) = walked(session, MODEL).columns
    assert column.complete and len(column.rows) == 1024


def test_a_get_that_is_too_big_is_divided_until_it_fits(open_session, two_one_dead):
    with closing(open_session(target(two_one_dead))) as session:
        with pytest.raises(SnmpTooBig):
            gets(session, instances(SERIAL, 100))
        result = get_many(session, instances(SERIAL, 256), max_varbinds=100, **limits())
    assert len(result.values) == 256 and not result.failed and 25 <= result.batch_size < 40


def test_answers_cut_to_the_size_of_a_message_lose_no_row(open_session, two_one_dead):
    with closing(open_session(target(two_one_dead))) as session:
        result = walked(session, SERIAL, DESCRIPTION)
    assert result.complete and result.rows == 512 and result.pdus > 11


@pytest.mark.clock
def test_silence_is_a_time_out_that_says_what_to_check_and_no_secret(open_session, two_one_dead):
    """By the clock: the time-out is as long as was asked for."""
    wrong = silent(two_one_dead, community="wr0ng-c0mmunity")
    for place in (wrong, silent(two_one_dead + 1), silent(_closed_port())):
        session, started = open_session(place), time.monotonic()
        with pytest.raises(SnmpTimeout) as caught:
            session.get([PROBE_OID])
        took = time.monotonic() - started
        session.close()
        refused = isinstance(session, GufoSession) and place.port not in (two_one_dead, two_one_dead + 1)
        assert took < place.timeout * (place.retries + 1) + 1.0
        assert refused or took >= place.timeout * (place.retries + 1)
        assert str(place.port) in str(caught.value) and "community" in str(caught.value)
        assert "access list" in str(caught.value) and "wr0ng" not in str(caught.value)


def test_a_name_or_address_that_leads_nowhere_is_unreachable(open_session):
    for address in ("no-such-host.invalid", "999.1.1.1", "", " ", "tcp:127.0.0.1", "/tmp/socket"):
        with pytest.raises(SnmpUnreachable):
            open_session(replace(target(161), address=address))
    with pytest.raises(SnmpUnreachable):
        open_session(target(0))


def test_an_ipv6_address_is_not_taken_apart(open_session, versatile):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("IPv6 absent on this machine")
    with closing(open_session(silent(versatile, address="::1", retries=0))) as session:
        with pytest.raises(SnmpTimeout, match="::1"):
            session.get([PROBE_OID])


def test_every_type_arrives_as_what_it_is(open_session, versatile):
    with closing(open_session(target(versatile))) as session:
        binds = gets(session, [f"{SYS}.{arc}.0" for arc in VALUES])
        exact = session.exact.get([f"{SYS}.{arc}.0" for arc in VALUES])
    assert [bind.value for bind in binds] == [bind.value for bind in exact]
    assert [(bind.type, bind.value) for bind in exact] == [
        (SnmpType.OCTETS, b"a\x00\x80\xff\n"),
        (SnmpType.OID, "1.3.6.1.4.1.2011.2.248"),
        (SnmpType.TIME_TICKS, 4294967295),
        (SnmpType.IP_ADDRESS, "10.0.0.1"),
        (SnmpType.INTEGER, -2147483648),
        (SnmpType.COUNTER64, 2**64 - 1),
        (SnmpType.GAUGE32, 2**32 - 1),
        (SnmpType.OCTETS, b""),
        (SnmpType.OCTETS, BIG),
        (SnmpType.COUNTER32, 3000000000),
    ]
    assert [bind.oid for bind in binds] == [f"{SYS}.{arc}.0" for arc in VALUES]


def test_long_octets_arrive_whole_from_a_walk(open_session, versatile):
    with closing(open_session(target(versatile))) as session:
        (bind,) = session.next_rows([f"{SYS}.8.0"], 1)
        assert bind.value == BIG
        assert BIG in [bind.value for bind in session.next_rows([SYS], 10)]


def test_an_answer_larger_than_a_driver_can_hold_is_read_all_the_same(open_session, versatile):
    with closing(open_session(target(versatile))) as session:
        result = get_many(session, [PROBE_OID, HUGE_OID], max_varbinds=10, **limits())
    assert result.values[HUGE_OID].value == HUGE and result.values[PROBE_OID].value == 4294967295


def test_the_three_ways_to_have_no_value_are_told_apart(open_session, versatile):
    with closing(open_session(target(versatile))) as session:
        present, instance, nothing = gets(session, [f"{SYS}.3.0", f"{SYS}.77.0", ABSENT])
        (end,) = clearly(session, lambda s: s.next_rows([ABSENT], 5))[:1]
    assert not present.missing
    assert (instance.type, instance.value) == (SnmpType.NO_SUCH_INSTANCE, None)
    assert (nothing.type, nothing.value) == (SnmpType.NO_SUCH_OBJECT, None)
    assert end.type is SnmpType.END_OF_MIB_VIEW and end.oid == ABSENT


def test_version_1_says_only_that_a_name_is_missing(open_session, versatile):
    with closing(open_session(target(versatile, version="1"))) as session:
        assert session.get([ABSENT])[0].type is SnmpType.NO_SUCH_OBJECT
        assert session.next_rows([ABSENT], 10)[0].type is SnmpType.END_OF_MIB_VIEW
        with pytest.raises(SnmpNoSuchObject):
            gets(session, [PROBE_OID, ABSENT])
        result = get_many(session, [PROBE_OID, ABSENT], max_varbinds=10, **limits())
    assert result.values[PROBE_OID].value == 4294967295 and result.values[ABSENT].missing and not result.failed


def test_an_error_status_of_the_device_is_a_device_error(open_session, versatile):
    with closing(open_session(target(versatile))) as session:
        with pytest.raises(SnmpDeviceError, match="genErr") as caught:
            gets(session, [PROBE_OID, GENERR])
        assert caught.value.place == 1
        result = get_many(session, [PROBE_OID, GENERR], max_varbinds=10, **limits())
    assert result.failed == {GENERR: ErrorKind.DEVICE} and PROBE_OID in result.values


@pytest.mark.parametrize(
    "text", ["", "garbage", "1.3.6..1", "1.3.6.1.2.1.1.1.0 ; x", "1.3.6.1.99999999999999", "sysDescr.0"]
)
def test_what_is_no_oid_never_reaches_the_library(open_session, versatile, text):
    with closing(open_session(target(versatile))) as session:
        with pytest.raises(SnmpBadOid):
            session.get([PROBE_OID, text])
        with pytest.raises(SnmpBadOid):
            session.next_rows([text], 5)
        assert session.get([]) == session.next_rows([], 5) == []


@pytest.mark.parametrize(("user", "level"), LEVELS)
def test_version_3_reads_at_every_security_level(open_session, versatile, user, level):
    with closing(open_session(v3(versatile, user, **level))) as session:
        assert session.get([PROBE_OID])[0].value == 4294967295
        assert len(session.next_rows([SYS], 5)) == 5


def test_a_wrong_version_3_credential_is_an_auth_error_without_the_password(open_session, versatile):
    wrong = [
        v3(versatile, "nobody", auth=""),
        v3(versatile, "signed", auth_password="wr0ng-password"),
        v3(versatile, "signed", auth="MD5"),
        v3(versatile, "sealed", priv_protocol="AES", priv_password="wr0ng-password"),
    ]
    for place in wrong:
        session = open_session(place)
        with pytest.raises(SnmpAuthError) as caught:
            session.get([PROBE_OID])
        session.close()
        assert "credential" in str(caught.value)
        assert not any(secret in str(caught.value) for secret in (*PASSWORDS, "wr0ng"))


def test_a_credential_that_cannot_be_used_is_refused_before_anything_is_sent(open_session, versatile):
    unusable = [
        target(versatile, community=""),
        target(versatile, version="4"),
        v3(versatile, ""),
        v3(versatile, "signed", auth_password="short"),
        v3(versatile, "signed", auth="ROT13"),
        v3(versatile, "sealed", priv_protocol="ROT13", priv_password=PASSWORDS[1]),
        v3(versatile, "sealed", auth="", priv_protocol="AES", priv_password=PASSWORDS[1]),
    ]
    for place in unusable:
        with pytest.raises(SnmpAuthError):
            open_session(place)


def test_no_file_descriptor_is_left_after_two_hundred_sessions(open_session, huge):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    open_session(target(huge)).close()
    before = descriptors()
    for turn in range(200):
        session = open_session(silent(_closed_port(), timeout=0.01, retries=0) if turn % 20 == 0 else target(huge))
        try:
            session.get([PROBE_OID])
            session.next_rows([SERIAL], 10)
        except SnmpTimeout:
            pass
        session.close()
        session.close()
    assert descriptors() == before


def test_quirk_16_a_session_is_of_no_use_when_closed_or_in_another_thread(open_session, huge):
    session, caught = open_session(target(huge)), []

    def use() -> None:
        try:
            session.get([PROBE_OID])
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(10)
    session.close()
    use()
    assert len(caught) == 2


@pytest.mark.parametrize(("user", "level"), LEVELS[1:])
def test_quirk_51_an_engine_that_starts_over_is_read_again_whether_it_counts_boots(open_session, agent, user, level):
    place = replace(v3(agent.port, user, **level), timeout=0.3, retries=1)
    with closing(PatientSession(open_session, place, lambda: None)) as session:
        for boots, seconds in ((9, 5000), (10, 0), (3, 0), (3, 0)):
            agent.restart(boots=boots, seconds=seconds)
            before = session.repeats
            assert session.get([PROBE_OID])[0].value == 4294967295
            assert session.repeats - before <= 1


def test_quirk_51_an_engine_that_is_another_one_every_time_is_an_auth_error_after_one_more_try():
    class Restless:
        columns_per_request, parallel, repeats, asked = 50, False, 0, 0

        def get(self, oids):
            self.asked += 1
            raise SnmpEngineRestarted("not in time window")

    session = Restless()
    with pytest.raises(SnmpAuthError):
        PatientSession(lambda _target: session, v3(161, "signed"), lambda: None).get([PROBE_OID])
    assert session.asked == 2


@pytest.mark.parametrize("ahead", [149, 151, 100_000])
def test_quirk_52_a_session_goes_on_when_the_engine_has_grown_older_than_it_believes(open_session, agent, ahead):
    agent.restart(boots=20, seconds=100)
    place = replace(v3(agent.port, "signed"), timeout=0.3, retries=1)
    with closing(PatientSession(open_session, place, lambda: None)) as session:
        assert session.get([PROBE_OID])
        agent.restart(boots=20, seconds=100 + ahead)
        assert session.get([PROBE_OID])[0].value == 4294967295


def test_quirk_53_a_table_that_needs_a_context_is_read_in_it(open_session, versatile):
    with closing(open_session(replace(v3(versatile, "inner", auth=""), context=CONTEXT))) as session:
        assert session.get([f"{SYS}.1.0"])[0].value == b"the switch's own tree"


@pytest.mark.parametrize("forge", ["signature", "level"])
def test_an_answer_that_was_not_signed_with_the_key_is_not_believed(open_session, versatile, forge):
    with forger(versatile, forge) as port, closing(open_session(replace(v3(port, "signed"), timeout=0.3))) as session:
        with pytest.raises((SnmpAuthError, SnmpTimeout)):
            session.get([f"{SYS}.1.0"])


def composite(place: SnmpTarget) -> CompositeWork:
    steps = (
        StepWork(1, "discovery", NodeKind.DISCOVERY, (ReadingSpec("onu_serial", SERIAL, ValueSpec(ValueType.SERIAL)),)),
        StepWork(2, "names", NodeKind.GET, (ReadingSpec("onu_name", DESCRIPTION, ValueSpec(ValueType.TEXT)),)),
    )
    return CompositeWork(1, 1, 1, place, steps)


def poll(open_session: SessionFactory, place: SnmpTarget):
    return poller.run(composite(place), open_session, lambda: None, lambda: datetime.now(UTC), time.monotonic)


def test_a_whole_composite_over_the_wire(open_session, huge):
    result = poll(open_session, target(huge))
    assert result.succeeded and [step.rows for step in result.steps] == [1024, 1024]
    serials = result.steps[0].columns[0].readings
    assert serials[0].index == key_of(0) and serials[0].value == expected_serial(0).hex().upper()


@pytest.mark.clock
def test_a_whole_composite_on_a_dead_olt_costs_one_request_and_its_retry(open_session, two_one_dead):
    """By the clock: two time-outs, and no third."""
    started = time.monotonic()
    result = poll(open_session, silent(two_one_dead + 1))
    assert time.monotonic() - started < 1.3
    assert [step.status for step in result.steps] == [Step.FAILED, Step.SKIPPED]
    assert result.steps[0].pdus == result.steps[0].timeouts == 2
    assert result.steps[1].skip_reason is SkipReason.TIMED_OUT_EARLIER


def _closed_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Middleman:
    """Stands between a driver and an agent; `twist` makes of each answer the datagrams that are sent on."""

    def __init__(self, port: int, twist: Callable[[bytes], list[bytes]]) -> None:
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.back.connect(("127.0.0.1", port))
        self.port = int(self.front.getsockname()[1])
        self.twist = twist
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            datagram, self.asker = self.front.recvfrom(65535)
            if not datagram:
                return
            self.back.send(datagram)
            for answer in self.twist(self.back.recv(65535)):
                self.front.sendto(answer, self.asker)

    def __enter__(self) -> int:
        return self.port

    def __exit__(self, *_exc: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self.thread.join(10)
        self.front.close()
        self.back.close()


def forger(port: int, what: str) -> Middleman:
    """Puts a value of its own into signed answers, with a wrong signature or with the word that there is none."""

    def twist(answer: bytes) -> list[bytes]:
        forged, place = bytearray(answer), answer.find(b"signed\x04\x0c")
        if place > 0 and (value := answer.find(b"a\x00\x80\xff\n")) > 0:
            forged[value : value + 5] = b"FORGE"
            if what == "signature":
                forged[place + 8] ^= 0xFF
            else:
                forged[answer.find(b"\x04\x01\x01\x02\x01\x03") + 2] = 0
        return [bytes(forged)]

    return Middleman(port, twist)


def test_an_answer_to_an_earlier_request_is_never_taken_for_that_to_the_next(open_session, versatile):
    kept: list[bytes] = []

    def twist(answer: bytes) -> list[bytes]:
        kept.append(answer)
        return [] if len(kept) == 1 else [kept[-2], answer, answer]

    with Middleman(versatile, twist) as port, closing(open_session(silent(port, retries=0))) as session:
        with pytest.raises(SnmpTimeout):
            session.get([PROBE_OID])
        assert session.get([f"{SYS}.5.0"])[0].value == -2147483648
        assert session.get([f"{SYS}.7.0"])[0].value == 2**32 - 1  # the doubled answer lies there still


def test_an_answer_from_another_address_is_not_seen_by_the_driver_whose_socket_is_connected(open_session, versatile):
    """Net-SNMP takes it, which an OLT with several addresses needs; SNMPv2c proves nothing about its sender anyway."""

    def twist(answer: bytes) -> list[bytes]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(answer.replace(b"a\x00\x80\xff\n", b"FORGE"), middle.asker)
        return [answer]

    middle = Middleman(versatile, twist)
    with middle as port, closing(open_session(target(port))) as session:
        value = session.get([f"{SYS}.1.0"])[0].value
        assert value == (b"a\x00\x80\xff\n" if isinstance(session, GufoSession) else b"FORGE")


@pytest.mark.parametrize("loss", [0.1, 0.3])
def test_a_lossy_line_costs_repeats_and_no_row(open_session, loss):
    with oltsim_c.oltsim("--drop", str(loss), "--seed", "7", onus=512) as port:
        with closing(PatientSession(open_session, target(port, timeout=0.1, retries=8), lambda: None)) as session:
            result = walked(session, SERIAL, RUN_STATE)
            got = get_many(session, instances(MODEL, 300), max_varbinds=50, **limits())
            assert result.complete and result.rows == 1024 and len(got.values) == 300
            assert session.repeats > 0 and result.timeouts == got.timeouts == 0


def test_a_column_that_ends_with_the_mib_is_complete_and_an_absent_one_not_supported(open_session, huge, versatile):
    last = "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.6"
    with closing(open_session(target(huge))) as session:
        (end,) = walked(session, last).columns
    with closing(open_session(target(versatile))) as session:
        (absent,) = walked(session, "1.3.6.1.2.1.55").columns
    assert end.complete and len(end.rows) == 1024
    assert not absent.complete and not absent.supported and absent.error_kind is ErrorKind.NO_SUCH_OBJECT


@pytest.mark.parametrize(("name", "kind"), [("easysnmp", EasySnmpSession), ("gufo", GufoSession)])
def test_the_setting_chooses_the_driver_in_the_threads_of_a_run_too(huge, name, kind):
    opened: list[SnmpSession] = []

    def more() -> SnmpSession:
        opened.append(drivers.open_session(target(huge)))
        return opened[-1]

    application = Flask("settings")
    application.config["SNMP_DRIVER"] = name
    with application.app_context(), closing(more()) as session:
        result = get_many(session, instances(SERIAL, 1024), max_varbinds=5, max_inflight=3, open_more=more, **limits())
    assert len(result.values) == 1024 and len(opened) == 3
    assert {type(session) for session in opened} == {kind}


def test_what_gufo_cannot_do_at_all_is_easysnmps(versatile):
    for place in (target(versatile, version="1"), v3(versatile, "signed")):
        with closing(DRIVERS["gufo"](place)) as session:
            assert isinstance(session, EasySnmpSession)


def test_names_from_a_tree_that_nobody_asked_for_are_a_fault_and_no_end(open_session, versatile):
    def twist(answer: bytes) -> list[bytes]:
        return [answer.replace(b"\x2b\x06\x01\x02\x01\x01", b"\x29\x06\x01\x02\x01\x01")]  # 1.1.6.1.2.1.1

    with Middleman(versatile, twist) as port, closing(open_session(target(port))) as session:
        (column,) = walked(session, SYS).columns
    assert not column.complete and column.error_kind is ErrorKind.NOT_INCREASING


def test_several_sessions_read_one_olt_at_once(open_session, huge):
    place = target(huge)
    with closing(open_session(place)) as session:
        more = {"max_inflight": 4, "open_more": lambda: open_session(place)}
        result = get_many(session, instances(SERIAL, 1024), max_varbinds=20, **more, **limits())
    assert len(result.values) == 1024 and not result.failed
    assert all(result.values[oid].value == expected_serial(onu) for onu, oid in enumerate(instances(SERIAL, 1024)))


def test_too_big_is_found_once_and_the_next_run_wastes_no_request(open_session, two_one_dead):
    asked = instances(SERIAL, 256)
    with closing(open_session(target(two_one_dead))) as session:
        first = get_many(session, asked, max_varbinds=100, roots=[SERIAL], **limits())
        known = learn(None, first.sizes, datetime.now(UTC)).known(datetime.now(UTC))
        sizes = {(GET, table_of(SERIAL)): known}
        second = get_many(session, asked, max_varbinds=100, roots=[SERIAL], sizes=sizes, **limits())
    assert len(first.values) == len(second.values) == 256
    assert second.pdus == -(-256 // known.size)


def test_no_answer_however_wrong_crashes_a_driver_or_passes_for_the_truth(open_session, versatile):
    """In a child, which a crash of the library would end: each octet of an answer is damaged in turn."""
    child = multiprocessing.get_context("fork").Process(target=read_damaged, args=(open_session, versatile))
    child.start()
    child.join(50)
    assert child.exitcode == 0


def read_damaged(open_session: SessionFactory, port: int) -> None:
    """Only errors of our own may come out."""
    turn = [0]

    def twist(answer: bytes) -> list[bytes]:
        turn[0] += 1
        damaged = bytearray(answer)
        damaged[turn[0] % len(answer)] ^= 1 << turn[0] % 8
        return [bytes(damaged)]

    with Middleman(port, twist) as through:
        with closing(open_session(silent(through, timeout=0.02, retries=0))) as session:
            for number in range(600):
                try:
                    if number % 2:
                        session.next_rows([SYS], 5)
                    else:
                        session.get([f"{SYS}.1.0", f"{SYS}.3.0"])
                except SnmpError:
                    pass
    os._exit(0)
