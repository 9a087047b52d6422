"""The timeline of an OLT as shapes of an SVG: outlines of what was planned, bars of what ran. Drawing and its page."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby

from flask import Blueprint, Response, abort, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from portal.domain.plans import PlannedSlot
from portal.domain.quota import HOUR
from portal.domain.schedule import DELAYED_AFTER
from portal.domain.statuses import AttemptStatus, ExecutionStatus, Role, Trigger
from portal.queries import olts as olts_query
from portal.queries import timeline as query
from portal.queries.timeline import Hour, NodeRow, Run, Skip, Try
from portal.tables import Olt
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import duration_ms, hour, now, number
from portal.web.formatting import moment as to_second
from portal.web.words import error_words, face, skip_words

bp = Blueprint("timeline", __name__, url_prefix="/olts")

WIDTH = 1200.0
ROW = 30  # height of a node's row; styles know it too
DENSE = 60  # slots in an hour above which a row is drawn as few shapes, without a word for each slot
STEP = 10  # seconds by which the line of now moves: else each look would be another picture
TICKS = 6
HOURS = {-1: _l("Last hour"), 0: _l("This hour"), 1: _l("Next hour")}
UNTAKEN = timedelta(seconds=15)  # so long a slot may wait to be taken before it counts as one of which nothing is known

BARS = {
    AttemptStatus.SUCCESS: "done", AttemptStatus.FAILED: "failed", AttemptStatus.INTERRUPTED: "stopped",
    AttemptStatus.RUNNING: "running",
}  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """One shape: `kind` is its class. Where it has a `label` it can be focused, and leads to `url`."""

    kind: str
    x: float
    width: float
    title: str = ""
    url: str = ""
    id: str = ""
    explains: bool = True


@dataclass(frozen=True)
class Row:
    """One node. `paths`: kind → shapes drawn as one, where they are too many for a word each."""

    node_id: int
    name: str
    lead: str
    short: str
    top: int
    marks: tuple[Mark, ...]
    paths: tuple[tuple[str, str], ...] = ()
    dense: bool = False


@dataclass(frozen=True)
class Picture:
    """All of it. `now_x`: None where now is not in the hour. `busy`: twelfths of the hour, 0 to 1."""

    offset: int
    start: datetime
    rows: tuple[Row, ...]
    ticks: tuple[str, ...]
    now_x: float | None
    busy: tuple[float, ...] = field(default=())
    planned: bool = False

    @property
    def height(self) -> int:
        """Of the rows."""
        return ROW * len(self.rows)

    @property
    def dense(self) -> bool:
        """True when some row is drawn without words for each slot."""
        return any(row.dense for row in self.rows)


@dataclass(frozen=True)
class Frame:
    """What is drawn and when; `holders`: (from, to, name, run) of all tries on the OLT."""

    hour: Hour
    now: datetime
    holders: tuple[tuple[datetime, datetime, str, int], ...]

    def x(self, moment: datetime) -> float:
        """Where a moment lies, inside the picture."""
        return round(min(1.0, max(0.0, (moment - self.hour.start) / HOUR)) * WIDTH, 1)

    def shows(self, since: datetime, until: datetime) -> bool:
        """True when some of that time is inside the picture."""
        return until > self.hour.start and since < self.hour.end


def picture(found: Hour, offset: int, moment: datetime) -> Picture:
    """The hour as shapes; `moment` is now."""
    rounded = moment - timedelta(seconds=moment.timestamp() % STEP)
    held = tuple(_held(found, rounded))
    frame = Frame(found, rounded, held)
    rows = [_row(frame, row, ROW * place) for place, row in enumerate(found.rows)]
    inside = found.start <= rounded < found.end
    ticks = tuple(hour(found.start + HOUR / TICKS * place) for place in range(TICKS + 1))
    return Picture(offset, found.start, tuple(rows), ticks, frame.x(rounded) if inside else None,
                   tuple(_busy(frame)), found.planned)  # fmt: skip


def _held(found: Hour, moment: datetime) -> Iterator[tuple[datetime, datetime, str, int]]:
    for row in found.rows:
        for run in row.runs:
            for one in run.tries:
                yield one.since, one.until or moment, row.node.name, run.id


def _busy(frame: Frame) -> Iterator[float]:
    """How much of each twelfth of the hour the OLT was held."""
    part = HOUR / 12
    for place in range(12):
        begin = frame.hour.start + place * part
        shared = (min(until, begin + part) - max(since, begin) for since, until, _name, _run in frame.holders)
        held = sum((span for span in shared if span > timedelta()), timedelta())
        yield round(min(1.0, held / part), 2)


# -- rows


def _row(frame: Frame, row: NodeRow, top: int) -> Row:
    taken = {run.slot for run in row.runs if run.trigger is Trigger.SCHEDULE} | {skip.slot for skip in row.skips}
    # Where slots follow the end of the run before, a planned one is a forecast: that it did not come is no gap.
    missing = [slot for slot in row.planned if slot.scheduled_for not in taken] if query.on_grid() else []
    dense = max(len(row.planned), len(row.runs) + len(row.skips)) > DENSE
    lead, short = _leads(row, frame)
    if dense:
        marks, paths = (*_gaps(frame, row), *_unknown_groups(frame, row, missing)), tuple(_paths(frame, row))
        return Row(row.node.id, row.node.name, lead, short, top, marks, paths, dense=True)
    shapes = [
        *(_outline(frame, slot) for slot in row.planned),
        *(mark for run in row.runs for mark in _of_run(frame, row, run)),
        *(_gap(row, [skip], frame.x(skip.slot)) for skip in row.skips),
        *_unknown(frame, row, missing),
    ]
    return Row(row.node.id, row.node.name, lead, short, top, tuple(shapes))


def _leads(row: NodeRow, frame: Frame) -> tuple[str, str]:
    """What the row comes to: for those who do not see it; and in short, for all where it is dense."""
    ran = [run for run in row.runs if run.slot >= frame.hour.start]
    good = sum(run.status is ExecutionStatus.SUCCESS for run in ran)
    bad = sum(run.status in (ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED) for run in ran)
    planned, skipped = len(row.planned), len(row.skips)
    long = _("%(planned)s planned, %(good)s succeeded, %(bad)s failed or stopped, %(skipped)s skipped",
             planned=number(planned), good=number(good), bad=number(bad), skipped=number(skipped))  # fmt: skip
    return long, _("%(good)s of %(all)s", good=number(good), all=number(max(planned, len(ran))))


def _explain(node_id: int, slot: datetime) -> str:
    return url_for("explain.index", node=node_id, at=slot.isoformat())


def _id(kind: str, node_id: int, slot: datetime) -> str:
    return f"tl-{kind}-{node_id}-{int(slot.timestamp())}"


def _outline(frame: Frame, slot: PlannedSlot) -> Mark:
    """A planned slot, as wide as half of its runs take."""
    x = frame.x(slot.expected_start or slot.scheduled_for)
    width = max(6.0, frame.x((slot.expected_start or slot.scheduled_for) + timedelta(milliseconds=slot.p50_ms)) - x)
    told = _("%(time)s planned", time=to_second(slot.scheduled_for))
    if slot.p50_ms:
        told = _("%(time)s planned, usually %(p50)s, seldom more than %(p95)s", time=to_second(slot.scheduled_for),
                 p50=duration_ms(slot.p50_ms), p95=duration_ms(slot.p95_ms))  # fmt: skip
    if slot.lost is not None and slot.scheduled_for > frame.now:
        lost = _("by the plan it will not run: %(why)s", why=face(slot.lost).label)
        return Mark("outline tl-lost", x, width, f"{told}; {lost}")
    return Mark("outline", x, width, told)


def _of_run(frame: Frame, row: NodeRow, run: Run) -> Iterator[Mark]:
    """The wait as a hatch, each try as a bar; one that never began as a hollow mark."""
    first = run.tries[0].since if run.tries else run.finished_at or frame.now
    label = _label(frame, run, first)
    plain = run.status is ExecutionStatus.SUCCESS and first - run.slot <= DELAYED_AFTER
    url, explains = _run_url(row, run)
    if first - run.slot > DELAYED_AFTER and frame.shows(run.slot, first):
        x = frame.x(run.slot)
        yield Mark("wait", x, max(3.0, frame.x(first) - x), label)
    for place, one_try in enumerate(run.tries):
        until = one_try.until or frame.now
        if frame.shows(one_try.since, until):
            x = frame.x(one_try.since)
            focused = not plain and place == len(run.tries) - 1
            yield Mark(
                f"bar tl-{BARS[one_try.status]}", x, max(4.0, frame.x(until) - x), label,
                url if focused else "", _id("r", row.node.id, run.slot) if focused else "", explains,
            )  # fmt: skip
    if not run.tries and run.slot >= frame.hour.start:
        kind = "waiting" if run.status is ExecutionStatus.PENDING else "gap"
        yield Mark(kind, frame.x(run.slot), 14.0, label, url, _id("r", row.node.id, run.slot), explains)


def _run_url(row: NodeRow, run: Run) -> tuple[str, bool]:
    """Where a run leads, and whether that is an explanation: one that a person asked for has no slot to explain."""
    if run.trigger is Trigger.MANUAL:
        return url_for("executions.detail", execution_id=run.id), False
    return _explain(row.node.id, run.slot), True


def _label(frame: Frame, run: Run, first: datetime) -> str:
    """When, what became of it, and why it waited."""
    parts = [f"{to_second(run.slot)} {face(run.status).label}"]
    waited = first - run.slot
    if waited > DELAYED_AFTER:
        parts.append(_("waited %(time)s", time=_ms(waited)) + _behind(frame, run, first))
    parts += [_("took %(time)s", time=_ms(one.until - one.since)) for one in run.tries[-1:] if one.until]
    if len(run.tries) > 1:
        parts.append(ngettext("%(num)s try", "%(num)s tries", len(run.tries)))
    why = error_words(run.error_kind) if run.error_kind and run.status is ExecutionStatus.FAILED else ""
    parts += [str(why or (skip_words(run.skip_reason) if run.skip_reason else ""))]
    return "; ".join(part for part in parts if part)


def _behind(frame: Frame, run: Run, first: datetime) -> str:
    """The runs that had the OLT meanwhile, the longest two; nothing where none did."""
    others = [(until - since, name) for since, until, name, number_ in frame.holders
              if number_ != run.id and since < first and until > run.slot]  # fmt: skip
    longest = sorted(others, reverse=True)[:2]
    told = ", ".join(f"{name} {_ms(took)}" for took, name in longest)
    held = _("the OLT was with %(holders)s", holders=told)
    return f" ({held})" if told else ""


def _ms(span: timedelta) -> str:
    return duration_ms(span / timedelta(milliseconds=1))


# -- slots that did not run


def _gap(row: NodeRow, skips: Sequence[Skip], x: float, width: float = 14.0) -> Mark:
    first, last = skips[0], skips[-1]
    why = skip_words(first.reason) if first.reason else _("Why is not recorded")
    if len(skips) == 1:
        label = _("%(time)s skipped: %(why)s. Explain", time=to_second(first.slot), why=why)
    else:
        label = _("%(count)s slots from %(first)s to %(last)s skipped: %(why)s. Explain", count=number(len(skips)),
                  first=to_second(first.slot), last=to_second(last.slot), why=why)  # fmt: skip
    return Mark("gap", x, width, label, _explain(row.node.id, first.slot), _id("s", row.node.id, first.slot))


def _gaps(frame: Frame, row: NodeRow) -> Iterator[Mark]:
    """Of a dense row: slots without a try that follow each other for one reason are one mark, as wide as they reach."""
    stopped = [
        Skip(run.node_id, run.slot, run.skip_reason)
        for run in row.runs
        if not run.tries and run.finished_at and run.slot >= frame.hour.start and run.trigger is Trigger.SCHEDULE
    ]
    ran = [run.slot for run in row.runs if run.tries]
    group: list[Skip] = []
    for skip in sorted([*row.skips, *stopped], key=lambda one: one.slot):
        if group and (skip.reason is not group[-1].reason or any(group[-1].slot < slot < skip.slot for slot in ran)):
            yield _group(frame, row, group)
            group = []
        group.append(skip)
    if group:
        yield _group(frame, row, group)


def _group(frame: Frame, row: NodeRow, group: Sequence[Skip]) -> Mark:
    x = frame.x(group[0].slot)
    return _gap(row, group, x, max(8.0, round(frame.x(group[-1].slot) - x, 1)))


def _unknown(frame: Frame, row: NodeRow, missing: Iterable[PlannedSlot]) -> Iterator[Mark]:
    """Planned slots that have passed and of which nothing is recorded."""
    for slot in missing:
        if slot.scheduled_for < frame.now - UNTAKEN:
            label = _("%(time)s: nothing is recorded of this slot. Explain", time=to_second(slot.scheduled_for))
            url, name = _explain(row.node.id, slot.scheduled_for), _id("u", row.node.id, slot.scheduled_for)
            yield Mark("gap tl-unknown", frame.x(slot.scheduled_for), 14.0, label, url, name)


def _unknown_groups(frame: Frame, row: NodeRow, missing: Collection[PlannedSlot]) -> Iterator[Mark]:
    """The same of a dense row: those that follow each other are one mark."""
    gone = {slot.scheduled_for for slot in missing if slot.scheduled_for < frame.now - UNTAKEN}
    for unknown, group in groupby(row.planned, lambda slot: slot.scheduled_for in gone):
        if not unknown:
            continue
        slots = [slot.scheduled_for for slot in group]
        label = _("%(count)s slots from %(first)s to %(last)s: nothing is recorded of them. Explain",
                  count=number(len(slots)), first=to_second(slots[0]), last=to_second(slots[-1]))  # fmt: skip
        x = frame.x(slots[0])
        width = max(8.0, round(frame.x(slots[-1]) - x, 1))
        yield Mark("gap tl-unknown", x, width, label, _explain(row.node.id, slots[0]), _id("u", row.node.id, slots[0]))


def _paths(frame: Frame, row: NodeRow) -> Iterator[tuple[str, str]]:
    """Of a dense row: all shapes of one kind as one path."""
    found: dict[str, list[tuple[float, float]]] = {}
    for slot in row.planned:
        found.setdefault("ticks", []).append((frame.x(slot.scheduled_for), 0.0))
    for run in row.runs:
        for one_try in run.tries:
            _add(found, frame, one_try)
        first = run.tries[0].since if run.tries else frame.now
        if first - run.slot > DELAYED_AFTER and frame.shows(run.slot, first):
            x = frame.x(run.slot)
            found.setdefault("wait", []).append((x, max(2.0, frame.x(first) - x)))
    for kind, shapes in found.items():
        yield kind, "".join(_shape(kind, x, width) for x, width in shapes)


def _add(found: dict[str, list[tuple[float, float]]], frame: Frame, one_try: Try) -> None:
    until = one_try.until or frame.now
    if frame.shows(one_try.since, until):
        x = frame.x(one_try.since)
        found.setdefault(f"bar tl-{BARS[one_try.status]}", []).append((x, max(2.0, frame.x(until) - x)))


def _shape(kind: str, x: float, width: float) -> str:
    return f"M{x:g} 4v22" if kind == "ticks" else f"M{x:g} 9h{width:g}v12h-{width:g}z"


# -- the page


def of(olt: Olt, offset: int) -> Picture:
    """The picture of this hour (0), the last (-1) or the next (1)."""
    moment = now()
    start = moment.replace(minute=0, second=0, microsecond=0) + offset * HOUR
    return picture(query.of_olt(olt, start, moment), offset, moment)


@bp.get("/<int:olt_id>/timeline")
@requires(Role.VIEWER)
def of_olt(olt_id: int) -> Response:
    """?hour=-1, 0 or 1. A page of its own, or the part of the OLT's page that refreshes itself."""
    olt = olts_query.get(olt_id) or abort(404)
    text = request.args.get("hour", "0")
    offset = int(text) if text in ("-1", "0", "1") else 0
    return live.render("olts/timeline.html", olt=olt, title=olt.name, timeline=of(olt, offset), hours=HOURS)
