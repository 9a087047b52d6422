"""Commands log and explain: the decision log, and why a slot of a node went as it did."""

import re
import time
from datetime import datetime, timedelta
from typing import Any

import click
from flask import current_app
from flask.cli import with_appcontext

from portal import clock, translating
from portal.cli.output import json_option, plain, print_json, print_table, told_on_stderr
from portal.domain import moments
from portal.domain.log_lines import clean
from portal.domain.saying import paragraph
from portal.domain.statuses import EventType
from portal.extensions import db
from portal.queries import decision_log, executions
from portal.queries import explain as query
from portal.services.dispatch.clock import portal_zone

MOST_ROWS = 1000
FOLLOW_SECONDS = 1.0
LONGEST_AGO = timedelta(days=36_500)

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Moment(click.ParamType[datetime]):
    """A moment: 10:05 (today), 2026-11-27T10:05 in the portal's zone unless one is given, or 90m for 90 minutes ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """As aware UTC."""
        if isinstance(value, datetime):
            return value
        span = _SPAN.fullmatch(value.strip())
        if span is not None:
            ago = timedelta(**{_UNITS[span[2]]: int(span[1])})
            return max(clock.now() - min(ago, LONGEST_AGO), moments.FIRST)
        zone, text = portal_zone(), value.strip()
        if re.fullmatch(r"\d\d?:\d\d(:\d\d)?", text):
            hour, _colon, rest = text.partition(":")
            text = f"{clock.now().astimezone(zone):%Y-%m-%d}T{hour:0>2}:{rest}"
        try:
            return moments.parse(text, zone)
        except ValueError:
            self.fail(f"{value!r} is no time: 10:05, 2026-11-27T10:05, or 90m for 90 minutes ago", param, ctx)


@click.command("log")
@click.option("--olt", "olt_name", help="Only of the OLT of this name.")
@click.option("--level", type=click.Choice(decision_log.LEVELS, case_sensitive=False))
@click.option("--type", "event", type=click.Choice([one.value for one in EventType], case_sensitive=False))
@click.option("--text", default="", help="Only those whose message holds this.")
@click.option("--since", type=str, help="10:05, 2026-11-27T10:05, or 90m for the last 90 minutes.")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=20, show_default=True)
@click.option("--follow", is_flag=True, help="Go on with what is new, until Ctrl-C.")
@json_option
@with_appcontext
def show_log(
    olt_name: str | None, level: str | None, event: str | None, text: str, since: str | None, limit: int,
    follow: bool, as_json: bool,
) -> None:  # fmt: skip
    """The decision log: what was skipped, stopped, lost or changed, and why. Newest last."""
    begin = Moment().convert(since, None, None) if since else None
    with told_on_stderr():
        olt_id = _olt_id(olt_name) if olt_name else None
        kind = EventType(event.upper()) if event else None
        given = decision_log.Filter(level or "", kind, olt_id, text=text, since=begin)
        wanted, start = given.bounded(clock.now()), decision_log.newest_id()
        rows = list(reversed(decision_log.page(wanted, size=limit).rows))
    if wanted.since != given.since and wanted.since is not None:
        back = f"{wanted.since.astimezone(portal_zone()):%Y-%m-%d %H:%M}"
        click.echo(f"searched back to {back} only; with --olt NAME the whole log is searched", err=True)
    if as_json and not follow:
        print_json(rows)
        return
    _print(rows, as_json=as_json, follow=follow)
    printed: set[int] = set()
    while follow:
        start = _follow(wanted, start, printed, as_json=as_json)


def _olt_id(name: str) -> int:
    ids = {olt_name: olt_id for olt_id, olt_name in executions.olt_names()}
    if name not in ids:
        raise click.ClickException(f"there is no OLT {name}")
    return ids[name]


def _print(rows: list[decision_log.Row], *, as_json: bool, follow: bool) -> None:
    if as_json or follow:
        for row in rows:
            _print_line(row, as_json=as_json)
        return
    head = ("TIME", "LEVEL", "EVENT", "REASON", "OLT", "NODE", "EXECUTION", "MESSAGE")
    print_table(
        head,
        [(r.timestamp, r.level, r.event, r.reason, r.olt_name, r.node_name, r.execution_id, r.message) for r in rows],
        "no decision matches",
    )


def _print_line(row: decision_log.Row, *, as_json: bool) -> None:
    if as_json:
        click.echo(current_app.json.dumps(plain(row)))
        return
    local = row.timestamp.astimezone(portal_zone())
    told = f"{row.olt_name}: {row.message}" if row.olt_name and row.olt_name not in row.message else row.message
    click.echo(f"{local:%Y-%m-%d %H:%M:%S} [{row.level}] {row.event.value}: {clean(told)}")


def _follow(wanted: decision_log.Filter, start: int, printed: set[int], *, as_json: bool) -> int:
    """Print what came after `start` but for what is `printed`, wait a little; returns where to go on.

    That is a little before the newest: rows that are committed late have smaller ids than some that are there.
    """
    with told_on_stderr():
        latest = decision_log.newest_id()  # first: what comes between the two statements is found by the next look
        rows = decision_log.after(start, wanted)
        db.session.rollback()
    fresh = [row for row in rows if row.id not in printed]
    for row in fresh:
        _print_line(row, as_json=as_json)
    if len(rows) == decision_log.MOST_AFTER:
        latest = rows[-1].id
    elif not fresh:
        time.sleep(FOLLOW_SECONDS)
    start = max(start, latest - decision_log.LATE)
    printed.difference_update([ident for ident in printed if ident <= start])
    printed.update(row.id for row in fresh)
    return start


@click.command("explain")
@click.argument("node")
@click.option("--at", "at_text", help="10:05, 2026-11-27T10:05, or 90m for 90 minutes ago. Default: now.")
@click.option("--language", type=click.Choice(("en", "es")), default="en", show_default=True)
@json_option
@with_appcontext
def explain(node: str, at_text: str | None, language: str, as_json: bool) -> None:
    """Why a slot of NODE (its id, or OLT/KEY) ran late, failed or did not run: the latest one at or before --at."""
    moment = clock.now()
    at = Moment().convert(at_text, None, None) if at_text else moment
    with told_on_stderr():
        olt_name, _slash, key = node.rpartition("/")
        node_id = int(node) if node.isascii() and node.isdigit() else query.node_named(olt_name, key)
        found = query.explain(node_id, at, moment) if node_id is not None and node_id < 2**31 else None
    if found is None:
        raise click.ClickException(f"there is no node {node}: give its id, or OLT/KEY")
    words = translating.read([current_app.config["BABEL_TRANSLATION_DIRECTORIES"]], language)
    told = paragraph(found.sentences, words.gettext, _local)
    if as_json:
        print_json({"node": node_id, "at": at, "slot": found.slot, "verdict": found.verdict, "cause": found.cause,
                    "text": told, "links": found.links})  # fmt: skip
        return
    click.echo("".join(char if char.isprintable() or char == "\u202f" else "?" for char in told))
    for link in found.links:
        click.echo(f"  {link.kind.value}: {link.name} #{link.id}")


def _local(moment: datetime) -> str:
    return f"{moment.astimezone(portal_zone()):%Y-%m-%d %H:%M:%S}"
