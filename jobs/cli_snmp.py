"""``flask snmp``: ask one OLT by hand at the terminal, or explain an OID. An OLT of ours is read under its lease."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import click
from flask import current_app
from flask.cli import AppGroup
from sqlalchemy.exc import DBAPIError

from jobs import poller, probing
from jobs.claim import LeaseLost
from jobs.drivers import open_session
from jobs.snmp.patient import PatientSession
from jobs.trying import Busy, holding
from portal import clock, queueing
from portal.domain import node_fields, typed_values
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepResult, StepWork
from portal.domain.fields import FieldError
from portal.domain.readings import RawValue, decode
from portal.domain.statuses import NodeKind
from portal.extensions import KeyringError, db
from portal.services.cataloguing import catalogue, explaining, recognition
from portal.services.errors import Invalid, ServiceError
from portal.services.trying import aims, trials
from portal.services.trying.aims import Aim
from portal.tables import Olt

Command = TypeVar("Command", bound=Callable[..., Any])

HOST = "HOST is an address, a name or HOST:PORT."
DEFAULT_PORT = 161

snmp = AppGroup("snmp", help="Ask one OLT by hand, or explain an OID.")

_OPTIONS = (
    click.option("--olt", "olt", default="", metavar="NAME", help="A stored OLT, with its credential and settings."),
    click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True),
    click.option("--credential", default="", metavar="NAME", help="A stored credential: v1, v2c or v3."),
    click.option("--version", "version", type=click.Choice(["1", "2c"]), default="2c", show_default=True,
                 help="With --community; v3 needs --credential."),
    click.option("--community", envvar="SNMP_COMMUNITY", show_envvar=True, default=None,
                 help="Asked for when neither an OLT of ours nor a credential is named."),
    click.option("--timeout", type=click.FloatRange(0.1, 10), default=None, help="Seconds a try; 2 unless stored."),
    click.option("--retries", type=click.IntRange(0, 5), default=None, help="Further tries; 1 unless stored."),
    click.option("--json", "as_json", is_flag=True, help="As JSON."),
)  # fmt: skip


def _target_options(command: Command) -> Command:
    """The options that say whom to ask and how."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def _told() -> Iterator[None]:
    """What is refused, busy or away, as an error message and exit code 1."""
    try:
        yield
    except Invalid as error:
        raise click.ClickException("; ".join(error.errors.values())) from None
    except (ServiceError, KeyringError) as error:
        raise click.ClickException(str(error)) from None
    except Busy:
        raise click.ClickException(trials.BUSY) from None
    except LeaseLost as error:
        raise click.ClickException(f"stopped: {error}; nothing more was sent") from None
    except queueing.RedisError:
        raise click.ClickException(f"{trials.LEASE_AWAY}: start it (make run), then repeat") from None
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise click.ClickException(f"the database refuses ({reason}): did `flask db upgrade` run?") from None


def _aim(host: str, given: Mapping[str, Any]) -> Aim:
    """Whom the arguments mean. An address of ours counts as that OLT, so that its lease is held."""
    session = db.session()
    if given["olt"]:
        return _tuned(aims.of_olt(session, given["olt"]), given)
    if not host:
        raise click.UsageError(f"Say whom to ask: HOST or --olt NAME. {HOST}")
    address, port = aims.split_host(host)
    port = port or given["port"]
    ours = aims.of_ours(session, address, port)
    if given["credential"]:
        aim = Aim(aims.with_credential(given["credential"], address, port, clock.now()))
    elif ours is not None and given["community"] is None:
        return _tuned(ours, given)
    else:
        community = given["community"] or click.prompt("Community", hide_input=True, err=True)
        networks = current_app.config["OLT_NETWORKS"]
        aim = Aim(SnmpTarget(address, port, given["version"], community=community, networks=networks))
    return _tuned(replace(ours, target=aim.target) if ours else aim, given)


