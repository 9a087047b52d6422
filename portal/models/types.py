"""Column types and mixins shared by all tables: aware UTC times, encrypted text, closed sets of words."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Integer, LargeBinary, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from portal.extensions import keyring

# SQLite counts rowids only for INTEGER PRIMARY KEY; PostgreSQL gets 64 bits.
BigId = BigInteger().with_variant(Integer, "sqlite")


class UTCDateTime(TypeDecorator[datetime]):
    """Aware UTC in Python. Naive values are refused: they are a bug of the caller."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive datetime where aware UTC is needed")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EncryptedText(TypeDecorator[str]):
    """Text that the database only ever sees as a Fernet token (design §11)."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else keyring.encrypt(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else keyring.decrypt(bytes(value))


class Word(TypeDecorator[StrEnum]):
    """A StrEnum stored as its value in a short string, so that a new word needs no ALTER TYPE."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[StrEnum], length: int = 30) -> None:
        super().__init__(length)
        self.words = words

    def process_bind_param(self, value: StrEnum | str | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.words(value)


def one_of(column: str, words: type[StrEnum], name: str) -> CheckConstraint:
    """CHECK constraint that keeps `column` inside the closed set."""
    listed = ", ".join(f"'{word.value}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=name)
