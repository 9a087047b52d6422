"""Migrations on both databases: up, down, and the same tables as the models."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from flask import Flask
from flask_migrate import downgrade, upgrade
from sqlalchemy import create_engine, inspect, make_url, select, text

from app import create_app
from config import Settings
from portal.domain.statuses import AlertKind, NotificationStatus, OltState, Severity
from portal.extensions import db, transaction
from portal.models.types import EncryptedText
from portal.services import audit
from portal.tables import AuditLog, Brand, Channel, Credential, Notification, Olt
from testing.cast import NOW
from testing.databases import FERNET_KEY, Databases

FOLDER = str(Path(__file__).resolve().parents[2] / "migrations")


def app_on(url: str) -> Flask:
    given = {"redis_url": "unix:///nowhere", "secret_key": "x", "fernet_keys": (FERNET_KEY,), "timezone": "UTC"}
    return create_app(Settings(database_url=url, **given))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> Flask:
    return app_on(f"sqlite:///{tmp_path}/empty.db" if request.param == "sqlite" else databases.blank_postgresql())


def tables() -> set[str]:
    return set(inspect(db.engine).get_table_names()) - {"alembic_version"}


def test_migrations_and_models_agree(empty: Flask) -> None:
    with empty.app_context():
        upgrade(FOLDER)
        with db.engine.connect() as connection:
            # That index is PostgreSQL's only, where it has the extension: see migrations/env.py.
            known = {"include_object": lambda _item, name, *_more: name != "ix_onus_search"}
            context = MigrationContext.configure(connection, opts={"compare_type": True} | known)
            assert compare_metadata(context, db.metadata) == []
        db.engine.dispose()


def test_partial_indexes_survive_the_migration(empty: Flask) -> None:
    with empty.app_context():
        upgrade(FOLDER)
        options = {index["name"]: index["dialect_options"] for index in inspect(db.engine).get_indexes("executions")}
        partial = {name for name, given in options.items() if any(key.endswith("_where") for key in given)}
        assert {"uq_executions_active_node", "uq_executions_running_device"} <= partial
        db.engine.dispose()


def test_downgrade_leaves_nothing_and_upgrade_works_again(empty: Flask) -> None:
    with empty.app_context():
        upgrade(FOLDER)
        made = tables()
        downgrade(FOLDER, revision="base")
        assert tables() == set()
        upgrade(FOLDER)
        assert tables() == made == set(db.metadata.tables)
        db.engine.dispose()


def before_0007() -> None:
    """Two channels, one with its token as host, and an hour with two plans that two writers left ACTIVE."""
    with transaction() as session:
        brand, credential = Brand(key="b", name="B"), Credential(name="c", community="public")
        session.add_all((brand, credential))
        session.flush()
        olt = Olt(name="OLT-1", address="127.0.0.1", brand_id=brand.id, created_at=NOW, credential_id=credential.id)
        wrong = Channel(name="a", kind="matrixs", host="planted", failures=2)
        right = Channel(name="b", kind="jsons", host="alerts.example.net")
        session.add_all((olt, wrong, right))
        session.flush()
        for status, error in ((NotificationStatus.SENT, ""), (NotificationStatus.PENDING, "refused")):
            session.add(Notification(channel_id=wrong.id, alert_kind=AlertKind.SYSTEM, severity=Severity.LOW,
                                     subject="", messages={}, tries=1, created_at=NOW, queued_at=NOW, status=status,
                                     error=error, sent_at=None if error else NOW))  # fmt: skip
        for address in ("matrixs://planted", "jsons://alerts.example.net"):
            audit.record(session, actor="x", action="channel.create", subject=right, now=NOW,
                         changes={"address": ["", address]})  # fmt: skip
        olt_id = olt.id
    downgrade(FOLDER, revision="0006")
    for held in ("ACTIVE", "ACTIVE", "COMPLETED"):
        db.session.execute(text(
            "INSERT INTO execution_plans (olt_id, period_start, period_end, plan_data, status, total_tasks,"
            " completed_tasks, failed_tasks, created_at, updated_at)"
            " VALUES (:olt, :now, :now, '{}', :status, 0, 0, 0, :now, :now)"
        ), {"olt": olt_id, "status": held, "now": NOW})  # fmt: skip
    db.session.commit()


def test_0007_forgets_tokens_that_were_shown_and_leaves_one_active_plan(empty: Flask) -> None:
    with empty.app_context():
        upgrade(FOLDER)
        before_0007()
        upgrade(FOLDER)
        wrong, right = db.session.scalars(select(Channel).order_by(Channel.id))
        assert (wrong.host, right.host) == ("", "alerts.example.net")
        assert (wrong.last_error, right.last_error) == ("refused", "")
        assert (wrong.last_sent_at, right.last_sent_at) == (NOW, None)
        told = [row["address"][1] for row in db.session.scalars(select(AuditLog.changes).order_by(AuditLog.id))]
        assert told == ["matrixs://…", "jsons://alerts.example.net"]
        states = db.session.scalars(text("SELECT status FROM execution_plans ORDER BY id")).all()
        assert states == ["SUPERSEDED", "ACTIVE", "COMPLETED"]
        db.session.remove()
        db.engine.dispose()


def test_no_secret_column_is_readable_in_the_database(app: Flask) -> None:
    with app.app_context():
        secret = [
            (table.name, column.name)
            for table in db.metadata.tables.values()
            for column in table.columns
            if isinstance(column.type, EncryptedText)
        ]
        found = {("credentials", "community"), ("credentials", "auth_password"), ("credentials", "priv_password")}
        assert found <= set(secret)
        for table, column in secret:
            types = {item["name"]: str(item["type"]) for item in inspect(db.engine).get_columns(table)}
            assert types[column] in ("BLOB", "BYTEA")


def test_a_database_whose_user_may_not_make_extensions_is_migrated_without_trigrams(
    databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    owner = databases.blank_postgresql()
    engine = create_engine(owner)
    with engine.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS plain"))
        connection.execute(text("CREATE ROLE plain LOGIN"))
        connection.execute(text("GRANT ALL ON SCHEMA public TO plain"))
    plain = app_on(owner.replace(f"://{make_url(owner).username}@", "://plain@"))
    with plain.app_context():
        upgrade(FOLDER)
        assert "onus" in tables()
        assert "ix_onus_search" not in {index["name"] for index in inspect(db.engine).get_indexes("onus")}
        assert db.session.execute(text("SELECT count(*) FROM onus")).scalar() == 0
        db.session.remove()
        downgrade(FOLDER, revision="base")
        db.engine.dispose()
    with engine.begin() as connection:
        connection.execute(text("DROP OWNED BY plain"))
        connection.execute(text("DROP ROLE plain"))
    engine.dispose()
    assert "event=no_trigrams" in caplog.text


def test_0013_tells_who_hears_of_doubtful_tables_of_other_devices_too_and_counts_what_is_read(empty: Flask) -> None:
    with empty.app_context():
        upgrade(FOLDER)
        with transaction() as session:
            brand, credential = Brand(key="b", name="B"), Credential(name="c", community="public")
            session.add_all((brand, credential))
            session.flush()
            given = {"brand_id": brand.id, "created_at": NOW, "credential_id": credential.id}
            session.add_all((
                Olt(name="OLT-1", address="127.0.0.1", state=OltState.UP, **given),
                Olt(name="OLT-2", address="127.0.0.2", state=OltState.UNREACHABLE, **given),
                Channel(name="a", kind="jsons", alert_kinds=[AlertKind.SUSPECT_TABLE]),
                Channel(name="b", kind="jsons", alert_kinds=[AlertKind.SYSTEM]),
            ))  # fmt: skip
        downgrade(FOLDER, revision="0012")
        upgrade(FOLDER)
        kinds = [set(kinds) for kinds in db.session.scalars(select(Channel.alert_kinds).order_by(Channel.id))]
        assert kinds == [{AlertKind.SUSPECT_TABLE, AlertKind.OTHER_DEVICE}, {AlertKind.SYSTEM}]
        up, dead = db.session.scalars(select(Olt.stale_at).order_by(Olt.id))
        assert up is not None and dead is None
        db.session.remove()
        db.engine.dispose()
