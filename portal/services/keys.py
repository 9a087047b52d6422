"""Rotation of the keys that encrypt secrets: every encrypted column is written again with the newest key."""

from datetime import datetime

from sqlalchemy import Column, LargeBinary, Table, select, type_coerce, update
from sqlalchemy.orm import Session

from portal.extensions import Base, keyring, transaction
from portal.models.types import EncryptedText
from portal.services import audit


def rotate(actor: str, now: datetime) -> int:
    """Encrypt all secrets with the first of FERNET_KEYS. Returns how many; all or none are written.

    KeyringError when a stored secret fits none of the keys. Afterwards the old keys may be taken out of FERNET_KEYS.
    """
    with transaction() as session:
        count = sum(_rotate(session, table, column) for table, column in encrypted_columns())
        subject = audit.Subject(type="keys", name="FERNET_KEYS")
        audit.record(session, actor=actor, action="keys.rotate", subject=subject, changes={"values": count}, now=now)
    return count


def encrypted_columns() -> list[tuple[Table, Column[str]]]:
    """Every column of the product that holds a Fernet token."""
    tables = Base.metadata.sorted_tables
    return [(table, column) for table in tables for column in table.columns if isinstance(column.type, EncryptedText)]


def _rotate(session: Session, table: Table, column: Column[str]) -> int:
    rows = session.execute(
        select(table.c.id, type_coerce(column, LargeBinary))
        .where(column.is_not(None))
        .order_by(table.c.id)
        .with_for_update()
    ).all()
    for ident, token in rows:
        clear = keyring.decrypt(bytes(token))
        session.execute(update(table).where(table.c.id == ident).values({column.name: clear}))
    return len(rows)
