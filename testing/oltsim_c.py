"""Builds and runs the benchmark agent `oltsim.c` as simulated OLTs for tests. Nothing of the product is imported."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "shared" / "bench" / "oltsim.c"

SERIAL = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.3"  # 8 raw octets
DESCRIPTION = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.9"
RUN_STATE = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15"
DISTANCE = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.20"  # -1 where the ONU is down
ONU_RX_POWER = "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4"
MODEL = "1.3.6.1.4.1.2011.6.128.1.1.2.45.1.4"

START_TRIES = 5


class PortTaken(Exception):  # noqa: N818  # a race between two tests, tried again
    """Another process took a port between the search and the start."""


def key_of(onu: int) -> str:
    """Index of the n-th ONU as the agent lays them out: 128 ONUs a PON port, 16 ports a slot."""
    pon, number = divmod(onu, 128)
    return f"{4194304000 + 8192 * (pon // 16) + 256 * (pon % 16)}.{number}"


@contextmanager
def oltsim(*options: str, olts: int = 1, onus: int = 1024) -> Iterator[int]:
    """Run the agent on `olts` consecutive free UDP ports of 127.0.0.1; gives the first. Skips where it is absent."""
    program = _built()
    process, port = _started(program, [*options, "--olts", str(olts), "--onus", str(onus)], olts)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def _started(program: Path, options: list[str], olts: int) -> tuple[subprocess.Popen[str], int]:
    for _ in range(START_TRIES):
        port = _free_ports(olts)
        try:
            return _start(program, ["--port", str(port), *options]), port
        except PortTaken:
            continue
    raise RuntimeError(f"no {olts} free UDP ports in {START_TRIES} tries")


def _start(program: Path, options: list[str]) -> subprocess.Popen[str]:
    kept_to_us = ["setpriv", "--pdeathsig", "KILL", "--"]  # it must not outlive a killed run
    process = subprocess.Popen(
        [*kept_to_us, program, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if not process.stdout.readline().startswith("ready"):
        _, complaint = process.communicate(timeout=10)
        if "in use" in complaint:
            raise PortTaken
        raise RuntimeError(f"oltsim did not start: {complaint}")
    return process


def _free_ports(count: int) -> int:
    """The first of `count` consecutive UDP ports that are free at this moment."""
    while True:
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        try:
            sockets[0].bind(("127.0.0.1", 0))
            first = int(sockets[0].getsockname()[1])
            for offset in range(1, count):
                sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sockets[-1].bind(("127.0.0.1", first + offset))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for opened in sockets:
                opened.close()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="oltsim-")


def _built() -> Path:
    """The compiled agent, built once in a process into a folder that goes with it."""
    compiler = shutil.which("cc")
    if not SOURCE.exists():
        pytest.skip("../shared/bench/oltsim.c is absent")
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    program = Path(_folder().name) / "oltsim"
    if not program.exists():
        subprocess.run([compiler, "-O1", "-w", "-o", str(program), str(SOURCE)], check=True, timeout=60)
    return program
