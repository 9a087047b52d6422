"""Unit tests use no sockets, so their database is SQLite."""

from pathlib import Path

import pytest

from tests.conftest import Databases


@pytest.fixture
def database_url(databases: Databases, tmp_path: Path) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.sqlite(tmp_path)
