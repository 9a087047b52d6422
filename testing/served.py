"""The portal as it is served: the Procfile's web entry with gunicorn, for tests and benchmarks."""

import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testing.stack import ROOT, Stack


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command() -> str:
    """What the Procfile says."""
    line = next(line for line in (ROOT / "Procfile").read_text().splitlines() if line.startswith("web:"))
    return line.removeprefix("web:").strip()


@contextmanager
def served(running: Stack, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Gunicorn on that port until the block ends; it answers when the block begins."""
    environment = _environment(running.environment, port)
    arguments = ["setpriv", "--pdeathsig", "TERM", "--", "bash", "-c", f"exec {command()}"]
    with (running.folder / "web.log").open("ab") as log:
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        running.wait_until(lambda: answers(port), "the portal", 180)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _environment(given: Mapping[str, str], port: int) -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    return {**given, "BIND": "127.0.0.1", "PORT": str(port), "PATH": f"{programs}:{given['PATH']}"}


def answers(port: int) -> bool:
    """True once the login page comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/login")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
