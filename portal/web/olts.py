"""Pages of OLTs: list, one OLT, form, enabling and deletion. Parse, ask a service or a query, render."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import OltCondition, Role
from portal.extensions import htmx
from portal.queries import catalogue, holders, keyset, mismatches, olts, workflows
from portal.services.errors import Invalid
from portal.services.network import olts as service
from portal.tables import Olt
from portal.web import args, live, timeline
from portal.web.access import can, requires
from portal.web.export import Cell, csv_file
from portal.web.formatting import now, number
from portal.web.forms import DeleteForm, OltForm
from portal.web.trials import MODES
from portal.web.words import face
from portal.web.workflow_answers import olt_or_404

bp = Blueprint("olts", __name__, url_prefix="/olts")

# As they are offered: what needs somebody comes first.
STATE_WORDS = {one.value: face(one).label for one in OltCondition}

# Of the export; as far as "Enabled" they are what the import takes.
EXPORTED = (
    _l("Name"), _l("Address"), _l("UDP port"), _l("Brand"), _l("Model"), _l("Credential"), _l("Template"), _l("Site"),
    _l("Enabled"), _l("State"), _l("State since"), _l("ONUs online"), _l("ONUs"), _l("Last discovery"), _l("Next run"),
)  # fmt: skip

Page = str | BaseResponse | tuple[str, int]


def _wanted() -> olts.OltFilter:
    """The filter in the URL; words that mean nothing are left out."""
    return olts.OltFilter(
        q=args.text("q"),
        state=args.word("state", tuple(OltCondition)),
        brand=args.text("brand", 40),
        model=args.text("model", 60),
        site=args.text("site", 60),
        template=args.text("template", 80),
        enabled=args.word("enabled", ("0", "1")),
        sort=args.word("sort", olts.SORTS, "name"),
    )


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The list with what happens now. Live."""
    wanted = _wanted()
    counts, offered = olts.counts(wanted), olts.offered()
    return live.render(
        "olts/index.html",
        title=_title(wanted, counts),
        lead=_lead(counts),
        wanted=wanted,
        page=olts.page(wanted, keyset.cursor(request.args)),
        counts=counts,
        filters=_filters(wanted, counts, offered),
        chips=_chips(wanted, offered),
        export=url_for("olts.export", **{name: value for name, value in asdict(wanted).items() if value}),
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """All OLTs of the list with the same arguments; its first columns are those that the import takes."""
    rows = olts.page(_wanted(), size=olts.MOST_EXPORTED).rows
    return csv_file(f"olts-{now():%Y-%m-%d}.csv", [str(word) for word in EXPORTED], map(_cells, rows))


def _cells(row: olts.OltRow) -> list[Cell]:
    return [
        row.name, row.address, row.port, row.brand, row.model, row.credential, row.template, row.site,
        _("yes") if row.enabled else _("no"), str(STATE_WORDS[row.condition]), row.state_since, row.online, row.onus,
        row.last_discovery, olts.expected(row, row.next_run_at),
    ]  # fmt: skip


def _lead(counts: Mapping[str, int]) -> str:
    """12 OLTs: Unreachable 3 · Up 9."""
    parts = [f"{word} {number(counts[key])}" for key, word in STATE_WORDS.items() if counts.get(key)]
    total = ngettext("%(count)s OLT", "%(count)s OLTs", counts[""], count=number(counts[""]))
    return f"{total}: {' · '.join(parts)}" if parts else total


def _filters(wanted: olts.OltFilter, counts: Mapping[str, int], offered: olts.Offered) -> list[dict[str, Any]]:
    """What the list can be narrowed by; one that offers no choice is left out unless it is in force."""
    states = [(key, f"{word} ({number(counts.get(key, 0))})") for key, word in STATE_WORDS.items()]
    models = [one for _brand, group in offered.models for one in group]
    made = (
        ("state", _("Any state"), wanted.state, states),
        ("brand", _("Any brand"), wanted.brand, offered.brands),
        ("model", _("Any model"), wanted.model, models),
        ("site", _("Any site"), wanted.site, [*_same(offered.sites), (olts.NO_SITE, _("without a site"))]),
        ("template", _("Any template"), wanted.template,
         [*_same(offered.templates), (olts.NO_TEMPLATE, _("without a template"))]),
        ("enabled", _("Enabled or not"), wanted.enabled, [("1", _("Enabled")), ("0", _("Disabled"))]),
    )  # fmt: skip
    return [
        {"name": name, "label": label, "value": value, "options": options}
        for name, label, value, options in made
        if value or len(options) > 1
    ]


def _same(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


def _chips(wanted: olts.OltFilter, offered: olts.Offered) -> list[tuple[str, str]]:
    """The filters in force, by argument of the URL."""
    models = {key: name for _brand, group in offered.models for key, name in group}
    shown = {
        "q": f"“{wanted.q}”" if wanted.q else "",
        "state": str(STATE_WORDS[wanted.state]) if wanted.state else "",
        "brand": dict(offered.brands).get(wanted.brand, wanted.brand),
        "model": models.get(wanted.model, wanted.model),
        "site": _("without a site") if wanted.site == olts.NO_SITE else wanted.site,
        "template": _("without a template") if wanted.template == olts.NO_TEMPLATE else wanted.template,
        "enabled": {"1": _("Enabled"), "0": _("Disabled")}.get(wanted.enabled, ""),
    }
    return [(name, text) for name, text in shown.items() if text]


def _title(wanted: olts.OltFilter, counts: Mapping[str, int]) -> str:
    """The answer to the first question: does anything not answer?"""
    total, silent, paused = counts[""], counts.get("unreachable", 0), counts.get("paused", 0)
    if not total:
        return _("No OLT matches") if wanted.active else _("No OLTs yet")
    if silent:
        return ngettext("%(count)s OLT does not answer", "%(count)s OLTs do not answer", silent, count=number(silent))
    if refused := counts.get("refused", 0):
        return ngettext("%(count)s OLT refuses its credential", "%(count)s OLTs refuse their credential", refused,
                        count=number(refused))  # fmt: skip
    if other := counts.get("other_device", 0):
        return ngettext("Another device answers for %(count)s OLT", "Other devices answer for %(count)s OLTs", other,
                        count=number(other))  # fmt: skip
    if failing := counts.get("failing", 0):
        return ngettext("%(count)s OLT with failures", "%(count)s OLTs with failures", failing, count=number(failing))
    if paused:
        return ngettext("%(count)s OLT is paused", "%(count)s OLTs are paused", paused, count=number(paused))
    if counts.get("up"):
        return ngettext("%(count)s OLT answers", "%(count)s OLTs answer", counts["up"], count=number(counts["up"]))
    return ngettext("%(count)s OLT, not read yet", "%(count)s OLTs, none read yet", total, count=number(total))


@bp.get("/<int:olt_id>")
@requires(Role.VIEWER)
def detail(olt_id: int) -> Response:
    """One OLT: its state, who holds it, its hour and its workflow; the rest comes by itself (web.olt_panels). Live."""
    olt = olt_or_404(olt_id)
    running = olts.running_now([olt.id]).get(olt.id)
    return live.render(
        "olts/detail.html",
        olt=olt,
        mismatch=mismatches.of_olt(olt.id),
        running=running,
        holder=None if running else holders.of(olt.id),
        view=workflows.at_work(olt.id),
        **({} if htmx else _around(olt)),
    )


def _around(olt: Olt) -> dict[str, Any]:
    """What stands in an OLT's page and is not of its fragment."""
    return {
        "timeline": timeline.of(olt, 0),
        "hours": timeline.HOURS,
        "modes": [(mode.value, str(label)) for mode, label in MODES.items()],
    }


@bp.route("/new", methods=["GET", "POST"], endpoint="new")
@requires(Role.OPERATOR)
def create() -> Page:
    """Form of a new OLT."""
    form, credentials = OltForm(), catalogue.credentials()
    form.offer(catalogue.brands(), credentials)
    if not form.validate_on_submit():
        return _form(form, None)
    try:
        olt_id = service.create(form.fields(credentials), current_user.username, now(), by_admin=can(Role.ADMIN))
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, None)
    flash(_("OLT %(name)s was added. Now say what is read from it.", name=form.name.data), "success")
    return redirect(url_for("workflows.detail", olt_id=olt_id), 303)


@bp.route("/<int:olt_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit(olt_id: int) -> Page:
    """Form of a stored OLT."""
    olt = olt_or_404(olt_id)
    form, credentials = OltForm(data=OltForm.stored(olt)), catalogue.credentials()
    form.offer(catalogue.brands(), credentials)
    if not form.validate_on_submit():
        return _form(form, olt)
    try:
        service.update(olt_id, form.fields(credentials), current_user.username, now(), by_admin=can(Role.ADMIN))
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
    name, enabled = olt_or_404(olt_id).name, request.form.get("enabled") == "1"
    service.set_enabled(olt_id, enabled, current_user.username, now())
    message = _("OLT %(name)s is enabled.") if enabled else _("OLT %(name)s is disabled.")
    flash(message % {"name": name}, "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


@bp.route("/<int:olt_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete(olt_id: int) -> Page:
    """Ask, then delete. The row stays and can be restored; name and address become free."""
    olt, form = olt_or_404(olt_id), DeleteForm()
    name = olt.name
    if not form.validate_on_submit():
        return _deletion(form, olt)
    try:
        service.delete(olt_id, form.reason.data or "", current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _deletion(form, olt_or_404(olt_id))
    flash(_("OLT %(name)s was deleted.", name=name), "success")
    return redirect(url_for("olts.index"), 303)


def _deletion(form: DeleteForm, olt: Olt) -> tuple[str, int]:
    _online, known = olts.onu_counts([olt.id]).get(olt.id, (0, 0))
    return render_template("olts/delete.html", olt=olt, form=form, onus=known), 422 if form.errors else 200
