"""A tick's decision without its push and without the scheduler's process."""

from datetime import datetime

from portal.cron import following as next_cron
from portal.domain.slots import DueMaster, Plan
from portal.domain.tickets import Ticket
from portal.services.dispatch import slots
from scheduler import due, planner


def tick(now: datetime) -> Plan:
    """Take every slot that is due at `now`."""
    return take(now)[0]


def take(now: datetime, from_end: bool = False) -> tuple[Plan, list[Ticket]]:
    """The same, with what would be pushed."""

    def decide(masters: list[DueMaster]) -> Plan:
        return planner.plan(masters, now, next_cron, from_end=from_end)

    return slots.take(lambda session: due.select_due(session, now), decide, now)
