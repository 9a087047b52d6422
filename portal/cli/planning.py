"""Commands plan …: the plan of an OLT, how its work fits, also with other intervals, phase advice, pollers needed."""

from collections.abc import Sequence
from datetime import datetime

import click
from flask.cli import with_appcontext

from portal import clock
from portal.cli.output import json_option, plain, print_json, print_table, told_on_stderr
from portal.domain import node_fields
from portal.domain.feasibility import Feasibility
from portal.domain.fields import read_all
from portal.queries import executions, feasibility, phases, plans, pool_advice, workflows
from portal.queries.feasibility import Edit, OltFit
from portal.queries.pool_advice import PoolView
from portal.services.coordinating import phases as service

_FIT_HEAD = ("NODE", "RUNS/H", "P50 MS", "P95 MS", "GUESS", "HELD %", "BUSY %", "WAITS MS", "LOST/H")


@click.group("plan")
def plan() -> None:
    """What OLTs will do, whether it fits, and what would make it better."""


def _olt_id(name: str) -> int:
    ids = {olt_name: olt_id for olt_id, olt_name in executions.olt_names()}
    if name not in ids:
        raise click.ClickException(f"there is no OLT {name}")
    return ids[name]


@plan.command("show")
@click.argument("olt_name", metavar="OLT")
@json_option
@with_appcontext
def show(olt_name: str, as_json: bool) -> None:
    """The newest plan of an OLT, slot by slot."""
    with told_on_stderr():
        found = plans.of_olt(_olt_id(olt_name), limit=1)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("nothing has been planned yet")
        return
    view = found[0]
    print_table(
        ("NODE", "SLOT", "STARTS", "P50 MS", "P95 MS", "LOST TO"),
        [
            (view.plan.keys[slot.node_id][0], slot.scheduled_for, slot.expected_start, slot.p50_ms, slot.p95_ms,
             slot.lost)
            for slot in view.plan.slots
        ],
        "no slot",
    )  # fmt: skip
    click.echo(f"{view.status.value} plan of {view.total_tasks} runs, made {view.created_at:%Y-%m-%d %H:%M:%S} UTC")


@plan.command("feasibility")
@click.argument("olt_name", metavar="[OLT]", required=False)
@click.option("--set", "settings", metavar="KEY=INTERVAL", multiple=True, help="What if a node ran so often (60s, 5m).")
@click.option("--without", "removed", metavar="KEY", multiple=True, help="What if this node were removed.")
@json_option
@with_appcontext
def show_feasibility(olt_name: str | None, settings: Sequence[str], removed: Sequence[str], as_json: bool) -> None:
    """How the work of an OLT fits into its hours; without a name, of every OLT. --set and --without change nothing."""
    moment = clock.now()
    with told_on_stderr():
        if olt_name is None:
            if settings or removed:
                raise click.ClickException("name the OLT whose nodes are meant")
            _print_all(feasibility.of_olts(moment, detailed=None), as_json)
            return
        olt_id = _olt_id(olt_name)
        fit = feasibility.what_if(olt_id, moment, *_changes(olt_id, settings, removed))
    if as_json:
        print_json(fit)
    else:
        _print_fit(fit)


def _changes(olt_id: int, settings: Sequence[str], removed: Sequence[str]) -> tuple[list[Edit], list[int]]:
    nodes = {node.key: node for node in workflows.masters_of(olt_id)}
    edits = []
    for setting in settings:
        key, _, text = setting.partition("=")
        node = nodes.get(key)
        if node is None:
            raise click.ClickException(f"there is no master {key}; there are: {', '.join(nodes) or 'none'}")
        read, errors = read_all({"interval": node_fields.READERS["interval"]}, {"interval": text})
        if errors or not read["interval"]:
            reason = errors.get("interval", "is missing: to see it without the node, write --without")
            raise click.ClickException(f"the interval of {key} {reason}")
        edits.append(Edit(key, node.kind, node.priority, read["interval"], None, node.id))
    unknown = [key for key in removed if key not in nodes]
    if unknown:
        raise click.ClickException(f"there is no master {unknown[0]}; there are: {', '.join(nodes) or 'none'}")
    return edits, [nodes[key].id for key in removed]


