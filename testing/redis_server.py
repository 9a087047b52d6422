"""A real Redis server for tests, private and disposable; can be killed, frozen and restarted. No test logic here."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CHOOSE = Path(__file__).resolve().parents[1] / "ops" / "redis"
START_SECONDS = 20.0
STOP_SECONDS = 20.0


class RedisServerError(RuntimeError):
    """The server cannot be found, started or stopped; the message carries the end of its log."""


@cache
def redis_binary() -> str:
    """Path of the Redis server that the product would start. Raises RedisServerError when there is none."""
    chosen = subprocess.run([CHOOSE, "--which"], capture_output=True, text=True, check=False)
    if chosen.returncode:
        raise RedisServerError(chosen.stderr.strip())
    return chosen.stdout.strip()


@dataclass
class RedisServer:
    """One server on a unix socket in `directory`; data survives kill() and restart() if `appendonly`."""

    directory: Path
    appendonly: bool = False
    binary: str = field(default_factory=redis_binary)
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # beyond this process' own
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        """The unix socket that the server listens on."""
        return self.directory / "redis.sock"

    @property
    def url(self) -> str:
        """URL for redis.Redis.from_url() and `rq --url`."""
        return f"unix://{self.socket_path}?db=0"

    @property
    def running(self) -> bool:
        """Whether the process is alive (also when it is frozen)."""
        return self.process is not None and self.process.poll() is None

    def client(self, **options: Any) -> redis.Redis:
        """A new client that never retries by itself, so that a test sees each failure."""
        return redis.Redis.from_url(self.url, **({"retry": Retry(NoBackoff(), 0)} | options))

    def start(self) -> None:
        """Start the server and wait until it answers PING with its data loaded."""
        if self.running:
            raise RedisServerError("this server is running already")
        with (self.directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | self.environment
            )
        self._wait_for_ping()

    def _command(self) -> list[str]:
        # The server must not outlive a killed test run, and must see the name redis-server (see redis_binary).
        launch = ["setpriv", "--pdeathsig", "KILL", "--", "bash", "-c", 'exec -a redis-server "$0" "$@"', self.binary]
        fixed = ["--port", "0", "--unixsocket", str(self.socket_path), "--unixsocketperm", "700", "--save", ""]
        kept = ["--dir", str(self.directory), "--appendonly", "yes" if self.appendonly else "no"]
        return [*launch, *fixed, *kept, "--appendfsync", "everysec", *self.options]

    def _wait_for_ping(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with self.client(socket_timeout=2) as client:
            if not answered(client, lambda: self.running and time.monotonic() < deadline):
                raise RedisServerError(f"redis-server did not answer:\n{self.log_tail()}")

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        path = self.directory / "redis.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else "(no log)"

    def kill(self) -> None:
        """SIGKILL, as by a power cut (but what the kernel holds is kept: cut the append-only file for a real one)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: an orderly end. Nothing happens when it is down."""
        self._end(signal.SIGTERM)

    def cut_tail(self, octets: int, *, zeroed: bool = False) -> int:
        """After kill(): take the last `octets` off the append-only file, as a power cut does.

        Returns how many there were to take. `zeroed`: they become zeros instead, and the file keeps its length, as
        some file systems leave it.
        """
        if self.running:
            raise RedisServerError("the server is running: kill() it first")
        path = self.append_only_file()
        size = path.stat().st_size
        gone = min(octets, size)
        os.truncate(path, size - gone)
        if zeroed:
            os.truncate(path, size)
        return gone

    def repair(self) -> None:
        """What docs/operations.md says of a server that refuses its append-only file: cut off what cannot be read."""
        launch = ["bash", "-c", 'exec -a redis-check-aof "$0" "$@"', self.binary, "--fix", str(self.append_only_file())]
        done = subprocess.run(launch, input="y\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RedisServerError(f"redis-check-aof could not mend the file:\n{done.stdout}{done.stderr}")

    def append_only_file(self) -> Path:
        """The one that is written now: Redis 7 has a numbered series of incremental files, Redis 6 a single one."""
        series = self.directory.glob("appendonlydir/appendonly.aof.*.incr.aof")
        found = max(series, key=lambda path: int(path.name.split(".")[2]), default=self.directory / "appendonly.aof")
        if not found.exists():
            raise RedisServerError("this server has no append-only file: make it with appendonly=True")
        return found

    def restart(self) -> None:
        """stop() and start()."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: the process stays, connections hang."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after freeze()."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or not self.running:
            raise RedisServerError("this server is not running")
        self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None or not self.running:
            return
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RedisServerError(f"redis-server ignored {number.name}:\n{self.log_tail()}") from None


def answered(client: redis.Redis, alive: Callable[[], bool]) -> bool:
    """Wait until the server answers PING with its data loaded; False where it is not `alive` any more before that."""
    while alive():
        try:
            client.ping()
        except redis.exceptions.RedisError:
            time.sleep(0.01)
        else:
            return True
    return False


@contextmanager
def redis_server(
    *, appendonly: bool = False, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> Iterator[RedisServer]:
    """A running server in a directory of its own; both are gone afterwards, whatever the test did to it."""
    with tempfile.TemporaryDirectory(prefix="facho-redis-", dir="/tmp") as directory:
        server = RedisServer(Path(directory), appendonly, options=options, environment=environment or {})
        try:
            server.start()
            yield server
        finally:
            server.kill()
