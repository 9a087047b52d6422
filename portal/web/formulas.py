"""Pages of the index formulas and state maps: lists, one with its preview, forms. Rules are in catalogue_parts."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import catalogue_fields
from portal.domain.formulas import IndexFormula as Formula
from portal.domain.readings import ValueSpec
from portal.domain.statuses import Role
from portal.queries import oids
from portal.services.cataloguing import catalogue_parts as service
from portal.services.cataloguing import catalogue_shipped, index_families
from portal.services.cataloguing.explaining import Recipe
from portal.services.errors import Invalid
from portal.tables import Brand, IndexFormula, StateMap
from portal.web import args, live
from portal.web.access import requires
from portal.web.catalogue import after, preview_of
from portal.web.catalogue_forms import FormulaForm, as_text
from portal.web.formatting import now
from portal.web.forms import said

bp = Blueprint("formulas", __name__, url_prefix="/catalogue")

Page = str | BaseResponse | tuple[str, int]

NEW_FORMULA = {"fields": {"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}}}
EMPTY_ROWS = 3  # offered beside the stored states


@bp.get("/formulas/")
@requires(Role.VIEWER)
def index() -> Response:
    """All formulas: ?brand= narrows it."""
    return _list("formulas", oids.formulas)


@bp.get("/states/")
@requires(Role.VIEWER)
def states() -> Response:
    """All state maps: ?brand= narrows it."""
    return _list("states", oids.state_maps)


def _list(kind: str, read: Any) -> Response:
    brands = oids.brands()
    brand = args.word("brand", {key for key, _name, _id in brands})
    brand_id = next((ident for key, _name, ident in brands if key == brand), None)
    filters = [{"name": "brand", "label": _("Any brand"), "value": brand, "options": [b[:2] for b in brands]}]
    return live.render("catalogue/parts.html", kind=kind, rows=read(brand), filters=filters, brand_id=brand_id)


# --------------------------------------------------------------------------------------------------------- formulas


def _formula(formula_id: int) -> tuple[IndexFormula, Brand]:
    found: tuple[IndexFormula, Brand] = oids.formula(formula_id) or abort(404)
    return found


def _recipe(formula: Formula) -> Recipe:
    """A formula tried alone: its index is taken for an interface's."""
    return Recipe("1.3", ValueSpec(), (formula,), by_ifindex=True)


@bp.get("/formulas/<int:formula_id>")
@requires(Role.VIEWER)
def formula(formula_id: int) -> Response:
    """One formula: definition, who uses it, and the preview: ?index=, ?place=, ?olt=."""
    row, brand = _formula(formula_id)
    shipped = catalogue_shipped.formula(brand.key, row.name) if row.edited else None
    return live.render(
        "catalogue/formula.html",
        row=row,
        brand=brand,
        text=as_text(row.definition),
        shipped=as_text(shipped.definition) if shipped else "",
        own=row.edited and shipped is None,
        users=oids.using_formula(row),
        **preview_of(lambda: _recipe(index_families.build(row)), _brand_id(brand)),
    )


def _brand_id(brand: Brand) -> int | None:
    """Whose OLTs can prove something: a generic row is for all."""
    return None if brand.key == index_families.GENERIC else brand.id


