"""How many requests may be under way at one OLT, and how long to wait before the next: fewer and later after silence.

Agents of OLTs are weak: some answer one request at a time, and one that stalls needs rest more than it needs us.
"""

import threading
import time
from collections.abc import Callable

FIRST_GAP, LONGEST_GAP = 0.05, 1.0  # seconds between a time-out and the next request; doubled at each further one
GOOD_RUN = 10  # answers in a row that give back one request in flight and end the gaps


class Pace:
    """Shared by all threads that ask one OLT. `pause` sleeps the given seconds."""

    def __init__(self, most: int, pause: Callable[[float], None] = time.sleep) -> None:
        self.allowed = self.most = max(1, most)
        self.gap = 0.0
        self._pause = pause
        self._good = 0
        self._due = False  # the gap is taken once for each time-out, by whoever sends next
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Take the gap that a time-out has left, outside of the lock: the others wait for their own turn anyway."""
        with self._lock:
            gap, self._due = (self.gap if self._due else 0.0), False
        if gap:
            self._pause(gap)

    def silent(self) -> None:
        """A request had no answer."""
        with self._lock:
            self._good = 0
            self.allowed = max(1, self.allowed - 1)
            self.gap = min(LONGEST_GAP, self.gap * 2 or FIRST_GAP)
            self._due = True

    def answered(self) -> None:
        """A request had its answer."""
        with self._lock:
            self._good += 1
            if self._good >= GOOD_RUN:
                self._good, self.gap = 0, 0.0
                self.allowed = min(self.most, self.allowed + 1)
