"""A session that repeats a silent request by itself, with the lease checked before each repeat. No driver, no decoding.

The C library can repeat too, but between its tries nobody looks at the lease: a process that was frozen in the middle
and wakes up after its lease has gone would still send one datagram for each try that was left.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from jobs.snmp.errors import SnmpEngineRestarted, SnmpTimeout, silence
from jobs.snmp.session import SessionFactory, SnmpSession, VarBind
from portal.domain.composite import SnmpTarget


class PatientSession:
    """Like the session that `open_session` gives, which then sends each request once. `repeats` counts further tries.

    The caller has passed the checkpoint before the first try of a request; what `checkpoint` raises passes through.
    An SNMPv3 engine that was restarted is asked once more, besides: its discovery then comes first.
    """

    def __init__(self, open_session: SessionFactory, target: SnmpTarget, checkpoint: Callable[[], None]) -> None:
        self._session: SnmpSession = open_session(replace(target, retries=0))
        self._target = target
        self._checkpoint = checkpoint
        self._exact: PatientSession | None = None
        self._repeats = 0

    @staticmethod
    def one_at_a_time(checkpoint: Callable[[], None]) -> Callable[[], None]:
        """The same checkpoint for several threads: a lease cannot be looked at by two at once, so one waits."""
        lock = threading.Lock()

        def guarded() -> None:
            with lock:
                checkpoint()

        return guarded

    @property
    def columns_per_request(self) -> int:
        """See SnmpSession."""
        return self._session.columns_per_request

    @property
    def parallel(self) -> bool:
        """See SnmpSession."""
        return self._session.parallel

    @property
    def repeats(self) -> int:
        """See SnmpSession. Those of the exact session count too; set to 0 to begin a new count."""
        return self._repeats + (self._exact.repeats if self._exact is not None else 0)

    @repeats.setter
    def repeats(self, number: int) -> None:
        self._repeats = number
        if self._exact is not None:
            self._exact.repeats = 0

    @property
    def exact(self) -> "PatientSession":
        """See SnmpSession. As patient as this one."""
        inner = self._session.exact
        if inner is self._session:
            return self
        if self._exact is None or self._exact._session is not inner:
            self._exact = PatientSession(lambda _target: inner, self._target, self._checkpoint)
        return self._exact

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession."""
        return self._patiently(lambda: self._session.get(oids))

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession."""
        return self._patiently(lambda: self._session.next_rows(oids, max_repetitions))

    def close(self) -> None:
        """See SnmpSession."""
        self._session.close()

    def _patiently(self, send: Callable[[], list[VarBind]]) -> list[VarBind]:
        left, restarted = self._target.retries, False
        while True:
            try:
                return send()
            except SnmpEngineRestarted:
                if restarted:
                    raise
                restarted = True
            except SnmpTimeout:
                if not left:
                    raise SnmpTimeout(silence(self._target)) from None
                left -= 1
            self._checkpoint()
            self._repeats += 1
