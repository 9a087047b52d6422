"""What a login leaves on the user's row: the end of all sessions, and the chosen language. One transaction each."""

from datetime import datetime

from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.people import users

LANGUAGES = ("es", "en")


def end_all(user_id: int, actor: str, now: datetime) -> None:
    """Make every session cookie of the user useless, also a stolen copy (S4)."""
    _end(user_id, "user.logout", actor, now)


def end_others(user_id: int, actor: str, now: datetime) -> None:
    """The same without a logout: an administrator ends somebody's sessions, or a person those on other machines.

    The caller renews the session that shall go on.
    """
    _end(user_id, "user.end_sessions", actor, now)


def _end(user_id: int, action: str, actor: str, now: datetime) -> None:
    with transaction() as session:
        user = users.existing(session, user_id)
        user.session_epoch += 1
        audit.record(session, actor=actor, action=action, subject=user, changes=None, now=now)


def set_language(user_id: int, language: str, actor: str, now: datetime) -> None:
    """Remember the language a person reads."""
    if language not in LANGUAGES:
        raise Invalid({"language": f"must be one of {', '.join(LANGUAGES)}"})
    with transaction() as session:
        user = users.existing(session, user_id)
        changes = {"language": [user.language, language]}
        user.language = language
        audit.record(session, actor=actor, action="user.language", subject=user, changes=changes, now=now)
