"""Commands executions, pollers and queue: what the pages of these names show, for a terminal or a script."""

import click
from flask.cli import with_appcontext

from portal.cli.output import json_option, now, plain, print_json, print_table, told_on_stderr
from portal.domain.statuses import ExecutionStatus
from portal.queries import executions, pollers, pulse, queue

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


@click.command("pollers")
@json_option
@with_appcontext
def list_pollers(as_json: bool) -> None:
    """The pollers, what each holds, how busy it is; and the scheduler's last tick."""
    moment = now()
    with told_on_stderr():
        rows = pollers.rows(moment)
        beat = pulse.read(moment)
    if as_json:
        print_json({"pulse": beat, "pollers": rows})
        return
    head = ("N", "HOST", "STATUS", "SEEN", "EXECUTION", "OLT", "NODE", "BUSY % 1 MIN", "BUSY %", "DONE", "LATE")
    print_table(
        head,
        [
            (r.number, r.host, r.status if r.seen else "gone", r.seen_at, r.execution_id, r.olt_name, r.node_name,
             r.minute_percent, r.life_percent, r.completed, r.delayed)
            for r in rows
        ],
        "no poller has run yet: `flask work` starts them",
    )  # fmt: skip
    _print_pulse(beat)


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
    moment = now()
    with told_on_stderr():
        rows = queue.next_up(pulse.read(moment), moment, limit)
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
