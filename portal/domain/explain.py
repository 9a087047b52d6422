"""Why a slot ran late, failed or did not run: from recorded facts and nothing else (queries/explain.py). Pure.

Each sentence stands for a fact that is in `Facts`. Where a fact is missing the sentence says that it is: a guess that
sounds like knowledge is worse than none.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from portal.domain import explain_waits, quota
from portal.domain.explain_facts import (
    Explanation,
    Facts,
    Link,
    LinkKind,
    Meant,
    RunFacts,
    SkipFacts,
    Switch,
    Verdict,
    meant,
    waiting_span,
)
from portal.domain.messages import N_, Message
from portal.domain.saying import At, Took
from portal.domain.statuses import EventType, ExecutionStatus, LossCause, OltState, SkipReason, StepStatus
from portal.domain.words import ERRORS, SKIPS

OFF = frozenset({EventType.TASK_REMOVED, EventType.OLT_DISABLED})


def explain(facts: Facts) -> Explanation:
    """The verdict, the cause where a slot was lost, and the sentences."""
    one = meant(facts.asked, facts.run, facts.skip, facts.node)
    switch = facts.switch
    if switch is not None and switch.event in OFF and _apart(one.slot, switch, facts):
        return _switched_off(facts, one, switch)
    if one.run is not None:
        return _of_run(facts, one, one.run)
    if one.skip is not None and one.slot is not None:
        return _of_skip(facts, one.slot, one.skip)
    return _of_nothing(facts, one.slot)


def _apart(slot: datetime | None, switch: Switch, facts: Facts) -> bool:
    """True when what was switched off lies between the slot and the moment asked about.

    A chained node that is off has no slots though its master goes on to have them.
    """
    own = bool(facts.node.chained) and switch.name == facts.node.chained
    return switch.at <= facts.asked and (own or slot is None or slot < switch.at or slot > facts.asked)


# -- which slot


def _named(facts: Facts, slot: datetime) -> Iterator[Message]:
    """Which slot is meant, where that does not go without saying."""
    node = facts.node
    if node.chained:
        yield N_("%(node)s is chained: it runs after %(master)s, so the slot is that of %(master)s",
                 node=node.chained, master=node.name)  # fmt: skip
    if slot > facts.asked:
        yield N_("No slot at or before %(asked)s is recorded; the first one after it is that of %(slot)s",
                 asked=At(facts.asked), slot=At(slot))  # fmt: skip
    elif slot != facts.asked:
        yield N_("The slot meant is that of %(slot)s, the latest at or before %(asked)s",
                 asked=At(facts.asked), slot=At(slot))  # fmt: skip


def _subject(facts: Facts) -> dict[str, object]:
    return {"node": facts.node.name, "olt": facts.node.olt_name}


def _log(facts: Facts, since: datetime, until: datetime) -> Link:
    minute = timedelta(minutes=1)
    return Link(LinkKind.LOG, facts.node.olt_id, facts.node.olt_name, since - minute, until + minute)


# -- a slot that became an execution


def _of_run(facts: Facts, one: Meant, run: RunFacts) -> Explanation:
    verdict, ending = _ending(facts, run)
    sentences = [*_named(facts, run.slot), *ending, *_delay(facts, one, run), *_of_step(facts, run)]
    links = [Link(LinkKind.EXECUTION, run.id, facts.node.name), *explain_waits.holders(facts)]
    if run.status is not ExecutionStatus.SUCCESS:
        links.append(_log(facts, run.slot, run.finished_at or facts.now))
    ended = run.status not in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)
    cause = quota.cause_of_end(run.status, run.error_kind, run.skip_reason) if ended else None
    return Explanation(verdict, run.slot, cause, tuple(sentences), tuple(links))


def _ending(facts: Facts, run: RunFacts) -> tuple[Verdict, list[Message]]:
    """What became of it, and why."""
    told = _subject(facts) | {"slot": At(run.slot)}
    took, end = Took(run.duration_ms or 0), At(run.finished_at or facts.now)
    if run.status is ExecutionStatus.SUCCESS:
        text = N_("%(node)s on %(olt)s ran for its slot of %(slot)s and succeeded at %(end)s, after %(took)s",
                  **told, end=end, took=took)  # fmt: skip
        return Verdict.SUCCEEDED, [text, *_tries(run)]
    if run.status is ExecutionStatus.FAILED:
        text = N_("%(node)s on %(olt)s failed for its slot of %(slot)s, at %(end)s", **told, end=end)
        return Verdict.FAILED, [text, *_error(run), *_tries(run)]
    if run.status is ExecutionStatus.INTERRUPTED:
        text = N_("%(node)s on %(olt)s was interrupted for its slot of %(slot)s, at %(end)s", **told, end=end)
        return Verdict.INTERRUPTED, [text, *_interruption(run), *_tries(run)]
    if run.status is ExecutionStatus.RUNNING:
        text = N_("%(node)s on %(olt)s is running for its slot of %(slot)s, since %(start)s",
                  **told, start=At(run.started_at or facts.now))  # fmt: skip
        return Verdict.RUNNING, [text, *_tries(run)]
    text = N_("%(node)s on %(olt)s waits with its slot of %(slot)s", **told)
    return Verdict.WAITING, [text, *_put_off(facts, run)]


def _error(run: RunFacts) -> Iterator[Message]:
    yield ERRORS[run.error_kind] if run.error_kind else N_("What kind of failure it was is not recorded")
    if run.error_message:
        yield N_("Recorded was: “%(text)s”", text=run.error_message)


def _interruption(run: RunFacts) -> Iterator[Message]:
    if run.cancelled_by:
        yield N_("%(name)s cancelled it", name=run.cancelled_by)
    elif run.skip_reason is not None:
        yield SKIPS[run.skip_reason]
    elif run.error_kind is not None:
        yield from _error(run)
    else:
        yield N_("Why is not recorded")


def _tries(run: RunFacts) -> Iterator[Message]:
    if run.tries > 1:
        yield N_("It was tried %(count)d times", count=run.tries)


def _put_off(facts: Facts, run: RunFacts) -> Iterator[Message]:
    if run.not_before is None or run.not_before <= facts.now:
        return
    if run.tries:
        yield N_("Its last try failed; the next one comes at %(time)s", time=At(run.not_before))
    else:
        yield N_("Many came late at once: its start was put off to %(time)s, so that they are spread",
                 time=At(run.not_before))  # fmt: skip


def _of_step(facts: Facts, run: RunFacts) -> Iterator[Message]:
    """What became of the chained node that was asked about."""
    name, step = facts.node.chained, run.step
    if not name:
        return
    if step is None:
        yield N_("Of %(node)s itself nothing is recorded in that run", node=name)
    elif step.status is StepStatus.SUCCESS:
        yield N_("The step %(node)s of that run succeeded", node=name)
    elif step.status is StepStatus.FAILED:
        yield N_("The step %(node)s of that run failed", node=name)
        if step.error_kind is not None:
            yield ERRORS[step.error_kind]
    else:
        yield N_("The step %(node)s of that run was skipped", node=name)
        yield SKIPS[step.skip_reason] if step.skip_reason is not None else N_("Why is not recorded")


# -- why it waited


def _delay(facts: Facts, one: Meant, run: RunFacts) -> Iterator[Message]:
    span = waiting_span(one, facts.now)
    if span is None:
        return
    waited = Took(round((span[1] - span[0]) / timedelta(milliseconds=1)))
    if run.first_started_at is not None:
        yield N_("It started at %(start)s, %(waited)s late", start=At(run.first_started_at), waited=waited)
    elif run.status is ExecutionStatus.PENDING:
        yield N_("It has waited for %(waited)s", waited=waited)
    else:
        yield N_("Until then it had waited for %(waited)s, without a try", waited=waited)
    yield from explain_waits.waited_for(facts, span)


# -- a slot that was skipped


def _of_skip(facts: Facts, slot: datetime, skip: SkipFacts) -> Explanation:
    told = N_("%(node)s on %(olt)s did not run at %(slot)s", **_subject(facts), slot=At(slot))
    sentences = [*_named(facts, slot), told, *_reason(facts, slot, skip)]
    if skip.count > 1:
        sentences.append(N_("It is one of %(count)d slots, from %(first)s to %(last)s, lost in the same way",
                            count=skip.count, first=At(skip.first), last=At(skip.last)))  # fmt: skip
    own = [Link(LinkKind.EXECUTION, skip.own.id, facts.node.name)] if skip.own is not None else []
    links = (*own, *explain_waits.holders(facts), _log(facts, skip.first, skip.decided_at))
    return Explanation(Verdict.SKIPPED, slot, quota.cause_of_skip(skip.reason), tuple(sentences), links)


def _reason(facts: Facts, slot: datetime, skip: SkipFacts) -> Iterator[Message]:
    if skip.reason is None:
        yield N_("Why is not recorded")
    elif skip.reason in _IN_THE_WAY:
        yield from _in_the_way(facts, slot, skip)
    elif skip.reason is SkipReason.SCHEDULER_DOWN:
        yield N_("The scheduler was not running when the slot came; it saw that at %(time)s", time=At(skip.decided_at))
    else:
        yield SKIPS[skip.reason]
        yield from _since(facts, skip)


_IN_THE_WAY = frozenset({SkipReason.OVERRUN, SkipReason.OLT_BUSY, SkipReason.POOL_FULL, SkipReason.STILL_ACTIVE})


def _in_the_way(facts: Facts, slot: datetime, skip: SkipFacts) -> Iterator[Message]:
    """Its own run was still there. Which one, and what that one did or waited for."""
    span = waiting_span(Meant(slot, skip=skip), facts.now)
    yield SKIPS[skip.reason or SkipReason.STILL_ACTIVE]
    if skip.own is None:
        yield N_("Which run that was is no longer recorded")
        return
    yield N_("It was the run of %(slot)s", slot=At(skip.own.slot))
    if skip.reason is SkipReason.OVERRUN:
        yield from _overrun(facts, skip.own, span)
    elif skip.reason is SkipReason.POOL_FULL:
        yield from _pool(facts, skip)
    elif skip.reason is SkipReason.OLT_BUSY:
        if facts.holds and span is not None:
            yield from explain_waits.waited_for(facts, span)
        else:
            yield N_("Which run held the OLT is no longer recorded")
    else:
        yield N_("What kept it is not recorded")


def _overrun(facts: Facts, own: RunFacts, span: tuple[datetime, datetime] | None) -> Iterator[Message]:
    """How long it ran; and where it had begun late, what it had waited for: then that is the cause."""
    if facts.own_hold is not None:
        yield explain_waits.held(facts, facts.own_hold)
    else:
        yield N_("How long it ran is no longer recorded")
    if span is not None and own.first_started_at is not None:
        waited = Took(round((span[1] - span[0]) / timedelta(milliseconds=1)))
        yield N_("It had started at %(start)s, %(waited)s late", start=At(own.first_started_at), waited=waited)
        yield from explain_waits.waited_for(facts, span)


def _pool(facts: Facts, skip: SkipFacts) -> Iterator[Message]:
    if skip.free_pollers is not None:
        yield N_("Pollers that were free for this OLT when the slot came: %(count)d", count=skip.free_pollers)
    if facts.pool.full:
        yield N_("No poller was free in %(full)d of %(samples)d looks at the pool in that time",
                 full=facts.pool.full, samples=facts.pool.samples)  # fmt: skip


def _since(facts: Facts, skip: SkipFacts) -> Iterator[Message]:
    """Since when the OLT was in the state that kept it from being read."""
    wanted = {SkipReason.OLT_UNREACHABLE: OltState.UNREACHABLE, SkipReason.OLT_PAUSED: OltState.PAUSED}
    state = wanted.get(skip.reason) if skip.reason is not None else None
    if state is None:
        return
    if facts.state is not None and facts.state[0] is state:
        yield N_("It had been so since %(time)s", time=At(facts.state[1]))
    else:
        yield N_("Since when is not recorded")


# -- no record of the slot


def _switched_off(facts: Facts, one: Meant, switch: Switch) -> Explanation:
    """There was no slot: the log says that the node or its OLT had been switched off."""
    told = _subject(facts) | {"node": switch.name or facts.node.chained or facts.node.name, "asked": At(facts.asked),
                              "time": At(switch.at)}  # fmt: skip
    if switch.event is EventType.OLT_DISABLED:
        text = N_("%(node)s had no slot at %(asked)s: %(olt)s was disabled at %(time)s", **told)
    else:
        text = N_("%(node)s on %(olt)s had no slot at %(asked)s: it was switched off at %(time)s", **told)
    sentences, links = [text], [_log(facts, switch.at, switch.at)]
    if one.slot is not None and one.slot < switch.at:
        sentences.append(N_("Its last slot before that was at %(slot)s", slot=At(one.slot)))
    if one.run is not None:
        links.insert(0, Link(LinkKind.EXECUTION, one.run.id, facts.node.name))
    return Explanation(Verdict.NO_SLOT, None, LossCause.DISABLED, tuple(sentences), tuple(links))


def _of_nothing(facts: Facts, slot: datetime | None) -> Explanation:
    node, told = facts.node, _subject(facts)
    log = (_log(facts, facts.asked, facts.asked),)
    if slot is None:
        if node.runs:
            text = N_("%(node)s on %(olt)s has no slot yet, and none is recorded", **told)
        else:
            text = N_("%(node)s on %(olt)s is switched off, and no slot at or before %(asked)s is recorded; since when "
                      "it is off is not recorded either", **told, asked=At(facts.asked))  # fmt: skip
        return Explanation(Verdict.NO_SLOT, None, None, (text,), log)
    named = tuple(_named(facts, slot))
    if slot > facts.now:
        text = N_("%(node)s on %(olt)s runs at %(slot)s; that is still to come", **told, slot=At(slot))
        return Explanation(Verdict.TO_COME, slot, None, (*named, text), ())
    if node.next_run_at is not None and slot >= node.next_run_at:
        return Explanation(Verdict.WAITING, slot, None, (*named, *_untaken(facts, slot)), log)
    text = N_("Of the slot of %(node)s on %(olt)s at %(slot)s nothing is recorded: no run, no decision", **told,
              slot=At(slot))  # fmt: skip
    return Explanation(Verdict.UNRECORDED, slot, LossCause.UNKNOWN, (*named, text, *_kept(facts, slot)), log)


def _untaken(facts: Facts, slot: datetime) -> Iterator[Message]:
    yield N_("The scheduler has not taken the slot of %(node)s on %(olt)s at %(slot)s yet", **_subject(facts),
             slot=At(slot))  # fmt: skip
    if facts.ticked_at is None:
        yield N_("It has never ticked")
    else:
        yield N_("It last ticked at %(time)s", time=At(facts.ticked_at))


def _kept(facts: Facts, slot: datetime) -> Iterator[Message]:
    if facts.log_since is None:
        yield N_("The decision log is empty")
    elif facts.log_since > slot:
        yield N_("The decision log of that time has been cleaned up: it begins at %(time)s", time=At(facts.log_since))
