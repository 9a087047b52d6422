"""Commands catalog, user and keys: what the person who runs the machine needs."""

import click
from cryptography.fernet import Fernet
from flask.cli import AppGroup
from sqlalchemy import select

from portal import clock
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.domain.statuses import Role
from portal.extensions import db
from portal.services import keys
from portal.services.cataloguing import catalogue
from portal.services.people import users
from portal.tables import User

catalog = AppGroup("catalog", help="What can be read from which OLT.")


@catalog.command("sync")
@json_option
def sync(as_json: bool) -> None:
    """Bring the catalogue up to the shipped files; rows that were edited in the portal stay as they are."""
    with told_on_stderr():
        counts = catalogue.sync(catalogue.load_shipped(), clock.now())
    if as_json:
        print_json(counts)
    else:
        click.echo("catalogue: " + ", ".join(f"{number} {name}" for name, number in counts.items()))


user = AppGroup("user", help="People who may use the portal.")


@user.command("add")
@click.argument("username")
@click.option("--role", type=click.Choice([role.value for role in Role]), default=Role.VIEWER.value, show_default=True)
@click.password_option(help="Asked for when it is not given; a command line is seen by others.")
def add(username: str, role: str, password: str) -> None:
    """Create USERNAME."""
    with told_on_stderr():
        users.create(username, password, role, "cli", clock.now())
    click.echo(f"user {username.strip().lower()} created with role {role}")


@user.command("ensure-admin")
def ensure_admin() -> None:
    """When there is no user at all: create one with a one-time password, and print it this once."""
    with told_on_stderr():
        password = users.ensure_admin(clock.now())
    if password is not None:
        click.echo(f"User:    {users.FIRST_ADMIN}")
        click.echo(f"Password: {password}   (shown this once; `flask user passwd {users.FIRST_ADMIN}` sets another)")


@user.command("passwd")
@click.argument("username")
@click.password_option(help="Asked for when it is not given; a command line is seen by others.")
def passwd(username: str, password: str) -> None:
    """Set a new password for USERNAME and end all sessions of that user."""
    with told_on_stderr():
        found = users.by_name(db.session(), username)
        users.set_password(found.id, password, "cli", clock.now())
    click.echo("password changed, all sessions of this user have ended")


@user.command("list")
@json_option
def list_users(as_json: bool) -> None:
    """List users, without anything secret."""
    with told_on_stderr():
        rows = db.session.scalars(select(User).order_by(User.username)).all()
    shown = ("username", "role", "active", "created_at", "last_login_at")
    if as_json:
        print_json([{name: getattr(row, name) for name in shown} for row in rows])
    else:
        head = ("USER", "ROLE", "ACTIVE", "CREATED", "LAST LOGIN")
        print_table(head, [[getattr(row, name) for name in shown] for row in rows], "there is no user")


keyring = AppGroup("keys", help="Keys that encrypt SNMP secrets (setting FERNET_KEYS).")


@keyring.command("new", with_appcontext=False)
def new() -> None:
    """Print a new key. Put it first in FERNET_KEYS, before the old ones, restart, then run `flask keys rotate`."""
    click.echo(Fernet.generate_key().decode())


@keyring.command("rotate")
def rotate() -> None:
    """Encrypt every stored secret with the first of FERNET_KEYS; afterwards the other keys may be taken out."""
    with told_on_stderr():
        count = keys.rotate("cli", clock.now())
    click.echo(f"{count} secrets are encrypted with the newest key")
