"""Command olt: deleted OLTs, listed and brought back."""

import click
from flask.cli import AppGroup

from portal import clock
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.domain.messages import N_
from portal.queries import deleted_olts
from portal.services.errors import NotFound
from portal.services.network import olts as service

olt = AppGroup("olt", help="OLTs that were deleted.")


@olt.command("deleted")
@click.option("--search", default="", help="A part of name, address, site or reason.")
@json_option
def list_deleted(search: str, as_json: bool) -> None:
    """List deleted OLTs, the last deleted first: number, name, why, when, by whom."""
    with told_on_stderr():
        rows = deleted_olts.everything(search)
    if as_json:
        print_json(rows)
        return
    lines = [(row.id, row.name, f"{row.address}:{row.port}", row.deleted_at, row.by, row.reason) for row in rows]
    print_table(("ID", "OLT", "ADDRESS", "DELETED", "BY", "REASON"), lines, "no OLT was deleted")


@olt.command("restore")
@click.argument("which")
@click.option("--name", help="Come back under this name.")
@click.option("--address", help="Come back at this address; its credential will be sent there.")
@click.option("--port", type=int, help="Come back at this UDP port; its credential will be sent there.")
def restore(which: str, name: str | None, address: str | None, port: int | None) -> None:
    """Bring the deleted OLT WHICH back, disabled: its number, or its name when only one deleted OLT has it.

    When another OLT has its name or address by now, give it another one with --name or --address.
    """
    given = {key: value for key, value in (("name", name), ("address", address), ("port", port)) if value is not None}
    with told_on_stderr():
        olt_id = _number(which)
        service.restore(olt_id, "cli", clock.now(), given, by_admin=True)
    click.echo(f"OLT {name or which} is back, disabled")


def _number(which: str) -> int:
    if which.isascii() and which.isdecimal():
        return int(which)
    found = [row.id for row in deleted_olts.everything(which) if row.name == which]
    if not found:
        raise NotFound(N_("there is no deleted OLT %(name)s", name=which))
    if len(found) > 1:
        numbers = ", ".join(map(str, found))
        raise NotFound(N_("several deleted OLTs have this name, give one of the numbers %(numbers)s", numbers=numbers))
    return found[0]
