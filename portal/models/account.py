"""People and what they leave: users, API tokens, audit, settings changed in the portal."""

from datetime import datetime
from typing import Any

from flask_login import UserMixin
from sqlalchemy import JSON, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from portal.domain.statuses import Role
from portal.extensions import Base
from portal.models.types import BigId, UTCDateTime, Word, one_of


class User(UserMixin, Base):
    """A person. `session_epoch` is part of the session cookie: raising it ends all sessions of the user."""

    __tablename__ = "users"
    __table_args__ = (one_of("role", Role, "role"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    username: Mapped[str] = mapped_column(String(80), unique=True)
    password_hash: Mapped[str] = mapped_column(String(255))
    role: Mapped[Role] = mapped_column(Word(Role, 10), default=Role.VIEWER)
    active: Mapped[bool] = mapped_column(default=True)
    language: Mapped[str] = mapped_column(String(5), default="")
    session_epoch: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    last_login_at: Mapped[datetime | None] = mapped_column(UTCDateTime)

    @property
    def is_active(self) -> bool:
        """Flask-Login asks: may this user be logged in?"""
        return self.active

    def get_id(self) -> str:
        """What the session cookie holds: user and epoch."""
        return f"{self.id}:{self.session_epoch}"


class ApiToken(Base):
    """A bearer token: shown once, stored as SHA-256."""

    __tablename__ = "api_tokens"
    __table_args__ = (one_of("role", Role, "role"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    prefix: Mapped[str] = mapped_column(String(12))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[Role] = mapped_column(Word(Role, 10), default=Role.VIEWER)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class AuditLog(Base):
    """One write by a person, a token or a command. Secrets are masked before they come here."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_subject", "subject_type", "subject_id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    happened_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    actor: Mapped[str] = mapped_column(String(80))
    address: Mapped[str] = mapped_column(String(64), default="")
    action: Mapped[str] = mapped_column(String(60))
    subject_type: Mapped[str] = mapped_column(String(40))
    subject_id: Mapped[int | None]
    subject_name: Mapped[str] = mapped_column(String(120), default="")
    changes: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)


FIRST_RUN_DISMISSED = "first_run_dismissed"  # key of the setting that puts the list of first steps away


class Setting(Base):
    """A setting changed in the portal; wins over the environment's default where the code says so."""

    __tablename__ = "settings"

    key: Mapped[str] = mapped_column(String(60), primary_key=True)
    value: Mapped[Any] = mapped_column(JSON)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
