"""Commands channel add, list, test and delete: where alerts go."""

from typing import Any
from zoneinfo import ZoneInfo

import click
from flask import current_app
from flask.cli import AppGroup

from portal import clock, notify
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.domain import channel_fields
from portal.domain.statuses import Severity
from portal.extensions import db
from portal.queries import alerts
from portal.queries.alerts import ChannelRow
from portal.services.alerting import by_hand, channels

KINDS = [kind.value for kind in channel_fields.CHOOSABLE]

channel = AppGroup("channel", help="Channels through which alerts are told (docs/alerts.md).")


@channel.command("add")
@click.argument("name")
@click.option(
    "--target",
    prompt="Address",
    hide_input=True,
    help="Asked for when it is not given; a command line is seen by others.",
)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="What it tells of. Default: everything.")
@click.option("--severity", default=Severity.LOW.value, show_default=True, type=click.Choice(list(Severity)),
              help="Only from this severity on.")  # fmt: skip
@click.option("--quiet", metavar="HH:MM-HH:MM", help="Hold back what is not critical, in the portal's zone.")
@click.option("--per-hour", default=30, show_default=True, help="Messages per hour, at most.")
def add(name: str, target: str, kinds: tuple[str, ...], severity: str, quiet: str | None, per_hour: int) -> None:
    """Add a channel called NAME. Its address is a URL as Apprise writes it; it is stored encrypted and never shown."""
    start, dash, end = (quiet or "-").partition("-")
    fields: dict[str, Any] = {
        "name": name, "target": target, "min_severity": severity, "per_hour": per_hour,
        "alert_kinds": list(kinds) or KINDS, "quiet_start": start, "quiet_end": end if dash else start,
    }  # fmt: skip
    with told_on_stderr():
        channels.save(fields, "cli", clock.now())
    click.echo(f"channel {name.strip()} added; `flask channel test {name.strip()}` tries it")


@channel.command("list")
@json_option
def list_channels(as_json: bool) -> None:
    """List all channels: of an address only the service and, where that is no secret, the host."""
    with told_on_stderr():
        found = [_shown(row) for row in alerts.channels(clock.now(), ZoneInfo(current_app.config["TIMEZONE"]))]
    if as_json:
        print_json(found)
        return
    head = ("name", "address", "state", "waiting", "last_sent_at", "min_severity", "quiet", "per_hour", "error")
    rows = [[row[name] for name in head] for row in found]
    print_table([name.removesuffix("_at").replace("_", " ").upper() for name in head], rows,
                "there is no channel: `flask channel add NAME` makes one")  # fmt: skip


def _shown(row: ChannelRow) -> dict[str, Any]:
    quiet = f"{channel_fields.clock(row.quiet_start)}-{channel_fields.clock(row.quiet_end)}"
    names = (
        "name",
        "address",
        "enabled",
        "waiting",
        "failures",
        "last_hour",
        "per_hour",
        "last_sent_at",
        "min_severity",
    )
    return {name: getattr(row, name) for name in names} | {
        "alert_kinds": row.alert_kinds,
        "quiet": quiet.strip("-"),
        "state": _state(row),
        "error": ": ".join(filter(None, (row.error, row.answer))) if row.failures else "",
    }


def _state(row: ChannelRow) -> str:
    if not row.enabled:
        return "disabled"
    if not row.readable:
        return "key lost"
    return "fails" if row.failures else "works" if row.last_sent_at else "not tried"


@channel.command("test")
@click.argument("name")
def test(name: str) -> None:
    """Send a test message through NAME now and print the receiver's answer; exit code 1 when it was not taken."""
    with told_on_stderr():
        found = channels.by_name(db.session(), name)
        failure = by_hand.test(found.id, "cli", clock.now(), notify.send)
    if failure is not None:
        raise click.ClickException(": ".join(filter(None, (str(failure.error), failure.answer))))
    click.echo("the receiver took the test message: see whether it arrived")


@channel.command("delete")
@click.argument("name")
@click.confirmation_option(prompt="Delete it with what waits for it?")
def delete(name: str) -> None:
    """Delete the channel NAME, with what waits for it and the record of what went through it."""
    with told_on_stderr():
        channels.delete(channels.by_name(db.session(), name).id, "cli", clock.now())
    click.echo("channel deleted")
