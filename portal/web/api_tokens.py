"""API tokens: list, create (shown once), revoke. Rules live in services.people.tokens."""

from datetime import timedelta

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse
from wtforms import StringField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import DataRequired, Length

from portal.domain.statuses import Role
from portal.queries import keyset, people
from portal.services.errors import Invalid, NotFound
from portal.services.people import tokens
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import now, number
from portal.web.forms import ErrorForm, Select
from portal.web.people import roles
from portal.web.people_words import TOKEN_POWERS, TOKEN_STATES

bp = Blueprint("api_tokens", __name__, url_prefix="/settings/tokens")

Page = str | BaseResponse | tuple[str, int]

STATES = {"valid": False, "ended": True}
LIVES = {"30": _l("30 days"), "90": _l("90 days"), "365": _l("One year"), "730": _l("Two years"), "": _l("Never")}


class TokenForm(ErrorForm):
    """A new token."""

    name = StringField(
        _l("Name"),
        validators=[DataRequired(), Length(max=64)],
        description=_l("Of what uses it, such as monitoring. The audit log tells tokens apart by it."),
    )
    role = Select(_l("Role"), default=Role.VIEWER.value)
    life = Select(_l("Expires after"), default="365", choices=[SelectChoice(key, text) for key, text in LIVES.items()])
    aliases = {"expires_at": "life"}


@bp.get("/")
@requires(Role.ADMIN)
def index() -> Response:
    """Tokens by name, those that are valid first."""
    state, moment = args.word("state", STATES), now()
    valid = people.valid_tokens(moment)
    options = [("valid", _("Valid ones")), ("ended", _("Ended ones"))]
    return live.render(
        "api_tokens/index.html",
        page=people.tokens(STATES.get(state), moment, keyset.cursor(request.args)),
        lead=ngettext("%(n)s valid token", "%(n)s valid tokens", valid, n=number(valid)),
        filters=[{"name": "state", "label": _("State"), "value": state, "options": options}],
        filtered=bool(state),
        faces=TOKEN_STATES,
    )


@bp.route("/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def create() -> Page:
    """Form of a new token; then the token, this once."""
    form, moment = TokenForm(), now()
    form.role.choices = roles()
    if not form.validate_on_submit():
        return _form(form), 422 if form.errors else 200
    expires_at = moment + timedelta(days=int(form.life.data)) if form.life.data else None
    try:
        clear = tokens.create(form.name.data, form.role.data, current_user.username, moment, expires_at)
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form), 422
    name, address = form.name.data.strip().lower(), f"{request.url_root}api/v1/pollers/"
    return render_template("api_tokens/once.html", name=name, clear=clear, address=address, expires_at=expires_at)


@bp.post("/<int:token_id>/revoke")
@requires(Role.ADMIN)
def revoke(token_id: int) -> Page:
    """End a token at once."""
    try:
        ended = tokens.revoke_by_id(token_id, current_user.username, now())
    except NotFound:
        abort(404)
    flash(_("The token was revoked.") if ended else _("This token had been revoked before."), "success")
    return redirect(url_for("api_tokens.index"), 303)


def _form(form: TokenForm) -> str:
    return render_template("api_tokens/form.html", form=form, powers=TOKEN_POWERS)
