"""Fixtures of the walks: the farm, and the product on a database of either kind with the shipped catalogue."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from app import create_app
from portal.extensions import db
from portal.services.cataloguing import catalogue
from testing.databases import KINDS, Databases, settings_for
from tests.walks.farms import served


@pytest.fixture(scope="session")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Name of a recording, or "built:" and the name of a table → UDP port."""
    with served(tmp_path_factory.mktemp("walks")) as found:
        yield found


@pytest.fixture(scope="module", params=KINDS)
def shelf(
    request: pytest.FixtureRequest, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """A session on a database with the shipped catalogue, shared by the tests of a module."""
    folder: Path = tmp_path_factory.mktemp("shelf")
    url = databases.own(request.param, folder)
    app = create_app(settings_for(url, folder))
    with app.app_context():
        catalogue.sync(catalogue.load_shipped(), datetime.now(UTC))
        yield db.session()
        db.session.remove()
        db.engine.dispose()
