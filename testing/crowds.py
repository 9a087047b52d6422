"""Strangers who keep a web server waiting: half heads, half bodies, and readers who do not read."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEAD = b"GET /login HTTP/1.1\r\nHost: portal\r\nX-Slow: "
BODY = b"POST /login HTTP/1.1\r\nHost: portal\r\nContent-Type: application/x-www-form-urlencoded\r\n" + (
    b"Content-Length: 1000\r\n\r\nusername="
)
LARGE = "/static/vendor/tabler/tabler.min.css"


class Crowd:
    """So many of each kind at once. `again`: who was sent away comes back (`stir`)."""

    def __init__(self, port: int) -> None:
        self.port = port
        reader = f"GET {LARGE} HTTP/1.1\r\nHost: portal\r\n\r\n".encode() * 40
        self.kinds: dict[str, bytes] = {"half head": HEAD, "half body": BODY, "slow reader": reader}
        self.sockets: dict[str, list[socket.socket]] = {kind: [] for kind in self.kinds}

    def come(self, kind: str, count: int) -> None:
        """So many more of that kind."""
        self.sockets[kind] += [self._one(kind) for _ in range(count)]

    def _one(self, kind: str) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(30)
        made.connect(("127.0.0.1", self.port))
        made.sendall(self.kinds[kind])
        return made

    def stir(self) -> None:
        """Each sends or reads one octet more; who was sent away comes back."""
        for kind, sockets in self.sockets.items():
            for place, one in enumerate(sockets):
                try:
                    if kind != "slow reader":
                        one.sendall(b"x")
                    elif not one.recv(1, socket.MSG_DONTWAIT):
                        raise ConnectionError
                except BlockingIOError:
                    continue
                except OSError:
                    one.close()
                    sockets[place] = self._one(kind)

    def leave(self) -> None:
        """All of them."""
        for sockets in self.sockets.values():
            for one in sockets:
                one.close()


@contextmanager
def crowd(port: int, count: int) -> Iterator[Crowd]:
    """So many of each kind, until the block ends."""
    made = Crowd(port)
    try:
        for kind in made.kinds:
            made.come(kind, count)
        yield made
    finally:
        made.leave()


def login_seconds(port: int, goes_on: Callable[[int], bool]) -> list[float]:
    """How long /login takes, over a new connection each time, while `goes_on` (told how often it was asked)."""
    took: list[float] = []
    while goes_on(len(took)):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/login")
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                raise ConnectionError(f"/login answered {answer.status}")
            took.append(time.perf_counter() - began)
        except OSError:
            took.append(20.0)
        finally:
            connection.close()
    return took
