"""One simulated OLT on one UDP socket: takes a datagram, applies the faults, answers; its MIB is built elsewhere."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TextIO, cast

from jobs.snmp.simulator import wire
from jobs.snmp.simulator.clock import Clock
from jobs.snmp.simulator.faults import DeviceMuteError, Faults, Load, with_faults
from jobs.snmp.simulator.mib import MibSource
from jobs.snmp.simulator.operations import Answer, Ask, Responder
from jobs.snmp.simulator.spec import OltSpec
from jobs.snmp.simulator.usm import V3Agent, V3User


class RequestLog:
    """One line per request, written at once: unix seconds, OLT port, source port, PDU type, number of varbinds."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = None if path is None else path.open("a", buffering=1, encoding="ascii")

    def write(self, port: int, source_port: int, pdu: str, varbinds: int) -> None:
        """Note one request at the moment it came in."""
        if self._file is not None:
            self._file.write(f"{time.time():.6f} {port} {source_port} {pdu} {varbinds}\n")

    def close(self) -> None:
        """Close the file; later writes are not allowed."""
        if self._file is not None:
            self._file.close()


class Agent(asyncio.DatagramProtocol):
    """The protocol of one socket; ``port`` is real once the socket is bound, v3 is answered only if a user is given."""

    def __init__(
        self, spec: OltSpec, mib: MibSource, clock: Clock, log: RequestLog, user: V3User | None = None
    ) -> None:
        self.spec = spec
        self.port = spec.port
        self._faults = spec.faults
        self._clock = clock
        self._log = log
        self._user = user
        self._v3: V3Agent | None = None
        self._community = spec.community.encode()
        self._responder = responder(mib, spec.faults, clock)
        self._load = Load()
        self._transport: asyncio.DatagramTransport | None = None
        self._source_port = 0
        self._logged = False
        self._serial = 0
        self._rows = 0
        self._pressure = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn the real port."""
        # Not isinstance: the selector loop's datagram transport of Python 3.11 does not inherit from it.
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]
        self._faults = self.spec.faults.at_port(self.port)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        """Answer one request, late or never as the faults have it."""
        answer = self.answer(data, address)
        if answer is None:
            return
        pause = self._faults.pause(self.spec.seed, self._serial, self._rows, self._pressure)
        if pause > 0:
            asyncio.get_running_loop().call_later(pause, self._send, answer, address)
        else:
            self._send(answer, address)

    def answer(self, data: bytes, address: tuple[str, int]) -> bytes | None:
        """The octets to send back at once, or None; logs the request."""
        self._source_port, self._logged, self._rows = address[1], False, 0
        self._serial += 1
        elapsed = self._clock.elapsed()
        self._pressure = self._load.add(elapsed) if self._faults.sag else 0
        try:
            v3 = wire.peek_version(data) == wire.V3
            answer = self._v3_answer(data, address) if v3 else self._community_answer(data)
        except (wire.WireError, DeviceMuteError):
            answer = None
        if not self._logged:
            self._note("other", 0)
        return None if self._faults.silent(self.spec.seed, self._serial, elapsed) else answer

    def _community_answer(self, data: bytes) -> bytes | None:
        request = wire.decode_request(data)
        if request.community != self._community:
            self._note("badcommunity", len(request.oids))
            return None
        self._note(request.pdu.name.lower(), len(request.oids))
        ask = Ask(request.version, request.pdu, request.oids, request.second, request.third)
        status, index, rows = self._respond(ask)
        varbinds = request.raw_varbinds if rows is None else b"".join(row.ber for row in rows)
        return wire.encode_response(request, status, index, varbinds)

    def _v3_answer(self, data: bytes, address: tuple[str, int]) -> bytes | None:
        if self._user is None:
            return None
        if self._v3 is None:
            # A pysnmp engine takes a tenth of a second and a megabyte: built only where somebody asks.
            self._v3 = V3Agent(self._user, (self.spec.seed << 16) | self.port, self._respond, self._note)
        elapsed = self._clock.elapsed()
        boot = self._faults.boot(elapsed)
        self._v3.live(boot.number, elapsed - boot.began, counted=not self._faults.frozenboots)
        return self._v3.answer(data, address)

    def _respond(self, ask: Ask) -> Answer:
        answer = self._responder.answer(ask, self._clock())
        self._rows = len(answer.rows or ())
        return answer

    def _note(self, pdu: str, varbinds: int) -> None:
        self._logged = True
        self._log.write(self.port, self._source_port, pdu, varbinds)

    def _send(self, answer: bytes, address: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, address)


def responder(mib: MibSource, faults: Faults, clock: Clock) -> Responder:
    """What answers for a MIB as these faults have it."""
    shown = with_faults(mib, faults, clock)
    return Responder(shown, faults.toobig, faults.maxrep, faults.maxvars, faults.truncate)
