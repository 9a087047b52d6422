"""The easysnmp driver against real agents over UDP: every answer and every failure in our own words."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdrsp, context
from pysnmp.proto import rfc1902
from pysnmp.proto.rfc1905 import endOfMibView, noSuchInstance, noSuchObject
from pysnmp.smi import error as smi_error
from pysnmp.smi import instrum

from jobs import poller
from jobs.snmp.easysnmp_driver import open_session
from jobs.snmp.errors import (
    SnmpAuthError,
    SnmpBadOid,
    SnmpDeviceError,
    SnmpNoSuchObject,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnreachable,
)
from jobs.snmp.getting import PROBE_OID, get_many
from jobs.snmp.session import SnmpType
from jobs.snmp.walking import walk
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.readings import ValueSpec, ValueType
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason
from portal.domain.statuses import StepStatus as Step
from tests.support import oltsim_c
from tests.support.oltsim_c import DESCRIPTION, DISTANCE, MODEL, RUN_STATE, SERIAL, key_of

pytestmark = pytest.mark.integration

SYS = "1.3.6.1.2.1.1"
ABSENT = "1.3.6.1.2.1.55.0"
GENERR = "1.3.6.1.2.1.99.0"
BIG = b"x" * 3000
VALUES = {
    1: rfc1902.OctetString(b"a\x00\x80\xff\n"),
    2: rfc1902.ObjectIdentifier("1.3.6.1.4.1.2011.2.248"),
    3: rfc1902.TimeTicks(4294967295),
    4: rfc1902.IpAddress("10.0.0.1"),
    5: rfc1902.Integer32(-2147483648),
    6: rfc1902.Counter64(2**64 - 1),
    7: rfc1902.Gauge32(2**32 - 1),
    8: rfc1902.OctetString(b""),
    9: rfc1902.OctetString(BIG),
    10: rfc1902.Counter32(3000000000),
}
PASSWORDS = ("auth-s3cret-1", "priv-s3cret-2")


@pytest.fixture(scope="module")
def huge() -> Iterator[int]:
    with oltsim_c.oltsim(onus=1024) as port:
        yield port


@pytest.fixture(scope="module")
def two_one_dead() -> Iterator[int]:
    """Two OLTs that cut or refuse answers above 1,400 octets; the second is dead."""
    with oltsim_c.oltsim("--max-pdu", "1400", "--dead", "1-1", olts=2, onus=256) as port:
        yield port


class _Tree(instrum.AbstractMibInstrumController):
    rows = {(1, 3, 6, 1, 2, 1, 1, arc, 0): value for arc, value in VALUES.items()}

    def read_variables(self, *var_binds, **ignored):
        return [(name, self._value(tuple(name))) for name, _ in var_binds]

    def _value(self, name):
        if name == (1, 3, 6, 1, 2, 1, 99, 0):
            raise smi_error.GenError(name=name, idx=1)
        return self.rows.get(name, noSuchInstance if name[:7] == (1, 3, 6, 1, 2, 1, 1) else noSuchObject)

    def read_next_variables(self, *var_binds, **ignored):
        after = [next((row for row in sorted(self.rows) if row > tuple(name)), None) for name, _ in var_binds]
        return [
            (rfc1902.ObjectName(row), self.rows[row]) if row else (bind[0], endOfMibView)
            for row, bind in zip(after, var_binds, strict=True)
        ]


def _serve(ready: threading.Event, shared: dict) -> None:
    """A pysnmp agent that speaks versions 1, 2c and 3, in its own thread and event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    agent = engine.SnmpEngine()
    config.add_transport(agent, udp.DOMAIN_NAME, udp.UdpTransport().open_server_mode(("127.0.0.1", shared["port"])))
    config.add_v1_system(agent, "area", "public")
    config.add_v3_user(agent, "plain")
    config.add_v3_user(agent, "signed", config.USM_AUTH_HMAC96_SHA, PASSWORDS[0])
    config.add_v3_user(agent, "md5", config.USM_AUTH_HMAC96_MD5, PASSWORDS[0])
    config.add_v3_user(
        agent, "sealed", config.USM_AUTH_HMAC96_SHA, PASSWORDS[0], config.USM_PRIV_CFB128_AES, PASSWORDS[1]
    )
    users = {"plain": "noAuthNoPriv", "signed": "authNoPriv", "md5": "authNoPriv", "sealed": "authPriv"}
    for model, user, level in [
        (1, "area", "noAuthNoPriv"),
        (2, "area", "noAuthNoPriv"),
        *((3, *u) for u in users.items()),
    ]:
        config.add_vacm_user(agent, model, user, level, (1, 3, 6), (1, 3, 6))
    names = context.SnmpContext(agent)
    names.unregister_context_name(b"")
    names.register_context_name(b"", _Tree())
    for responder in (cmdrsp.GetCommandResponder, cmdrsp.NextCommandResponder, cmdrsp.BulkCommandResponder):
        responder(agent, names)
    shared["loop"] = loop
    loop.call_soon(ready.set)
    loop.run_forever()
    agent.close_dispatcher()
    loop.close()


