"""What a run waited for: who held the OLT, against its usual, and whether a poller was free. Pure."""

from collections.abc import Iterator
from datetime import datetime

from portal.domain.explain_facts import Facts, Hold, Link, LinkKind
from portal.domain.messages import N_, Message
from portal.domain.saying import Took

MOST_HOLDERS = 3  # told one by one; the others as a sum


def waited_for(facts: Facts, span: tuple[datetime, datetime]) -> Iterator[Message]:
    """Who held the OLT in `span`, and whether a poller was free."""
    longest = sorted(facts.holds, key=lambda hold: -hold.took(facts.now).ms)[:MOST_HOLDERS]
    for hold in (hold for hold in facts.holds if hold in longest):
        yield held(facts, hold)
    others = [hold for hold in facts.holds if hold not in longest]
    if others:
        runs = {hold.execution_id for hold in others} - {hold.execution_id for hold in longest}
        took = Took(sum(hold.within(*span).ms for hold in others))
        yield N_("Further runs on the OLT meanwhile: %(count)d, for %(took)s of that time",
                 count=len(runs), took=took)  # fmt: skip
    if facts.pool.full:
        yield N_("No poller was free in %(full)d of %(samples)d looks at the pool in that time",
                 full=facts.pool.full, samples=facts.pool.samples)  # fmt: skip
    elif not facts.holds:
        yield (
            N_("What it waited for is not recorded: no recorded run held the OLT in that time")
            if (facts.pool.samples == 0)
            else N_(
                "What it waited for is not recorded: no recorded run held the OLT in that time, and pollers were free"
            )
        )


def held(facts: Facts, hold: Hold) -> Message:
    """How long it had the OLT, against what is usual."""
    told = {"holder": hold.node_name, "olt": facts.node.olt_name, "took": hold.took(facts.now)}
    usual = Took(hold.usual_ms) if hold.usual_ms is not None else None
    if hold.until is None:
        if usual is None:
            return N_("%(holder)s holds %(olt)s, for %(took)s so far; how long it usually takes is not recorded",
                      **told)  # fmt: skip
        return N_("%(holder)s holds %(olt)s, for %(took)s so far, usually %(usual)s", **told, usual=usual)
    if usual is None:
        return N_("%(holder)s of %(olt)s ran %(took)s; how long it usually takes is not recorded", **told)
    return N_("%(holder)s of %(olt)s ran %(took)s, usually %(usual)s", **told, usual=usual)


def holders(facts: Facts) -> list[Link]:
    """Links to those that are told one by one."""
    longest = sorted(facts.holds, key=lambda hold: -hold.took(facts.now).ms)[:MOST_HOLDERS]
    shown = {hold.execution_id: Link(LinkKind.HOLDER, hold.execution_id, hold.node_name) for hold in longest}
    return list(shown.values())
