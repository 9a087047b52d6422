"""The time of one simulated OLT: what its own clock shows and how long it has been running; nothing waits here."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The device's time: the system's, or set to a moment and run at another speed.

    Faults go by ``elapsed`` seconds of the real clock, whatever the device believes; values go by the device's time.
    """

    def __init__(self, at: float | None, speed: float, ticker: Callable[[], float] = time.monotonic) -> None:
        self._ticker = ticker
        self._origin = ticker()
        self._at = time.time() if at is None else at
        self._speed = speed

    def __call__(self) -> float:
        """The device's time, unix seconds."""
        return self.moment(self.elapsed())

    def elapsed(self) -> float:
        """Real seconds since the OLT was started."""
        return self._ticker() - self._origin

    def moment(self, elapsed: float) -> float:
        """The device's time so many real seconds after the start."""
        return self._at + elapsed * self._speed
