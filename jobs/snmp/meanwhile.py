"""One piece of work in another thread, while this one waits in the C library for an OLT. No SNMP here.

Between an answer and the next request an OLT does nothing for us: what can be done later is done while it works.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Meanwhile:
    """At most one piece at a time. The thread is made with the first one; `close` ends it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin; the piece before must have been waited for."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "meanwhile")
        self._under_way = self._pool.submit(work)

    def finish(self) -> None:
        """Wait for what was started, if anything; what it raised is raised here."""
        if self._under_way is not None:
            work, self._under_way = self._under_way, None
            work.result()

    def close(self) -> None:
        """Wait for what was started and forget what became of it."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
