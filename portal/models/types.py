"""Column types and mixins shared by all tables: aware UTC times, encrypted text, closed sets of words."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self, cast, overload

from sqlalchemy import BigInteger, CheckConstraint, ColumnElement, DateTime, Integer, LargeBinary, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from portal.extensions import keyring

# SQLite counts rowids only for INTEGER PRIMARY KEY; PostgreSQL gets 64 bits.
BigId = BigInteger().with_variant(Integer, "sqlite")


def off_its_index(number: Any) -> ColumnElement[int]:
    """A column of ids in a form for which no index is taken; for min() and max() over some of a table's rows too.

    PostgreSQL takes it for granted that such rows lie anywhere and walks the index of ids from its end until it meets
    one: past half of a million rows for an hour of last week. So it is asked for something that no index holds.
    """
    return cast(ColumnElement[int], number + 0)


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
    """Text that the database only ever sees as a Fernet token: a copy of it tells no secret."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else keyring.encrypt(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else keyring.decrypt(bytes(value))


class SealedText(EncryptedText):
    """The same, but a loaded row holds the token: without the key everything else in it can still be read."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        return value if isinstance(value, bytes) else super().process_bind_param(value, dialect)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else bytes(value)


class Secret:
    """An attribute beside a column of SealedText, as clear text: encrypted when set, decrypted each time it is read."""

    def __init__(self, sealed: str) -> None:
        self.sealed = sealed

    @overload
    def __get__(self, row: None, owner: type) -> Self: ...

    @overload
    def __get__(self, row: object, owner: type) -> str | None: ...

    def __get__(self, row: object | None, owner: type) -> Self | str | None:
        """The clear text or None; KeyringError when none of the keys fits."""
        if row is None:
            return self
        token = getattr(row, self.sealed)
        return None if token is None else keyring.decrypt(token)

    def __set__(self, row: object, value: str | None) -> None:
        setattr(row, self.sealed, None if value is None else keyring.encrypt(value))


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
