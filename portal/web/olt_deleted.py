"""Pages of deleted OLTs: the list, and the form that brings one back. Parse, ask a service or a query, render."""

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from wtforms import IntegerField, StringField
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange

from portal.domain.statuses import Role
from portal.queries import deleted_olts, keyset
from portal.services.errors import Invalid
from portal.services.network import olts as service
from portal.tables import Olt
from portal.web import args
from portal.web.access import can, requires
from portal.web.formatting import now, number
from portal.web.forms import ErrorForm
from portal.web.olts import Page

bp = Blueprint("olt_deleted", __name__, url_prefix="/olts/deleted")


class RestoreForm(ErrorForm):
    """What may have been given to another OLT meanwhile."""

    name = StringField(_l("Name"), validators=[DataRequired(), Length(max=80)])
    address = StringField(_l("Address"), validators=[DataRequired(), Length(max=255)])
    port = IntegerField(_l("UDP port"), validators=[InputRequired(), NumberRange(1, 65535)])


@bp.get("/")
@requires(Role.VIEWER)
def index() -> str:
    """Deleted OLTs, the last deleted first."""
    wanted = args.text("q")
    count = deleted_olts.count()
    title = ngettext("%(count)s deleted OLT", "%(count)s deleted OLTs", count, count=number(count))
    page = deleted_olts.page(wanted, keyset.cursor(request.args))
    return render_template("olts/deleted.html", title=title if count else _("No OLT was deleted"), page=page, q=wanted)


@bp.route("/<int:olt_id>/restore", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def restore(olt_id: int) -> Page:
    """Ask under which name and address, then bring the OLT back, disabled."""
    olt: Olt = deleted_olts.get(olt_id) or abort(404)
    form = RestoreForm(obj=olt)
    if not form.validate_on_submit():
        return _form(form, olt)
    given = {name: value for name, value in form.data.items() if name != "csrf_token"}
    try:
        service.restore(olt_id, current_user.username, now(), given, by_admin=can(Role.ADMIN))
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, olt)
    flash(_("OLT %(name)s is back, disabled. Enable it when it shall be read again.", name=form.name.data), "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


def _form(form: RestoreForm, olt: Olt) -> tuple[str, int]:
    return render_template("olts/restore.html", form=form, olt=olt), 422 if form.errors else 200
