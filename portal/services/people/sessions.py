"""What a login leaves on the user's row: the end of all sessions, and the chosen language. One transaction each."""

from datetime import datetime

from portal.extensions import transaction
from portal.models import User
from portal.services import audit
from portal.services.errors import Invalid, NotFound

LANGUAGES = ("es", "en")


def end_all(user_id: int, actor: str, now: datetime) -> None:
    """Make every session cookie of the user useless, also a stolen copy (S4)."""
    with transaction() as session:
        user = session.get(User, user_id)
        if user is None:
            raise NotFound("this user does not exist any more")
        user.session_epoch += 1
        audit.record(session, actor=actor, action="user.logout", subject=user, changes=None, now=now)


def set_language(user_id: int, language: str, actor: str, now: datetime) -> None:
    """Remember the language a person reads."""
    if language not in LANGUAGES:
        raise Invalid({"language": f"must be one of {', '.join(LANGUAGES)}"})
    with transaction() as session:
        user = session.get(User, user_id)
        if user is None:
            raise NotFound("this user does not exist any more")
        changes = {"language": [user.language, language]}
        user.language = language
        audit.record(session, actor=actor, action="user.language", subject=user, changes=changes, now=now)
