"""Wherever a run is missing, late or broken, a link explains its slot: lists, one execution, the queue, home."""

from collections.abc import Iterator

import pytest
from bs4 import Tag
from flask import Flask
from sqlalchemy import select, update

from portal.domain.statuses import ExecutionStatus, Trigger
from portal.extensions import db
from portal.tables import Execution
from testing.pages import element, text_of
from testing.web import english, written


@pytest.fixture
def failed(seeded: Flask) -> Iterator[int]:
    """The id of the newest execution, which failed."""
    with written(seeded) as session:
        newest = session.scalars(select(Execution).order_by(Execution.id.desc())).first()
        assert newest is not None
        ident = newest.id
    change(seeded, ident, ExecutionStatus.FAILED)
    yield ident


def change(app: Flask, ident: int, status: ExecutionStatus, trigger: Trigger = Trigger.SCHEDULE) -> None:
    with written(app) as session:
        now = session.scalars(select(Execution.scheduled_for).where(Execution.id == ident)).one()
        values = {"status": status, "trigger": trigger, "finished_at": now, "requested_by": ""}
        session.execute(update(Execution).where(Execution.id == ident).values(**values))


def row(app: Flask, path: str, selector: str) -> Tag:
    return element(english(app, "viewer").get(path), selector)


def address(app: Flask, ident: int) -> str:
    with app.app_context():
        one = db.session.get_one(Execution, ident)
        return f"/explain/?node={one.node_id}&at={one.scheduled_for.isoformat()}"


@pytest.mark.parametrize("status", [ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED])
def test_a_run_that_came_to_nothing_is_explained_from_its_line_and_its_page(
    seeded: Flask, failed: int, status: ExecutionStatus
) -> None:
    change(seeded, failed, status)
    for path, selector in (("/executions/", f"#x{failed}"), (f"/executions/{failed}", "#execution_live")):
        link = element(row(seeded, path, selector), "a[data-explain]")
        assert str(link["href"]).replace("%3A", ":").replace("%2B", "+") == address(seeded, failed)
        assert english(seeded, "viewer").get(str(link["href"])).status_code == 200
    assert row(seeded, "/executions/", "dialog#explain")


@pytest.mark.parametrize(
    ("status", "trigger"), [(ExecutionStatus.SUCCESS, Trigger.SCHEDULE), (ExecutionStatus.FAILED, Trigger.MANUAL)]
)
def test_a_success_and_a_run_by_hand_have_no_slot_to_explain(
    seeded: Flask, failed: int, status: ExecutionStatus, trigger: Trigger
) -> None:
    change(seeded, failed, status, trigger)
    assert row(seeded, "/executions/", f"#x{failed}").select("[data-explain]") == []
    assert row(seeded, f"/executions/{failed}", "#execution_live").select("[data-explain]") == []


def test_what_waits_is_explained_from_the_queue(seeded: Flask, failed: int) -> None:
    change(seeded, failed, ExecutionStatus.PENDING)
    link = row(seeded, "/queue/", f"#q{failed} a[data-explain]")
    assert text_of(english(seeded, "viewer").get(str(link["href"]))).count("Pending")


def test_home_explains_its_latest_failures(seeded: Flask, failed: int) -> None:
    with written(seeded) as session:
        wanted = select(Execution.finished_at).where(Execution.id == failed)
        assert session.scalars(wanted).one() is not None
    link = row(seeded, "/", ".fx-list a.fx-list-more[data-explain]")
    assert english(seeded, "viewer").get(str(link["href"])).status_code == 200
