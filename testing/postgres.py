"""A private PostgreSQL cluster for tests, from the server's binaries; fails where they are absent. No test logic."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

INSTALLED = Path("/usr/lib/postgresql")
SUPERUSER = "facho"
START_SECONDS = 60.0
STOP_SECONDS = 60.0
# Nothing here must survive a crash of the machine, and a test suite should not wait for the disk.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "32MB", "jit": "off"}


class PostgresError(RuntimeError):
    """The cluster cannot be made, started or stopped; the message says why."""


def postgres_binaries() -> Path:
    """Directory with initdb and postgres of the newest version. Raises PostgresError when there is none."""
    found = [path.parent for path in INSTALLED.glob("*/bin/initdb") if (path.parent / "postgres").exists()]
    if not found:
        raise PostgresError(f"no PostgreSQL server under {INSTALLED}/*/bin: run `ops/setup --dev`")
    return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)])


def _unprivileged() -> list[str]:
    """Words before a command that make it run as the user postgres, since the server refuses root."""
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        raise PostgresError("tests run as root and there is no user postgres: run `ops/setup --dev`") from None
    return ["--reuid", "postgres", "--regid", "postgres", "--init-groups"]


@dataclass
class PostgresCluster:
    """One cluster under `directory` that listens on a unix socket there and nowhere else."""

    directory: Path
    binaries: Path = field(default_factory=postgres_binaries)
    process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self.process is not None and self.process.poll() is None

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy URL of one database."""
        return f"postgresql+psycopg://{SUPERUSER}@/{database}?host={self.directory}"

    def initialise(self) -> None:
        """initdb: trust for local connections, UTF-8, no locale."""
        words = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [*self._launch(), str(self.binaries / "initdb"), *words, "-D", str(self.directory / "data")]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode != 0:
            raise PostgresError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _launch(self) -> list[str]:
        # The server must not outlive a test run that is killed.
        return ["setpriv", "--pdeathsig", "QUIT", *_unprivileged(), "--"]

    def start(self) -> None:
        """Start the server and wait until it accepts a connection."""
        if self.running:
            raise PostgresError("this cluster is running already")
        settings = FAST | {"listen_addresses": "", "unix_socket_directories": str(self.directory)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [*self._launch(), str(self.binaries / "postgres"), "-D", str(self.directory / "data"), *options]
        with (self.directory / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/")
        self._wait_for_connection()

    def _wait_for_connection(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.running and time.monotonic() < deadline:
            try:
                self._connect().close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        log = (self.directory / "postgres.log").read_text(errors="replace")
        raise PostgresError(f"PostgreSQL did not accept connections:\n{log[-2000:]}")

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self.directory), user=SUPERUSER, dbname="postgres", autocommit=True)

    def create_database(self, template: str = "template0") -> str:
        """Make a database, a copy of `template` (which nobody may be connected to), and return its SQLAlchemy URL."""
        name = f"test_{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with self._connect() as connection:
            connection.execute(statement)
        return self.url(name)

    def stop(self) -> None:
        """Orderly end that does not wait for clients. Nothing happens when it is down."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End at once without a checkpoint; the next start() recovers from the log."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        """stop() and start()."""
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self.process is None or not self.running:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise PostgresError(f"PostgreSQL ignored {number.name}") from None


def _private_directory() -> Path:
    """A new short directory that the server's user owns."""
    directory = Path(tempfile.mkdtemp(prefix="facho-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, "postgres", "postgres")
    return directory


@contextmanager
def postgres_cluster() -> Iterator[PostgresCluster]:
    """A running cluster in a directory of its own; both are gone afterwards. Takes about 3 s; share it per session."""
    binaries = postgres_binaries()
    _unprivileged()
    directory = _private_directory()
    cluster = PostgresCluster(directory, binaries)
    try:
        cluster.initialise()
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)
