"""The session over gufo-snmp 0.13.0 (SNMP core in Rust), the only file that may import it. No retry rule, no decoding.

It reads about four times as many values a CPU second as easysnmp, and says less (found in its source and by trying;
docs/adr/0016): an error status, an empty answer and the end of the MIB all look alike, the types of values are lost, an
answer above 4,080 octets cannot be held, and SNMPv3 answers are not authenticated. So it does the mass of the work, and
whatever it leaves in doubt is asked again through an easysnmp session to the same OLT (`exact`, opened when needed).

* only SNMPv2c goes through it: v1 tells by its error-index which name is missing, v3 needs its answers verified;
* `next_rows` asks for one column: the library's GETBULK takes one name;
* GETNEXT is left to the exact session: a marker in its answer is a panic of the library;
* the socket is connected: a closed port is told at once, an answer from another address of the OLT is never seen;
* a late answer is told by its request-id and passed over.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gufo.snmp._fast import GetIter, SnmpV2cClientSocket
from gufo.snmp._fast import SnmpError as GufoError

from jobs.snmp import easysnmp_driver
from jobs.snmp.errors import SnmpError, SnmpLocalFault, SnmpTimeout, SnmpUnclear, SnmpUnreachable, silence
from jobs.snmp.peers import local_fault, resolved, retries_of, seconds_of, usable_community
from jobs.snmp.session import MAX_REPETITIONS, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget

# Numbers are Integer32 whatever they were, IP addresses ObjectIdentifier: the Python form is all that is left.
_KINDS = {int: SnmpType.INTEGER, bytes: SnmpType.OCTETS, str: SnmpType.OID}
_ANYTHING = "1.3"  # answers are taken as they come, be they below the name asked for or not: the walker judges them
_ERROR_NUMBER = re.compile(r"os error (\d+)")
_INTERRUPTED, _REFUSED = 4, 111
_NO_WAY = frozenset({1, 13, 22, 99, 101, 113})  # errno of Linux: not permitted, no such address here, no route


class GufoSession:
    """One socket to one OLT that speaks SNMPv2c. Opening sends nothing; it fails as easysnmp's does."""

    columns_per_request: ClassVar[int] = 1
    parallel: ClassVar[bool] = True
    repeats: ClassVar[int] = 0

    def __init__(self, target: SnmpTarget) -> None:
        self._target = target
        self._community = usable_community(target)
        address, six = resolved(target)
        self._peer = f"[{address}]:{target.port}" if six else f"{address}:{target.port}"
        self._thread = threading.get_ident()
        self._seconds = seconds_of(target)
        self._exact: SnmpSession | None = None
        self._closed = False
        self._socket: SnmpV2cClientSocket | None = self._opened()

    @property
    def exact(self) -> SnmpSession:
        """See SnmpSession: easysnmp's, opened at the first doubt."""
        self._usable()
        if self._exact is None:
            self._exact = easysnmp_driver.open_session(self._target)
        return self._exact

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession. Names without a value are left out, whatever the reason."""
        names = [checked_oid(oid) for oid in oids]
        self._usable()
        if not names:
            return []
        found: dict[str, Any] = self._asked(
            lambda: self._usable().get_many(names), lambda: self._usable().recv_get_many()
        )
        return _binds(list(found.items()))

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession. One column by GETBULK; several, or one row, are the exact session's."""
        names = [checked_oid(oid) for oid in oids]
        rows = min(max(max_repetitions, 1), MAX_REPETITIONS)
        self._usable()
        if len(names) != 1 or rows == 1:
            return self.exact.next_rows(names, rows) if names else []
        after = GetIter(names[0], rows)
        found: list[tuple[str, Any] | None] = self._asked(
            lambda: self._bulk(after), lambda: self._usable().recv_get_bulk(GetIter(_ANYTHING))
        )
        binds = _binds(found)
        if not binds:
            raise SnmpUnclear(f"{self._peer}: an answer without values")
        return binds

    def close(self) -> None:
        """See SnmpSession. The socket goes with its last reference."""
        self._closed, self._socket = True, None
        if self._exact is not None:
            self._exact.close()

    def _bulk(self, after: GetIter) -> list[tuple[str, Any] | None]:
        self._usable().send_get_bulk(after)
        return self._usable().recv_get_bulk(GetIter(_ANYTHING))

    def _opened(self) -> SnmpV2cClientSocket:
        try:
            return SnmpV2cClientSocket(self._peer, self._community, 0, 0, 0, int(self._seconds * 1e9))
        except OSError as error:
            if _number_of(error) in _NO_WAY:
                raise SnmpUnreachable(f"nothing can be sent to {self._peer}: check the address and the route") from None
            raise local_fault(self._target) from None

    def _usable(self) -> SnmpV2cClientSocket:
        if self._closed:
            raise RuntimeError("this SNMP session is closed")
        if threading.get_ident() != self._thread:
            raise RuntimeError("an SNMP session may be used only in the thread that opened it")
        if self._socket is None:
            self._socket = self._opened()
        return self._socket

    def _asked(self, send: Callable[[], Any], receive: Callable[[], Any]) -> Any:
        """One request with its tries. No frame on this way may keep the socket: a traceback would hold it open."""
        for left in range(retries_of(self._target), -1, -1):
            wrong = self._tried(send, receive)
            if not isinstance(wrong, BaseException):
                return wrong
            if not isinstance(wrong, SnmpTimeout) or not left:
                raise wrong from None
        raise SnmpTimeout(silence(self._target))

    def _tried(self, send: Callable[[], Any], receive: Callable[[], Any]) -> Any:
        """What came, or the error. After a signal the answer is awaited again: this system call is not resumed."""
        ends = time.monotonic() + self._seconds
        step = send
        while True:
            try:
                return step()
            except BaseException as error:
                wrong = self._translated(error)
            if not isinstance(wrong, _Interrupted) or time.monotonic() >= ends:
                return wrong
            step = receive

    def _translated(self, error: BaseException) -> BaseException:
        """Our own error for one of the library's; what is none of them stays what it is."""
        if isinstance(error, BlockingIOError):
            return SnmpTimeout(silence(self._target))
        if isinstance(error, StopAsyncIteration | GufoError):
            return SnmpUnclear(f"{self._peer}: {error}")
        if isinstance(error, OSError):
            return self._of_the_system(error)
        if type(error).__name__ == "PanicException":  # of Rust, a BaseException: the answer is one it never expected
            self._socket = None
            return SnmpUnclear(f"{self._peer}: an answer that the library cannot take")
        return error

    def _of_the_system(self, error: OSError) -> SnmpError:
        number = _number_of(error)
        if number == _INTERRUPTED:
            return _Interrupted(silence(self._target))
        if number == _REFUSED or isinstance(error, TimeoutError):  # nothing listens on that port
            return SnmpTimeout(silence(self._target))
        if number in _NO_WAY:
            return SnmpUnreachable(f"nothing could be sent to {self._peer}: check the address and the route")
        return SnmpLocalFault(f"this poller could not ask {self._peer}: {error}")


