"""Cancelling one execution from its page, and what the pages say of one that was cancelled."""

from datetime import timedelta

import pytest
from bs4 import Tag
from flask import Flask

from portal import clock
from portal.domain.statuses import ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.tables import AuditLog, Execution
from testing import builders, seed
from testing.builders import make_execution
from testing.pages import Visitor, path_of, soup, text_of
from testing.web import english, update_rows


@pytest.fixture
def waiting(app: Flask) -> Flask:
    """OLT-LIMA with one execution (1) that waits."""
    with app.app_context():
        seed.add_users(clock.now())
        make_execution(builders.make_node(builders.make_olt(), name="ONUs"), clock.now() - timedelta(seconds=5))
    return app


def execution_of(app: Flask) -> Execution:
    with app.app_context():
        found = db.session.query(Execution).one()
        db.session.expunge(found)
        return found


def cancel_form(person: Visitor) -> Tag | None:
    return soup(person.get("/executions/1")).select_one("form[action$='/cancel']")


def judge(app: Flask, person: Visitor, status: ExecutionStatus, *words: str) -> None:
    """Cancelled by the operator: the page says so in these words and offers it no more."""
    one, text = execution_of(app), text_of(person.get("/executions/1"))
    assert (one.status, one.cancelled_by) == (status, "operator")
    assert [said for said in words if said not in text] == []
    assert cancel_form(person) is None


def test_one_that_waits_is_cancelled_after_a_question(waiting: Flask) -> None:
    person = english(waiting)
    assert str(cancel_form(person)["data-confirm"]).startswith("Cancel ONUs on OLT-LIMA? It does not run")
    answer = person.post("/executions/1/cancel")
    assert (answer.status_code, path_of(answer.headers["Location"])) == (303, "/executions/1")
    judge(waiting, person, ExecutionStatus.INTERRUPTED, "The execution is cancelled.", "Cancelled by operator")
    with waiting.app_context():
        assert db.session.query(AuditLog).filter_by(action="execution.cancel").one().actor == "operator"


def test_one_that_runs_is_asked_to_stop_and_says_by_whom(waiting: Flask) -> None:
    update_rows(waiting, Execution, status=ExecutionStatus.RUNNING, started_at=clock.now(), token=5, worker="w")
    person = english(waiting)
    assert "It stops before its next request" in str(cancel_form(person)["data-confirm"])
    person.post("/executions/1/cancel")
    judge(waiting, person, ExecutionStatus.RUNNING, "Its poller was asked to stop.", "Asked to stop by operator")
    assert "Asked to stop by operator" in text_of(person.get("/executions/"))


def test_one_that_has_ended_meanwhile_is_not_rewritten(waiting: Flask) -> None:
    person = english(waiting)
    assert cancel_form(person) is not None
    update_rows(waiting, Execution, status=ExecutionStatus.SUCCESS, finished_at=clock.now())
    person.post("/executions/1/cancel")
    one = execution_of(waiting)
    assert (one.status, one.cancelled_by) == (ExecutionStatus.SUCCESS, "")
    page = person.get("/executions/1")
    assert soup(page).select_one("[data-flash].fx-red") is not None
    assert "It has ended already: there is nothing to cancel" in text_of(page)


def test_the_lists_say_who_cancelled_instead_of_why_it_was_aborted(waiting: Flask) -> None:
    by_ana = {"error_kind": ErrorKind.ABORTED, "cancelled_by": "ana"}
    update_rows(waiting, Execution, status=ExecutionStatus.INTERRUPTED, **by_ana)
    person = english(waiting)
    for path in ("/executions/", "/olts/1/past", "/executions/1"):
        text = text_of(person.get(path))
        assert "Cancelled by ana" in text, path
        assert "was disabled" not in text, path


def test_one_whose_poller_was_stopped_says_that_it_goes_on_elsewhere(waiting: Flask) -> None:
    update_rows(waiting, Execution, error_kind=ErrorKind.SHUTDOWN)
    sentence = "The poller was stopped in the middle of the run; another repeats it while there is time"
    assert sentence in text_of(english(waiting).get("/executions/1"))


def test_a_viewer_is_not_offered_to_cancel_and_may_not(waiting: Flask) -> None:
    person = english(waiting, "viewer")
    assert cancel_form(person) is None
    assert person.post("/executions/1/cancel").status_code == 403
    assert execution_of(waiting).status is ExecutionStatus.PENDING


def test_an_execution_that_does_not_exist_is_not_found(waiting: Flask) -> None:
    person = english(waiting)
    person.get("/executions/1")
    assert person.post("/executions/99/cancel").status_code == 404
