"""Commands of the clock tower: run it, or look at what a tick would decide."""

import json

import click
from flask.cli import AppGroup

from portal import clock
from portal.cron import following
from portal.domain.slots import Plan
from portal.extensions import db
from scheduler import due, planner, process
from scheduler.cli_whatif import whatif

scheduler = AppGroup("scheduler", help="The clock tower: decides which slots run.")


@scheduler.command("run")
def run() -> None:
    """Tick each second while this process is the leader; stand by while another is."""
    process.run()


@scheduler.command("tick")
@click.option("--explain", is_flag=True, required=True, help="Print what a tick now would decide; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def tick(explain: bool, as_json: bool) -> None:
    """What would run now, and what would be skipped and why. Changes nothing."""
    now = clock.now()
    plan = planner.plan(due.select_due(db.session(), now, lock=False), now, following)
    db.session.rollback()
    lines = _lines(plan)
    click.echo(json.dumps(lines, indent=2) if as_json else "\n".join(map(_sentence, lines)) or "nothing is due")


def _lines(plan: Plan) -> list[dict[str, object]]:
    runs = [{"node": n.master.node_name, "olt_id": n.master.olt_id, "slot": n.scheduled_for.isoformat(),
             "decision": "run" if n.not_before is None else f"run at {n.not_before.isoformat()}"}
            for n in plan.new]  # fmt: skip
    skips = [{"node": s.master.node_name, "olt_id": s.master.olt_id, "slot": s.last.isoformat(),
              "decision": f"skip: {s.reason}", "slots": s.count} for s in plan.skipped]  # fmt: skip
    return [*runs, *skips]


def _sentence(line: dict[str, object]) -> str:
    return f"{line['slot']}  OLT {line['olt_id']}  {line['node']}: {line['decision']}"


COMMANDS = (scheduler, whatif)
