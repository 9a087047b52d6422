"""Commands of the workshop: run pollers and maintenance. Asking one OLT by hand is cli_snmp's."""

import click
from flask import current_app
from flask.cli import with_appcontext

from jobs import maintenance as maintenance_worker
from jobs import reviving, tasks, trying  # noqa: F401  (what RQ calls by name is loaded before the forks, not in each)
from jobs.cli_simulate import simulate
from jobs.cli_snmp import snmp
from jobs.pool import PollerPool
from portal import queueing
from portal.services.errors import Conflict

QUEUES = (
    queueing.MAINTENANCE_QUEUE, queueing.UPKEEP_QUEUE, queueing.PROBE_QUEUE, queueing.TRIAL_QUEUE,
    queueing.ALERT_QUEUE,
)  # fmt: skip


@click.command("work")
@click.option("--pollers", type=click.IntRange(1, 200), default=None, help="How many; default: the setting POLLERS.")
@click.option("--site", default=None, help='Serve only the OLTs of this site; "" = only those without a site.')
@with_appcontext
def work(pollers: int | None, site: str | None) -> None:
    """Run the pollers: worker processes that read OLTs, one composite per OLT at a time.

    Without --site they serve every OLT. `flask pollers scale N` changes their number while they run.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    pool = PollerPool(app, queueing.connect_as(app.config), pollers or app.config["POLLERS"], site)
    try:
        pool.start()
    except Conflict as error:
        raise click.ClickException(str(error)) from None


@click.command("maintenance")
@click.option("--queue", type=click.Choice(QUEUES), default=queueing.MAINTENANCE_QUEUE, help="Which queue to serve.")
@with_appcontext
def maintenance(queue: str) -> None:
    """Run the periodic jobs (reaper, statistics, retention), connection tests, tests of nodes and OIDs, or alerts."""
    maintenance_worker.run(current_app._get_current_object(), queue)  # type: ignore[attr-defined]


COMMANDS = (work, maintenance, snmp, simulate)
