"""Tests that need the app but say nothing of a database: on SQLite only."""

import pytest

from testing.databases import Databases


@pytest.fixture
def database_url(databases: Databases) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.url("sqlite")
