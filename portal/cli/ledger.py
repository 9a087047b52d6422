"""Command ledger: what each node cost its OLT, and how much of what it read was new."""

import click
from flask.cli import with_appcontext

from portal.cli.output import json_option, plain, print_json, print_table, told_on_stderr
from portal.domain.ledger import Verdict
from portal.queries import executions, ledger

_WORDS = {Verdict.COSTLY: "read half as often: frees {minutes:.0f} min a day", Verdict.FAILING: "most runs fail"}


@click.command("ledger")
@click.option("--olt", "olt_name", help="Only nodes of the OLT of this name.")
@click.option("--days", type=click.IntRange(1, ledger.MOST_DAYS), default=1, show_default=True, help="UTC days.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
@with_appcontext
def show_ledger(olt_name: str | None, days: int, limit: int, as_json: bool) -> None:
    """What each node cost its OLT, dearest first, up to the last hour that was entered."""
    with told_on_stderr():
        olt_id = _olt_id(olt_name) if olt_name else None
        asked = ledger.period(days)
        rows = list(ledger.page(asked, olt_id, size=limit).rows) if asked else []
    if as_json:
        print_json({"since": asked and asked.start, "up_to": asked and asked.up_to, "nodes": [_json(r) for r in rows]})
        return
    head = ("OLT", "NODE", "KIND", "RUNS", "FAILED", "OLT TIME S", "SHARE %", "READ", "CHANGED", "CHANGED %", "VERDICT")
    print_table(
        head,
        [
            (r.olt, r.node, r.kind, r.sums.runs, r.sums.failures, f"{r.sums.duration_ms / 1000:.1f}",
             f"{r.sums.share:.1f}", r.sums.values_read, r.sums.values_changed, _percent(r.sums.changed_percent),
             _told(r))
            for r in rows
        ],
        "nothing has been entered yet" if asked is None else "no run ended in these days",
    )  # fmt: skip
    if asked:
        click.echo(f"from {asked.start:%Y-%m-%d %H:%M} up to {asked.up_to:%Y-%m-%d %H:%M} UTC")


def _olt_id(name: str) -> int:
    ids = {olt_name: olt_id for olt_id, olt_name in executions.olt_names()}
    if name not in ids:
        raise click.ClickException(f"there is no OLT {name}")
    return ids[name]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _told(row: ledger.Row) -> str:
    verdict = row.sums.verdict
    return _WORDS[verdict].format(minutes=row.sums.freed_ms / 60_000) if verdict else ""


def _json(row: ledger.Row) -> dict[str, object]:
    sums, found = row.sums, dict(plain(row))
    found |= {"share_percent": sums.share, "changed_percent": sums.changed_percent, "verdict": plain(sums.verdict)}
    return found
