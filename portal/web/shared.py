"""A live fragment is made once a second for all who may see the same: what one web process keeps. Knows no pages."""

import gzip
import threading
import time
from collections.abc import Callable, Hashable
from functools import cached_property

LIFE = 1.0  # seconds that a fragment may be shown to others, counted from before its first query
PATIENCE = 5.0  # seconds that a request waits for another's rendering
MOST = 512  # fragments kept; what is older than LIFE goes first


class Fragment:
    """HTML of one block and its digest. `began`: the clock before anything was read for it."""

    def __init__(self, html: str, digest: str, began: float) -> None:
        self.body, self.digest, self.began = html.encode(), digest, began

    @cached_property
    def packed(self) -> bytes:
        """The body under gzip, made once for all who get it."""
        return gzip.compress(self.body, 5)


class Flight:
    """One rendering, for which others wait. Whoever got it from a Shelf must `land` it, with nothing if it failed."""

    def __init__(self, shelf: "Shelf", key: Hashable, began: float) -> None:
        self._shelf, self._key, self.began = shelf, key, began
        self.landed = threading.Event()
        self.fragment: Fragment | None = None

    def land(self, fragment: Fragment | None) -> None:
        """The fragment for all who wait and for the next second; None: each of them makes their own."""
        if not self.landed.is_set():
            self.fragment = fragment
            self._shelf.store(self._key, self)
            self.landed.set()


class Shelf:
    """Fragments of the last second by key, and those that are being made. For the threads of one process."""

    def __init__(self, life: float = LIFE, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self._life = clock, life
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Fragment] = {}
        self._flights: dict[Hashable, Flight] = {}

    def get(self, key: Hashable, since: float = 0.0) -> Fragment | Flight:
        """A fragment begun after `since` and less than a second ago; one that is being made is waited for.

        Else a Flight: the caller makes the fragment.
        """
        with self._lock:
            kept, flight = self._kept.get(key), self._flights.get(key)
            if kept and kept.began > since and self.clock() - kept.began < self._life:
                return kept
            if flight is None or flight.began <= since or self.clock() - flight.began > PATIENCE:
                self._flights[key] = begun = Flight(self, key, self.clock())
                return begun
        flight.landed.wait(PATIENCE)
        return flight.fragment or Flight(self, key, self.clock())

    def keep(self, key: Hashable, fragment: Fragment) -> None:
        """A fragment for whoever asks for this key."""
        with self._lock:
            self._make_room()
            self._kept[key] = fragment

    def store(self, key: Hashable, flight: Flight) -> None:
        """What a flight brought, unless something newer is here."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
            made, kept = flight.fragment, self._kept.get(key)
            if made and (kept is None or kept.began < made.began):
                self._make_room()
                self._kept[key] = made

    def _make_room(self) -> None:
        if len(self._kept) < MOST:
            return
        now = self.clock()
        self._kept = {key: one for key, one in self._kept.items() if now - one.began < self._life}
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
