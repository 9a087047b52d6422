"""The same days twice: with the settings as they are and with others, what comes of each side by side. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from portal.domain import quota
from portal.domain.messages import N_
from portal.domain.pool import SATURATED_ABOVE
from portal.domain.slots import NextCron
from portal.domain.statuses import QuotaStatus
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.state import State
from scheduler.timemachine.world import ALL_SITES, NodeSpec, World

KEPT = frozenset({QuotaStatus.COMPLETED, QuotaStatus.PARTIAL})
WORST = 5  # promises that are named
LONGEST_HOURS = 24 * 31


class Nonsense(ValueError):
    """What was asked for cannot be tried; `message` for the person."""


@dataclass(frozen=True)
class Change:
    """Other settings: pollers (None: as they are), intervals in seconds by node key, keys that are switched off."""

    pollers: int | None = None
    intervals: Mapping[str, int] = field(default_factory=dict)
    disabled: Collection[str] = ()

    def __bool__(self) -> bool:
        return self.pollers is not None or bool(self.intervals) or bool(self.disabled)


@dataclass(frozen=True)
class Outlook:
    """What one world comes to. Delays in seconds, shares in percent. `worst`: (OLT, task type, completed, required)."""

    composites: int
    required: int
    completed: int
    quotas: int
    met: int
    at_risk: int
    violations: int
    delay_p50: float
    delay_p95: float
    pool_busy: float
    pool_full: float
    olt_busiest: float
    olts_saturated: int
    skips: Mapping[str, int]
    losses: Mapping[str, int]
    worst: tuple[tuple[str, str, int, int], ...]


def apply(world: World, change: Change) -> World:
    """The world with other settings: intervals and what is disabled on the watched OLTs, pollers for all.

    Nonsense: a key that none of their masters has, or nothing of theirs left to run.
    """
    keys = {node.key for node in world.nodes if world.watches(node.olt_id)}
    unknown = sorted({*change.intervals, *change.disabled} - keys)
    for key in unknown:
        if key in world.chained:
            masters = ", ".join(sorted(world.chained[key]))
            raise Nonsense(f"{key} is chained to {masters}; only masters can be tried")
    if unknown:
        raise Nonsense(f"no node has the key {', '.join(unknown)}; there are: {', '.join(sorted(keys))}")
    both = sorted(set(change.intervals) & set(change.disabled))
    if both:
        raise Nonsense(f"{', '.join(both)} cannot be disabled and have another interval at once")
    nodes = tuple(found for node in world.nodes if (found := _changed(node, change, world)) is not None)
    if not any(world.watches(node.olt_id) for node in nodes):
        raise Nonsense("nothing would be left to run: every node would be switched off")
    rules = world.rules if change.pollers is None else replace(world.rules, pollers={ALL_SITES: change.pollers})
    return replace(world, nodes=nodes, rules=rules)


def _changed(node: NodeSpec, change: Change, world: World) -> NodeSpec | None:
    """Another interval; None: disabled. Phases stay (`folded`): how it goes on is looked for, not the first hour."""
    if not world.watches(node.olt_id):
        return node
    if node.key in change.disabled:
        return None
    interval = change.intervals.get(node.key)
    return node if interval is None else replace(node, interval_seconds=interval, cron=None)


def folded(world: World, begin: datetime, next_cron: NextCron) -> World:
    """Every clock at its first slot after `begin`: of an interval no more than one away, none in the past."""
    return replace(world, nodes=tuple(_fold(node, begin, next_cron) for node in world.nodes))


def _fold(node: NodeSpec, begin: datetime, next_cron: NextCron) -> NodeSpec:
    if node.cron is not None:
        late = node.first is None or node.first <= begin
        return replace(node, first=next_cron(node.cron, begin)) if late else node
    if node.first is None or not node.interval_seconds:
        return node
    step = timedelta(seconds=node.interval_seconds)
    away = (node.first - begin) % step
    return replace(node, first=begin + (away or step))


def outlook(world: World, now: datetime, hours: int, seed: int, next_cron: NextCron) -> Outlook:
    """Live a world for so many whole hours, from the next full hour on, and sum it up.

    Part of an hour would be judged by promises that it does not stand for.
    """
    begin = quota.hour_at(now) if now == quota.hour_at(now) else quota.hour_at(now) + quota.HOUR
    found = folded(world, begin, next_cron)
    machine = Machine(found, begin, next_cron=next_cron, fortune=Fortune(seed), keep_log=0)
    until = begin + hours * quota.HOUR
    machine.run(until)
    state = machine.state
    load = _load(world, state, until)
    machine.run(until + world.rules.close_after)  # the last hour is judged like the others
    sums = state.ledger.verdicts
    names = {olt.olt_id: olt.name for olt in state.olts.values()}
    tasks = [
        (names[olt], task, each["completed"], each["required"])
        for (olt, task), each in sums.by_task.items()
        if each["completed"] < each["required"]
    ]
    return Outlook(
        **load, required=sums.required, completed=sums.completed, quotas=sums.hours,
        met=sum(sums.statuses[status] for status in KEPT), at_risk=sums.at_risk,
        violations=sum(sums.severities.values()),
        losses={cause.value: slots for cause, slots in sorted(sums.losses.items())},
        worst=tuple(sorted(tasks, key=lambda one: (one[2] / one[3], one[0], one[1]))[:WORST]),
    )  # fmt: skip


def _load(world: World, state: State, now: datetime) -> dict[str, Any]:
    """How much was done so far, how late, and how busy all were: what runs still counts up to now."""
    figures = state.figures
    for run in (olt.running for olt in state.olts.values() if olt.running is not None):
        figures.held(run, now)
    busy = [figures.busy_share(olt, now) for olt in state.olts if world.watches(olt)]
    saturated = sum(share > SATURATED_ABOVE for share in busy)
    return {
        "composites": figures.composites,
        "delay_p50": figures.delays.quantile(0.5), "delay_p95": figures.delays.quantile(0.95),
        "pool_busy": round(figures.pool_share(state.serving, now), 1),
        "pool_full": round(figures.full_share(now), 1),
        "olt_busiest": round(max(busy, default=0.0), 1), "olts_saturated": saturated,
        "skips": {reason.value: slots for reason, slots in sorted(figures.skipped.items())},
    }  # fmt: skip


Say = Callable[[Any], str]

_ROWS: tuple[tuple[Any, Callable[[Outlook], Any]], ...] = (
    (N_("composites run"), lambda one: one.composites),
    (N_("runs promised"), lambda one: one.required),
    (N_("runs completed"), lambda one: f"{one.completed} ({_percent(one.completed, one.required)})"),
    (N_("quotas (OLT, task type, hour)"), lambda one: one.quotas),
    (N_("quotas met (80 % or more)"), lambda one: f"{one.met} ({_percent(one.met, one.quotas)})"),
    (N_("quotas at risk during their hour"), lambda one: one.at_risk),
    (N_("violations"), lambda one: one.violations),
    (N_("delay p50 (s)"), lambda one: f"{one.delay_p50:.1f}"),
    (N_("delay p95 (s)"), lambda one: f"{one.delay_p95:.1f}"),
    (N_("pool busy (%)"), lambda one: one.pool_busy),
    (N_("time without a free poller (%)"), lambda one: one.pool_full),
    (N_("busiest OLT (%)"), lambda one: one.olt_busiest),
    (N_("OLTs busy above 75 %"), lambda one: one.olts_saturated),
)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(now: Outlook, then: Outlook | None, say: Say) -> list[str]:
    """Lines of text: a row for each figure, a column for each world. `say` puts a text into the reader's language."""
    worlds = [now] if then is None else [now, then]
    heads = [say(N_("present settings")), say(N_("changed settings"))][: len(worlds)]
    rows = [["", *heads]]
    rows += [[say(name), *(str(value(one)) for one in worlds)] for name, value in _ROWS]
    rows.append([say(N_("slots lost, by cause")), *("" for _ in worlds)])
    for cause in sorted({cause for one in worlds for cause in one.losses}):
        rows.append([f"  {cause}", *(str(one.losses.get(cause, 0)) for one in worlds)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    for head, one in zip(heads, worlds, strict=True):
        if one.worst:
            lines += ["", say(N_("kept worst with %(settings)s:", settings=head))]
            lines += [f"  {olt}  {task}  {done}/{due}" for olt, task, done, due in one.worst]
    return lines


def _cells(row: list[str], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
