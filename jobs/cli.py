"""Commands of the workshop: run pollers and maintenance, or ask one OLT by hand."""

import json
import time

import click
from flask import current_app
from flask.cli import AppGroup, with_appcontext

from jobs import maintenance as maintenance_worker
from jobs import probing, reviving, tasks  # noqa: F401  (what RQ calls by name is loaded before the forks, not in each)
from jobs.cli_simulate import simulate
from jobs.drivers import open_session
from jobs.pool import PollerPool
from portal import queueing
from portal.domain.composite import SnmpTarget
from portal.extensions import db
from portal.services import recognition
from portal.services.errors import Conflict


@click.command("work")
@click.option("--pollers", type=click.IntRange(1, 200), default=None, help="How many; default: the setting POLLERS.")
@click.option("--site", default=None, help='Serve only the OLTs of this site; "" = only those without a site.')
@with_appcontext
def work(pollers: int | None, site: str | None) -> None:
    """Run the pollers: worker processes that read OLTs, one composite per OLT at a time.

    Without --site they serve every OLT. `flask pollers scale N` changes their number while they run.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    pool = PollerPool(app, queueing.connect(app.config["REDIS_URL"]), pollers or app.config["POLLERS"], site)
    try:
        pool.start()
    except Conflict as error:
        raise click.ClickException(str(error)) from None


@click.command("maintenance")
@click.option(
    "--queue", type=click.Choice([queueing.MAINTENANCE_QUEUE, queueing.PROBE_QUEUE]),
    default=queueing.MAINTENANCE_QUEUE, help="Which of the two queues to serve.",
)  # fmt: skip
@with_appcontext
def maintenance(queue: str) -> None:
    """Run the periodic jobs (reaper, statistics, retention), or the connection tests."""
    maintenance_worker.run(current_app._get_current_object(), queue)  # type: ignore[attr-defined]


snmp = AppGroup("snmp", help="Ask one OLT by hand.")


@snmp.command("probe")
@click.argument("address")
@click.option("--port", type=click.IntRange(1, 65535), default=161, show_default=True)
@click.option("--version", "snmp_version", type=click.Choice(["1", "2c"]), default="2c", show_default=True)
@click.option("--community", envvar="SNMP_COMMUNITY", show_envvar=True, prompt=True, hide_input=True)
@click.option("--timeout", type=click.FloatRange(0.1, 10), default=2.0, show_default=True, help="Seconds a try.")
@click.option("--retries", type=click.IntRange(0, 5), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def probe(
    address: str, port: int, snmp_version: str, community: str, timeout: float, retries: int, as_json: bool
) -> None:
    """Read the system group of the OLT at ADDRESS: does it answer, and what is it?"""
    target = SnmpTarget(address, port, snmp_version, community=community, timeout=timeout, retries=retries)
    try:
        found = probing.ask(target, open_session, time.monotonic)
    except probing.ProbeFailed as failed:
        raise click.ClickException(str(failed)) from None
    found |= recognition.recognise(db.session(), found["sysobjectid"], found["sysdescr"])
    click.echo(json.dumps(found) if as_json else "\n".join(f"{name:12} {value}" for name, value in found.items()))


COMMANDS = (work, maintenance, snmp, simulate)