def _print_fit(fit: Feasibility) -> None:
    print_table(
        _FIT_HEAD,
        [
            (load.key, f"{load.runs_per_hour:.1f}", load.p50_ms, load.p95_ms, "-" if load.known else "yes",
             "-" if load.pace.held is None else f"{100 * load.pace.held:.1f}",
             f"{100 * load.share:.1f}", load.delay_ms, load.lost)
            for load in fit.nodes
        ],
        "nothing is planned",
    )  # fmt: skip
    click.echo(f"{fit.verdict.value}: busy {100 * fit.share:.1f} % of the hour")
    for task in fit.failing:
        click.echo(f"{task} will not keep its promise")
    for task in fit.endangered:
        click.echo(f"{task} will not keep its promise in a slow hour")
    if fit.blame:
        click.echo(f"{fit.blame.key} {'keeps the OLT from the others' if fit.blocks else 'takes most'}")


def _print_all(found: Sequence[OltFit], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_table(
        ("OLT", "STATE", "BUSY %", "WILL FAIL", "TAKES MOST"),
        [
            (one.name, one.fit.verdict, f"{100 * one.fit.share:.1f}", ", ".join(one.fit.failing),
             one.fit.blame.key if one.fit.blame else "")
            for one in found
        ],
        "there is no OLT in service",
    )  # fmt: skip


@plan.command("phases")
@click.argument("olt_name", metavar="[OLT]", required=False)
@click.option("--apply", "apply_it", is_flag=True, help="Move the clocks.")
@json_option
@with_appcontext
def show_phases(olt_name: str | None, apply_it: bool, as_json: bool) -> None:
    """Where masters should strike so that those of one OLT do not meet and the pool is level; of one OLT or of all."""
    moment: datetime = clock.now()
    with told_on_stderr():
        olt_ids = [_olt_id(olt_name)] if olt_name else None
        if apply_it:
            click.echo(f"clocks moved: {service.apply('cli', moment, olt_ids, olt_name or '')}")
            return
        seen = phases.fresh(moment, olt_ids)
    if seen is None:
        raise click.ClickException("with NEXTCHECK_MODE=from_end clocks have no phase")
    if as_json:
        print_json([plain(move) | {"after": plain(move.after)} for move in seen.moves])
        return
    rows = [(move.olt_name, move.key, move.before, move.after, move.seconds) for move in seen.moves]
    print_table(("OLT", "NODE", "NEXT RUN", "WOULD BE", "LATER BY S"), rows, "no clock would be moved")
    before, after = seen.advice.before, seen.advice.after
    click.echo(f"masters of one OLT meet: {before.meeting_seconds} → {after.meeting_seconds} s an hour; "
               f"pollers at most: {before.peak} → {after.peak}")  # fmt: skip


@plan.command("pool")
@json_option
@with_appcontext
def show_pool(as_json: bool) -> None:
    """How many pollers would be enough, from what ran in the last hour."""
    with told_on_stderr():
        views = pool_advice.last_hour(clock.now())
    if as_json:
        print_json(views)
        return
    if not views:
        click.echo("too little ran in the last hour to tell")
    for view in views:
        _print_pool(view, alone=len(views) == 1)


def _print_pool(view: PoolView, *, alone: bool) -> None:
    advice = view.advice
    whom = "" if alone and view.site is None else "all other OLTs: "
    if view.site is not None:
        whom = f"site {view.site}: " if view.site else "OLTs without a site: "
    click.echo(f"{whom}{advice.needed} pollers are enough: 95 of 100 composites wait less than 5 s for one")
    if advice.present_p95_ms is not None:
        click.echo(f"with the present {advice.present}: {advice.present_p95_ms / 1000:.1f} s")
    click.echo(f"from {advice.arrivals} composites of the last {view.seconds} s")
