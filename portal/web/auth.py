"""Login, logout and the language a person reads. Passwords are checked by the service, roles by portal.web.access."""

from flask import Blueprint, redirect, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_login import current_user, login_user, logout_user

from portal import clock
from portal.extensions import db, limiter, login_manager
from portal.services.people import sessions, users
from portal.services.people.sessions import LANGUAGES
from portal.tables import User
from portal.web import live
from portal.web.access import public, safe_next

bp = Blueprint("auth", __name__)

# Failed tries only: a shift of operators behind one address must be able to log in at once (S1).
TRIES = "10 per minute; 30 per 10 minutes"


@login_manager.user_loader
def load_user(cookie_id: str) -> User | None:
    """The user a session cookie names ("id:epoch"); None when the session was ended or the user is not active."""
    ident, _colon, epoch = cookie_id.partition(":")
    if not (ident.isascii() and ident.isdigit() and epoch.isascii() and epoch.isdigit()):
        return None
    user = db.session.get(User, int(ident))
    if user is None or not user.active or user.session_epoch != int(epoch):
        return None
    return user


def _account() -> str:
    return "account:" + users.stored_name(request.form.get("username", ""))[:80]


def _failed(response: object) -> bool:
    return getattr(response, "status_code", 0) != 303


@bp.get("/login")
@public
def login() -> ResponseReturnValue:
    """The form; whoever is logged in goes on."""
    if current_user.is_authenticated:
        return redirect(safe_next(request.args.get("next")))
    return live.render("auth/login.html", username="", error="", next=safe_next(request.args.get("next"), default=""))


@bp.post("/login")
@public
@limiter.limit(TRIES, deduct_when=_failed)
@limiter.limit(TRIES, key_func=_account, deduct_when=_failed)
def enter() -> ResponseReturnValue:
    """One answer for a wrong password, an unknown and an inactive user. A new session starts at each login."""
    username, target = request.form.get("username", "").replace("\x00", "").strip(), request.form.get("next")
    user = users.authenticate(username, request.form.get("password", ""), clock.now())
    if user is None:
        error = _("User name or password is wrong.")
        page = live.render("auth/login.html", username=username, error=error, next=safe_next(target, default=""))
        page.status_code = 401
        return page
    language = session.get("language")
    session.clear()
    if language and not user.language:
        session["language"] = language
    login_user(user)
    return redirect(safe_next(target), 303)


@bp.post("/logout")
@public
def logout() -> ResponseReturnValue:
    """Ends all sessions of the person, also copies of the cookie."""
    if current_user.is_authenticated:
        sessions.end_all(current_user.id, current_user.username, clock.now())
    logout_user()
    session.clear()
    return redirect(url_for("auth.login"), 303)


@bp.post("/language")
@public
def language() -> ResponseReturnValue:
    """Switch between Spanish and English, here and for the next login."""
    chosen = request.form.get("language", "")
    if chosen in LANGUAGES:
        session["language"] = chosen
        if current_user.is_authenticated and current_user.language != chosen:
            sessions.set_language(current_user.id, chosen, current_user.username, clock.now())
    return redirect(safe_next(request.form.get("next")), 303)
