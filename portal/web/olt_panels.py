"""What an OLT's page loads after itself, each part by itself: what ran, what it promises, how it fits, what it costs.

So that the page is there at once, and a part that costs more does not keep the others.
"""

from typing import Any

from flask import Blueprint, Response, redirect, url_for
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.queries import catalogue, executions, feasibility, learned, ledger, olt_events, olts
from portal.tables import Olt
from portal.web import ledger as ledger_words
from portal.web import live, olt_event_words
from portal.web.access import requires
from portal.web.audience import wants_fragment
from portal.web.formatting import now
from portal.web.quotas import card as quota_card
from portal.web.workflow_answers import olt_or_404

bp = Blueprint("olt_panels", __name__, url_prefix="/olts")

COSTLIEST_OF = 7  # days


def _panel(olt: Olt, name: str, **facts: Any) -> Response:
    """The part, or a page with nothing but it."""
    return live.render("olts/panel.html", olt=olt, panel=name, **facts)


@bp.get("/<int:olt_id>/past")
@requires(Role.VIEWER)
def past(olt_id: int) -> Response:
    """Its last executions, and what happened to it. Live."""
    olt = olt_or_404(olt_id)
    return _panel(
        olt, "past", executions=olts.last_executions(olt_id), events=olt_events.of(olt_id, now()),
        event_words=olt_event_words.words,
    )  # fmt: skip


@bp.get("/<int:olt_id>/sides")
@requires(Role.VIEWER)
def sides(olt_id: int) -> Response:
    """Its promises, its ports, and how it is reached. Live."""
    olt, ports = olt_or_404(olt_id), olts.ports(olt_id)
    return _panel(
        olt, "sides", promises=quota_card(olt_id), ports=ports,
        discovery=None if ports else executions.last_discovery(olt_id),
        credential=catalogue.credential(olt.credential_id),
    )  # fmt: skip


@bp.get("/<int:olt_id>/capacity")
@requires(Role.VIEWER)
def capacity(olt_id: int) -> Response:
    """How its work fits into its hours. Live, each minute."""
    return _panel(olt_or_404(olt_id), "capacity", fit=feasibility.of_olt(olt_id, now()))


@bp.get("/<int:olt_id>/costs")
@requires(Role.VIEWER)
def costs(olt_id: int) -> Response:
    """What costs it most, and what its answers have taught."""
    olt, asked = olt_or_404(olt_id), ledger.period(COSTLIEST_OF)
    return _panel(
        olt, "costs", ledger=ledger.top(asked, olt_id) if asked else [], fine=ledger_words.fine,
        told=ledger_words.told, sizes=learned.sizes(olt), families=learned.families(olt_id),
    )  # fmt: skip


@bp.get("/<int:olt_id>/oids")
@requires(Role.OPERATOR)
def oids(olt_id: int) -> BaseResponse:
    """What the catalogue offers for it, for the list under a field; whoever comes by itself goes to the catalogue."""
    olt = olt_or_404(olt_id)
    if not wants_fragment():
        return redirect(url_for("catalogue.index", brand=olt.brand.key))
    return live.render("trials/_choices.html", choices=catalogue.oid_choices(olt.brand_id))
