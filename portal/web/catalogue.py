"""Pages of the catalogue's OIDs: list, one row with its preview and decode proof, form, back to what is shipped."""

from collections.abc import Callable, Mapping

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import LazyString, ngettext
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import units
from portal.domain.catalogue_data import BrandData, parse
from portal.domain.formulas import IndexFormula, Interface
from portal.domain.proof import Agreement
from portal.domain.readings import ValueType
from portal.domain.statuses import Role
from portal.extensions import db
from portal.queries import keyset, oids, olts
from portal.services.cataloguing import catalogue_edit as service
from portal.services.cataloguing import explaining, index_families
from portal.services.cataloguing.explaining import Asked, Preview
from portal.services.errors import Invalid
from portal.tables import Brand, Oid
from portal.web import args, live
from portal.web.access import requires
from portal.web.catalogue_forms import OidForm
from portal.web.formatting import now, number
from portal.web.forms import refusal, said
from portal.web.metrics import meaning
from portal.web.words import Face

bp = Blueprint("catalogue", __name__, url_prefix="/catalogue")

Page = str | BaseResponse | tuple[str, int]

SHAPES: dict[str, LazyString] = {"onu": _l("ONU"), "port": _l("Port"), "scalar": _l("Scalar"), "row": _l("Other")}
TYPES: dict[str, LazyString] = {
    "number": _l("Number"), "text": _l("Text"), "serial": _l("GPON serial"), "mac": _l("MAC address"),
    "state": _l("State"), "time": _l("Date and time"),
}  # fmt: skip
CONFIDENCE: dict[str, Face] = {
    "high": Face(_l("High"), "quiet", "circle-check"),
    "medium": Face(_l("Medium"), "muted", "circle-dashed"),
    "low": Face(_l("Low"), "amber", "alert-triangle"),
}
VERDICTS: dict[Agreement, Face] = {
    Agreement.AGREES: Face(_l("Agrees"), "quiet", "circle-check"),
    Agreement.CONTRADICTS: Face(_l("Contradicts"), "red", "circle-x"),
    Agreement.NO_NAME: Face(_l("No name to check with"), "muted", "circle-dashed"),
    Agreement.UNDECODABLE: Face(_l("The formula does not fit"), "amber", "alert-triangle"),
    Agreement.NOT_CHECKED: Face(_l("Not checked"), "muted", "minus"),
}


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The list: ?q=, ?brand=, ?model=, ?purpose= and ?edited= narrow it."""
    brands = oids.brands()
    wanted = _wanted({key for key, _name, _id in brands})
    models = oids.models(wanted.brand) if wanted.brand else []
    count = oids.count(wanted)
    return live.render(
        "catalogue/index.html",
        title=ngettext("%(count)s OID", "%(count)s OIDs", count, count=number(count)),
        wanted=wanted,
        page=oids.page(wanted, keyset.cursor(request.args)),
        filters=_filters(wanted, brands, models),
        chips=_chips(wanted, {key: name for key, name, _id in brands}, dict(models)),
        brand_id=next((ident for key, _name, ident in brands if key == wanted.brand), None),
        faces=CONFIDENCE,
        shapes=SHAPES,
    )


def _wanted(brands: set[str]) -> oids.OidFilter:
    brand = args.word("brand", brands)
    return oids.OidFilter(
        q=args.text("q"), brand=brand, model=args.text("model", 60) if brand else "",
        purpose=args.text("purpose", 60), edited=args.word("edited", ("1",)),
    )  # fmt: skip


def _purpose(name: str) -> str:
    return meaning(name) or name


def _filters(
    wanted: oids.OidFilter, brands: list[tuple[str, str, int]], models: list[tuple[str, str]]
) -> list[dict[str, object]]:
    purposes = sorted(((name, _purpose(name)) for name in oids.purposes()), key=lambda pair: pair[1].lower())
    shown: list[dict[str, object]] = [
        {"name": "brand", "label": _("Any brand"), "value": wanted.brand, "options": [b[:2] for b in brands]},
        {"name": "purpose", "label": _("Any purpose"), "value": wanted.purpose, "options": purposes},
        {"name": "edited", "label": _("Shipped and own"), "value": wanted.edited,
         "options": [("1", _("Changed or added here"))]},
    ]  # fmt: skip
    if models:
        shown.insert(1, {"name": "model", "label": _("Any model"), "value": wanted.model, "options": models})
    return shown


def _chips(wanted: oids.OidFilter, brands: Mapping[str, str], models: Mapping[str, str]) -> list[tuple[str, str]]:
    """The filters in force, by argument of the URL."""
    shown = {
        "q": f"“{wanted.q}”" if wanted.q else "",
        "brand": brands.get(wanted.brand, ""),
        "model": models.get(wanted.model, wanted.model),
        "purpose": _purpose(wanted.purpose) if wanted.purpose else "",
        "edited": _("Changed or added here") if wanted.edited else "",
    }
    return [(name, text) for name, text in shown.items() if text]


def _one(oid_id: int) -> Oid:
    row: Oid = oids.get(oid_id) or abort(404)
    return row


@bp.get("/oids/<int:oid_id>")
@requires(Role.VIEWER)
def oid(oid_id: int) -> Response:
    """One row: every field, where it comes from, and the preview: ?raw=, ?index=, ?place=, ?olt=."""
    row = _one(oid_id)
    data, differs = service.data_of(row), service.differences(row) if row.edited else {}
    return live.render(
        "catalogue/oid.html",
        row=row,
        data=data,
        kept_unit=units.kept_in(data.kept_as, data.unit),
        differs=differs,
        face=CONFIDENCE.get(row.confidence, CONFIDENCE["medium"]),
        shapes=SHAPES,
        types=TYPES,
        candidates=oids.candidates(row),
        **preview_of(lambda: explaining.recipe_of(row, _formulas(row)), row.brand_id),
    )


def _formulas(row: Oid) -> tuple[IndexFormula, ...]:
    return tuple(index_families.build(formula) for formula in oids.candidates(row))


def asked() -> Asked:
    """What the person wants to see decoded, from the URL."""
    return Asked(raw=args.text("raw", 1200), index=args.text("index", 300), place=args.text("place", 60))


def preview_of(make: Callable[[], explaining.Recipe], brand_id: int | None) -> dict[str, object]:
    """What catalogue/_try.html and _preview.html need. `make` may raise Invalid: then the preview says why."""
    wanted, chosen, coded, unit = asked(), args.number("olt"), False, ""
    try:
        recipe = make()
        coded, unit = recipe.value.type is ValueType.STATE, recipe.value.unit
        made = explaining.preview(recipe, wanted, _interfaces(chosen))
        problems = [said(text) for text in (made.problems or {}).values()]
    except Invalid as refused:
        made, problems = Preview(), [f"{name}: {said(text)}" if name else said(text)
                                     for name, text in refused.errors.items()]  # fmt: skip
    return {
        "asked": wanted, "olt": chosen, "olts": oids.olts_with_names(brand_id), "preview": made, "problems": problems,
        "verdicts": VERDICTS, "coded": coded, "unit": unit,
    }  # fmt: skip


def _interfaces(olt_id: int | None) -> Mapping[str, Interface] | None:
    found = olts.get(olt_id) if olt_id is not None else None
    return explaining.interfaces_of(db.session(), found) if found is not None else None


@bp.route("/oids/<int:oid_id>/edit", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit_oid(oid_id: int) -> Page:
    """Form of a stored row. GET with the form's fields previews them unsaved."""
    row = _one(oid_id)
    brand, shipped = row.brand, service.is_shipped(row)
    form = _form(OidForm.stored(service.data_of(row)), brand)
    if not form.validate_on_submit():
        return _form_page(form, brand, row, shipped=shipped)
    try:
        service.save_oid(oid_id, form.fields(), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form_page(form, brand, _one(oid_id), shipped=shipped)
    flash(_("%(name)s was saved. A sync with the shipped files leaves it alone.", name=form.name.data), "success")
    return redirect(url_for("catalogue.oid", oid_id=oid_id), 303)


@bp.route("/brands/<int:brand_id>/oids/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def add_oid(brand_id: int) -> Page:
    """Form of a row of one's own. GET with the form's fields previews them unsaved."""
    brand: Brand = oids.brand(brand_id) or abort(404)
    form = _form({}, brand)
    if not form.validate_on_submit():
        return _form_page(form, brand, None, shipped=False)
    try:
        oid_id = service.add_oid(brand_id, form.fields(), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form_page(form, oids.brand(brand_id) or abort(404), None, shipped=False)
    flash(_("%(name)s was added. Test it on an OLT before a workflow reads it.", name=form.name.data), "success")
    return redirect(url_for("catalogue.oid", oid_id=oid_id), 303)


def _form(stored: Mapping[str, object], brand: Brand) -> OidForm:
    """The form as posted; or, for a preview, as it stands in the URL; or as stored."""
    previewing = request.method == "GET" and "oid" in request.args
    form = OidForm(formdata=request.args, meta={"csrf": False}) if previewing else OidForm(data=dict(stored))
    form.offer(_brand_data(brand))
    return form


def _brand_data(brand: Brand) -> BrandData:
    return parse(service.around(db.session(), brand), "")


def _form_page(form: OidForm, brand: Brand, row: Oid | None, *, shipped: bool) -> Page:
    def recipe() -> explaining.Recipe:
        data, around = service.check_oid(db.session(), brand, form.fields(), row.id if row else None)
        return explaining.recipe_of_data(data, around)

    errors = bool(form.errors)
    context = {"form": form, "brand": brand, "row": row, "shipped": shipped}
    context |= preview_of(recipe, brand.id) if asked() != Asked() or "olt" in request.args else _nothing(brand)
    if request.method == "GET":
        return live.render("catalogue/form.html", **context)
    return render_template("catalogue/form.html", **context), 422 if errors else 200


def _nothing(brand: Brand) -> dict[str, object]:
    return {"asked": Asked(), "olt": None, "olts": oids.olts_with_names(brand.id), "preview": Preview(), "problems": [],
            "verdicts": VERDICTS}  # fmt: skip


@bp.post("/oids/<int:oid_id>/reset")
@requires(Role.ADMIN)
def reset_oid(oid_id: int) -> BaseResponse:
    """Back to what is shipped."""
    return after(lambda: service.reset_oid(oid_id, current_user.username, now()),
                 _("Back to what is shipped."), url_for("catalogue.oid", oid_id=oid_id))  # fmt: skip


@bp.post("/oids/<int:oid_id>/delete")
@requires(Role.ADMIN)
def delete_oid(oid_id: int) -> BaseResponse:
    """Delete a row of one's own."""
    back = url_for("catalogue.oid", oid_id=oid_id)
    return after(lambda: service.delete_oid(oid_id, current_user.username, now()),
                 _("The row was deleted."), url_for("catalogue.index"), back)  # fmt: skip


def after(verb: Callable[[], None], message: str, there: str, back: str = "") -> BaseResponse:
    """Do it, say so and go `there`; when it is refused, say why and go `back`."""
    try:
        verb()
    except Invalid as refused:
        flash(refusal(refused), "error")
        return redirect(back or there, 303)
    flash(message, "success")
    return redirect(there, 303)
