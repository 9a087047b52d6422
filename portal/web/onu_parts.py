"""What the page of an ONU asks for by itself: the power chart's data, and how its readings came to be."""

from flask import Response, abort, jsonify

from portal.domain.statuses import Role
from portal.extensions import db
from portal.queries import onu_power
from portal.services.errors import NotFound
from portal.services.trying import onu_proofs
from portal.web import args, live, metrics
from portal.web import onu_power as power_chart
from portal.web.access import requires
from portal.web.catalogue import VERDICTS
from portal.web.formatting import now
from portal.web.onu_proof import way
from portal.web.onus import bp as bp


@bp.get("/onus/<int:onu_id>/power.json")
@requires(Role.VIEWER)
def power(onu_id: int) -> Response:
    """Received power over ?span= (day, week, month), as web.onu_power.as_json says."""
    since = power_chart.begin(args.word("span", power_chart.SPANS, power_chart.USUAL), now())
    found = onu_power.history(onu_id, since, now()) or abort(404)
    return jsonify(power_chart.as_json(found, since, now()))


@bp.get("/onus/<int:onu_id>/proof")
@requires(Role.VIEWER)
def proof(onu_id: int) -> Response:
    """OID, index, raw value and decoding of each stored reading; and the index → slot, port, ONU."""
    try:
        proofs = onu_proofs.of_onu(db.session(), onu_id)
    except NotFound:
        abort(404)
    return live.render("onus/proof.html", onu=proofs.onu, proofs=proofs, metrics=metrics, verdicts=VERDICTS, way=way)
