"""Pages of OLTs: list, one OLT, form, enabling and deletion. Parse, ask a service or a query, render."""

from collections.abc import Mapping

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.extensions import htmx
from portal.models import Olt
from portal.queries import catalogue, keyset, learned, ledger, olts, workflows
from portal.services.errors import Invalid
from portal.services.network import olts as service
from portal.web import args, live, timeline
from portal.web import ledger as ledger_words
from portal.web.access import requires
from portal.web.formatting import now, number
from portal.web.forms import DeleteForm, OltForm
from portal.web.quotas import card as quota_card
from portal.web.trials import MODES

bp = Blueprint("olts", __name__, url_prefix="/olts")

STATE_WORDS = {
    "unreachable": _l("Unreachable"),
    "paused": _l("Paused"),
    "up": _l("Up"),
    "unknown": _l("Not read yet"),
    "disabled": _l("Disabled"),
}

Page = str | BaseResponse | tuple[str, int]


def one(olt_id: int) -> Olt:
    """The OLT, or 404."""
    olt: Olt = olts.get(olt_id) or abort(404)
    return olt


def _wanted() -> olts.OltFilter:
    """The filter in the URL; words that mean nothing are left out."""
    return olts.OltFilter(
        q=args.text("q"),
        state=args.word("state", olts.STATES),
        brand=args.text("brand", 40),
        sort=args.word("sort", olts.SORTS, "name"),
    )


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The list with what happens now. Live."""
    wanted = _wanted()
    counts = olts.counts(wanted)
    brands = catalogue.brand_names()
    return live.render(
        "olts/index.html",
        title=_title(wanted, counts),
        lead=_lead(counts),
        wanted=wanted,
        page=olts.page(wanted, keyset.cursor(request.args)),
        counts=counts,
        states=[(key, f"{word} ({number(counts.get(key, 0))})") for key, word in STATE_WORDS.items()],
        brands=brands,
        chips=_chips(wanted, dict(brands)),
    )


def _lead(counts: Mapping[str, int]) -> str:
    """12 OLTs: Unreachable 3 · Up 9."""
    parts = [f"{word} {number(counts[key])}" for key, word in STATE_WORDS.items() if counts.get(key)]
    total = ngettext("%(count)s OLT", "%(count)s OLTs", counts[""], count=number(counts[""]))
    return f"{total}: {' · '.join(parts)}" if parts else total


def _chips(wanted: olts.OltFilter, brands: Mapping[str, str]) -> list[tuple[str, str]]:
    """The filters in force, by argument of the URL."""
    shown = {
        "q": f"“{wanted.q}”" if wanted.q else "",
        "state": str(STATE_WORDS[wanted.state]) if wanted.state else "",
        "brand": brands.get(wanted.brand, wanted.brand),
    }
    return [(name, text) for name, text in shown.items() if text]


def _title(wanted: olts.OltFilter, counts: Mapping[str, int]) -> str:
    """The answer to the first question: does anything not answer?"""
    total, silent, paused = counts[""], counts.get("unreachable", 0), counts.get("paused", 0)
    if not total:
        return _("No OLT matches") if wanted.active else _("No OLTs yet")
    if silent:
        return ngettext("%(count)s OLT does not answer", "%(count)s OLTs do not answer", silent, count=number(silent))
    if paused:
        return ngettext("%(count)s OLT is paused", "%(count)s OLTs are paused", paused, count=number(paused))
    if counts.get("up"):
        return ngettext("%(count)s OLT answers", "%(count)s OLTs answer", counts["up"], count=number(counts["up"]))
    return ngettext("%(count)s OLT, not read yet", "%(count)s OLTs, none read yet", total, count=number(total))


@bp.get("/<int:olt_id>")
@requires(Role.VIEWER)
def detail(olt_id: int) -> Response:
    """One OLT: who holds it, its workflow, last executions, ports and settings. Live."""
    olt = one(olt_id)
    return live.render(
        "olts/detail.html",
        olt=olt,
        running=olts.running_now([olt.id]).get(olt.id),
        timeline=None if htmx else timeline.of(olt, 0),
        hours=timeline.HOURS,
        view=workflows.of_olt(olt),
        promises=quota_card(olt.id),
        ports=olts.ports(olt.id),
        executions=olts.last_executions(olt.id),
        credential=catalogue.credential(olt.credential_id),
        choices=[] if htmx else catalogue.oid_choices(olt.brand_id),
        sizes=[] if htmx else learned.sizes(olt),
        families=[] if htmx else learned.families(olt.id),
        ledger=[] if htmx else _costliest(olt.id),
        fine=ledger_words.fine,
        told=ledger_words.told,
        modes=[(mode.value, str(label)) for mode, label in MODES.items()],
    )


def _costliest(olt_id: int) -> list[ledger.Row]:
    """What cost the OLT most in the last week."""
    asked = ledger.period(7)
    return ledger.top(asked, olt_id) if asked else []


@bp.route("/new", methods=["GET", "POST"], endpoint="new")
@requires(Role.OPERATOR)
def create() -> Page:
    """Form of a new OLT."""
    form, credentials = OltForm(), catalogue.credentials()
    form.offer(catalogue.brands(), credentials)
    del form.credential_confirmed
    if not form.validate_on_submit():
        return _form(form, None)
    try:
        olt_id = service.create(form.fields(credentials), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, None)
    flash(_("OLT %(name)s was added. Now say what is read from it.", name=form.name.data), "success")
    return redirect(url_for("workflows.detail", olt_id=olt_id), 303)


@bp.route("/<int:olt_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit(olt_id: int) -> Page:
    """Form of a stored OLT."""
    olt = one(olt_id)
    form, credentials = OltForm(data=OltForm.stored(olt)), catalogue.credentials()
    form.offer(catalogue.brands(), credentials)
    if not form.validate_on_submit():
        return _form(form, olt)
    try:
        service.update(olt_id, form.fields(credentials), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, olt)
    flash(_("OLT %(name)s was saved.", name=form.name.data), "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


def _form(form: OltForm, olt: Olt | None) -> tuple[str, int]:
    html = render_template("olts/form.html", form=form, olt=olt, has_credentials=bool(form.credential.choices))
    return html, 422 if form.errors else 200


@bp.post("/<int:olt_id>/enabled")
@requires(Role.OPERATOR)
def set_enabled(olt_id: int) -> BaseResponse:
    """Enable or disable: field `enabled` is 1 or 0."""
    name, enabled = one(olt_id).name, request.form.get("enabled") == "1"
    service.set_enabled(olt_id, enabled, current_user.username, now())
    message = _("OLT %(name)s is enabled.") if enabled else _("OLT %(name)s is disabled.")
    flash(message % {"name": name}, "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


@bp.route("/<int:olt_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete(olt_id: int) -> Page:
    """Ask, then delete. The row stays and can be restored; name and address become free."""
    olt, form = one(olt_id), DeleteForm()
    name = olt.name
    if not form.validate_on_submit():
        return _deletion(form, olt)
    try:
        service.delete(olt_id, form.reason.data or "", current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _deletion(form, one(olt_id))
    flash(_("OLT %(name)s was deleted.", name=name), "success")
    return redirect(url_for("olts.index"), 303)


def _deletion(form: DeleteForm, olt: Olt) -> tuple[str, int]:
    _online, known = olts.onu_counts([olt.id]).get(olt.id, (0, 0))
    return render_template("olts/delete.html", olt=olt, form=form, onus=known), 422 if form.errors else 200
