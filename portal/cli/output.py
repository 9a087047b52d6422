"""How commands print: tables and JSON, times in the portal's zone, and errors on stderr with an exit code."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

import click
from sqlalchemy.exc import OperationalError, ProgrammingError

from portal.domain.catalogue_data import CatalogueError
from portal.extensions import KeyringError
from portal.services.dispatch.clock import portal_zone
from portal.services.errors import Invalid, ServiceError
from portal.services.importing.inventory_yaml import InventoryInvalid

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """--json for commands that print data."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


@contextmanager
def told_on_stderr() -> Iterator[None]:
    """What a service refuses, and a database that is not there or not migrated, as an error message and exit code 1."""
    try:
        yield
    except InventoryInvalid as error:
        told = "".join(f"\n  {problem}" for problem in error.problems)
        count = "one mistake" if len(error.problems) == 1 else f"{len(error.problems)} mistakes"
        raise click.ClickException(f"nothing was loaded, {count}:{told}") from None
    except Invalid as error:
        raise click.ClickException("\n".join(_told(*item) for item in error.errors.items())) from None
    except (ServiceError, CatalogueError, KeyringError) as error:
        raise click.ClickException(str(error)) from None
    except (OperationalError, ProgrammingError) as error:
        reason = str(error.orig).splitlines()[0]
        message = f"the database refuses ({reason}): is it there, and did `flask db upgrade` run?"
        raise click.ClickException(message) from None


def _told(field: str, message: str) -> str:
    return f"{field}: {message}" if field else message


def plain(value: Any) -> Any:
    """`value` as JSON: dataclasses as objects, enums as their words, times in ISO 8601 (UTC)."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    """Aligned columns, or the sentence `nothing` when there is no row."""
    if not rows:
        click.echo(nothing)
        return
    lines = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(portal_zone()).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.0f}"
    text = value.value if isinstance(value, Enum) else str(value)
    # Names may come from a device: no control characters on a terminal.
    return "".join(char if char.isprintable() else "?" for char in str(text))
