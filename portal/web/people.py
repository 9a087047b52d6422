"""Users: list, create, role, deactivate, one-time password, end of sessions. Rules live in services.people."""

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
from portal.services.errors import Invalid, NotFound, ServiceError
from portal.services.people import passwords, sessions, users
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import now, number
from portal.web.forms import ErrorForm, Select, refusal
from portal.web.people_words import LANGUAGE_NAMES, POWERS, USER_ACTIVE, USER_INACTIVE
from portal.web.words import face

bp = Blueprint("people", __name__, url_prefix="/settings/users")

Page = str | BaseResponse | tuple[str, int]

STATES = {"active": True, "inactive": False}


def roles() -> list[SelectChoice]:
    """The roles as choices of a form."""
    return [SelectChoice(role.value, face(role).label) for role in Role]


class UserForm(ErrorForm):
    """A new user."""

    username = StringField(
        _l("User name"),
        validators=[DataRequired(), Length(max=80)],
        description=_l("Letters, digits and . _ @ -. It is kept in lower case and never changes."),
    )
    role = Select(_l("Role"), default=Role.VIEWER.value)


class RoleForm(ErrorForm):
    """Another role of a user."""

    role = Select(_l("Role"))


def _wanted() -> people.UserFilter:
    role, state = args.word("role", {one.value for one in Role}), args.word("state", STATES)
    return people.UserFilter(args.text("q"), Role(role) if role else None, STATES.get(state))


def _filters(wanted: people.UserFilter) -> list[dict[str, object]]:
    state = {True: "active", False: "inactive"}.get(wanted.active, "") if wanted.active is not None else ""
    states = [("active", USER_ACTIVE.label), ("inactive", USER_INACTIVE.label)]
    known = [(role.value, face(role).label) for role in Role]
    return [
        {"name": "role", "label": _("Role"), "value": wanted.role or "", "options": known},
        {"name": "state", "label": _("State"), "value": state, "options": states},
    ]


def _lead(counts: people.Counts) -> str:
    parts = [
        ngettext("%(n)s active", "%(n)s active", counts.active, n=number(counts.active)),
        ngettext("%(n)s administrator", "%(n)s administrators", counts.admins, n=number(counts.admins)),
    ]
    if counts.inactive:
        parts.append(ngettext("%(n)s deactivated", "%(n)s deactivated", counts.inactive, n=number(counts.inactive)))
    return " · ".join(parts)


@bp.get("/")
@requires(Role.ADMIN)
def index() -> Response:
    """Users by name, with filters in the URL."""
    wanted = _wanted()
    return live.render(
        "people/index.html",
        page=people.users(wanted, keyset.cursor(request.args)),
        lead=_lead(people.counts()),
        filters=_filters(wanted),
        wanted=wanted,
        filtered=wanted != people.UserFilter(),
        languages=LANGUAGE_NAMES,
        faces={True: USER_ACTIVE, False: USER_INACTIVE},
    )


@bp.route("/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def create() -> Page:
    """Form of a new user; then the password, this once."""
    form = UserForm()
    form.role.choices = roles()
    if not form.validate_on_submit():
        return render_template("people/form.html", form=form, powers=POWERS), 422 if form.errors else 200
    try:
        password = passwords.invite(form.username.data, form.role.data, current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return render_template("people/form.html", form=form, powers=POWERS), 422
    return _once(users.stored_name(form.username.data), password, new=True)


@bp.route("/<int:user_id>", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit(user_id: int) -> Page:
    """One user: what is known, the role, and what can be done."""
    row = people.user(user_id) or abort(404)
    form = RoleForm(data={"role": row.role.value})
    form.role.choices = roles()
    if not form.validate_on_submit():
        return _user(form, row), 422 if form.errors else 200
    try:
        users.update(user_id, {"role": form.role.data}, current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _user(form, row), 422
    flash(_("The role of %(name)s was saved.", name=row.username), "success")
    return redirect(url_for("people.edit", user_id=user_id), 303)


@bp.post("/<int:user_id>/active")
@requires(Role.ADMIN)
def switch(user_id: int) -> Page:
    """Deactivate or activate; the form's `active` says which."""
    active = request.form.get("active")
    if active not in ("0", "1"):
        abort(400)
    try:
        users.update(user_id, {"active": active == "1"}, current_user.username, now())
    except ServiceError as refused:
        return _refused(user_id, refused)
    flash(_("The user was activated.") if active == "1" else _("The user was deactivated and logged out."), "success")
    return redirect(url_for("people.edit", user_id=user_id), 303)


@bp.post("/<int:user_id>/password")
@requires(Role.ADMIN)
def hand_over(user_id: int) -> Page:
    """Another one-time password; then it is shown, this once."""
    row = people.user(user_id) or abort(404)
    try:
        password = passwords.hand_over(user_id, current_user.username, now())
    except ServiceError as refused:
        return _refused(user_id, refused)
    return _once(row.username, password, new=False)


@bp.post("/<int:user_id>/sessions")
@requires(Role.ADMIN)
def end_sessions(user_id: int) -> Page:
    """Log the user out everywhere."""
    try:
        sessions.end_others(user_id, current_user.username, now())
    except ServiceError as refused:
        return _refused(user_id, refused)
    flash(_("All sessions of this user have ended."), "success")
    return redirect(url_for("people.edit", user_id=user_id), 303)


def _refused(user_id: int, error: ServiceError) -> BaseResponse:
    if isinstance(error, NotFound):
        abort(404)
    flash(refusal(error), "error")
    return redirect(url_for("people.edit", user_id=user_id), 303)


def _user(form: RoleForm, row: people.UserRow) -> str:
    return render_template(
        "people/edit.html", form=form, row=row, powers=POWERS, face=USER_ACTIVE if row.active else USER_INACTIVE,
        language_name=LANGUAGE_NAMES.get(row.language, ""), oneself=row.id == current_user.id,
    )  # fmt: skip


def _once(username: str, password: str, *, new: bool) -> str:
    return render_template("people/once.html", username=username, password=password, new=new)
