"""A proxy before Redis that swallows a share of the replies: the command was executed, its caller never learns of it.

A process of its own (a Python thread would be forked into the product's processes). Nothing of the product is imported.
"""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class RedisProxyError(RuntimeError):
    """The proxy did not start or does not answer."""


@dataclass(frozen=True)
class Counts:
    """What the proxy has done since it started. A pipeline's replies that come in one piece count as one."""

    swallowed: int
    passed: int
    clients: int


@dataclass
class RedisProxy:
    """One running proxy on a unix socket `listen`, before the server's socket `upstream`."""

    listen: Path
    upstream: Path
    seed: int = 1
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """URL for redis.Redis.from_url()."""
        return f"unix://{self.listen}?db=0"

    def start(self) -> None:
        """Start it and wait until it listens. The server behind it may be away, now or later."""
        command = [
            "setpriv", "--pdeathsig", "KILL", "--",
            sys.executable, "-m", "testing.redis_proxy", str(self.listen), str(self.upstream), str(self.seed),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def swallow(self, share: float) -> Counts:
        """From now on `share` (0..1) of the replies are swallowed, and the connection of each is closed."""
        if self.process is None or self.process.stdin is None:
            raise RedisProxyError("the proxy is not running")
        self.process.stdin.write(f"{share}\n")
        self.process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        """End it: clients see their connections closed. Nothing happens when it is not running."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
            self.listen.unlink(missing_ok=True)

    def _answer(self) -> Counts:
        assert self.process is not None and self.process.stdout is not None
        words = self.process.stdout.readline().split()
        if len(words) != 3:
            raise RedisProxyError(f"the Redis proxy ended with code {self.process.wait()}")
        return Counts(*map(int, words))


@contextmanager
def redis_proxy(upstream: Path, seed: int = 1) -> Iterator[RedisProxy]:
    """A running proxy beside the server's socket; it passes everything until told otherwise."""
    proxy = RedisProxy(upstream.with_name("proxy.sock"), upstream, seed)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


class _Switch:
    """The share that is swallowed, and what came of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.share = 0.0
        self.swallowed = self.passed = self.clients = 0

    def swallows(self) -> bool:
        """Decide on one reply, and count it."""
        swallowed = self.share > 0 and self.random.random() < self.share
        self.swallowed += swallowed
        self.passed += not swallowed
        return swallowed


class _Half(asyncio.Protocol):
    """One of the two connections of a client: what comes in goes out on the other."""

    def __init__(self, switch: _Switch) -> None:
        self.switch = switch
        self.transport: asyncio.Transport | None = None
        self.other: _Half | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other is not None:
            self.other.close()

    def send(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Upstream(_Half):
    """Towards Redis: replies come in here."""

    def data_received(self, data: bytes) -> None:
        if self.switch.swallows():
            self.close()
        elif self.other is not None:
            self.other.send(data)


class _Client(_Half):
    """Towards a client: read only once Redis is connected; closed when Redis is away, as Redis itself would refuse."""

    def __init__(self, switch: _Switch, upstream: str) -> None:
        super().__init__(switch)
        self.upstream = upstream
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.switch.clients += 1
        self.transport.pause_reading()
        self.task = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self.other = await loop.create_unix_connection(lambda: _Upstream(self.switch), self.upstream)
        except OSError:
            self.close()
            return
        self.other.other = self
        if self.transport is None:
            self.other.close()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.send(data)


async def _serve(listen: str, upstream: str, seed: int) -> None:
    switch = _Switch(seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: _Client(switch, upstream), listen, backlog=512)

    def report() -> None:
        print(switch.swallowed, switch.passed, switch.clients, flush=True)

    def command() -> None:
        line = sys.stdin.readline()
        if not line:
            server.close()
            loop.remove_reader(sys.stdin)
            return
        switch.share = float(line)
        report()

    loop.add_reader(sys.stdin, command)
    report()
    async with server:
        await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