def _tuned(aim: Aim, given: Mapping[str, Any]) -> Aim:
    changes = {name: given[name] for name in ("timeout", "retries") if given[name] is not None}
    return replace(aim, target=replace(aim.target, **changes))


@contextmanager
def _held(aim: Aim) -> Iterator[Callable[[], None]]:
    """The checkpoint to call before every PDU: of the lease where the OLT is ours, else nothing to check."""
    db.session.rollback()  # no transaction stays open while the OLT is asked
    if aim.olt_id is None:
        yield lambda: None
        return
    with holding(aim.olt_id, f"cli-{os.getpid()}-{time.time_ns()}", aim.target) as checkpoint:
        yield checkpoint


@snmp.command("probe", epilog=HOST)
@click.argument("host", default="")
@_target_options
def probe(host: str, as_json: bool, **given: Any) -> None:
    """Ask HOST who it is: does it answer, which brand and model is it, and what decided that?"""
    with _told():
        aim = _aim(host, given)
        knowledge = recognition.knowledge(db.session())
        try:
            with _held(aim) as checkpoint:
                patient = partial(PatientSession, open_session, checkpoint=checkpoint)
                found = probing.ask(aim.target, patient, time.monotonic, knowledge, checkpoint)
        except probing.ProbeFailed as failed:
            raise click.ClickException(str(failed)) from None
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found)))


def _lines(found: Mapping[str, Any]) -> Iterable[str]:
    for name, value in found.items():
        many = value if isinstance(value, list) else [value]
        for place, one in enumerate(many):
            yield f"{'' if place else name:12} {_printable(one)}".rstrip()