class _Interrupted(SnmpTimeout):
    """A signal came while the answer was awaited."""


def open_session(target: SnmpTarget) -> SnmpSession:
    """A session to `target`: gufo-snmp's for SNMPv2c, easysnmp's for the others (docs/adr/0016)."""
    return GufoSession(target) if target.version == "2c" else easysnmp_driver.open_session(target)


def _binds(found: list[tuple[str, Any] | None]) -> list[VarBind]:
    """Pairs as varbinds, cheaply: this runs for each value. None ends them (it stands for a name outside of 1.3)."""
    make, kinds = tuple.__new__, _KINDS
    try:
        return [make(VarBind, (oid, kinds[type(value)], value)) for oid, value in found]  # type: ignore[misc]
    except (KeyError, TypeError):
        pairs = found[: found.index(None)] if None in found else found
        return [VarBind(pair[0], *_typed(pair[1])) for pair in pairs if pair is not None]


def _typed(value: Any) -> tuple[SnmpType, int | bytes | str | None]:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind, value
    return (SnmpType.INTEGER, int(value)) if isinstance(value, bool) else (SnmpType.UNKNOWN, b"")


def _number_of(error: OSError) -> int:
    """The errno, which the library gives in the text only."""
    found = _ERROR_NUMBER.search(str(error))
    return int(found.group(1)) if found else error.errno or 0
