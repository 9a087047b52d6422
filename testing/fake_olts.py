"""What happens around the requests to a fake OLT (jobs.snmp.fake): time passes, the lease is lost, sending fails."""

from collections.abc import Callable
from typing import NoReturn

from jobs.snmp.fake import FakeSession, Request


class Ticking:
    """A clock that each request moves by `step` seconds."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def tick(self, _request: Request) -> None:
        """For FakeSession(on_request=…)."""
        self.now += self.step

    def __call__(self) -> float:
        return self.now


class Gone(BaseException):
    """Stands for a lost lease."""


class Lease:
    """A checkpoint that notes how many requests `session` had got by then, and fails from the call `lost_at` on."""

    def __init__(self, session: FakeSession, lost_at: int = 0) -> None:
        self.session, self.lost_at, self.seen = session, lost_at, list[int]()

    def __call__(self) -> None:
        self.seen.append(len(self.session.requests))
        if 0 < self.lost_at <= len(self.seen):
            raise Gone


def failing(error: Exception) -> Callable[[Request], NoReturn]:
    """For FakeSession(on_request=…): no request gets an answer but this error."""

    def fail(_request: Request) -> NoReturn:
        raise error

    return fail
