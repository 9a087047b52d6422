"""Commands token add, list and revoke: what scripts use to speak to the API."""

from datetime import datetime, timedelta

import click
from flask.cli import AppGroup
from sqlalchemy import select

from portal import clock
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.domain.statuses import Role
from portal.extensions import db
from portal.services.people import tokens
from portal.tables import ApiToken

LONGEST_DAYS = tokens.LONGEST_LIFE.days
SHOWN = ("name", "prefix", "role", "state", "created_at", "expires_at", "last_used_at", "revoked_at")

token = AppGroup("token", help="Tokens with which scripts use the API (docs/api.md).")


@token.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in Role]), default=Role.VIEWER.value, show_default=True)
@click.option("--expires", "days", type=click.IntRange(1, LONGEST_DAYS), metavar="DAYS", help="Default: never.")
@json_option
def add(name: str, role: str, days: int | None, as_json: bool) -> None:
    """Make a token called NAME and print it, this once: only a digest of it is kept.

    A viewer may read, an operator may also run nodes and cancel executions. The token alone goes to stdout.
    """
    moment = clock.now()
    expires_at = moment + timedelta(days=days) if days else None
    with told_on_stderr():
        clear = tokens.create(name, role, "cli", moment, expires_at)
    if as_json:
        print_json({"name": name.strip().lower(), "role": role, "expires_at": expires_at, "token": clear})
        return
    click.echo(f"token {name.strip().lower()} with role {role}; it is shown this once:", err=True)
    click.echo(clear)


@token.command("list")
@json_option
def list_tokens(as_json: bool) -> None:
    """List all tokens, also ended ones, by their first characters; what they are is stored nowhere."""
    moment = clock.now()
    with told_on_stderr():
        rows = db.session.scalars(select(ApiToken).order_by(ApiToken.name)).all()
    found = [{name: _shown(row, name, moment) for name in SHOWN} for row in rows]
    if as_json:
        print_json(found)
        return
    head = [name.removesuffix("_at").replace("_", " ").upper() for name in SHOWN]
    print_table(head, [list(row.values()) for row in found], "there is no token: `flask token add NAME` makes one")


def _shown(row: ApiToken, name: str, moment: datetime) -> object:
    return getattr(row, name) if name != "state" else _state(row, moment)


def _state(row: ApiToken, moment: datetime) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "active" if tokens.valid(row, moment) else "expired"


@token.command("revoke")
@click.argument("name")
def revoke(name: str) -> None:
    """End the token NAME: its next request is refused."""
    with told_on_stderr():
        ended = tokens.revoke(name, "cli", clock.now())
    click.echo("token revoked" if ended else "this token had been revoked before")
