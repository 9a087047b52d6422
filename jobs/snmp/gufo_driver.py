"""The session over gufo-snmp 0.13.0 (SNMP core in Rust), the only file that may import it. No retry rule, no decoding.

It reads about four times as many values a CPU second as easysnmp, and says less (found in its source and by trying;
docs/adr/0016): an error status, an empty answer and the end of the MIB all look alike, the types of values are lost, an
answer above 4,080 octets cannot be held, and SNMPv3 answers are not authenticated. It passes over holes without a word,
takes values out of errors, and reads odd encodings as other numbers. So it does the mass of the work, on answers that
were looked at first (`jobs.snmp.datagrams`), and whatever is in doubt is asked again through an easysnmp session to the
same OLT (`exact`, opened when needed).

* only SNMPv2c goes through it: v1 tells by its error-index which name is missing, v3 needs its answers verified;
* `next_rows` asks for one column: the library's GETBULK takes one name;
* GETNEXT is left to the exact session: a marker in its answer is a panic of the library;
* the socket is connected: a closed port is told at once, an answer from another address of the OLT is never seen;
* a late answer is told by its request-id and passed over: the library never sees it.
"""

import os
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gufo.snmp._fast import GetIter, SnmpV2cClientSocket
from gufo.snmp._fast import SnmpError as GufoError

from jobs.snmp import easysnmp_driver
from jobs.snmp.datagrams import answers_another, is_plain, request_id
from jobs.snmp.errors import SnmpError, SnmpLocalFault, SnmpTimeout, SnmpUnclear, SnmpUnreachable, silence
from jobs.snmp.peers import local_fault, resolved, retries_of, seconds_of, usable_community
from jobs.snmp.session import MAX_REPETITIONS, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget

# Numbers are Integer32 whatever they were, IP addresses ObjectIdentifier: the Python form is all that is left.
_KINDS = {int: SnmpType.INTEGER, bytes: SnmpType.OCTETS, str: SnmpType.OID}
_ANYTHING = "1.3"  # answers are taken as they come, be they below the name asked for or not: the walker judges them
_ERROR_NUMBER = re.compile(r"os error (\d+)")
_REFUSED = 111
_BUFFER = 4_080  # octets of an answer that the library holds
_REQUEST = 65_535
_AT_ONCE = struct.pack("ll", 0, 100_000)  # seconds and microseconds: what the library waits for is there already
_NO_WAY = frozenset({1, 13, 22, 99, 101, 113})  # errno of Linux: not permitted, no such address here, no route


class _Line:
    """The socket to the OLT, which is ours, and the library's, which ends here: it writes requests and reads answers.

    The library would take whatever comes, and pass over without a word what it does not understand. So it gets what was
    looked at, and nothing else. It opens the socket itself; a pair is then put into its place.
    """

    def __init__(self, peer: str, community: str, seconds: float) -> None:
        self.library = SnmpV2cClientSocket(peer, community, 0, 0, 0, int(seconds * 1e9))
        self._community, self._seconds = community.encode(), seconds
        self._olt = socket.socket(fileno=os.dup(self.library.get_fd()))
        self._here, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _AT_ONCE)
            os.dup2(theirs.fileno(), self.library.get_fd(), inheritable=False)
        self._arrival = select.poll()
        self._arrival.register(self._olt, select.POLLIN)

    def close(self) -> None:
        """Our half; the library's goes with its last reference."""
        self._olt.close()
        self._here.close()

    def ask(self, holes: bool) -> bool:
        """Send the request that the library has written, and give it the answer if it is a plain one; False if not.

        BlockingIOError where none comes. Answers to other requests are passed over.
        """
        request = self._here.recv(_REQUEST)
        number = request_id(request) or b""
        ends = time.monotonic() + self._seconds
        self._olt.send(request)
        answer = self._olt.recv(_BUFFER + 1)  # the library has given the socket its time-out
        while len(answer) > _BUFFER or not is_plain(answer, self._community, number, holes):
            if not answers_another(answer, number):
                return False
            answer = self._received_until(ends)
        self._here.send(answer)
        return True

    def _received_until(self, ends: float) -> bytes:
        while (left := ends - time.monotonic()) > 0:
            if self._arrival.poll(left * 1000):  # its clock is coarser
                return self._olt.recv(_BUFFER + 1, socket.MSG_DONTWAIT)
        raise BlockingIOError


