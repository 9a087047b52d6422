"""A wall clock that a test sets for one process and its children, as of a host of their own (libfaketime).

Their monotonic clock goes on undisturbed, as it does when a host's clock is set. Nothing of the product is imported.
"""

import os
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = "*/faketime/libfaketimeMT.so.1"


class NoHostClocksError(RuntimeError):
    """libfaketime is not on this machine."""


@dataclass(frozen=True)
class HostClock:
    """Right until it is stepped. `file` is read by the processes that see it."""

    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with to see this clock."""
        library = next(Path("/usr/lib").glob(LIBRARIES), None)
        if library is None:
            raise NoHostClocksError("no libfaketime on this machine: run `ops/setup --dev`")
        return {
            "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip

    def step(self, seconds: int) -> None:
        """From now on so many seconds ahead of the real time (negative: behind); 0 sets it right."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        os.replace(new, self.file)
