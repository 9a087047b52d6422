"""My account: own password, language, theme, sessions. For every role; rules live in services.people."""

from flask import Blueprint, flash, redirect, render_template, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_login import current_user, login_user
from werkzeug.wrappers import Response
from wtforms import PasswordField
from wtforms.validators import DataRequired, EqualTo

from portal.domain.statuses import Role
from portal.extensions import limiter
from portal.services.errors import Conflict, Invalid
from portal.services.people import passwords, sessions
from portal.services.people.users import LONGEST_PASSWORD, SHORTEST_PASSWORD
from portal.web.access import can, requires
from portal.web.auth import TRIES
from portal.web.formatting import now
from portal.web.forms import ErrorForm, refusal
from portal.web.people_words import POWERS

bp = Blueprint("account", __name__, url_prefix="/settings/account")

Page = str | Response | tuple[str, int]


class PasswordForm(ErrorForm):
    """The present password and, twice, the new one."""

    old = PasswordField(_l("Present password"), validators=[DataRequired(_l("Enter the password you log in with."))])
    new = PasswordField(_l("New password"), validators=[DataRequired(_l("Enter a new password."))])
    again = PasswordField(
        _l("New password again"), validators=[EqualTo("new", _l("This is not the same as the new password."))]
    )


def _who() -> str:
    return f"password:{current_user.id}"


def _refused(response: Response) -> bool:
    return response.status_code == 422


@bp.route("/", methods=["GET", "POST"])
@requires(Role.VIEWER)
@limiter.limit(TRIES, key_func=_who, methods=["POST"], deduct_when=_refused)
def index() -> Page:
    """The account as it is, and the form of a new password. Wrong ones are counted as at the login."""
    form = PasswordForm()
    if not form.validate_on_submit():
        return _page(form), 422 if form.errors else 200
    try:
        passwords.change_own(current_user.id, form.old.data, form.new.data, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _page(form), 422
    except Conflict as refused:
        flash(refusal(refused), "error")
        return redirect(url_for("account.index"), 303)
    _go_on()
    flash(_("The password was changed. All your other sessions have ended."), "success")
    return redirect(url_for("account.index"), 303)


@bp.post("/sessions")
@requires(Role.VIEWER)
def end_others() -> Response:
    """End the sessions of this person on other machines; this one goes on."""
    sessions.end_others(current_user.id, current_user.username, now())
    _go_on()
    flash(_("All your other sessions have ended."), "success")
    return redirect(url_for("account.index"), 303)


def _go_on() -> None:
    """This browser's session counts on, under the number that is valid now; forms in its other tabs stay good."""
    login_user(current_user._get_current_object())


def _page(form: PasswordForm) -> str:
    lengths = {"least": SHORTEST_PASSWORD, "most": LONGEST_PASSWORD}
    powers = " ".join(str(text) for role, text in POWERS.items() if can(role))
    return render_template("account/index.html", form=form, powers=powers, lengths=lengths)
