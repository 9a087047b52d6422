"""A session that repeats a silent request by itself, with the lease checked before each repeat. No driver, no decoding.

The C library can repeat too, but between its tries nobody looks at the lease: a process that was frozen in the middle
and wakes up after its lease has gone would still send one datagram for each try that was left.

A request for several values is not simply repeated: an agent that serves one request after the other may still be at
it, and would then have to do the same work twice before it hears anything else. A cheap question comes first, of
another kind. Whoever answers that lives and is idle.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from jobs.snmp.errors import NOT_SENT, SnmpAuthError, SnmpEngineRestarted, SnmpError, SnmpTimeout, SnmpUnclear, silence
from jobs.snmp.session import PROBE_OID, SessionFactory, SnmpSession, VarBind
from portal.domain.composite import SnmpTarget

LONGEST_WAIT = 20.0  # seconds for an OLT that has answered before to come back from a request for several values


class PatientSession:
    """Like the session that `open_session` gives, which then sends each request once. `repeats` counts further tries

    after a silence, `checks` further questions that were answered.

    The caller has passed the checkpoint before the first try of a request; what `checkpoint` raises passes through.
    An SNMPv3 engine that was restarted is asked once more, besides: its discovery then comes first. `heard`: the OLT
    has answered before, so a silence means that it is busy, or not willing, rather than dead.
    """

    def __init__(
        self, open_session: SessionFactory, target: SnmpTarget, checkpoint: Callable[[], None], heard: bool = False
    ) -> None:
        self._session: SnmpSession = open_session(replace(target, retries=0))
        self._target = target
        self._checkpoint = checkpoint
        self._exact: PatientSession | None = None
        self._heard = heard
        self._repeats = self._checks = 0

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
    def checks(self) -> int:
        """See SnmpSession. Those of the exact session count too; set to 0 to begin a new count."""
        return self._checks + (self._exact.checks if self._exact is not None else 0)

    @checks.setter
    def checks(self, number: int) -> None:
        self._checks = number
        if self._exact is not None:
            self._exact.checks = 0

    @property
    def exact(self) -> "PatientSession":
        """See SnmpSession. As patient as this one."""
        inner = self._session.exact
        if inner is self._session:
            return self
        if self._exact is None or self._exact._session is not inner:
            self._exact = PatientSession(lambda _target: inner, self._target, self._checkpoint, self._heard)
        return self._exact

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession."""
        return self._patiently(lambda: self._session.get(oids), len(oids))

    def told(self, oids: Sequence[str]) -> list[VarBind]:
        """`get`, with the exact session's word where the fast one is in doubt: one further datagram."""
        try:
            return self.get(oids)
        except SnmpUnclear:
            self._checkpoint()
            self._checks += 1
            return self.exact.get(oids)

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession."""
        rows = 1 if self._target.version == "1" else max_repetitions
        return self._patiently(lambda: self._session.next_rows(oids, max_repetitions), len(oids) * rows)

    def close(self) -> None:
        """See SnmpSession."""
        self._session.close()

    def _patiently(self, send: Callable[[], list[VarBind]], values: int) -> list[VarBind]:
        left, restarted = self._target.retries, False
        while True:
            try:
                answer = send()
            except SnmpEngineRestarted:
                if restarted:
                    raise
                restarted = True
            except SnmpTimeout:
                lives = self._lives(left, values) if values > 1 else None
                if not left or (values > 1 and not lives):
                    silent = SnmpTimeout(silence(self._target))
                    silent.lives = lives
                    raise silent from None
                left -= 1
            except SnmpError as error:
                self._heard |= not isinstance(error, NOT_SENT)
                raise
            else:
                self._heard = True
                return answer
            self._checkpoint()
            self._repeats += 1

    def _lives(self, tries: int, values: int) -> bool | None:
        """Whether the OLT answers a cheap question after a silence; as soon as it does, it is at nothing else.

        None where it does not, and has not answered before either. It may take longer than that.
        """
        heard, self._heard = self._heard, False
        if heard:
            tries = max(tries, min(values, round(LONGEST_WAIT / self._target.timeout)))
        for _ in range(tries):
            self._checkpoint()
            try:
                self._session.get([PROBE_OID])
            except SnmpEngineRestarted:
                pass
            except SnmpTimeout:
                self._repeats += 1
                continue
            except (SnmpAuthError, *NOT_SENT):
                self._repeats += 1
                raise
            except SnmpError:
                pass  # an error status is an answer too
            self._checks += 1
            self._heard = True
            return True
        return False if heard else None
