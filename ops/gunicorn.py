"""What gunicorn does beside its options (Procfile): hooks, and how it sends files."""

from typing import Any

sendfile = False  # would wait in a thread for who does not read (ops/web_worker.py)


def post_worker_init(worker: Any) -> None:
    """The app is built, nobody has asked yet."""
    from portal.web.memory import settle_beside  # noqa: PLC0415  (gunicorn reads this before it knows the project)

    settle_beside(worker.wsgi)
