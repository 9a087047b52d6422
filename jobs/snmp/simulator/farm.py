"""Starts simulated OLTs in a process of their own and stops them, for tests and benches; serves nothing itself."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from jobs.snmp.simulator.usm import V3User

_ROOT = Path(__file__).resolve().parents[3]
_COMMAND = "jobs.cli_simulate"


class FarmError(RuntimeError):
    """The simulator did not come up; the message holds what it printed."""


class Farm:
    """Running simulated OLTs, a context manager that stops them; ``ports`` in the order of their specifications."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[int], errors: IO[bytes], switches: Path) -> None:
        self.ports = ports
        self.pid = process.pid
        self._process = process
        self._errors = errors
        self._switches = switches

    def __enter__(self) -> Farm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def unplug(self, at: int = 0) -> None:
        """From the next request on, the OLT at this place in ``ports`` answers nothing."""
        (self._switches / str(self.ports[at])).touch()

    def plug_in(self, at: int = 0) -> None:
        """The OLT at this place in ``ports`` answers again."""
        (self._switches / str(self.ports[at])).unlink(missing_ok=True)

    def stop(self, timeout: float = 5.0) -> int:
        """End the process (SIGTERM, SIGKILL after ``timeout`` s), clean up, give its exit code; may come twice."""
        self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
        for at in range(len(self.ports)):
            self.plug_in(at)
        if self._switches.is_dir():
            self._switches.rmdir()
        return code


def start_farm(
    specs: Sequence[str], *, count: int = 1, log: Path | None = None, v3: V3User | None = None, timeout: float = 20.0
) -> Farm:
    """Start ``flask simulate`` with these specifications and wait until all its OLTs listen.

    ``specs`` as for ``--olt``; without a port of your own write ``@0`` and read ``Farm.ports``. Each is served
    ``count`` times. The process dies with the thread that called. FarmError when it ends early (bad specification,
    port in use) or is not ready within ``timeout`` seconds.
    """
    switches = Path(tempfile.mkdtemp(prefix="olt-farm-"))
    errors = tempfile.TemporaryFile()
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        _arguments(specs, count, log, v3, switches),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=_environment(v3),
    )
    farm = Farm(process, [], errors, switches)
    try:
        farm.ports = _wait_ready(process, len(specs) * count, time.monotonic() + timeout)
    except BaseException as error:
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
        farm.stop()
        if isinstance(error, FarmError):
            raise FarmError(f"{error}: {said}" if said else str(error)) from None
        raise
    return farm


def _arguments(specs: Sequence[str], count: int, log: Path | None, v3: V3User | None, switches: Path) -> list[str]:
    words = [sys.executable, "-m", _COMMAND, "--die-with-parent", "--count", str(count)]
    for spec in specs:
        words += ["--olt", spec if "deadfile=" in spec else f"{spec},deadfile={switches}/%p"]
    if log is not None:
        words += ["--log", str(log)]
    if v3 is not None:
        words += ["--v3-user", v3.name, "--v3-auth-protocol", v3.auth_protocol, "--v3-priv-protocol", v3.priv_protocol]
    return words


def _environment(v3: V3User | None) -> dict[str, str]:
    """The caller's, plus the project on the path; passwords go here because anyone can read a command line."""
    paths = (str(_ROOT), os.environ.get("PYTHONPATH"))
    found = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    if v3 is not None and v3.auth_password:
        found["SIMULATE_V3_AUTH_PASSWORD"] = v3.auth_password
    if v3 is not None and v3.priv_password:
        found["SIMULATE_V3_PRIV_PASSWORD"] = v3.priv_password
    return found


def _wait_ready(process: subprocess.Popen[bytes], wanted: int, deadline: float) -> list[int]:
    """The ports of the ready lines, in order."""
    if process.stdout is None:
        raise FarmError("the simulator has no output to read")
    descriptor = process.stdout.fileno()
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while said.count(b"event=agent_ready ") < wanted or not said.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise FarmError(f"{said.count(b'event=agent_ready ')} of {wanted} OLTs were ready in time")
            part = os.read(descriptor, 65536)
            if not part:
                raise FarmError("the simulator ended before its OLTs were ready")
            said += part
    return [int(number) for number in re.findall(rb"event=agent_ready .*?port=([0-9]+)", said)]
