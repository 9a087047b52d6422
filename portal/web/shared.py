"""A live fragment is made once a second for all who may see the same: what one web process keeps. Knows no pages."""

import gzip
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property

LIFE = 1.0  # seconds that a fragment may be shown to others, counted from before its first query
STALE = 2.0  # as long as this, while another fragment is made or one has just been: a busy portal makes one at a time
REST = 2.0  # after each that was made, so many times its span, before one that can still be shown is made again
PATIENCE = 5.0  # seconds that a request waits for another's rendering
SMALLEST_PACKED = 500  # octets; below that gzip saves nothing
MOST = 512  # fragments kept; what is older than LIFE goes first


class Fragment:
    """HTML of one block and its digest. `began`: the clock before anything was read for it.

    `headers`: what its view says with it, for all who get it.
    """

    def __init__(self, html: str, digest: str, began: float, headers: Mapping[str, str] | None = None) -> None:
        self.body, self.digest, self.began = html.encode(), digest, began
        self.headers = dict(headers or {})

    @cached_property
    def packed(self) -> bytes:
        """The body under gzip, made once for all who get it."""
        return gzip.compress(self.body, 5)

    def wire(self, packed: bool) -> tuple[bytes, dict[str, str]]:
        """The body as it goes to the browser, and its headers. `packed`: it takes gzip."""
        if not packed or len(self.body) < SMALLEST_PACKED:
            return self.body, self.headers
        return self.packed, {"Content-Encoding": "gzip", **self.headers}


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
        self._rests_until = 0.0

    def get(self, key: Hashable, since: float = 0.0) -> Fragment | Flight:
        """A fragment begun after `since` and young enough (LIFE, STALE); one that is being made is waited for.

        Else a Flight: the caller makes the fragment.
        """
        with self._lock:
            kept, flight = self._shown(key), self._flights.get(key)
            if kept and kept.began > since:
                return kept
            if flight is None or flight.began <= since or self.clock() - flight.began > PATIENCE:
                self._flights[key] = begun = Flight(self, key, self.clock())
                return begun
        flight.landed.wait(PATIENCE)
        return flight.fragment or Flight(self, key, self.clock())

    def peek(self, key: Hashable) -> Fragment | None:
        """What `get` would give without waiting and without anything being made."""
        with self._lock:
            return self._shown(key)

    def _shown(self, key: Hashable) -> Fragment | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        now = self.clock()
        busy = bool(self._flights) or now < self._rests_until
        return kept if now - kept.began < (max(self._life, STALE) if busy else self._life) else None

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
            now = self.clock()
            self._rests_until = now + REST * min(now - flight.began, self._life)
            made, kept = flight.fragment, self._kept.get(key)
            if made and (kept is None or kept.began < made.began):
                self._make_room()
                self._kept[key] = made

    def _make_room(self) -> None:
        if len(self._kept) < MOST:
            return
        now = self.clock()
        self._kept = {key: one for key, one in self._kept.items() if now - one.began < STALE}
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
