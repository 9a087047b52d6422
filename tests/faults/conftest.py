"""Fault tests run the product's own processes against simulated OLTs whose log is the judge."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from testing.databases import FERNET_KEY, Databases
from testing.live import Live, polled

Polled = Callable[..., AbstractContextManager[Live]]


@pytest.fixture
def site(tmp_path: Path, database_url: str, databases: Databases) -> Polled:
    """OLTs to poll with a database of either kind; the test says how many, how slow, and with which settings."""
    return partial(polled, tmp_path, database_url, make_app=databases.app, fernet_keys=FERNET_KEY)
