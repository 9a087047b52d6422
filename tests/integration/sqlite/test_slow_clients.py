"""Who does not send a request, or does not read its answer, keeps nobody waiting: the web process as it is served."""

import selectors
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ops.web_worker import WebWorker
from testing.crowds import BODY, HEAD, LARGE, crowd, login_seconds
from testing.measuring.quantiles import quantile
from testing.served import free_port, served
from testing.stack import Stack

SECONDS = 2  # in which a request must have arrived whole


@pytest.fixture
def port(running: Stack) -> Iterator[int]:
    running.environment["REQUEST_SECONDS"] = str(SECONDS)
    found = free_port()
    with served(running, found):
        yield found


def connected(port: int, sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 30)
    made.sendall(sent)
    return made


def all_of(one: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    return b"".join(iter(lambda: one.recv(65536), b""))


def test_sixty_four_of_each_kind_hold_no_page(port: int) -> None:
    with crowd(port, 64) as held:
        assert quantile(login_seconds(port, lambda times: times < 40), 0.95) < 1
        for kind in ("half head", "half body"):
            assert all_of(held.sockets[kind][0]) == b"", "it is sent away, and told nothing"


def test_a_request_that_trickles_is_given_no_more_time(port: int) -> None:
    with connected(port, HEAD) as one:
        one.settimeout(0.2)
        for _ in range(10 * SECONDS * 5):
            try:
                one.sendall(b"x")
                if not one.recv(1):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it trickled on")


PIECES = {
    "as one": [b"GET /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"],
    "in pieces": [b"GET /lo", b"gin HTTP/1.1\r\nHost: a\r\nConnection: close\r", b"\n\r", b"\n"],
    "two at once": [
        b"GET /login HTTP/1.1\r\nHost: a\r\n\r\n" + b"GET /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    ],
    "two, the second in pieces": [
        b"GET /login HTTP/1.1\r\nHost: a\r\n\r\nGET /lo", b"gin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ],
}  # fmt: skip


@pytest.mark.parametrize("how", PIECES)
def test_whole_requests_are_answered_however_they_come(port: int, how: str) -> None:
    with connected(port, b"") as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in PIECES[how]:
            one.sendall(piece)
        answers = all_of(one)
    assert answers.count(b"HTTP/1.1 200 OK") == (2 if "two" in how else 1)
    assert answers.rstrip().endswith(b"</html>") or b"gzip" in answers


FORM = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n"
STATUS = {
    "body": (FORM + b"Content-Length: 10\r\n\r\nusername=a", b"400"),  # without a token of the form
    "body in chunks": (FORM + b"Transfer-Encoding: chunked\r\n\r\n4\r\nuser\r\n6\r\nname=a\r\n0\r\n\r\n", b"400"),
    "too large": (FORM + b"Content-Length: 99999999\r\n\r\nusername=a", b"413"),
    "too large in chunks": (FORM + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFF\r\nusername=a", b"4"),
    "two lengths": (FORM + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
    "length and chunks": (FORM + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    "signed length": (FORM + b"Content-Length: +6\r\n\r\nabcdef", b"400"),
    "no chunk": (FORM + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"500"),
    "bare line ends": (b"GET /login HTTP/1.1\nHost: a\n\n", b"400"),
    "long head": (b"GET /login HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
    "endless head": (b"GET /login HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000, b""),
    "long line": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"414"),
}


def test_what_a_request_means_is_decided_by_gunicorn_as_ever(port: int) -> None:
    found = {}
    for what, (request, _status) in STATUS.items():
        with connected(port, request) as one:
            found[what] = all_of(one).partition(b"\r\n")[0]
    wanted = {what: b"HTTP/1.1 " + status if status else b"" for what, (_, status) in STATUS.items()}
    assert {what: line for what, line in found.items() if line[: len(wanted[what])] != wanted[what]} == {}
    assert found["endless head"] == b"", "it is sent away"


def test_who_asks_whether_to_send_a_body_is_told_to(port: int) -> None:
    head = FORM + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    with connected(port, head) as one:
        assert one.recv(65536).startswith(b"HTTP/1.1 100 Continue")
        one.sendall(b"username=a")
        assert b"HTTP/1.1 400" in all_of(one)


def test_a_slow_reader_gets_all_of_a_large_file(port: int) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(30)
        one.connect(("127.0.0.1", port))
        one.sendall(f"GET {LARGE} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        head, _, body = all_of(one).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert len(body) > 100_000


def test_a_stop_waits_for_no_half_request(running: Stack) -> None:
    port = free_port()
    with served(running, port) as process:
        with connected(port, HEAD), connected(port, BODY), connected(port, b""):
            process.terminate()
            try:
                process.wait(12)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits on")


EVERYWHERE = "0.0.0.0"  # noqa: S104
BEYOND = [(EVERYWHERE, 0, True), ("192.0.2.1", 0, True), ("::", 0, True), ("192.0.2.1", 1, False),
          ("127.0.0.1", 0, False), ("::1", 0, False), ("localhost", 0, False)]  # fmt: skip


@pytest.mark.parametrize(("bind", "proxies", "warned"), BEYOND)
def test_who_listens_beyond_this_machine_without_a_proxy_is_warned(bind: str, proxies: int, warned: bool) -> None:
    worker = WebWorker.__new__(WebWorker)
    worker.app = SimpleNamespace(wsgi=lambda: SimpleNamespace(config={"PROXIES": proxies}))
    worker.cfg = SimpleNamespace(address=[(bind, 8000)])
    told: list[str] = []
    worker.log = SimpleNamespace(warning=lambda text, *given: told.append(text % given))
    worker.largest_body, worker.seconds = 1, 1.0
    worker.load_wsgi()
    assert [bind in text for text in told] == [True] * warned


@pytest.fixture
def door() -> Iterator[tuple[WebWorker, socket.socket]]:
    """A worker that takes forty connections, and the socket where it takes them."""
    worker = WebWorker.__new__(WebWorker)
    worker.cfg, worker.worker_connections, worker.largest_body = SimpleNamespace(keepalive=30), 40, 1000
    worker.poller, worker.nr_conns, worker.held = selectors.DefaultSelector(), 0, 0
    worker.waits, worker.by_address, worker.behind_proxy = {}, Counter(), False
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield worker, listener
        worker.murder_keepalived(force=True)
        worker.poller.close()


def come(worker: WebWorker, listener: socket.socket, count: int) -> list[socket.socket]:
    clients = [socket.create_connection(listener.getsockname(), 30) for _ in range(count)]
    for _ in clients:
        worker.accept(listener)
    return clients


def test_one_address_has_its_share_of_the_connections(
    door: tuple[WebWorker, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WebWorker, "_is_shared", lambda _worker, _address: False)
    clients = come(*door, 15)
    assert door[0].nr_conns == 10
    assert [one.recv(1) for one in clients[10:]] == [b""] * 5, "the others are closed"
    for one in clients:
        one.close()


def test_when_all_are_taken_who_kept_it_waiting_longest_goes(door: tuple[WebWorker, socket.socket]) -> None:
    clients = come(*door, 45)
    assert door[0].nr_conns == 39
    assert [one.recv(1) for one in clients[:6]] == [b""] * 6
    for one in clients:
        one.close()


SHARED = [("127.0.0.1", False, True), ("::1", False, True), ("", False, True), ("192.0.2.1", False, False),
          ("192.0.2.1", True, True), ("2001:db8::1", False, False)]  # fmt: skip


@pytest.mark.parametrize(("address", "behind_proxy", "shared"), SHARED)
def test_a_proxy_has_all_it_wants(address: str, behind_proxy: bool, shared: bool) -> None:
    worker = WebWorker.__new__(WebWorker)
    worker.behind_proxy = behind_proxy
    assert worker._is_shared(address) is shared
