"""Runs many agents in one process until a signal: binding, ready lines, stopping; answers are not decided here."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs.snmp.simulator.agent import Agent, RequestLog
from jobs.snmp.simulator.clock import Clock
from jobs.snmp.simulator.spec import OltSpec, build_mib
from jobs.snmp.simulator.usm import V3User

_PR_SET_PDEATHSIG = 1


class BindError(Exception):
    """A socket that cannot be had; the message says which and what to do."""


def run(specs: Sequence[OltSpec], user: V3User | None, log: Path | None, echo: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; BindError or SpecError before anything is served if one OLT cannot be."""
    asyncio.run(_serve(specs, user, log, echo))


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process with the thread that started it (Linux); ``parent`` was its process at first."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The parent may have died before the kernel was asked: then no signal would ever come.
    if os.getppid() != parent:
        raise SystemExit(0)


async def _serve(specs: Sequence[OltSpec], user: V3User | None, log: Path | None, echo: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    requests = _open_log(log)
    transports: list[asyncio.DatagramTransport] = []
    try:
        agents = [await _start(spec, at, user, requests, transports) for at, spec in enumerate(specs, start=1)]
        for agent in agents:
            echo(_ready(agent))
        await stop.wait()
    finally:
        for transport in transports:
            transport.close()
        requests.close()
    echo(f"event=simulator_stopped agents={len(agents)}")


def _open_log(path: Path | None) -> RequestLog:
    try:
        return RequestLog(path)
    except OSError as error:
        raise BindError(f"the log {path} cannot be written: {error.strerror}; choose another --log") from error


async def _start(
    spec: OltSpec, at: int, user: V3User | None, log: RequestLog, transports: list[asyncio.DatagramTransport]
) -> Agent:
    clock = Clock(spec.at, spec.speed)
    mib = build_mib(spec, f"SIM-{Path(spec.source).stem.upper()}-{at:02d}", clock())
    agent = Agent(spec, mib, clock, log, user)
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_datagram_endpoint(lambda: agent, local_addr=(spec.host, spec.port))
    except PermissionError as error:
        raise BindError(f"no right to use UDP port {spec.port}; below 1024 it takes root") from error
    except OSError as error:
        reason = error.strerror or error
        raise BindError(f"UDP {spec.host}:{spec.port} cannot be used: {reason}; choose another host or port") from error
    transports.append(transport)
    return agent


def _ready(agent: Agent) -> str:
    spec = agent.spec
    onus = f" onus={spec.onus}" if spec.generated else ""
    return f"event=agent_ready host={spec.host} port={agent.port} source={spec.source}{onus}"