class GufoSession:
    """One socket to one OLT that speaks SNMPv2c. Opening sends nothing; it fails as easysnmp's does."""

    columns_per_request: ClassVar[int] = 1
    parallel: ClassVar[bool] = True
    repeats: ClassVar[int] = 0
    checks: ClassVar[int] = 0

    def __init__(self, target: SnmpTarget) -> None:
        self._target = target
        self._community = usable_community(target)
        address, six = resolved(target)
        self._peer = f"[{address}]:{target.port}" if six else f"{address}:{target.port}"
        self._thread = threading.get_ident()
        self._seconds = seconds_of(target)
        self._exact: SnmpSession | None = None
        self._closed = False
        self._line: _Line | None = self._opened()

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
            lambda: self._usable().library.send_get_many(names),
            lambda: self._usable().library.recv_get_many(),
            holes=True,
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
            lambda: self._usable().library.send_get_bulk(after),
            lambda: self._usable().library.recv_get_bulk(GetIter(_ANYTHING)),
            holes=False,
        )
        binds = _binds(found)
        if not binds:
            raise SnmpUnclear(f"{self._peer}: an answer without values")
        return binds

    def close(self) -> None:
        """See SnmpSession. The socket goes with its last reference."""
        self._closed = True
        self._drop()
        if self._exact is not None:
            self._exact.close()

    def _opened(self) -> _Line:
        try:
            return _Line(self._peer, self._community, self._seconds)
        except OSError as error:
            if _number_of(error) in _NO_WAY:
                raise SnmpUnreachable(f"nothing can be sent to {self._peer}: check the address and the route") from None
            raise local_fault(self._target) from None

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _usable(self) -> _Line:
        if self._closed:
            raise RuntimeError("this SNMP session is closed")
        if threading.get_ident() != self._thread:
            raise RuntimeError("an SNMP session may be used only in the thread that opened it")
        if self._line is None:
            self._line = self._opened()
        return self._line

    def _asked(self, send: Callable[[], None], receive: Callable[[], Any], holes: bool) -> Any:
        """One request with its tries. No frame on this way may keep the socket: a traceback would hold it open."""
        for left in range(retries_of(self._target), -1, -1):
            try:
                return self._tried(send, receive, holes)
            except BaseException as error:
                wrong = self._translated(error)
            if not isinstance(wrong, SnmpTimeout) or not left:
                raise wrong from None
        raise SnmpTimeout(silence(self._target))

    def _tried(self, send: Callable[[], None], receive: Callable[[], Any], holes: bool) -> Any:
        """What a plain answer holds. SnmpUnclear where another one came."""
        send()
        if not self._usable().ask(holes):
            raise SnmpUnclear(f"{self._peer}: an answer that not every decoder reads alike")
        try:
            return receive()
        except BlockingIOError:
            raise SnmpUnclear(f"{self._peer}: an answer that the library does not take for one") from None

    def _translated(self, error: BaseException) -> BaseException:
        """Our own error for one of the library's; what is none of them stays what it is."""
        if isinstance(error, BlockingIOError):
            return SnmpTimeout(silence(self._target))
        if isinstance(error, StopAsyncIteration | GufoError):
            return SnmpUnclear(f"{self._peer}: {error}")
        if isinstance(error, OSError):
            return self._of_the_system(error)
        if type(error).__name__ == "PanicException":  # of Rust, a BaseException: the answer is one it never expected
            self._drop()
            return SnmpUnclear(f"{self._peer}: an answer that the library cannot take")
        return error

    def _of_the_system(self, error: OSError) -> SnmpError:
        number = _number_of(error)
        if number == _REFUSED or isinstance(error, TimeoutError):  # nothing listens on that port
            return SnmpTimeout(silence(self._target))
        if number in _NO_WAY:
            return SnmpUnreachable(f"nothing could be sent to {self._peer}: check the address and the route")
        return SnmpLocalFault(f"this poller could not ask {self._peer}: {error}")


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
