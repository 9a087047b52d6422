"""The page of the installation: settings in force, their defaults, versions; never a secret."""

from dataclasses import fields, replace

import pytest

from config import Settings, described
from portal.web.installation import GROUPS
from testing.databases import FERNET_KEY, Databases
from testing.pages import Visitor, missing, soup, text_of

PAGE = "/settings/installation/"
PLANTED = "pl@nted/p:ss"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    redis = f"redis://user:{PLANTED}@10.0.0.9:6379/0?password={PLANTED}"
    return replace(settings, redis_url=redis, pollers=24, auto_pause_after=0, secret_key="planted-secret-key")


def value(person: Visitor, variable: str) -> str:
    row = next(row for row in soup(person.get(PAGE)).select("tbody tr") if variable in row.select_one("td").get_text())
    return text_of(row.select_one(".pe-value"))


def test_every_setting_is_there_in_the_words_of_its_documentation() -> None:
    shown = {name: str(text) for _title, meanings in GROUPS for name, text in meanings.items()}
    assert shown == {item.name.upper(): item.metadata["doc"] for item in fields(Settings) if item.metadata}


def test_what_differs_from_its_default_is_marked_also_where_it_is_nothing(admin: Visitor) -> None:
    assert value(admin, "POLLERS") == "24 Changed"
    assert value(admin, "AUTO_PAUSE_AFTER") == "0 Changed"
    assert value(admin, "LEASE_SECONDS") == "15"
    only = text_of(admin.get(f"{PAGE}?changed=1"))
    assert ("POLLERS" in only, "LEASE_SECONDS" in only) == (True, False)


def test_nothing_secret_is_on_the_page(admin: Visitor) -> None:
    text = admin.get(PAGE).text
    for secret in ("planted-secret-key", FERNET_KEY, PLANTED, "p:ss", "pl@"):
        assert secret not in text
    assert value(admin, "REDIS_URL").startswith("redis://user:***@10.0.0.9:6379/0?password=***")
    assert value(admin, "FERNET_KEYS") == "Set, never shown"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://facho:secret@db/facho", "postgresql+psycopg://facho:***@db/facho"),
        ("postgresql+psycopg://facho:se/cr@et@db/facho", "postgresql+psycopg://facho:***@db/facho"),
        ("postgresql+psycopg://us/er:secret@db/facho", "postgresql+psycopg://us/er:***@db/facho"),
        (
            "postgresql+psycopg://facho@db/facho?sslpassword=secret",
            "postgresql+psycopg://facho@db/facho?sslpassword=***",
        ),
        ("rediss://:secret@db:6379/0", "rediss://:***@db:6379/0"),
        ("sqlite:////srv/facho.db", "sqlite:////srv/facho.db"),
    ],
)
def test_a_password_in_a_url_is_masked_wherever_a_library_would_find_one(
    url: str, shown: str, settings: Settings
) -> None:
    assert described(replace(settings, database_url=url))["DATABASE_URL"].value == shown


def test_a_key_that_was_made_at_the_first_start_is_told_from_one_that_was_given(settings: Settings) -> None:
    kept = settings.instance / "secret_key"
    assert described(settings)["SECRET_KEY"].differs
    kept.mkdir()  # as good as a file that may not be read
    assert described(settings)["SECRET_KEY"].differs
    kept.rmdir()
    kept.write_text(settings.secret_key)
    assert not described(settings)["SECRET_KEY"].differs


def test_versions_and_zone_are_named(admin: Visitor, settings: Settings) -> None:
    assert missing(admin.get(PAGE), "Facho Deluxe 0.1.0", "Python 3.", "RQ", "SQLite 3.", "America/Lima") == []


def test_on_postgresql_its_server_is_named(databases: Databases, settings: Settings) -> None:
    app = databases.app(replace(settings, database_url=databases.url("postgresql")))
    from portal.queries import installation  # noqa: PLC0415

    with app.app_context():
        assert installation.database_version().startswith("PostgreSQL 1")
