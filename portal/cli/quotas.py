"""Commands quotas list, audit and violations: what the pages show, and the proof that the numbers are true."""

import time
from collections.abc import Sequence

import click
from flask.cli import AppGroup

from portal import clock
from portal.cli.output import json_option, print_json, print_table, told_on_stderr
from portal.domain.statuses import LossCause, QuotaStatus, Severity
from portal.queries import executions, quota_list, violations
from portal.services.coordinating import audit as service
from portal.services.coordinating.audit import Audited, Difference

MOST_ROWS = 1000
MOST_HOURS = 168  # a week, as long as the decision log is kept
LOOKS_AGAIN = 2
SETTLES_AFTER = 6.0  # seconds: the coordinator needs 5 to see a change

quotas = AppGroup("quotas", help="The runs that OLTs were promised by the hour, and what became of them.")


def _olt_id(name: str | None) -> int | None:
    if name is None:
        return None
    ids = {olt_name: olt_id for olt_id, olt_name in executions.olt_names()}
    if name not in ids:
        raise click.ClickException(f"there is no OLT {name}")
    return ids[name]


def _lost(causes: Sequence[tuple[LossCause, int]]) -> str:
    return ", ".join(f"{slots} {cause.value}" for cause, slots in causes)


@quotas.command("list")
@click.option("--olt", "olt_name", help="Only of the OLT of this name.")
@click.option("--task", "task_type", default="",
              help="Only of this task: discovery, get_rx …; without --olt, of the last day.")  # fmt: skip
@click.option("--status", type=click.Choice([s.value for s in QuotaStatus], case_sensitive=False))
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=20, show_default=True)
@json_option
def list_quotas(olt_name: str | None, task_type: str, status: str | None, limit: int, as_json: bool) -> None:
    """The quotas of the newest hours, newest first."""
    with told_on_stderr():
        chosen = QuotaStatus(status.upper()) if status else None
        wanted = quota_list.Filter(_olt_id(olt_name), task_type, chosen).bounded(clock.now())
        rows = quota_list.page(wanted, clock.now(), size=limit).rows
    if as_json:
        print_json([row.as_dict() for row in rows])
        return
    head = ("ID", "HOUR", "OLT", "TASK", "STATUS", "DONE", "OF", "FAILED", "SKIPPED", "PENDING", "FORECAST", "LOST TO")
    print_table(
        head,
        [
            (r.id, r.hour, r.olt_name, r.task_type, "AT_RISK" if r.at_risk else r.status, r.counts.completed,
             r.counts.required, r.counts.failed, r.counts.skipped, r.counts.pending, r.forecast if r.open else None,
             _lost(r.lost))
            for r in rows
        ],
        "nothing was promised yet",
    )  # fmt: skip


@quotas.command("violations")
@click.option("--olt", "olt_name", help="Only of the OLT of this name.")
@click.option("--severity", type=click.Choice([s.value for s in Severity], case_sensitive=False))
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=20, show_default=True)
@json_option
def list_violations(olt_name: str | None, severity: str | None, limit: int, as_json: bool) -> None:
    """The hours in which too few of the promised runs were completed, newest first."""
    with told_on_stderr():
        wanted = violations.Filter(Severity(severity.upper()) if severity else None, _olt_id(olt_name))
        rows = violations.page(wanted, size=limit).rows
    if as_json:
        print_json(rows)
        return
    head = ("ID", "HOUR", "OLT", "TASK", "SEVERITY", "DONE", "OF", "LOST TO", "NOTIFIED")
    print_table(
        head,
        [
            (r.id, r.hour, r.olt_name, r.task_type, r.severity, r.completed, r.required, _lost(r.lost), r.notified_at)
            for r in rows
        ],
        "no violation yet",
    )


@quotas.command("audit")
@click.option("--hours", type=click.IntRange(1, MOST_HOURS), default=24, show_default=True,
              help="How many hours, the present one included; no more than are kept.")  # fmt: skip
@json_option
@click.pass_context
def audit(context: click.Context, hours: int, as_json: bool) -> None:
    """Count every quota again from the executions and skipped slots that it stands for.

    Prints each difference; exit code 1 when there is one. Where only what is pending differs, something was changed
    just now: it looks again, twice at most.
    """
    with told_on_stderr():
        found = _settled(hours)
        names = quota_list.names([one.key.olt_id for one in found.differences])
    if as_json:
        print_json(found)
    else:
        _print(found, names, hours)
    if found.differences:
        context.exit(1)


def _settled(hours: int) -> Audited:
    found = service.audit(clock.now(), hours)
    for _ in range(LOOKS_AGAIN):
        if not found.differences or any(one.what != "pending" for one in found.differences):
            break
        time.sleep(SETTLES_AFTER)
        found = service.audit(clock.now(), hours)
    return found


def _print(found: Audited, names: dict[int, str], asked: int) -> None:
    def line(one: Difference) -> tuple[object, ...]:
        return (one.key.hour, names.get(one.key.olt_id, one.key.olt_id), one.key.task_type, one.what, one.stored,
                one.counted)  # fmt: skip

    click.echo(f"{found.trackers} quotas of {found.hours} hours looked at, {found.slots} slots counted")
    if found.hours < asked:
        click.echo(f"of older hours than these {found.hours} something has been cleaned up: they were left out")
    if found.unopened:
        click.echo(f"the quotas of this hour are not opened yet on {found.unopened} OLTs: what is pending there was "
                   "not compared")  # fmt: skip
    head = ("HOUR", "OLT", "TASK", "WHAT", "STORED", "COUNTED")
    print_table(head, [line(one) for one in found.differences], "no differences")
