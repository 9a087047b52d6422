"""A web server on loopback that takes what a webhook channel sends, and answers as the test says."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "planted-hook-token"


@dataclass
class Receiver:
    """What arrived and was taken; what to answer to the next ones (then 200)."""

    port: int = 0
    taken: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    answers: deque[int] = field(default_factory=deque)
    hang: threading.Event | None = None  # answer only when it is set

    @property
    def url(self) -> str:
        """The address of a channel that leads here; its path is a secret."""
        return f"json://127.0.0.1:{self.port}/{TOKEN}"

    @property
    def titles(self) -> list[str]:
        """Of the messages that were taken, in their order, without the product's name."""
        return [str(one["title"]).removeprefix("Facho Deluxe: ") for one in self.taken]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """One that listens until the end of the block."""
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if state.hang is not None:
                state.hang.wait(60)
            status = state.answers.popleft() if state.answers else 200
            if status == 200:
                state.taken.append(json.loads(content))
            else:
                state.refused += 1
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        if state.hang is not None:
            state.hang.set()
        server.shutdown()
        server.server_close()
        thread.join()
