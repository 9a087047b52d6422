"""API tokens: made and shown once, kept as a SHA-256 digest, checked, revoked. No HTTP here."""

import hashlib
import hmac
import logging
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.domain import fields
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.statuses import Role
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid
from portal.tables import ApiToken

log = logging.getLogger(__name__)

MARK = "facho_"  # lets a scanner for leaked secrets, and a person, see what it is
SECRET_BYTES = 32
SHOWN = 12  # characters kept in clear, to tell tokens apart: 36 of the secret's 256 bits
ACTOR = "token:"  # no user name holds a colon, so that the audit log cannot take one for the other
LONGEST_LIFE = timedelta(days=3650)
USE_NOTED_EVERY = timedelta(minutes=1)

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)
_NAME_RULE = N_("must be 1 to 64 letters, digits or . _ @ - (first a letter or digit)")
_NAME_TAKEN = N_("a token had this name already, and the audit log tells tokens apart by it: choose another name")
_UNIQUE = dict.fromkeys(("uq_api_tokens_name", "api_tokens.name"), ("name", _NAME_TAKEN))


@dataclass(frozen=True)
class Identity:
    """Who a valid token speaks for."""

    token_id: int
    name: str
    role: Role

    @property
    def actor(self) -> str:
        """The name under which its deeds are kept."""
        return ACTOR + self.name


def create(name: str, role: Role | str, actor: str, now: datetime, expires_at: datetime | None = None) -> str:
    """A new token; returns its clear text, which exists nowhere else. Names are lower case and never used again.

    Invalid names each wrong field: name, role, expires_at.
    """
    key = name.strip().lower()
    checked, errors = _checked_role(role)
    if not _NAME.fullmatch(key):
        errors["name"] = _NAME_RULE
    if expires_at is not None and not now < expires_at <= now + LONGEST_LIFE:
        errors["expires_at"] = N_("must lie in the future and at most %(days)d days ahead", days=LONGEST_LIFE.days)
    if errors:
        raise Invalid(errors)
    clear = MARK + secrets.token_urlsafe(SECRET_BYTES)
    with unique_or_invalid(_UNIQUE), transaction() as session:
        if session.scalar(select(ApiToken.id).where(ApiToken.name == key)):
            raise Invalid({"name": _NAME_TAKEN})
        token = ApiToken(
            name=key, prefix=clear[:SHOWN], digest=_digest(clear), role=checked, created_at=now, expires_at=expires_at
        )
        session.add(token)
        session.flush()
        _audit(session, token, "token.create", actor, now, {"role": token.role, "expires_at": expires_at})
    return clear


def _checked_role(role: Role | str) -> tuple[Role, dict[str, str]]:
    try:
        found: Role = fields.choice(Role)(role)
    except FieldError as error:
        return Role.VIEWER, {"role": error.message}
    return found, {}


def revoke(name: str, actor: str, now: datetime) -> bool:
    """End the token of this name at once. False when it had been revoked before; NotFound when there is none."""
    with transaction() as session:
        token = session.scalar(select(ApiToken).where(ApiToken.name == name.strip().lower()))
        if token is None:
            given = fields.shown(name)
            raise NotFound(N_("there is no token %(name)s: `flask token list` shows them", name=given))
        return _revoke(session, token, actor, now)


def revoke_by_id(token_id: int, actor: str, now: datetime) -> bool:
    """As `revoke`, of the token with this id."""
    with transaction() as session:
        token = session.get(ApiToken, token_id)
        if token is None:
            raise NotFound(N_("there is no such token"))
        return _revoke(session, token, actor, now)


def _revoke(session: Session, token: ApiToken, actor: str, now: datetime) -> bool:
    if token.revoked_at is not None:
        return False
    token.revoked_at = now
    _audit(session, token, "token.revoke", actor, now, {})
    return True


def authenticate(text: str, now: datetime) -> Identity | None:
    """Whom `text` speaks for; None for a token that is unknown, expired or revoked.

    Whatever is sent is hashed and looked up by its digest, so that the time taken says nothing about what is stored.
    """
    digest = _digest(text)
    query = select(ApiToken).where(ApiToken.digest == digest).execution_options(populate_existing=True)
    token = db.session.scalar(query)
    known = token.digest if token else _digest("")
    if not hmac.compare_digest(known, digest) or token is None or not valid(token, now):
        return None
    found = Identity(token.id, token.name, token.role)
    _note_use(token, now)
    return found


def valid(token: ApiToken, now: datetime) -> bool:
    """True until it is revoked or expires."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def _note_use(token: ApiToken, now: datetime) -> None:
    """At most one write a minute; a database that takes none now shall not cost the answer."""
    edge = now - USE_NOTED_EVERY
    if token.last_used_at is not None and token.last_used_at > edge:
        return
    ident, stale = token.id, or_(ApiToken.last_used_at.is_(None), ApiToken.last_used_at <= edge)
    try:
        with transaction() as session:
            session.execute(update(ApiToken).where(ApiToken.id == ident, stale).values(last_used_at=now))
    except OperationalError as error:
        log.warning("event=token_use_not_noted token=%s error=%s", ident, type(error.orig).__name__)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _audit(
    session: Session, token: ApiToken, action: str, actor: str, now: datetime, changes: dict[str, object]
) -> None:
    subject = audit.Subject("token", token.name, token.id)
    audit.record(session, actor=actor, action=action, subject=subject, changes=changes, now=now)
