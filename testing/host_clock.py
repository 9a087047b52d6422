"""A wall clock that a test sets for one process and its children, as of a host of their own (host_clock.c).

Their monotonic clock goes on undisturbed, as it does when a host's clock is set. Nothing of the product is imported.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("host_clock.c")


class NoCompilerError(RuntimeError):
    """There is no C compiler on this machine."""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="host-clock-")


@cache
def library() -> Path:
    """The compiled shim, built once in a process into a folder that goes with it."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompilerError("no C compiler (cc): run `ops/setup --dev`")
    made = Path(_folder().name) / "host_clock.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return made


def is_preloaded() -> bool:
    """This process was started with the shim: what it forks may see a clock of its own."""
    return hasattr(ctypes.CDLL(None), "host_clock_see")


@dataclass(frozen=True)
class HostClock:
    """Right until it is stepped. `file` is read by the processes that see it."""

    file: Path

    def __post_init__(self) -> None:
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with to see this clock."""
        return {"LD_PRELOAD": str(library()), "HOST_CLOCK": str(self.file)}

    def see(self) -> None:
        """From now on this process and its children see this clock. The shim must be preloaded."""
        if ctypes.CDLL(None).host_clock_see(os.fsencode(self.file)):
            raise OSError(f"cannot map {self.file}")

    def step(self, seconds: int) -> None:
        """From now on so many seconds ahead of the real time (negative: behind); 0 sets it right."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, struct.pack("=q", seconds), 0)
        finally:
            os.close(descriptor)
