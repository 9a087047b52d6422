"""Asks who holds an OLT without an execution to let go: a trial, a connection test, a command at a terminal."""

from datetime import datetime

from portal import queueing
from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import Conflict, NotFound
from portal.tables import Olt

ENDED = N_("it had ended already: nothing was stopped")
QUEUE_AWAY = N_("the queue (Redis) does not answer, so nobody can be asked to stop")


def ask(olt_id: int, token: int, actor: str, now: datetime) -> None:
    """The holder of that token stops before its next request to the OLT; what it read so far is thrown away.

    Conflict when it holds the OLT no longer, or when Redis is away.
    """
    try:
        held = queueing.ask_to_stop_token(olt_id, token)
    except queueing.RedisError:
        raise Conflict(QUEUE_AWAY) from None
    if not held:
        raise Conflict(ENDED)
    with transaction() as session:
        olt = session.get(Olt, olt_id)
        if olt is None or olt.deleted_at is not None:
            raise NotFound(N_("the OLT does not exist any more"))
        audit.record(session, actor=actor, action="olt.break", subject=olt, changes=None, now=now)
