"""A pysnmp agent over UDP that speaks versions 1, 2c and 3 at every level, can be restarted and has a named context."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdrsp, context
from pysnmp.proto import rfc1902
from pysnmp.proto.rfc1905 import endOfMibView, noSuchInstance, noSuchObject
from pysnmp.smi import error as smi_error
from pysnmp.smi import instrum

SYS = "1.3.6.1.2.1.1"
GENERR = "1.3.6.1.2.1.99.0"
BIG, HUGE = b"x" * 3000, b"y" * 5000
PASSWORDS = ("auth-s3cret-1", "priv-s3cret-2")
CONTEXT = "ihub"  # as Nokia calls the one that holds its switch
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
HUGE_OID = "1.3.6.1.2.1.2.1.0"
IN_CONTEXT = rfc1902.OctetString(b"the switch's own tree")
_USERS = {"plain": "noAuthNoPriv", "signed": "authNoPriv", "md5": "authNoPriv", "sealed": "authPriv"}
_READY_SECONDS = 10


class _Tree(instrum.AbstractMibInstrumController):  # type: ignore[misc]  # untyped base
    def __init__(self, rows: dict[tuple[int, ...], Any]) -> None:
        super().__init__()
        self.rows = rows

    def read_variables(self, *var_binds: Any, **_ignored: Any) -> list[Any]:
        return [(name, self._value(tuple(name))) for name, _ in var_binds]

    def _value(self, name: tuple[int, ...]) -> Any:
        if ".".join(map(str, name)) == GENERR:
            raise smi_error.GenError(name=name, idx=1)
        return self.rows.get(name, noSuchInstance if name[:7] == (1, 3, 6, 1, 2, 1, 1) else noSuchObject)

    def read_next_variables(self, *var_binds: Any, **_ignored: Any) -> list[Any]:
        after = [next((row for row in sorted(self.rows) if row > tuple(name)), None) for name, _ in var_binds]
        return [
            (rfc1902.ObjectName(row), self.rows[row]) if row else (bind[0], endOfMibView)
            for row, bind in zip(after, var_binds, strict=True)
        ]


class VersatileAgent:
    """One agent on 127.0.0.1, in its own thread and event loop. `port` is where it listens."""

    def __init__(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        if not self._ready.wait(_READY_SECONDS):
            raise RuntimeError("the agent did not start")

    def restart(self, *, boots: int, seconds: int = 0) -> None:
        """As after a restart of the device: its engine has booted so many times, the last one so many seconds ago."""
        self._do(lambda: self._set_clock(boots, seconds))

    def close(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_READY_SECONDS)

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        if not done.wait(_READY_SECONDS):
            raise RuntimeError("the agent hangs")

    def _set_clock(self, boots: int, seconds: int) -> None:
        known, started = self._agent.get_mib_builder().import_symbols(
            "__SNMP-FRAMEWORK-MIB", "snmpEngineBoots", "snmpEngineTime"
        )
        known.syntax = known.syntax.clone(boots)
        started.syntax = started.syntax.clone(int(time.time()) - seconds)  # it keeps the moment and counts from there

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._agent = agent = engine.SnmpEngine()
        place = udp.UdpTransport().open_server_mode(("127.0.0.1", self.port))
        config.add_transport(agent, udp.DOMAIN_NAME, place)
        _admit(agent)
        names = context.SnmpContext(agent)
        names.unregister_context_name(b"")
        rows: dict[tuple[int, ...], Any] = {(1, 3, 6, 1, 2, 1, 1, arc, 0): value for arc, value in VALUES.items()}
        rows[tuple(map(int, HUGE_OID.split(".")))] = rfc1902.OctetString(HUGE)
        names.register_context_name(b"", _Tree(rows))
        names.register_context_name(CONTEXT.encode(), _Tree({(1, 3, 6, 1, 2, 1, 1, 1, 0): IN_CONTEXT}))
        for responder in (cmdrsp.GetCommandResponder, cmdrsp.NextCommandResponder, cmdrsp.BulkCommandResponder):
            responder(agent, names)
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        agent.close_dispatcher()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


def _admit(agent: engine.SnmpEngine) -> None:
    """Community "public" and one user for each level."""
    config.add_v1_system(agent, "area", "public")
    config.add_v3_user(agent, "plain")
    config.add_v3_user(agent, "signed", config.USM_AUTH_HMAC96_SHA, PASSWORDS[0])
    config.add_v3_user(agent, "md5", config.USM_AUTH_HMAC96_MD5, PASSWORDS[0])
    config.add_v3_user(
        agent, "sealed", config.USM_AUTH_HMAC96_SHA, PASSWORDS[0], config.USM_PRIV_CFB128_AES, PASSWORDS[1]
    )
    admitted = [(1, "area", "noAuthNoPriv"), (2, "area", "noAuthNoPriv"), *((3, *user) for user in _USERS.items())]
    for model, user, level in admitted:
        config.add_vacm_user(agent, model, user, level, (1, 3, 6), (1, 3, 6))
    config.add_v3_user(agent, "inner")
    config.add_vacm_user(agent, 3, "inner", "noAuthNoPriv", (1, 3, 6), (1, 3, 6), contextName=CONTEXT.encode())


@contextmanager
def versatile_agent() -> Iterator[VersatileAgent]:
    """A running agent."""
    agent = VersatileAgent()
    try:
        yield agent
    finally:
        agent.close()
