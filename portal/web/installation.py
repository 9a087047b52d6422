"""The settings in force, what the program runs on, and what is changed where. Shows, changes nothing."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from flask import Blueprint, current_app, request, url_for
from flask.wrappers import Response
from flask_babel import LazyString, ngettext
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.statuses import Role
from portal.models.account import FIRST_RUN_DISMISSED
from portal.queries import installation
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import number

bp = Blueprint("installation", __name__, url_prefix="/settings/installation")

LIBRARIES = ("Flask", "SQLAlchemy", "rq", "rq-scheduler", "redis")

# Group → variable → its meaning, in the words of config.py (a test keeps them alike).
GROUPS: tuple[tuple[LazyString, Mapping[str, LazyString]], ...] = (
    (_l("Reading the OLTs"), {
        "POLLERS": _l("Number of pollers (worker processes that execute composites)."),
        "SNMP_DRIVER": _l(
            "What reads OLTs: `easysnmp` (Net-SNMP), or `gufo` (gufo-snmp, faster with v2c; "
            "easysnmp answers its doubts)."
        ),
        "OLT_NETWORKS": _l(
            "Networks an OLT's address must lie in, separated by commas. Loopback, for simulated OLTs, only "
            "with DEMO=1 or where it is listed; link-local addresses only where they are listed."
        ),
        "AUTO_PAUSE_AFTER": _l(
            "So many silences in a row, of tries and of questions each 15 s, make an OLT unreachable; 0 = never."
        ),
        "NEXTCHECK_MODE": _l(
            "A node's next run: `grid` = its next slot, whenever it ran; `from_end` = its interval after the run's end."
        ),
        "LEASE_SECONDS": _l("How long a claim on an OLT lives without a renewal."),
        "QUARANTINE_SECONDS": _l("No claims for so long after Redis started or lost its data."),
        "STOP_SECONDS": _l("A poller told to stop lets its composite go on for so long, then it runs elsewhere."),
        "DEMO": _l("1: `make run` also starts two simulated OLTs."),
        "TEMPO": _l("For tests only: every pace of the processes (portal/domain/tempo.py) is divided by so much."),
    }),
    (_l("Promises"), {
        "QUOTA_SEVERITY": _l(
            "Percent of an hour's promised runs from which a violation is LOW, and above which it is MEDIUM and HIGH; "
            "CRITICAL below. From 80 on an hour is no violation."
        ),
    }),
    (_l("Time and language"), {
        "TIMEZONE": _l("Zone in which times are shown and cron lines are read."),
        "PORTAL_LANGUAGE": _l("Language where neither user nor browser chose one."),
        "ALERT_LANGUAGE": _l("Language in which alerts are written."),
    }),
    (_l("Access"), {
        "BIND": _l("Address the portal listens on."),
        "PORT": _l("Port the portal listens on."),
        "COOKIE_SECURE": _l("1 when the portal is served over HTTPS (as it should be)."),
        "REQUEST_SECONDS": _l(
            "Within so many seconds a request must have arrived whole; else its connection is closed."
        ),
        "PROXIES": _l(
            "Proxies in front of the portal (TLS): so many of X-Forwarded-For, -Proto and -Host are believed."
        ),
        "SECRET_KEY": _l("Signs sessions. Default: made at first start in instance/."),
        "FERNET_KEYS": _l("Keys that encrypt SNMP secrets, newest first, separated by commas."),
    }),
    (_l("Data and logs"), {
        "DATABASE_URL": _l("Database. Default: SQLite under instance/."),
        "REDIS_URL": _l("Redis. Default: the embedded server's socket under instance/."),
        "COORDINATOR_LOG": _l("File of the decision log. Default: logs/coordinator/main.log beside instance/."),
        "LOG_LEVEL": _l("Threshold of what is logged."),
    }),
    (_l("How long things are kept"), {
        "RETENTION_DAYS": _l("Days that executions, steps and attempts are kept."),
        "RETENTION_FAILED_DAYS": _l("Days that executions that failed are kept."),
        "LEDGER_RETENTION_DAYS": _l(
            "Days that the ledger is kept: per node and day its runs, OLT time and changed values."
        ),
        "PLAN_RETENTION_DAYS": _l("Days that execution plans are kept."),
        "GONE_ONU_DAYS": _l(
            "Days after which an ONU that no discovery lists is forgotten, with its history; 0 = never."
        ),
        "QUOTA_RETENTION_DAYS": _l("Days that quotas and their losses are kept; violations a year."),
    }),
)  # fmt: skip


class Here(NamedTuple):
    """Something that is changed in the portal, and where."""

    text: LazyString | str
    url: str


class Line(NamedTuple):
    """One setting: `shown` is config.Shown."""

    name: str
    meaning: LazyString
    shown: Any


def groups(shown: Mapping[str, Any], *, changed_only: bool) -> list[tuple[LazyString, list[Line]]]:
    """The groups with what is in force; `changed_only`: those that differ from their default."""
    made = []
    for title, meanings in GROUPS:
        lines = [Line(name, meaning, shown[name]) for name, meaning in meanings.items()]
        kept = [line for line in lines if line.shown.differs or not changed_only]
        made += [(title, kept)] if kept else []
    return made


def versions() -> list[tuple[str, str]]:
    """What runs here: name and version."""
    parts = [("Facho Deluxe", str(current_app.config["VERSION"])), ("Python", platform.python_version())]
    parts += [("RQ" if name == "rq" else name, version(name)) for name in LIBRARIES]
    return [*parts, (_("Database"), installation.database_version()), (_("System"), platform.platform(terse=True))]


def here() -> list[Here]:
    """What needs neither the environment nor a restart."""
    return [
        Here(_("How many pollers run, and restarting one"), url_for("pollers.index")),
        Here(_("How each OLT is asked: timeout, retries, sizes, credential"), url_for("olts.index")),
        Here(_("SNMP credentials"), url_for("credentials.index")),
        Here(_("Intervals, priorities, retries and time limits of nodes"), url_for("workflows.index")),
        Here(_("OIDs, formulas and state maps"), url_for("catalogue.index")),
        Here(_("Who is alerted, of what and when"), url_for("alerts.index")),
    ]


@bp.get("/")
@requires(Role.ADMIN)
def index() -> Response:
    """All settings in groups, or with ?changed=1 those that differ from their default."""
    shown: Mapping[str, Any] = current_app.config["SETTINGS_SHOWN"]
    changed = sum(one.differs for one in shown.values())
    only = request.args.get("changed") == "1"
    return live.render(
        "installation/index.html",
        lead=ngettext("%(n)s setting differs from its default", "%(n)s settings differ from their defaults", changed,
                      n=number(changed)),
        groups=groups(shown, changed_only=only),
        only=only,
        changed=changed,
        total=len(shown),
        versions=versions(),
        here_links=here(),
        put_away=installation.changed_here().get(FIRST_RUN_DISMISSED),
    )  # fmt: skip
