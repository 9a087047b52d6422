"""The product's own processes on a private Redis and database: for tests and benchmarks that need the real thing."""

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from flask import Flask, has_app_context

from app import create_app
from config import Settings, load_settings
from portal.extensions import db
from testing import host_clock
from testing.cast import TEMPO
from testing.host_clock import HostClock
from testing.redis_proxy import RedisProxy, redis_proxy
from testing.redis_server import RedisServer, redis_server

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = {
    "scheduler": ("scheduler", "run"),
    "pollers": ("work",),
    "maintenance": ("maintenance",),
    "upkeep": ("maintenance", "--queue", "upkeep"),
    "probes": ("maintenance", "--queue", "probes"),
    "trials": ("maintenance", "--queue", "trials"),
    "alerts": ("maintenance", "--queue", "alerts"),
}


class StackError(RuntimeError):
    """Something did not come up or did not happen in time; the message carries the logs' ends."""


class Forked:
    """A `flask …` command in a child of this process, which has loaded the product already: seconds less than a start

    from nothing. To its caller it is like a Popen.
    """

    def __init__(
        self, arguments: Sequence[str], app: Flask, environment: dict[str, str], log: Path, clock: HostClock | None
    ) -> None:
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_flask, args=(list(arguments), app, environment, log, clock))
        self._process.start()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; subprocess.TimeoutExpired when it does not come."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("flask", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """A signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _flask(arguments: list[str], app: Flask, environment: dict[str, str], log: Path, clock: HostClock | None) -> None:
    """In the child: nothing of the test's is used, least of all its database connections and its alarm."""
    if clock is not None:
        clock.see()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setpgrp()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    logging.basicConfig(force=True, level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    os.environ.clear()
    os.environ.update(environment)
    gc.freeze()  # looking for garbage in what was inherited would copy it, here and in each fork of this one
    gc.set_threshold(700, 10, 10)  # as in every process of the product; the tests themselves look more seldom
    with app.app_context():
        app.cli.main(arguments, standalone_mode=False)


class Executed(subprocess.Popen[bytes]):
    """The same command in a process that begins from nothing: with a clock of its own where this one has no shim."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "flask", "--app", "app", *arguments]
        with log.open("ab") as end:
            super().__init__(command, cwd=ROOT, env=environment, stdout=end, stderr=end, process_group=0)


@dataclass
class Stack:
    """Processes by name, with their logs under `folder`."""

    folder: Path
    redis: RedisServer
    environment: dict[str, str]
    processes: dict[str, Forked | Executed] = field(default_factory=dict)
    clocks: dict[str, HostClock] = field(default_factory=dict)  # of those processes that have one of their own
    redis_proxy: RedisProxy | None = None  # between the processes and Redis, if asked for
    make_app: Callable[[Settings], Flask] = create_app
    _app: tuple[dict[str, str], Flask] | None = None

    @property
    def proxy(self) -> RedisProxy:
        """The proxy of a stack that was made with one."""
        if self.redis_proxy is None:
            raise StackError("this stack has no proxy: make it with proxied=True")
        return self.redis_proxy

    def app(self) -> Flask:
        """The product with these settings: for the test itself, and what its processes are forked from."""
        if self._app is None or self._app[0] != self.environment:
            self._app = self.environment.copy(), self.make_app(load_settings(self.environment))
        return self._app[1]

    def start(self, name: str, *arguments: str) -> Forked | Executed:
        """Start `flask …` as process `name`; it dies with this one."""
        command, log = arguments or ENTRIES[name], self.folder / f"{name}.log"
        process: Forked | Executed
        clock = self.clocks.get(name)
        if clock is not None and not host_clock.is_preloaded():
            process = Executed(command, self.environment | clock.environment, log)
        else:
            app = self.app()
            _close_connections(app)
            process = Forked(command, app, self.environment, log, clock)
        self.processes[name] = process
        return process

    def run(self, *arguments: str) -> str:
        """Run `flask …` to its end; its output."""
        done = subprocess.run(
            [sys.executable, "-m", "flask", "--app", "app", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StackError(f"flask {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """End a process and wait for it."""
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise StackError(f"{name} did not end in {timeout} s\n{self.log_tail(name)}") from None

    def below(self, name: str) -> set[int]:
        """Process ids of all that descends from a process: the only ones that a test may send signals to."""
        return set(_descendants(self.processes[name].pid))

    def kill_tree(self, name: str) -> None:
        """SIGKILL a process and all below it at once, as when its host goes away."""
        process = self.processes.pop(name)
        doomed = [process.pid, *_descendants(process.pid)]
        for number in (signal.SIGSTOP, signal.SIGKILL):  # frozen first: no parent can react to the death of a child
            for pid in doomed:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        process.wait()

    def log(self, name: str) -> str:
        """All that the process has logged."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def log_tail(self, name: str, lines: int = 25) -> str:
        """The end of its log."""
        return f"--- {name}\n" + "\n".join(self.log(name).splitlines()[-lines:])

    def wait_until(self, true: Callable[[], object], what: str, timeout: float = 60) -> None:
        """Poll until `true()`; StackError with all logs' ends after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                logs = "\n".join(self.log_tail(name) for name in self.processes)
                raise StackError(f"not within {timeout} s: {what}\n{logs}")
            time.sleep(0.05)


@contextmanager
def stack(
    folder: Path,
    database_url: str = "",
    *,
    proxied: bool = False,
    redis_options: tuple[str, ...] = (),
    clocks: Sequence[str] = (),
    tempo: int = TEMPO,
    make_app: Callable[[Settings], Flask] = create_app,
    **settings: object,
) -> Iterator[Stack]:
    """A Redis and an environment; nothing else is started yet. `settings` are those of config.py, in lower case.

    `proxied`: the product's processes reach Redis through a proxy that can swallow replies (`Stack.proxy`).
    `tempo` divides the product's paces; who measures them sets it to 1.
    `make_app`: of a worker's databases, whose app keeps what it compiled.
    `clocks`: processes, or "redis", that see a wall clock of their own (`Stack.clocks`).
    """
    hosts = {name: HostClock(folder / f"{name}.clock") for name in clocks}
    instance = folder / "instance"
    instance.mkdir(exist_ok=True)
    with ExitStack() as exits:
        redis_clock = hosts["redis"].environment if "redis" in hosts else None
        server = exits.enter_context(redis_server(appendonly=True, options=redis_options, environment=redis_clock))
        proxy = exits.enter_context(redis_proxy(server.socket_path)) if proxied else None
        environment = os.environ | {
            "INSTANCE": str(instance),
            "DATABASE_URL": database_url or f"sqlite:///{instance / 'facho.db'}",
            "REDIS_URL": proxy.url if proxy else server.url,
            "PYTHONUNBUFFERED": "1",
            "TEMPO": str(tempo),
            "OLT_NETWORKS": "0.0.0.0/0,::/0",
            **{name.upper(): str(value) for name, value in settings.items()},
        }
        running = Stack(folder, server, environment, clocks=hosts, redis_proxy=proxy, make_app=make_app)
        exits.callback(_end_all, running)
        yield running


def _close_connections(app: Flask) -> None:
    """A child must not inherit an open SQLite connection: the library keeps locks per process and file."""
    if has_app_context():
        db.session.rollback()
        db.engine.dispose()
    with app.app_context():
        db.engine.dispose()


def children(pid: int) -> list[int]:
    """Process ids of the children; none when it has gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(pid: int, number: signal.Signals) -> bool:
    """A signal to a process of ours; False when it had ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _descendants(pid: int) -> list[int]:
    return [below for child in children(pid) for below in (child, *_descendants(child))]


def _end_all(running: Stack) -> None:
    """At once: nobody needs a warm end any more."""
    for name in list(running.processes):
        if running.processes[name].poll() is None:
            running.kill_tree(name)
