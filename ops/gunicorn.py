"""What gunicorn does beside its options (Procfile): hooks."""

from typing import Any


def post_worker_init(_worker: Any) -> None:
    """The app is built, nobody has asked yet."""
    from portal.web.memory import settle  # noqa: PLC0415  (gunicorn reads this file before it knows the project)

    settle()
