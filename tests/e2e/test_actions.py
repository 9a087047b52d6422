"""What people do to OLTs, executions and pollers in a real browser: ticks that stay, questions that are asked first."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect
from sqlalchemy import select, update

from portal.domain.statuses import ExecutionStatus, OltState
from portal.extensions import db
from portal.tables import Execution, Olt, Poller, PollerStats, Pool
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e


def olt_states(portal: Portal) -> list[tuple[bool, OltState]]:
    with portal.app.app_context():
        return [(olt.enabled, olt.state) for olt in db.session.scalars(select(Olt).order_by(Olt.id))]


def test_ticks_survive_a_refresh_that_changes_the_rows(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/", username="operator", language="en")
    expect(page.locator("#bulk")).to_be_hidden()
    page.check("#pick-2")
    expect(page.locator("#bulk")).to_be_visible()
    expect(page.locator("#bulk .fx-bulk-count")).to_have_text("1 chosen")
    with portal.writing() as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state=OltState.UNREACHABLE))
        session.execute(update(Olt).where(Olt.id == 2).values(address="10.77.0.1"))
    expect(page.locator("#olt-1")).to_contain_text("Unreachable")
    expect(page.locator("#olt-2")).to_contain_text("10.77.0.1")
    expect(page.locator("#pick-2")).to_be_checked()
    expect(page.locator("#pick-1")).not_to_be_checked()
    expect(page.locator("#bulk .fx-bulk-count")).to_have_text("1 chosen")


def test_the_box_above_ticks_all_and_choosing_none_hides_the_bar(visit: Visit) -> None:
    page = visit("/olts/", username="operator", language="en")
    page.check("#pick-all")
    expect(page.locator("#bulk .fx-bulk-count")).to_have_text("2 chosen")
    page.uncheck("#pick-1")
    assert page.evaluate("document.getElementById('pick-all').indeterminate") is True
    page.get_by_role("button", name="Choose none").click()
    expect(page.locator("#bulk")).to_be_hidden()
    assert page.locator("[data-pick]:checked").count() == 0


def test_olts_are_paused_by_keyboard_alone(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/", username="operator", language="en")
    page.locator("#pick-1").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.value") == "pause"
    page.keyboard.press("Enter")
    page.wait_for_url("**/olts/pause?olts=1**")
    page.keyboard.type("new rectifier")  # the reason has the focus
    page.get_by_role("button", name="4 h").click()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", page.input_value("#f-until"))
    page.get_by_role("button", name="Pause OLT-LIMA-01").click()
    page.wait_for_url("**/olts/")
    expect(page.get_by_role("status").filter(has_text="1 OLT is paused.")).to_be_visible()
    assert olt_states(portal)[0] == (True, OltState.PAUSED)


def test_disabling_several_names_how_many_before_it_does(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/?sort=-name", username="operator", language="en")
    page.check("#pick-all")
    page.get_by_role("button", name="Disable…").click()
    expect(page.locator("h1")).to_have_text("Disable 2 OLTs")
    assert [enabled for enabled, _state in olt_states(portal)] == [True, True]
    page.get_by_role("button", name="Disable 2 OLTs").click()
    page.wait_for_url("**/olts/?sort=-name")
    assert [enabled for enabled, _state in olt_states(portal)] == [False, False]


def test_bulk_works_without_javascript(portal: Portal, visit: Visit) -> None:
    with portal.writing() as session:
        session.execute(update(Olt).values(state=OltState.PAUSED, paused_reason="x"))
    page = visit("/olts/", username="operator", language="en", java_script_enabled=False)
    expect(page.locator("#pick-all")).to_be_hidden()
    page.check("#pick-1")
    page.locator("#bulk button[value=resume]").click()
    expect(page.locator("main")).to_contain_text("1 OLT goes on.")
    assert [state for _enabled, state in olt_states(portal)] == [OltState.UNKNOWN, OltState.PAUSED]


def test_a_click_beside_the_box_ticks_it_and_does_not_open_the_olt(visit: Visit) -> None:
    page = visit("/olts/", username="operator")
    page.locator("#olt-1 .fx-pick").click(position={"x": 4, "y": 4})
    expect(page.locator("#pick-1")).to_be_checked()
    expect(page).to_have_url(re.compile("/olts/$"))


@pytest.fixture
def running(portal: Portal) -> int:
    """An execution that a poller is in the middle of."""
    now = datetime.now(UTC)
    with portal.writing() as session:
        one = Execution(node_name="Long walk", olt_id=2, device_key="e2e-cancel", status=ExecutionStatus.RUNNING,
                        priority=40, scheduled_for=now, started_at=now, token=77, worker="w", attempt=1)  # fmt: skip
        session.add(one)
        session.flush()
        return one.id


def status_of(portal: Portal, number: int) -> tuple[ExecutionStatus, str]:
    with portal.app.app_context():
        one = db.session.get_one(Execution, number)
        return one.status, one.cancelled_by


def test_cancelling_asks_first_and_then_shows_who_did(portal: Portal, visit: Visit, running: int) -> None:
    page = visit(f"/executions/{running}", username="operator", language="en")
    page.get_by_role("button", name="Cancel execution").click()
    dialog = page.locator("#confirm")
    expect(dialog).to_contain_text("Cancel Long walk on OLT-CUSCO-02? It stops before its next request")
    dialog.get_by_role("button", name="Go back").click()
    assert status_of(portal, running) == (ExecutionStatus.RUNNING, "")
    page.get_by_role("button", name="Cancel execution").click()
    dialog.get_by_role("button", name="Cancel execution").click()
    expect(page.locator("#execution_live")).to_contain_text("Asked to stop by operator")
    assert status_of(portal, running) == (ExecutionStatus.RUNNING, "operator")
    with portal.writing() as session:  # what its poller then does
        session.execute(
            update(Execution).where(Execution.id == running).values(status="INTERRUPTED", finished_at=datetime.now(UTC))
        )
    expect(page.locator("#execution_live")).to_contain_text("Cancelled by operator")
    expect(page.get_by_role("button", name="Cancel execution")).to_be_hidden()


def test_a_chained_node_runs_alone_only_after_the_answer(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/1/workflow", username="operator", language="en")
    page.click("#run-3")
    expect(page.locator("#confirm")).to_contain_text("Its master and the rest of the chain are not run.")
    page.locator("#confirm").get_by_role("button", name="Run alone").click()
    expect(page.locator("#node-3")).to_contain_text("Pending")
    with portal.writing() as session:
        assert session.query(Execution).filter_by(node_id=3).delete() == 1


def test_a_size_that_is_being_typed_survives_refreshes_and_is_applied(portal: Portal, visit: Visit) -> None:
    page = visit("/pollers/", language="en")
    page.fill("#size-1", "7")
    with portal.writing() as session:
        session.execute(update(Poller).where(Poller.poller_id == 3).values(tasks_completed=987_654))
    expect(page.locator("#p-3")).to_contain_text("987,654")
    expect(page.locator("#size-1")).to_have_value("7")
    page.locator("#pool-1").get_by_role("button", name="Apply").click()
    expect(page.locator("#pool-1")).to_contain_text("becomes 7 pollers")
    with portal.app.app_context():
        assert db.session.scalar(select(Pool.size)) == 7


def test_a_poller_is_restarted_after_a_question(portal: Portal, visit: Visit) -> None:
    page = visit("/pollers/", language="en")
    page.get_by_role("button", name="Restart poller 3").click()
    expect(page.locator("#confirm")).to_contain_text("the other pollers go on")
    page.locator("#confirm").get_by_role("button", name="Restart").click()
    expect(page.locator("#p-3")).to_contain_text("Restart requested")


def test_an_opened_table_of_the_history_stays_open_while_points_arrive(portal: Portal, visit: Visit) -> None:
    page = visit("/pollers/", language="en")
    page.locator("#history-table summary").click()
    expect(page.locator("#history-table table")).to_be_visible()
    with portal.writing() as session:
        later = datetime.now(UTC) + timedelta(seconds=1)
        session.add(PollerStats(timestamp=later, busy_percentage=99.0, queue_size=4321))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('wake'))")
    expect(page.locator("#history-table")).to_contain_text("4,321")
    expect(page.locator("#history-table table")).to_be_visible()