@bp.route("/formulas/<int:formula_id>/edit", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit_formula(formula_id: int) -> Page:
    """Form of a stored formula. GET with the form's fields previews them unsaved."""
    row, brand = _formula(formula_id)
    form = _form({"name": row.name, "kind": row.kind, "definition": as_text(row.definition)})
    if not form.validate_on_submit():
        return _form_page(form, brand, row)
    try:
        service.save_formula(formula_id, form.fields(), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form_page(form, brand, row)
    flash(_("%(name)s was saved. A sync with the shipped files leaves it alone.", name=form.name.data), "success")
    return redirect(url_for("formulas.formula", formula_id=formula_id), 303)


@bp.route("/brands/<int:brand_id>/formulas/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def add_formula(brand_id: int) -> Page:
    """Form of a formula of one's own. GET with the form's fields previews them unsaved."""
    brand: Brand = oids.brand(brand_id) or abort(404)
    form = _form({"kind": "bitshift", "definition": as_text(NEW_FORMULA)})
    if not form.validate_on_submit():
        return _form_page(form, brand, None)
    try:
        formula_id = service.add_formula(brand_id, form.fields(), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form_page(form, oids.brand(brand_id) or abort(404), None)
    flash(_("%(name)s was added.", name=form.name.data), "success")
    return redirect(url_for("formulas.formula", formula_id=formula_id), 303)


def _form(stored: Mapping[str, str]) -> FormulaForm:
    if request.method == "GET" and "definition" in request.args:
        return FormulaForm(formdata=request.args, meta={"csrf": False})
    return FormulaForm(data=dict(stored))


def _form_page(form: FormulaForm, brand: Brand, row: IndexFormula | None) -> Page:
    given = form.fields() | ({"name": row.name} if row else {})
    trying = {**given, "name": given.get("name") or "unnamed"}  # a name is no part of what is tried
    context = {"form": form, "brand": brand, "row": row, "errors": bool(form.errors)}
    context |= preview_of(lambda: _recipe(service.check_formula(trying).build()), _brand_id(brand))
    if request.method == "GET":
        return live.render("catalogue/formula_form.html", **context)
    return render_template("catalogue/formula_form.html", **context), 422 if form.errors else 200


@bp.post("/formulas/<int:formula_id>/reset")
@requires(Role.ADMIN)
def reset_formula(formula_id: int) -> BaseResponse:
    """Back to what is shipped."""
    return after(lambda: service.reset_formula(formula_id, current_user.username, now()),
                 _("Back to what is shipped."), url_for("formulas.formula", formula_id=formula_id))  # fmt: skip


@bp.post("/formulas/<int:formula_id>/delete")
@requires(Role.ADMIN)
def delete_formula(formula_id: int) -> BaseResponse:
    """Delete a formula of one's own."""
    back = url_for("formulas.formula", formula_id=formula_id)
    return after(lambda: service.delete_formula(formula_id, current_user.username, now()),
                 _("The row was deleted."), url_for("formulas.index"), back)  # fmt: skip


# ------------------------------------------------------------------------------------------------------- state maps


def _map(map_id: int) -> tuple[StateMap, Brand]:
    found: tuple[StateMap, Brand] = oids.state_map(map_id) or abort(404)
    return found


@bp.get("/states/<int:map_id>")
@requires(Role.VIEWER)
def state_map(map_id: int) -> Response:
    """One state map: its numbers, and who uses it."""
    row, brand = _map(map_id)
    shipped = catalogue_shipped.states(brand.key, row.name) if row.edited else None
    return live.render(
        "catalogue/states.html",
        row=row,
        brand=brand,
        states=_sorted(row.states),
        shipped=shipped.as_json() if shipped else None,
        own=row.edited and shipped is None,
        users=oids.using_states(row),
    )


def _sorted(states: Mapping[str, Any]) -> list[tuple[str, str, bool | None]]:
    """(number, label, online) by number."""
    return [(code, states[code]["label"], states[code].get("online")) for code in sorted(states, key=int)]


@bp.route("/states/<int:map_id>/edit", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit_states(map_id: int) -> Page:
    """Form of a stored state map: repeated fields code, label, online."""
    row, brand = _map(map_id)
    rows = _sorted(row.states)
    if request.method == "GET":
        return _states_page(brand, row, row.name, _offered(rows), {})
    read, errors = _read_states()
    if errors:
        return _states_page(brand, row, row.name, _typed(), {key: said(text) for key, text in errors.items()})
    service.save_states(map_id, read, current_user.username, now())
    flash(_("%(name)s was saved. A sync with the shipped files leaves it alone.", name=row.name), "success")
    return redirect(url_for("formulas.state_map", map_id=map_id), 303)


@bp.route("/brands/<int:brand_id>/states/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def add_states(brand_id: int) -> Page:
    """Form of a state map of one's own."""
    brand: Brand = oids.brand(brand_id) or abort(404)
    name = request.form.get("name", "").replace("\x00", "")
    if request.method == "GET":
        return _states_page(brand, None, "", _offered([]), {})
    read, errors = _read_states()
    try:
        if errors:
            raise Invalid(errors)
        map_id = service.add_states(brand_id, name, read, current_user.username, now())
    except Invalid as refused:
        told = {key: said(text) for key, text in refused.errors.items()}
        return _states_page(oids.brand(brand_id) or abort(404), None, name, _typed(), told)
    flash(_("%(name)s was added.", name=name), "success")
    return redirect(url_for("formulas.state_map", map_id=map_id), 303)


def _columns() -> tuple[list[str], list[str], list[str]]:
    values = [[one.replace("\x00", "") for one in request.form.getlist(name)] for name in ("code", "label", "online")]
    return values[0], values[1], values[2]


def _read_states() -> tuple[dict[str, Any], dict[str, Any]]:
    return catalogue_fields.states_of(*_columns())


def _typed() -> list[tuple[str, str, str]]:
    """What was sent, row by row, to be shown again."""
    return list(zip(*_columns(), strict=False))


def _offered(rows: list[tuple[str, str, bool | None]]) -> list[tuple[str, str, str]]:
    words = {True: "yes", False: "no", None: ""}
    return [(code, label, words[online]) for code, label, online in rows] + [("", "", "")] * EMPTY_ROWS


def _states_page(
    brand: Brand, row: StateMap | None, name: str, rows: list[tuple[str, str, str]], errors: Mapping[str, str]
) -> tuple[str, int]:
    html = render_template("catalogue/states_form.html", brand=brand, row=row, name=name, rows=rows, errors=errors)
    return html, 422 if errors else 200


@bp.post("/states/<int:map_id>/reset")
@requires(Role.ADMIN)
def reset_states(map_id: int) -> BaseResponse:
    """Back to what is shipped."""
    return after(lambda: service.reset_states(map_id, current_user.username, now()),
                 _("Back to what is shipped."), url_for("formulas.state_map", map_id=map_id))  # fmt: skip


@bp.post("/states/<int:map_id>/delete")
@requires(Role.ADMIN)
def delete_states(map_id: int) -> BaseResponse:
    """Delete a state map of one's own."""
    back = url_for("formulas.state_map", map_id=map_id)
    return after(lambda: service.delete_states(map_id, current_user.username, now()),
                 _("The row was deleted."), url_for("formulas.states"), back)  # fmt: skip
