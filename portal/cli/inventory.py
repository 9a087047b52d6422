"""Commands import and export, and the demonstration's inventory."""

import os
from pathlib import Path
from typing import BinaryIO, TextIO

import click
from flask.cli import AppGroup, with_appcontext
from sqlalchemy import and_, or_, select

from portal import clock
from portal.cli.output import json_option, print_json, told_on_stderr
from portal.extensions import db
from portal.services.importing import inventory
from portal.services.importing.inventory import Report
from portal.services.importing.inventory_yaml import LARGEST_FILE, decode
from portal.tables import Olt

DEMO_FILE = Path(__file__).resolve().parents[1] / "demo.yaml"
DEMO_OLTS = {"OLT-DEMO-HUAWEI": 20161, "OLT-DEMO-ZTE": 20162}
DEMO_FIRST_RUN = 20  # seconds: until then all processes are up


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--dry-run", is_flag=True, help="Check everything and tell what would change; write nothing.")
@json_option
@with_appcontext
def import_inventory(file: BinaryIO, dry_run: bool, as_json: bool) -> None:
    """Load the inventory FILE (YAML; - for stdin): credentials, templates and OLTs, matched by name.

    All of it is loaded or, when anything is wrong, nothing; every mistake is listed with line and column. Loading the
    same file again changes nothing. What the file leaves out keeps its stored value; the nodes under a `workflow:` or
    of a template are the whole truth, others are removed.
    """
    content = file.read(LARGEST_FILE + 1)
    with told_on_stderr():
        report = inventory.load(decode(content), dry_run=dry_run, actor="cli", now=clock.now(), environ=os.environ)
    _print(report, as_json)


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo("\n".join(report.lines()))


@click.command("export")
@click.argument("file", type=click.File("w", encoding="utf-8", atomic=True), default="-")
@with_appcontext
def export_inventory(file: TextIO) -> None:
    """Write the inventory to FILE (default: stdout) in the format of `flask import`.

    No secret is in it: each is replaced by the name of an environment variable, to be set before an import into an
    empty database.
    """
    with told_on_stderr():
        click.echo(inventory.dump(), file=file, nl=False)


def _given_up() -> bool:
    """True when a person no longer wants the demonstration as it was made: that must not come back at each start."""
    at_home = and_(Olt.address == "127.0.0.1", Olt.port.in_(DEMO_OLTS.values()), Olt.deleted_at.is_(None))
    renamed = and_(at_home, Olt.name.not_in(DEMO_OLTS))
    deleted = and_(Olt.name.in_(DEMO_OLTS), Olt.deleted_at.is_not(None))
    return db.session.scalar(select(Olt.id).where(or_(renamed, deleted)).limit(1)) is not None


demo = AppGroup("demo", help="The two simulated OLTs.")


@demo.command("ensure")
@json_option
def ensure(as_json: bool) -> None:
    """Make sure that OLT-DEMO-HUAWEI and OLT-DEMO-ZTE exist; changes nothing the second time.

    Does nothing once somebody has deleted or renamed one of them.
    """
    with told_on_stderr():
        if _given_up():
            click.echo("a demonstration OLT was deleted or renamed: left as it is", err=True)
            return
        report = inventory.load(
            DEMO_FILE.read_text(encoding="utf-8"),
            dry_run=False,
            actor="cli",
            now=clock.now(),
            first_run_in=DEMO_FIRST_RUN,
        )
    _print(report, as_json)
