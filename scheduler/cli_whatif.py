"""Command whatif run: the last days' durations again, with the settings as they are and with others."""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict

import click
from flask.cli import AppGroup

from portal import clock
from portal.cron import following
from portal.domain import intervals, schedule
from portal.domain.node_fields import LONGEST_INTERVAL
from portal.extensions import db
from scheduler.timemachine import loading
from scheduler.timemachine.whatif import LONGEST_HOURS, Change, Nonsense, apply, outlook, table
from scheduler.timemachine.world import World

ALL = "all"

whatif = AppGroup("whatif", help="What would come of other settings: tried on a virtual clock, nothing is changed.")


def _intervals(given: Iterable[str]) -> dict[str, int]:
    """`rx=60s` or `rx=60` as key → seconds."""
    found: dict[str, int] = {}
    for text in given:
        key, equals, written = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text[:60]!r}: write key=interval, such as rx=60s", param_hint="--interval")
        try:
            seconds = intervals.parse(written)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--interval") from None
        found[_new(key.strip(), found)] = _within(key, seconds)
    return found


def _new(key: str, found: Collection[str]) -> str:
    if key in found:
        raise click.BadParameter(f"{key} is given twice: write one interval for it", param_hint="--interval")
    return key


def _within(key: str, seconds: int) -> int:
    least, most = schedule.MINIMUM_INTERVAL, intervals.show(LONGEST_INTERVAL)
    if seconds < least:
        raise click.BadParameter(f"{key}: an interval is at least {least} s", param_hint="--interval")
    if seconds > LONGEST_INTERVAL:
        raise click.BadParameter(f"{key}: an interval is at most {most}", param_hint="--interval")
    return seconds


def _names(given: str) -> list[str] | None:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("name at least one OLT, or all", param_hint="--olts")
    return None if names == [ALL] else names


@whatif.command("run")
@click.option("--hours", type=click.IntRange(1, LONGEST_HOURS), default=24, show_default=True, help="How long to live.")
@click.option("--olts", "olt_names", default=ALL, show_default=True, metavar="NAME,NAME|all",
              help="Whose figures, and whose nodes are changed; the other OLTs are lived along.")  # fmt: skip
@click.option("--pollers", type=click.IntRange(1, 1000), default=None, help="With so many pollers, serving every OLT.")
@click.option("--interval", "given", multiple=True, metavar="KEY=INTERVAL", help="With this interval; repeatable.")
@click.option("--disable", "disabled", multiple=True, metavar="KEY", help="Without the nodes of this key; repeatable.")
@click.option("--seed", type=int, default=1, show_default=True, help="Luck: the same seed, the same outcome.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    hours: int, olt_names: str, pollers: int | None, given: tuple[str, ...], disabled: tuple[str, ...], seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Quotas, delays, loads and lost slots of the coming whole hours, present and changed settings side by side.

    Recorded durations are lived again in their order, from a place that seed and node give. Nothing is written and no
    OLT is asked.
    """
    change, now = Change(pollers, _intervals(given), disabled), clock.now().replace(microsecond=0)
    try:
        present = loading.load(db.session(), now, _names(olt_names))
        db.session.rollback()
        worlds = [present, apply(present, change)] if change else [present]
        outlooks = [outlook(world, now, hours, seed, following) for world in worlds]
    except Nonsense as error:
        raise click.ClickException(str(error)) from None
    then = outlooks[1] if change else None
    if as_json:
        told = {"hours": hours, "seed": seed, "present": asdict(outlooks[0]), "changed": asdict(then) if then else None}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    click.echo(f"{_head(present, hours)}, seed {seed}\n")
    click.echo("\n".join(table(outlooks[0], then, str)))


def _head(world: World, hours: int) -> str:
    olts = sum(world.watches(olt.olt_id) for olt in world.olts)
    masters = sum(world.watches(node.olt_id) for node in world.nodes)
    others = len(world.olts) - olts
    beside = f" (beside {others} others on the same pollers)" if others else ""
    return f"{hours} h of {olts} OLTs with {masters} masters{beside}"
