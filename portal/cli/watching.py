"""Commands executions, pollers and queue: what the pages of these names show, and how the pools of pollers change."""

import socket

import click
from flask.cli import with_appcontext

from portal import clock
from portal.cli.output import json_option, plain, print_json, print_table, told_on_stderr
from portal.domain.statuses import ExecutionStatus
from portal.queries import executions, pollers, pulse, queue
from portal.queries.pollers import PollerRow, PoolRow
from portal.services.dispatch import pool as pool_service

MOST_ROWS = 1000


@click.command("executions")
@click.option("--olt", "olt_name", help="Only of the OLT of this name.")
@click.option("--status", type=click.Choice([s.value for s in ExecutionStatus], case_sensitive=False))
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=20, show_default=True)
@json_option
@with_appcontext
def list_executions(olt_name: str | None, status: str | None, limit: int, as_json: bool) -> None:
    """The last executions, newest first."""
    with told_on_stderr():
        olt_id = _olt_id(olt_name) if olt_name else None
        wanted = executions.Filter(ExecutionStatus(status.upper()) if status else None, olt_id)
        rows = executions.page(wanted, size=limit).rows
    if as_json:
        print_json(rows)
        return
    head = ("ID", "OLT", "NODE", "STATUS", "TRIGGER", "SLOT", "STARTED", "MS", "DELAY MS", "TRY", "ERROR")
    print_table(
        head,
        [
            (r.id, r.olt_name, r.node_name, r.status, r.trigger, r.scheduled_for, r.started_at, r.duration_ms,
             r.delay_ms, r.attempt, f"{r.error_kind.value}: {r.error_message}" if r.error_kind else "")
            for r in rows
        ],
        "no execution yet",
    )  # fmt: skip


def _olt_id(name: str) -> int:
    ids = {olt_name: olt_id for olt_id, olt_name in executions.olt_names()}
    if name not in ids:
        raise click.ClickException(f"there is no OLT {name}")
    return ids[name]


@click.group("pollers", invoke_without_command=True)
@json_option
@click.pass_context
@with_appcontext
def list_pollers(context: click.Context, as_json: bool) -> None:
    """The pollers, what each holds, how busy it is; and the scheduler's last tick. Commands change a running pool."""
    if context.invoked_subcommand is not None:
        return
    moment = clock.now()
    with told_on_stderr():
        pools, rows, beat = pollers.pools(moment), pollers.rows(moment), pulse.read(moment)
    if as_json:
        print_json({"pulse": beat, "pools": pools, "pollers": rows})
        return
    _print_pollers(pools, rows)
    _print_pulse(beat)


def _print_pollers(pools: list[PoolRow], rows: list[PollerRow]) -> None:
    names = {pool.id: pool.name for pool in pools}
    head = ("N", "POOL", "STATUS", "SEEN", "EXECUTION", "OLT", "NODE", "BUSY % 1 MIN", "BUSY %", "DONE", "LATE")
    print_table(
        head,
        [
            (r.number, names.get(r.pool_id, r.host), _state(r), r.seen_at, r.execution_id, r.olt_name, r.node_name,
             r.minute_percent, r.life_percent, r.completed, r.delayed)
            for r in rows
        ],
        "no poller has run yet: `flask work` starts them",
    )  # fmt: skip
    for pool in pools:
        serves = "every OLT" if pool.site is None else f"site {pool.site}" if pool.site else "OLTs without a site"
        told = f"pool {pool.name}: {pool.size} pollers for {serves}, {pool.alive} alive, {pool.busy} busy"
        click.echo(told if pool.seen else f"{told}; no sign of life")
        if pool.saturated:
            command = f"flask pollers scale {pool.enough} --pool {pool.name}"
            click.echo(f"  saturated ({pool.busy_percent:.0f} %): `{command}`")


def _state(row: PollerRow) -> str:
    state = row.status.value if row.seen else "gone"
    return f"{state}, restarting" if row.restart_requested else state


pool_option = click.option("--pool", "pool_name", help="Name of the pool; left out: the one of this host.")


def _pool(name: str | None) -> PoolRow:
    """The pool of that name, or the only one of this host."""
    there = pollers.pools(clock.now())
    here = [pool for pool in there if (pool.name == name if name else pool.host == socket.gethostname())]
    if len(here) == 1:
        return here[0]
    names = ", ".join(pool.name for pool in here or there) or "none"
    if name:
        raise click.ClickException(f"there is no running pool {name}; running: {names}")
    number = "several pools run" if here else "no pool runs"
    raise click.ClickException(f"{number} on this host: choose one with --pool NAME; running: {names}")


@list_pollers.command("scale")
@click.argument("size", type=click.IntRange(1, pool_service.LARGEST_POOL))
@pool_option
@with_appcontext
def scale(size: int, pool_name: str | None) -> None:
    """Make a running pool keep SIZE pollers. What runs goes on; a poller too many ends after what it holds."""
    with told_on_stderr():
        pool = _pool(pool_name)
        pool_service.scale(pool.name, size, "cli", clock.now())
    click.echo(f"pool {pool.name}: from {pool.size} to {size} pollers; it follows within seconds")


@list_pollers.command("restart")
@click.argument("number", type=click.IntRange(min=1), required=False)
@pool_option
@with_appcontext
def restart(number: int | None, pool_name: str | None) -> None:
    """Restart poller NUMBER of a running pool, or each of them. What one holds may end first."""
    with told_on_stderr():
        pool = _pool(pool_name)
        ours = [row for row in pollers.rows(clock.now()) if row.pool_id == pool.id]
        chosen = [row for row in ours if number in (None, row.number)]
        if not chosen:
            there = ", ".join(str(row.number) for row in ours) or "none"
            raise click.ClickException(f"pool {pool.name} has no poller {number or ''}; there are: {there}")
        for row in chosen:
            pool_service.request_restart(row.id, "cli", clock.now())
    told = f"poller {number}" if number else f"{len(chosen)} pollers"
    click.echo(f"pool {pool.name}: restart of {told} requested")


def _print_pulse(beat: pulse.Pulse) -> None:
    tick = beat.last_tick_at.isoformat() if beat.last_tick_at else "never"
    stale = " (the scheduler is silent)" if beat.stale else ""
    saturated = ", saturated" if beat.saturated else ""
    busy = f"{beat.busy}/{beat.pollers} pollers busy, {beat.busy_percent:.0f} % of the last minute{saturated}"
    click.echo(f"last tick {tick}{stale}; {busy}; {beat.waiting} waiting")


@click.command("queue")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=queue.SHOWN, show_default=True)
@json_option
@with_appcontext
def list_queue(limit: int, as_json: bool) -> None:
    """What waits, in the order in which it will be taken, and why it waits."""
    moment = clock.now()
    with told_on_stderr():
        rows = queue.next_up(moment, limit)
    if as_json:
        lanes = [{"lane": row.waiting.lane.value, "due": row.waiting.due} for row in rows]
        print_json([plain(row) | plain(extra) for row, extra in zip(rows, lanes, strict=True)])
        return
    head = ("ID", "OLT", "NODE", "LANE", "PRIORITY", "SLOT", "DUE", "TRY", "WAITS FOR")
    print_table(
        head,
        [
            (r.waiting.id, r.waiting.olt_name, r.waiting.node_name, r.waiting.lane, r.waiting.priority,
             r.waiting.scheduled_for, r.waiting.due, r.waiting.attempt, r.cause)
            for r in rows
        ],
        "nothing waits",
    )  # fmt: skip
