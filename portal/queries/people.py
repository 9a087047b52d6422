"""Users and API tokens for people: lists by name, how many there are, who may have written. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import ColumnElement, Integer, String, and_, case, func, literal, or_, select, union_all

from portal.domain.statuses import Role
from portal.extensions import db
from portal.queries import keyset
from portal.queries.matching import contains
from portal.tables import ApiToken, User

SOON = timedelta(days=7)  # a token that ends within it is told of
MOST_ACTORS = 500


class TokenState(StrEnum):
    """What a token is good for."""

    ACTIVE = "active"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class UserFilter:
    """What the URL asks for; "" and None = everybody."""

    text: str = ""
    role: Role | None = None
    active: bool | None = None


@dataclass(frozen=True)
class UserRow:
    """A user without anything secret. `language`: "" as long as none was chosen."""

    id: int
    username: str
    role: Role
    active: bool
    language: str
    created_at: datetime
    last_login_at: datetime | None


@dataclass(frozen=True)
class Counts:
    """How many users there are. `admins`: of the active ones."""

    active: int
    inactive: int
    admins: int


@dataclass(frozen=True)
class TokenRow:
    """A token without its secret; `prefix` are the characters with which it begins."""

    id: int
    name: str
    role: Role
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    state: TokenState

    @property
    def ended(self) -> bool:
        """Whether it is refused."""
        return self.state in (TokenState.EXPIRED, TokenState.REVOKED)


def users(wanted: UserFilter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[UserRow]:
    """One page of users by name: one SQL statement."""
    query = select(*_USER)
    if wanted.text:
        query = query.where(contains(User.username, wanted.text))
    if wanted.role is not None:
        query = query.where(User.role == wanted.role)
    if wanted.active is not None:
        query = query.where(User.active == wanted.active)
    return keyset.fetch(query, keyset.Order((User.username,)), cursor, size).map(lambda found: UserRow(*found))


def user(user_id: int) -> UserRow | None:
    """One user."""
    found = db.session.execute(select(*_USER).where(User.id == user_id)).one_or_none()
    return UserRow(*found) if found else None


def standing() -> list[tuple[object, ...]]:
    """What of everybody decides who may see what, and in which language. Equal as long as nothing of it changed."""
    found = select(User.id, User.role, User.active, User.language, User.session_epoch).order_by(User.id)
    return [tuple(row) for row in db.session.execute(found)]


def counts() -> Counts:
    """How many users there are."""
    query = select(
        func.count().filter(User.active),
        func.count().filter(User.active.is_(False)),
        func.count().filter(User.active, User.role == Role.ADMIN),
    ).select_from(User)
    return Counts(*db.session.execute(query).one())


def tokens(
    ended: bool | None, now: datetime, cursor: str = "", size: int = keyset.PAGE_SIZE
) -> keyset.Page[TokenRow]:  # fmt: skip
    """One page of tokens by name, those that are valid first; `ended`: only those that are (not) refused."""
    over: ColumnElement[int] = case((_over(now), 1), else_=0).cast(Integer)
    query = select(*_TOKEN)
    if ended is not None:
        query = query.where(over == int(ended))
    order = keyset.Order((over, ApiToken.name), word="tokens")
    return keyset.fetch(query, order, cursor, size).map(lambda found: TokenRow(*(*found, _state(found, now))))


def valid_tokens(now: datetime) -> int:
    """How many tokens are accepted."""
    return db.session.scalar(select(func.count()).select_from(ApiToken).where(~_over(now))) or 0


def writers(prefix: str) -> list[str]:
    """Names under which the audit log keeps what people and tokens do; `prefix` is that of tokens."""
    people = select(User.username.label("name")).order_by(User.username).limit(MOST_ACTORS).subquery()
    scripts = select(ApiToken.name.label("name")).order_by(ApiToken.name).limit(MOST_ACTORS).subquery()
    both = union_all(select(people.c.name), select(literal(prefix, String).concat(scripts.c.name)))
    return list(db.session.scalars(both))


_USER = (
    User.id, User.username, User.role, User.active, User.language, User.created_at, User.last_login_at,
)  # fmt: skip
_TOKEN = (
    ApiToken.id, ApiToken.name, ApiToken.role, ApiToken.prefix, ApiToken.created_at, ApiToken.expires_at,
    ApiToken.last_used_at, ApiToken.revoked_at,
)  # fmt: skip


def _over(now: datetime) -> ColumnElement[bool]:
    return or_(ApiToken.revoked_at.is_not(None), and_(ApiToken.expires_at.is_not(None), ApiToken.expires_at <= now))


def _state(found: tuple[object, ...], now: datetime) -> TokenState:
    expires_at, _used, revoked_at = found[5:8]
    if revoked_at is not None:
        return TokenState.REVOKED
    if not isinstance(expires_at, datetime) or expires_at > now + SOON:
        return TokenState.ACTIVE
    return TokenState.EXPIRING if expires_at > now else TokenState.EXPIRED
