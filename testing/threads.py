"""Work that begins in the same moment."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from flask import Flask

from portal.extensions import db

T = TypeVar("T")


def at_once(app: Flask, works: Sequence[Callable[[], T]]) -> list[T]:
    """What these works return, each done in a thread with an app context of its own."""
    together = Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        with app.app_context():
            try:
                together.wait(30)
                return work()
            finally:
                db.session.remove()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))
