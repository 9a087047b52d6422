"""Command template: list workflow templates, switch one on or off on all OLTs."""

import click
from flask.cli import AppGroup

from portal import clock
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.queries import templates as stored
from portal.services.network import templates

template = AppGroup("template", help="Sets of nodes that are applied to many OLTs.")


@template.command("list")
@json_option
def list_templates(as_json: bool) -> None:
    """List templates: whether they are enabled, how many nodes they have and on how many OLTs."""
    with told_on_stderr():
        rows = stored.rows()
    if as_json:
        print_json(rows)
    else:
        lines = [(row.name, "yes" if row.enabled else "no", row.nodes, row.olts) for row in rows]
        print_table(("TEMPLATE", "ENABLED", "NODES", "OLTS"), lines, "there is no template")


@template.command("enable")
@click.argument("name")
def enable(name: str) -> None:
    """Enable template NAME: its nodes next run a full interval from now."""
    _switch(name, enabled=True)


@template.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Disable template NAME: what waits of its nodes ends at once on all OLTs, what runs goes on."""
    _switch(name, enabled=False)


def _switch(name: str, *, enabled: bool) -> None:
    with told_on_stderr():
        templates.set_enabled(templates.by_name(name), enabled, "cli", clock.now())
    click.echo(f"template {name.strip()} is {'enabled' if enabled else 'disabled'}")
