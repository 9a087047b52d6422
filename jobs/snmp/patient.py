"""A session that repeats a silent request by itself, with the lease checked before each repeat. No driver, no decoding.

The C library can repeat too, but between its tries nobody looks at the lease: a process that was frozen in the middle
and wakes up after its lease has gone would still send one datagram for each try that was left.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jobs.snmp.errors import SnmpTimeout, silence
from jobs.snmp.session import SessionFactory, SnmpSession, VarBind
from portal.domain.composite import SnmpTarget


class PatientSession:
    """Like the session that `open_session` gives, which then sends each request once. `repeats` counts further tries.

    The caller has passed the checkpoint before the first try of a request; what `checkpoint` raises passes through.
    """

    def __init__(self, open_session: SessionFactory, target: SnmpTarget, checkpoint: Callable[[], None]) -> None:
        self._session: SnmpSession = open_session(replace(target, retries=0))
        self._target = target
        self._checkpoint = checkpoint
        self.repeats = 0

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
        for left in range(self._target.retries, -1, -1):
            try:
                return send()
            except SnmpTimeout:
                if not left:
                    break
            self._checkpoint()
            self.repeats += 1
        raise SnmpTimeout(silence(self._target))
