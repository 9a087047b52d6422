"""The web process's worker: threads get whole requests, and hand over whole answers. No thread waits for a network.

gunicorn's own threads read requests and write answers: as many half requests, or readers that do not read, as there are
threads stop the portal. Here the main loop gathers each request, a thread gets it from memory, and what a client does
not take at once of the answer waits in memory or a file until the loop can send it. Plain HTTP/1: TLS is for a proxy.
"""

import errno
import re
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address
from tempfile import SpooledTemporaryFile
from typing import Any

from gunicorn import http
from gunicorn.workers.gthread import TConn, ThreadWorker

PIECE = 64 * 1024  # octets received or sent at a time
LARGEST_HEAD = 64 * 1024  # octets; gunicorn refuses less
IN_MEMORY = 256 * 1024  # octets of an answer that wait in memory before a file is made
MOST_HELD = 64 * 1024 * 1024  # octets of requests that are not whole yet, of all connections
FAREWELL_SECONDS = 2.0  # for the client to take the last of an answer before its connection is closed
NO_PROXY = (
    "event=no_proxy bind=%s passwords cross the network in clear: put a proxy that speaks TLS in front of the portal"
    " and set PROXIES (docs/operations.md)"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_EXPECTS = re.compile(rb"^expect[ \t]*:[ \t]*100-continue", re.IGNORECASE | re.MULTILINE)
_CHUNK = re.compile(rb"([0-9a-f]{1,8})[^\r\n]*\r\n", re.IGNORECASE)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


class Arrival:
    """The octets of one request. When they are all of it is decided here, what they mean by gunicorn's parser alone.

    The parser can never wait for more: what is not here is the end for it, so a wrong guess costs the sender an error.
    """

    def __init__(self, octets: bytes, largest_body: int) -> None:
        self.data, self.largest_body = bytearray(), largest_body
        self.body_at = 0  # 0: the head is not whole
        self.needs = 0  # octets of head and body
        self.cut = False  # the body is larger than any that is taken, and not here
        self._chunk_at = 0
        self.add(octets)

    def add(self, octets: bytes) -> None:
        """What came next."""
        looked_at = len(self.data)
        self.data += octets
        if not self.body_at:
            end = _END_OF_HEAD.search(self.data, max(looked_at - 3, 0))
            if end is not None:
                self._read_head(end.end())

    def _read_head(self, end: int) -> None:
        head = bytes(self.data[:end])
        self.body_at = self._chunk_at = end
        lengths = _LENGTH.findall(head)
        self.chunked = bool(_CHUNKED.search(head))
        self.expects = bool(_EXPECTS.search(head))
        length = max(map(int, lengths), default=0)
        self.cut = length > self.largest_body
        self.needs = end if self.cut else end + length

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to wait for."""
        if not self.body_at:
            return len(self.data) > LARGEST_HEAD
        if self.chunked:
            return self._is_last_chunk_here()
        return len(self.data) >= self.needs

    def _is_last_chunk_here(self) -> bool:
        """Also where no chunk can be read, or they are too much: the parser will say so."""
        while self._chunk_at < len(self.data):
            if self._chunk_at - self.body_at > self.largest_body:
                self.cut = True
                return True
            line = _CHUNK.match(self.data, self._chunk_at)
            if line is None:
                return b"\n" in self.data[self._chunk_at : self._chunk_at + 1024]
            size = int(line[1], 16)
            if size == 0:
                return self.data.find(b"\r\n\r\n", line.end() - 2) >= 0
            if size > self.largest_body:
                self.cut = True
                return True
            if line.end() + size + 2 > len(self.data):
                return False
            self._chunk_at = line.end() + size + 2
        return False


class Answering:
    """A connection's socket as a thread sees it: nothing to read, and all that is written is taken at once."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._late: SpooledTemporaryFile[bytes] | None = None  # what the client has not taken
        self._from = self._to = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def setblocking(self, flag: object) -> None:
        """It never blocks."""

    settimeout = setblocking

    def gettimeout(self) -> float:
        """As of a socket that never blocks."""
        return 0.0

    def recv(self, *_size: int) -> bytes:
        """The end: a request is whole before a thread gets it."""
        return b""

    def sendall(self, data: bytes) -> None:
        """To the client as far as it takes it now; the rest waits."""
        rest = memoryview(data)
        if self._late is None:
            rest = rest[self._send(rest) :]
        if rest:
            if self._late is None:
                self._late, self._from, self._to = SpooledTemporaryFile(IN_MEMORY), 0, 0  # noqa: SIM115
            self._late.seek(self._to)
            self._to += self._late.write(rest)

    def send(self, data: bytes) -> int:
        """As `sendall`."""
        self.sendall(data)
        return len(data)

    def flush(self) -> bool:
        """Send what waits, as far as it is taken now; True when nothing waits any more. OSError."""
        while self._late is not None and self._from < self._to:
            self._late.seek(self._from)
            piece = memoryview(self._late.read(PIECE))
            sent = self._send(piece)
            self._from += sent
            if sent < len(piece):
                return False
        self._forget()
        return True

    def _send(self, data: memoryview) -> int:
        sent = 0
        try:
            while sent < len(data):
                sent += self.sock.send(data[sent:])
        except BlockingIOError:
            pass
        return sent

    def _forget(self) -> None:
        if self._late is not None:
            self._late.close()
            self._late = None

    def close(self) -> None:
        """Close it, whatever waits."""
        self._forget()
        self.sock.close()


class WebWorker(ThreadWorker):
    """gunicorn's threads behind a loop that gathers requests and sends answers."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.waits: dict[TConn, float] = {}  # connections that wait for their client → until when; oldest first
        self.held = 0  # octets of requests that are not whole
        self.by_address: Counter[str] = Counter()

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """gunicorn asks when it starts."""
        if cfg.is_ssl:
            sys.exit("this worker speaks plain HTTP: let a proxy speak TLS")

    def init_process(self) -> None:
        """The settings are the application's, which is loaded by now where gunicorn preloads, else a little later."""
        self.seconds, self.largest_body, self.behind_proxy = 10.0, 4 * 1024 * 1024, False
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application, and take what concerns this worker from its settings."""
        super().load_wsgi()
        settings = getattr(self.wsgi, "config", {})
        self.seconds = float(settings.get("REQUEST_SECONDS", self.seconds))
        self.largest_body = int(settings.get("MAX_CONTENT_LENGTH") or self.largest_body)
        self.behind_proxy = bool(settings.get("PROXIES"))
        for address in self.cfg.address:
            if isinstance(address, tuple) and not self.behind_proxy and not _is_loopback(str(address[0])):
                self.log.warning(NO_PROXY, address[0])

    # -- connections come and go

    def accept(self, listener: socket.socket) -> None:
        """A new connection, unless its address has its share of them already."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return
        address = str(client[0]) if isinstance(client, tuple) else ""
        if self._is_shared(address) or self.by_address[address] < self.worker_connections // 4:
            conn = TConn(self.cfg, Answering(sock), client, listener.getsockname())
            conn.address, conn.arrival = address, Arrival(b"", self.largest_body)
            self.nr_conns += 1
            self.by_address[address] += 1
            self._wait(conn, selectors.EVENT_READ, self.on_readable, self.cfg.keepalive)
            if self.nr_conns >= self.worker_connections:
                self._make_room()
        else:
            sock.close()

    def _is_shared(self, address: str) -> bool:
        """Whether many people may stand behind one address: that of a proxy."""
        return self.behind_proxy or not address or _is_loopback(address)

    def _make_room(self) -> None:
        """Drop who has kept us waiting longest."""
        if self.waits:
            self._drop(next(iter(self.waits)))

    def _wait(self, conn: TConn, event: int, call: Callable[[TConn, Any], None], seconds: float) -> None:
        self.waits[conn] = time.monotonic() + seconds
        self.poller.register(conn.sock, event, partial(call, conn))

    def _stop_waiting(self, conn: TConn) -> None:
        if self.waits.pop(conn, None) is not None:
            self.poller.unregister(conn.sock)

    def _drop(self, conn: TConn) -> None:
        self._stop_waiting(conn)
        self.held -= len(conn.arrival.data)
        self.nr_conns -= 1
        self.by_address[conn.address] -= 1
        if not self.by_address[conn.address]:
            del self.by_address[conn.address]
        conn.sock.close()

    def murder_keepalived(self, force: bool = False) -> None:  # noqa: FBT001, FBT002  (gunicorn's)
        """Close what waited too long for its client; with `force` all that waits."""
        now = time.monotonic()
        for conn in [conn for conn, until in self.waits.items() if force or until <= now]:
            self._drop(conn)

    def murder_pending(self) -> None:
        """Nothing else waits."""

    def _cap_keepalive(self, deadline: float) -> None:
        """The worker stops: who has not begun to ask by then is not waited for."""
        for conn, until in self.waits.items():
            if not conn.arrival.data:
                self.waits[conn] = min(until, deadline)

    # -- a request comes, and its answer goes

    def on_readable(self, conn: TConn, _sock: Any) -> None:
        """Something of a request, or its end."""
        try:
            octets = conn.sock.sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self._drop(conn)
            return
        if not conn.arrival.data:  # all of it by then, however it trickles
            del self.waits[conn]
            self.waits[conn] = time.monotonic() + self.seconds
        had_head = conn.arrival.body_at
        conn.arrival.add(octets)
        self.held += len(octets)
        if conn.arrival.is_whole:
            self._stop_waiting(conn)
            self._run(conn)
        elif conn.arrival.body_at and not had_head and conn.arrival.expects:
            conn.sock.sendall(CONTINUE)
        while self.held > MOST_HELD and self.waits:
            self._make_room()

    def _run(self, conn: TConn) -> None:
        self.held -= len(conn.arrival.data)
        if conn.parser is None:
            conn.parser = http.get_parser(self.cfg, conn.sock, conn.client)
            conn.initialized = True
        conn.parser.unreader.unread(bytes(conn.arrival.data))
        conn.arrival.data = bytearray()
        self.enqueue_req(conn)

    def _keepalive_after(self, conn: TConn, keepalive: bool) -> bool:  # noqa: FBT001  (gunicorn's)
        """What follows a body that was not taken is no request."""
        return not conn.arrival.cut and bool(super()._keepalive_after(conn, keepalive))

    def finish_request(self, conn: TConn, done: "Future[Any]") -> None:
        """A thread is through with it: in the main loop."""
        conn.keep = not done.cancelled() and done.exception() is None and bool(done.result())
        self.on_writable(conn, None)

    def on_writable(self, conn: TConn, _sock: Any) -> None:
        """Send on; when all is sent, the next request or the end."""
        self._stop_waiting(conn)
        try:
            sent = conn.sock.flush()
        except OSError:
            self._drop(conn)
            return
        if not sent:
            self._wait(conn, selectors.EVENT_WRITE, self.on_writable, self.seconds)
        elif conn.keep:
            self._next(conn)
        else:
            self._take_leave(conn)

    def _next(self, conn: TConn) -> None:
        conn.arrival = Arrival(conn.parser.unreader.take_buffered(), self.largest_body)
        self.held += len(conn.arrival.data)
        if conn.arrival.is_whole:
            self._run(conn)
            return
        idle = self.cfg.keepalive if self.alive else FAREWELL_SECONDS
        self._wait(conn, selectors.EVENT_READ, self.on_readable, self.seconds if conn.arrival.data else idle)

    def _take_leave(self, conn: TConn) -> None:
        """Say that nothing follows and let the client close: what it still sends would undo the end of the answer."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        self._wait(conn, selectors.EVENT_READ, self.on_farewell, FAREWELL_SECONDS)

    def on_farewell(self, conn: TConn, _sock: Any) -> None:
        """What comes after the end is thrown away."""
        try:
            if conn.sock.sock.recv(PIECE):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._drop(conn)
