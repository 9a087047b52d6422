"""Pages of SNMP credentials: list, create, edit. Secrets are write-only; rules live in services.credentials."""

from flask import Blueprint, abort, flash, redirect, render_template, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response

from portal.domain.statuses import Role
from portal.queries import catalogue
from portal.services.errors import Invalid
from portal.services.network import credentials
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import CredentialForm, said, secrets_unchanged

bp = Blueprint("credentials", __name__, url_prefix="/credentials")

Page = str | Response | tuple[str, int]


@bp.get("/")
@requires(Role.OPERATOR)
def index() -> str:
    """All credentials and how many OLTs use each."""
    return render_template("credentials/index.html", credentials=catalogue.credentials())


@bp.route("/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def create() -> Page:
    """Form of a new credential."""
    return _form(CredentialForm(), None)


@bp.route("/<int:credential_id>", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit(credential_id: int) -> Page:
    """Form of a stored credential; secret fields left empty keep what is stored."""
    row = catalogue.credential(credential_id) or abort(404)
    form = CredentialForm(obj=row)
    secrets_unchanged(form, row)
    return _form(form, row)


@bp.post("/<int:credential_id>/delete")
@requires(Role.ADMIN)
def delete(credential_id: int) -> Page:
    """Delete a credential that no OLT uses."""
    try:
        credentials.delete(credential_id, current_user.username, now())
    except Invalid as refused:
        flash(" ".join(said(message) for message in refused.errors.values()), "error")
        return redirect(url_for("credentials.edit", credential_id=credential_id), 303)
    flash(_("The credential was deleted."), "success")
    return redirect(url_for("credentials.index"), 303)


def _form(form: CredentialForm, row: catalogue.CredentialRow | None) -> Page:
    if not form.validate_on_submit():
        return render_template("credentials/form.html", form=form, credential=row), 422 if form.errors else 200
    try:
        credentials.save(form.fields(), current_user.username, now(), credential_id=row.id if row else None)
    except Invalid as refused:
        form.refuse(refused.errors)
        return render_template("credentials/form.html", form=form, credential=row), 422
    flash(_("Credential %(name)s was saved.", name=form.name.data), "success")
    return redirect(url_for("credentials.index"), 303)