def _printable(value: object) -> str:
    """Text of a device, without control characters on a terminal."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_printable(item)}" for name, item in value.items())
    text = "-" if value is None or value == "" else str(value)
    return "".join(char if char.isprintable() else "?" for char in text)


@snmp.command("walk", epilog=HOST)
@click.argument("words", nargs=-1, required=True, metavar="[HOST] COLUMN...")
@_target_options
@click.option("--model", default="", help="Which model's columns, where a key has several (a stored OLT has its own).")
@click.option("--rows", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="At most, a column.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=60.0, show_default=True, help="Time limit.")
def walk(words: tuple[str, ...], as_json: bool, model: str, rows: int, seconds: float, **given: Any) -> None:
    """Walk one or more COLUMNs side by side: catalogue keys (huawei.onu_state) or dotted OIDs.

    Prints position, raw and decoded value of each row, and whether the walk is complete. Nothing is stored. Columns
    that hold customers' passwords are refused.
    """
    host, columns = ("", words) if given["olt"] else (words[0], words[1:])
    if not columns:
        raise click.UsageError("Name at least one column, such as huawei.onu_state or 1.3.6.1.2.1.31.1.1.1.1.")
    with _told():
        aim = _aim(host, given)
        specs = _specs(aim, columns, model)
        named = trials.named_positions(db.session(), aim.olt_id) if aim.olt_id else {}
        with _held(aim) as checkpoint:
            began = time.monotonic()
            step = _walked(aim, specs, rows, seconds, checkpoint)
            took = time.monotonic() - began
    told = trials.summary(step, named, took, rows_read=rows, rows_shown=rows * len(specs))
    click.echo(json.dumps(told | {"error": step.error_message}) if as_json else "\n".join(_walk_lines(told, step)))
    if step.error_kind is not None and not told["cut"]:
        raise SystemExit(1)


def _specs(aim: Aim, columns: Iterable[str], model: str) -> tuple[ReadingSpec, ...]:
    """How to read the columns. Invalid for what is no OID, unknown, or secret."""
    session, rows = db.session(), {}
    for text in columns:
        try:
            column = node_fields.read_oid(text)
        except FieldError as error:
            raise Invalid({"": error.message}) from None
        brand = aim.brand or ("" if node_fields.is_dotted(column) else column.partition(".")[0])
        lookup = catalogue.load_lookup(session, [brand])
        rows[column] = lookup.find(brand, model or aim.model, column)
        if rows[column] is None and not node_fields.is_dotted(column):
            raise Invalid({"": lookup.explain(brand, model or aim.model, column)})
    return explaining.specs_of(session, session.get(Olt, aim.olt_id) if aim.olt_id else None, rows)


def _walked(
    aim: Aim, specs: Sequence[ReadingSpec], rows: int, seconds: float, checkpoint: Callable[[], None]
) -> StepResult:
    step = StepWork(0, "walk", NodeKind.WALK, tuple(specs), seconds)
    target = replace(aim.target, max_rows=rows)
    composite = CompositeWork(execution_id=0, token=0, olt_id=aim.olt_id or 0, target=target, steps=(step,))
    return poller.run(composite, open_session, checkpoint, clock.now, time.monotonic).steps[0]


def _walk_lines(told: Mapping[str, Any], step: StepResult) -> Iterable[str]:
    for column in told["columns"]:
        yield f"{column['metric']}  {column['oid']}"
        for row in column["shown"]:
            place = "-" if row["at"] is None else "/".join(map(str, row["at"][:3]))
            place += f":{row['at'][3]}" if row["at"] and row["at"][3] is not None else ""
            value = f"({row['reason']})" if row["value"] is None else f"{_printable(row['value'])} {column['unit']}"
            yield f"  {place:14} {row['index']:24} {_printable(row['raw']):28} {value}".rstrip()
        yield f"  {column['rows']} rows, {'complete' if column['complete'] else 'cut short'}"
    yield f"{told['rows']} values, {told['pdus']} PDUs, {told['timeouts']} time-outs, {told['ms']} ms"
    if step.error_message:
        yield f"{step.error_kind}: {_printable(step.error_message)}"


@snmp.command("decode")
@click.argument("oid")
@click.option("--olt", default="", metavar="NAME", help="As this stored OLT numbers things; its interface names check.")
@click.option("--brand", default="", help="As OLTs of this brand number things: huawei, zte, …")
@click.option("--model", default="", help="And of this model: C320, C600, …")
@click.option("--value", default="", help="Decode this raw value too: a number, a text, or 0x and hex digits.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def decode_oid(oid: str, olt: str, brand: str, model: str, value: str, as_json: bool) -> None:
    """Explain a dotted OID as an OLT sends it: which column it is, and the way from its index to a position.

    Asks no device.
    """
    if bool(olt) == bool(brand):
        raise click.UsageError("Say how the OLT numbers things: --olt NAME or --brand BRAND.")
    with _told():
        session = db.session()
        aim = aims.of_olt(session, olt) if olt else None
        stored = session.get(Olt, aim.olt_id) if aim else None
        found = explaining.explain(
            session, oid, aim.brand if aim else brand, model or (aim.model if aim else ""), stored
        )
        told = _told_of(found, value)
    click.echo(json.dumps(told, ensure_ascii=False) if as_json else "\n".join(_lines(told)))


def _told_of(found: explaining.Explained, value: str) -> dict[str, Any]:
    proof, spec = found.proof, found.spec
    told: dict[str, Any] = {
        "oid": proof.oid,
        "row": found.row.key,
        "for": found.row.variant or "the whole brand",
        "meaning": found.row.description,
        "column": proof.root,
        "index": proof.index,
        "fields": [f"{part.name} {part.value} ({part.where} = {part.stored})" for part in proof.parts],
        "formula": proof.formula,
        "position": str(proof.position) if proof.position else "",
        "interface": proof.interface.name if proof.interface else "",
        "check": proof.verdict.value,
    }
    if proof.text:
        told["text"] = proof.text
    if value:
        reading = decode(spec.value, proof.index, _raw(value, spec))
        told |= {"value": reading.value, "unit": spec.value.unit, "reason": reading.reason}
    return told


def _raw(text: str, spec: ReadingSpec) -> RawValue:
    try:
        return typed_values.raw_value(text, spec.value.type)
    except FieldError as error:
        raise Invalid({"": error.message}) from None
