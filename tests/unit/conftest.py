"""Unit tests use no sockets, so their database is SQLite."""

import pytest

from tests.support.databases import Databases


@pytest.fixture
def database_url(databases: Databases) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.url("sqlite")