@pytest.fixture(scope="module")
def versatile() -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        shared = {"port": probe.getsockname()[1]}
    ready = threading.Event()
    thread = threading.Thread(target=_serve, args=(ready, shared), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield shared["port"]
    shared["loop"].call_soon_threadsafe(shared["loop"].stop)
    thread.join(10)


def target(port: int, **settings) -> SnmpTarget:
    return replace(SnmpTarget("127.0.0.1", port, "2c", community="public", timeout=2.0, retries=1), **settings)


def silent(port: int, **settings) -> SnmpTarget:
    """A target whose time-outs are awaited: short ones."""
    return target(port, **({"timeout": 0.15, "retries": 1} | settings))


def v3(port: int, user: str, auth="SHA", auth_password=PASSWORDS[0], priv="", priv_password="") -> SnmpTarget:
    return SnmpTarget(
        "127.0.0.1",
        port,
        "3",
        username=user,
        auth_protocol=auth,
        auth_password=auth_password,
        priv_protocol=priv,
        priv_password=priv_password,
        timeout=2.0,
    )


def limits(**settings) -> dict:
    return {"deadline": time.monotonic() + 60, "checkpoint": lambda: None, "clock": time.monotonic} | settings


def walked(session, *roots, max_repetitions=50):
    return walk(session, roots, max_repetitions=max_repetitions, max_rows=100_000, **limits())


def instances(column: str, count: int) -> list[str]:
    return [f"{column}.{key_of(onu)}" for onu in range(count)]


def expected_serial(onu: int) -> bytes:
    return b"HWTC" + bytes((0x9F * (k + 1) + onu * 7 + (onu >> (2 * k))) & 0xFF for k in range(4))


def test_a_walk_reads_the_raw_octets_of_1024_serials(huge):
    session = open_session(target(huge))
    result = walked(session, SERIAL)
    session.close()
    assert result.complete and result.timeouts == 0 and result.pdus == 21
    got = list(result.columns[0].rows)
    assert got == [(key_of(onu), expected_serial(onu)) for onu in range(1024)]
    assert any(byte >= 0x80 for _, value in got for byte in value)


def test_columns_are_walked_side_by_side(huge):
    session = open_session(target(huge))
    result = walked(session, RUN_STATE, DISTANCE, DESCRIPTION)
    session.close()
    assert result.complete and [len(column.rows) for column in result.columns] == [1024] * 3
    assert result.columns[0].rows[17][1] == 2 and result.columns[1].rows[17][1] == -1
    assert result.columns[2].rows[1023][1] == b"CLI-10001023"


def test_two_hundred_instances_are_read_in_packed_requests(huge):
    session = open_session(target(huge))
    asked = instances(SERIAL, 200)
    result = get_many(session, asked, max_varbinds=50, **limits())
    session.close()
    assert result.pdus == 4 and list(result.values) == asked and not result.failed
    assert [bind.value for bind in result.values.values()] == [expected_serial(onu) for onu in range(200)]


def test_version_1_walks_by_getnext_and_reads_the_same(huge):
    session = open_session(target(huge, version="1"))
    (column,) = walked(session, MODEL).columns
    session.close()
    assert column.complete and len(column.rows) == 1024


def test_a_get_that_is_too_big_is_divided_until_it_fits(two_one_dead):
    session = open_session(target(two_one_dead))
    with pytest.raises(SnmpTooBig):
        session.get(instances(SERIAL, 100))
    result = get_many(session, instances(SERIAL, 256), max_varbinds=100, **limits())
    session.close()
    assert len(result.values) == 256 and not result.failed and result.batch_size == 25


def test_answers_cut_to_the_size_of_a_message_lose_no_row(two_one_dead):
    session = open_session(target(two_one_dead))
    result = walked(session, SERIAL, DESCRIPTION)
    session.close()
    assert result.complete and result.rows == 512 and result.pdus > 11


def test_silence_is_a_time_out_that_says_what_to_check_and_no_secret(two_one_dead):
    wrong = silent(two_one_dead, community="wr0ng-c0mmunity")
    for place in (wrong, silent(two_one_dead + 1), silent(_closed_port())):
        session, started = open_session(place), time.monotonic()
        with pytest.raises(SnmpTimeout) as caught:
            session.get([PROBE_OID])
        took = time.monotonic() - started
        session.close()
        assert place.timeout * (place.retries + 1) <= took < place.timeout * (place.retries + 1) + 1.0
        assert str(place.port) in str(caught.value) and "community" in str(caught.value)
        assert "access list" in str(caught.value) and "wr0ng" not in str(caught.value)


def test_a_name_or_address_that_leads_nowhere_is_unreachable():
    for address in ("no-such-host.invalid", "999.1.1.1", "", " ", "tcp:127.0.0.1", "/tmp/socket"):
        with pytest.raises(SnmpUnreachable):
            open_session(replace(target(161), address=address))
    with pytest.raises(SnmpUnreachable):
        open_session(target(0))


def test_an_ipv6_address_is_not_taken_apart(versatile):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("IPv6 absent on this machine")
    session = open_session(silent(versatile, address="::1", retries=0))
    with pytest.raises(SnmpTimeout, match="::1"):
        session.get([PROBE_OID])
    session.close()


def test_every_type_arrives_as_what_it_is(versatile):
    session = open_session(target(versatile))
    binds = session.get([f"{SYS}.{arc}.0" for arc in VALUES])
    session.close()
    assert [(bind.type, bind.value) for bind in binds] == [
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


def test_long_octets_arrive_whole_from_a_walk(versatile):
    session = open_session(target(versatile))
    (bind,) = session.next_rows([f"{SYS}.8.0"], 1)
    assert bind.value == BIG
    assert BIG in [bind.value for bind in session.next_rows([SYS], 10)]
    session.close()


def test_the_three_ways_to_have_no_value_are_told_apart(versatile):
    session = open_session(target(versatile))
    present, instance, nothing = session.get([f"{SYS}.3.0", f"{SYS}.77.0", ABSENT])
    (end,) = session.next_rows([ABSENT], 1)
    session.close()
    assert not present.missing
    assert (instance.type, instance.value) == (SnmpType.NO_SUCH_INSTANCE, None)
    assert (nothing.type, nothing.value) == (SnmpType.NO_SUCH_OBJECT, None)
    assert end.type is SnmpType.END_OF_MIB_VIEW and end.oid == ABSENT


def test_version_1_says_only_that_a_name_is_missing(versatile):
    session = open_session(target(versatile, version="1"))
    assert session.get([ABSENT])[0].type is SnmpType.NO_SUCH_OBJECT
    assert session.next_rows([ABSENT], 10)[0].type is SnmpType.END_OF_MIB_VIEW
    with pytest.raises(SnmpNoSuchObject):
        session.get([PROBE_OID, ABSENT])
    result = get_many(session, [PROBE_OID, ABSENT], max_varbinds=10, **limits())
    session.close()
    assert result.values[PROBE_OID].value == 4294967295 and result.values[ABSENT].missing and not result.failed


def test_an_error_status_of_the_device_is_a_device_error(versatile):
    session = open_session(target(versatile))
    with pytest.raises(SnmpDeviceError, match="genErr"):
        session.get([PROBE_OID, GENERR])
    result = get_many(session, [PROBE_OID, GENERR], max_varbinds=10, **limits())
    session.close()
    assert result.failed == {GENERR: ErrorKind.DEVICE} and PROBE_OID in result.values


@pytest.mark.parametrize(
    "text", ["", "garbage", "1.3.6..1", "1.3.6.1.2.1.1.1.0 ; x", "1.3.6.1.99999999999999", "sysDescr.0"]
)
def test_what_is_no_oid_never_reaches_the_library(versatile, text):
    session = open_session(target(versatile))
    with pytest.raises(SnmpBadOid):
        session.get([PROBE_OID, text])
    with pytest.raises(SnmpBadOid):
        session.next_rows([text], 5)
    assert session.get([]) == session.next_rows([], 5) == []
    session.close()


@pytest.mark.parametrize(
    ("user", "auth", "priv", "priv_password"),
    [("plain", "", "", ""), ("signed", "SHA", "", ""), ("md5", "MD5", "", ""), ("sealed", "SHA", "AES", PASSWORDS[1])],
)
def test_version_3_reads_at_every_security_level(versatile, user, auth, priv, priv_password):
    session = open_session(v3(versatile, user, auth, priv=priv, priv_password=priv_password))
    assert session.get([PROBE_OID])[0].value == 4294967295
    assert len(session.next_rows([SYS], 5)) == 5
    session.close()


def test_a_wrong_version_3_credential_is_an_auth_error_without_the_password(versatile):
    wrong = [
        v3(versatile, "nobody", auth=""),
        v3(versatile, "signed", auth_password="wr0ng-password"),
        v3(versatile, "signed", auth="MD5"),
        v3(versatile, "sealed", priv="AES", priv_password="wr0ng-password"),
    ]
    for place in wrong:
        session = open_session(place)
        with pytest.raises(SnmpAuthError) as caught:
            session.get([PROBE_OID])
        session.close()
        assert "credential" in str(caught.value)
        assert not any(secret in str(caught.value) for secret in (*PASSWORDS, "wr0ng"))


def test_a_credential_that_cannot_be_used_is_refused_before_anything_is_sent(versatile):
    unusable = [
        target(versatile, community=""),
        target(versatile, version="4"),
        v3(versatile, ""),
        v3(versatile, "signed", auth_password="short"),
        v3(versatile, "signed", auth="ROT13"),
        v3(versatile, "sealed", priv="ROT13", priv_password=PASSWORDS[1]),
        v3(versatile, "sealed", auth="", priv="AES", priv_password=PASSWORDS[1]),
    ]
    for place in unusable:
        with pytest.raises(SnmpAuthError):
            open_session(place)


def test_no_file_descriptor_is_left_after_two_hundred_sessions(huge):
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


def test_a_session_is_of_no_use_when_closed_or_in_another_thread(huge):
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


def composite(place: SnmpTarget) -> CompositeWork:
    steps = (
        StepWork(1, "discovery", NodeKind.DISCOVERY, (ReadingSpec("onu_serial", SERIAL, ValueSpec(ValueType.SERIAL)),)),
        StepWork(2, "names", NodeKind.GET, (ReadingSpec("onu_name", DESCRIPTION, ValueSpec(ValueType.TEXT)),)),
    )
    return CompositeWork(1, 1, 1, place, steps)


def poll(place: SnmpTarget):
    return poller.run(composite(place), open_session, lambda: None, lambda: datetime.now(UTC), time.monotonic)


def test_a_whole_composite_over_the_wire(huge):
    result = poll(target(huge))
    assert result.succeeded and [step.rows for step in result.steps] == [1024, 1024]
    serials = result.steps[0].columns[0].readings
    assert serials[0].index == key_of(0) and serials[0].value == expected_serial(0).hex().upper()


def test_a_whole_composite_on_a_dead_olt_costs_one_request_and_its_retry(two_one_dead):
    started = time.monotonic()
    result = poll(silent(two_one_dead + 1))
    assert time.monotonic() - started < 1.3
    assert [step.status for step in result.steps] == [Step.FAILED, Step.SKIPPED]
    assert result.steps[0].pdus == result.steps[0].timeouts == 2
    assert result.steps[1].skip_reason is SkipReason.TIMED_OUT_EARLIER


def _closed_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
