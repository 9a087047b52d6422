"""Fixtures of the tests that need real processes: the whole stack on one simulated OLT."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.snmp.simulator.farm import Farm, start_farm
from testing.databases import FERNET_KEY, Databases
from testing.live import Live, seen
from testing.stack import Stack, stack
from tests.walks.recordings import path_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start the product's processes are `live`: `make test-fast` leaves them out."""
    for item in items:
        if {"running", "two_olts"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("live")


@pytest.fixture(scope="session")
def two_olts() -> Iterator[Farm]:
    """A Huawei of 64 ONUs and a ZTE of 48, as real agents."""
    with start_farm(["huawei@127.0.0.1:0,onus=64,churn=0", "zte@127.0.0.1:0,onus=48,churn=0"]) as farm:
        yield farm


@pytest.fixture(scope="session")
def recorded() -> Iterator[Farm]:
    """A ZTE C320 and a Huawei MA5603T as they were recorded."""
    with start_farm([f"{path_of(name)}@127.0.0.1:0" for name in ("zxa10_c320", "smartax")]) as farm:
        yield farm


@pytest.fixture
def running(tmp_path: Path, database_url: str, databases: Databases) -> Iterator[Stack]:
    """Redis and a database with the schema; processes are the test's to start."""
    settings = {"pollers": 2, "quarantine_seconds": 0, "lease_seconds": 4, "fernet_keys": FERNET_KEY}
    with stack(tmp_path, database_url, make_app=databases.app, **settings) as made:
        yield made


@pytest.fixture
def live(running: Stack) -> Iterator[Live]:
    """The same database and Redis seen from this process, with an app context pushed."""
    with seen(running) as made:
        yield made
