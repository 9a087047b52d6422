"""SNMPv3 side of a simulated OLT: a pysnmp engine per agent, its user and its responder; no sockets, no data."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.carrier.base import AbstractTransportDispatcher
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.cmdrsp import CommandResponderBase
from pysnmp.entity.rfc3413.context import SnmpContext
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.proto.api import v2c

from jobs.snmp.simulator.faults import DeviceMuteError
from jobs.snmp.simulator.mib import Kind, Oid, Value
from jobs.snmp.simulator.operations import Answer, Ask
from jobs.snmp.simulator.wire import V3, PduType

logger = logging.getLogger(__name__)

AUTH_PROTOCOLS = {
    "MD5": config.USM_AUTH_HMAC96_MD5,
    "SHA": config.USM_AUTH_HMAC96_SHA,
    "SHA224": config.USM_AUTH_HMAC128_SHA224,
    "SHA256": config.USM_AUTH_HMAC192_SHA256,
    "SHA384": config.USM_AUTH_HMAC256_SHA384,
    "SHA512": config.USM_AUTH_HMAC384_SHA512,
}
PRIV_PROTOCOLS = {
    "DES": config.USM_PRIV_CBC56_DES,
    "AES": config.USM_PRIV_CFB128_AES,
    "AES192": config.USM_PRIV_CFB192_AES,
    "AES256": config.USM_PRIV_CFB256_AES,
}
MIN_PASSWORD = 8
_TYPES = {
    Kind.INTEGER: rfc1902.Integer32,
    Kind.OCTETS: rfc1902.OctetString,
    Kind.OID: rfc1902.ObjectName,
    Kind.IP_ADDRESS: rfc1902.IpAddress,
    Kind.COUNTER32: rfc1902.Counter32,
    Kind.GAUGE32: rfc1902.Gauge32,
    Kind.TIMETICKS: rfc1902.TimeTicks,
    Kind.COUNTER64: rfc1902.Counter64,
}
_NULLS = {
    Kind.NULL: v2c.null,
    Kind.NO_SUCH_OBJECT: rfc1905.noSuchObject,
    Kind.NO_SUCH_INSTANCE: rfc1905.noSuchInstance,
    Kind.END_OF_MIB_VIEW: rfc1905.endOfMibView,
}


@dataclass(frozen=True, slots=True)
class V3User:
    """One SNMPv3 user; the level follows from the passwords that are set (none, auth, auth and priv)."""

    name: str
    auth_password: str | None = field(default=None, repr=False)
    priv_password: str | None = field(default=None, repr=False)
    auth_protocol: str = "SHA"
    priv_protocol: str = "AES"

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an SNMPv3 user needs a name")
        if self.priv_password is not None and self.auth_password is None:
            raise ValueError("an SNMPv3 user with a privacy password needs an authentication password too")
        for password in (self.auth_password, self.priv_password):
            if password is not None and len(password) < MIN_PASSWORD:
                raise ValueError(f"an SNMPv3 password has at least {MIN_PASSWORD} characters (RFC 3414)")


class V3Agent:
    """Turns one SNMPv3 datagram into one answer; ``respond`` decides it, ``seen`` is told of each decrypted request."""

    def __init__(
        self, user: V3User, engine_number: int, respond: Callable[[Ask], Answer], seen: Callable[[str, int], None]
    ) -> None:
        # Enterprise 8072, format 5 (octets), unique per seed and port: two OLTs with one engine id poison a manager.
        engine_id = b"\x80\x00\x1f\x88\x05" + engine_number.to_bytes(12, "big")
        self._engine = SnmpEngine(snmpEngineID=rfc1902.OctetString(engine_id))
        self._mailbox = _Mailbox()
        self._engine.register_transport_dispatcher(self._mailbox)
        config.add_v3_user(
            self._engine,
            user.name,
            AUTH_PROTOCOLS[user.auth_protocol] if user.auth_password else config.USM_AUTH_NONE,
            user.auth_password,
            PRIV_PROTOCOLS[user.priv_protocol] if user.priv_password else config.USM_PRIV_NONE,
            user.priv_password,
        )
        _Responder(self._engine, SnmpContext(self._engine), (respond, seen))
        self._life = 0

    def live(self, number: int, since: float, *, counted: bool) -> None:
        """The device is in its ``number``-th life, ``since`` seconds old: its engine time starts anew.

        RFC 3414 wants boots ``counted`` on at every restart; managers refuse a device that does not and was known to
        them (net-snmp issue 385).
        """
        if number == self._life:
            return
        boots, time_of_engine = self._engine.get_mib_builder().import_symbols(
            "__SNMP-FRAMEWORK-MIB", "snmpEngineBoots", "snmpEngineTime"
        )
        if counted:
            boots.syntax += number - self._life
        # The engine keeps the moment of its start, and counts from there.
        time_of_engine.syntax = time_of_engine.syntax.clone(int(time.time() - since))
        self._life = number

    def answer(self, datagram: bytes, source: tuple[str, int]) -> bytes | None:
        """The answer to one datagram, reports of discovery and of wrong keys included; None for what deserves none."""
        self._mailbox.sent = None
        self._mailbox.handle_timer_tick(time.time())
        try:
            self._engine.message_dispatcher.receive_message(
                self._engine, udp.DOMAIN_NAME, udp.UdpTransportAddress(source), datagram
            )
        except DeviceMuteError:
            return None
        except Exception as error:
            # The decoder lets many kinds of error through on damaged datagrams (OverflowError among them): stay silent.
            logger.warning("event=v3_datagram_refused error=%s", type(error).__name__)
            return None
        return self._mailbox.sent


class _Mailbox(AbstractTransportDispatcher):
    """A transport that keeps what the engine sends, so that one place decides when it goes out."""

    sent: bytes | None = None

    def send_message(self, message: bytes, _domain: Oid, _address: tuple[str, int]) -> None:
        self.sent = bytes(message)


class _Responder(CommandResponderBase):
    """All four requests in one responder; the context handed over is (respond, seen)."""

    SUPPORTED_PDU_TYPES = (
        rfc1905.GetRequestPDU.tagSet,
        rfc1905.GetNextRequestPDU.tagSet,
        rfc1905.GetBulkRequestPDU.tagSet,
        rfc1905.SetRequestPDU.tagSet,
    )

    def handle_management_operation(self, engine: SnmpEngine, reference: Any, context_name: Any, pdu: Any) -> None:
        respond, seen = self.cbCtx
        names = [tuple(oid) for oid, _ in v2c.apiPDU.get_varbinds(pdu)]
        ask = _ask(pdu, names)
        seen(ask.pdu.name.lower(), len(names))
        # The engine has already refused users below the level of their keys.
        answer = respond(ask)
        echo = answer.rows is None
        rows = v2c.apiPDU.get_varbinds(pdu) if echo else [_varbind(row.oid, row.value) for row in answer.rows or ()]
        self.send_varbinds(engine, reference, answer.status, answer.error_index, rows)
        self.release_state_information(reference)


def _ask(pdu: Any, names: list[Oid]) -> Ask:
    kind = PduType(0xA0 | pdu.tagSet.superTags[-1].tagId)
    if kind is not PduType.GETBULK:
        return Ask(V3, kind, names)
    bulk = v2c.apiBulkPDU
    return Ask(V3, kind, names, int(bulk.get_non_repeaters(pdu)), int(bulk.get_max_repetitions(pdu)))


def _varbind(oid: Oid, value: Value) -> tuple[Any, Any]:
    null = _NULLS.get(value.kind)
    return rfc1902.ObjectName(oid), _TYPES[value.kind](value.data) if null is None else null
