"""Pages of workflows over HTTP: the board, forms of nodes, and the buttons that move, switch, run and delete them."""

from datetime import timedelta

import pytest
from bs4 import Tag
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.statuses import ErrorKind, ExecutionStatus, StepStatus, Trigger
from portal.tables import CoordinatorLog, Execution, Olt, WorkflowNode
from testing import seed
from testing.boards import BOARD, DESCRIPTION, DISCOVERY, RX, SERIAL, more_masters, node_of, order
from testing.builders import make_attempt, make_execution, make_step
from testing.pages import Visitor, element, missing, path_of, soup, text_of, title_of
from testing.web import add_olts, complaints, delete_rows, english, statements, stored, update_rows, values_of, written


def card(person: Visitor, node_id: int) -> Tag:
    return element(person.get(BOARD), f"#node-{node_id}")


def ran(app: Flask, error: ErrorKind | None = None) -> None:
    """The power's composite ended ten seconds ago, well in its second try unless there was this error."""
    at = clock.now() - timedelta(seconds=10)
    fate = {"status": ExecutionStatus.FAILED if error else ExecutionStatus.SUCCESS, "error_kind": error}
    with written(app) as session:
        node = session.get_one(WorkflowNode, RX)
        execution = make_execution(node, at, started_at=at, finished_at=at, duration_ms=1200, attempt=2, **fate)
        node.last_failure_at = at if error else None
        for number in (1, 2):
            read = {"status": StepStatus.FAILED if error or number == 1 else StepStatus.SUCCESS, "error_kind": error}
            make_step(
                make_attempt(execution, number), "description", node_id=DESCRIPTION, rows=64, duration_ms=340, **read
            )


# --------------------------------------------------------------------------------------------------------------- board


def test_the_board_shows_masters_by_priority_with_their_chains_beneath(board: Flask) -> None:
    person = english(board, "viewer")
    assert order(person) == [DISCOVERY, RX, DESCRIPTION, SERIAL]
    page = soup(person.get(BOARD))
    assert [len(lane.select(".nw-chain > li")) for lane in page.select(".nw-lane")] == [0, 2]
    assert (title_of(person.get(BOARD)), page.select("main form[method=post]")) == ("Workflow of OLT-LIMA", [])


def test_an_olt_without_nodes_says_where_to_begin(board: Flask) -> None:
    delete_rows(board, WorkflowNode)
    assert "Start with a discovery" in text_of(english(board).get(BOARD))


def test_a_card_shows_the_last_attempt_of_the_last_run(board: Flask) -> None:
    ran(board)
    assert missing(card(english(board), DESCRIPTION), "Succeeded", "340 ms", "64 rows", "s ago") == []


def test_a_failed_step_says_why_in_words(board: Flask) -> None:
    ran(board, ErrorKind.TIMEOUT)
    person = english(board)
    for node in (DESCRIPTION, RX):
        assert "did not answer in time" in text_of(card(person, node))
    assert "1 fails" in text_of(person.get("/workflows/"))


def test_a_node_that_ends_its_pollers_says_until_when_it_is_held(board: Flask) -> None:
    update_rows(board, WorkflowNode, WorkflowNode.id == RX, poisoned=3, held_until=clock.now() + timedelta(hours=2))
    told = ("Held until", "its last 3 slots ended all the pollers")
    assert missing(card(english(board), RX), *told) == []
    assert missing(card(english(board), DISCOVERY), *told) == list(told)


def test_the_board_is_live_and_silent_while_nothing_changes(board: Flask) -> None:
    again = english(board).watch(BOARD, "board")
    assert again() == 204
    ran(board)
    assert again() == 200


def test_the_board_costs_the_same_however_many_nodes_and_runs_there_are(board: Flask) -> None:
    person = english(board)
    few = statements(board, person, BOARD)
    more_masters(board)
    ran(board)
    assert statements(board, person, BOARD) <= few + 1 <= 14


def test_the_list_of_workflows_costs_the_same_for_2_and_for_300_olts(seeded: Flask) -> None:
    person = english(seeded)
    few = statements(seeded, person, "/workflows/")
    add_olts(seeded, 300)
    assert statements(seeded, person, "/workflows/") == few <= 9


# --------------------------------------------------------------------------------------------------------------- forms

NEW = {"name": "Temperatura", "key": "", "kind": "get", "oid": "huawei.onu_description", "enabled": "1",
       "interval": "10m", "max_retries": "2", "retry_delay": "120", "time_limit": "60"}  # fmt: skip


def test_an_operator_adds_a_master(board: Flask) -> None:
    answer = english(board).post(BOARD + "/nodes/new", **NEW)
    assert (answer.status_code, path_of(answer)) == (303, BOARD)
    node = node_of(board, 5)
    assert (node.key, node.interval_seconds, node.priority, node.time_limit) == ("temperatura", 600, 40, 60)
    assert node.next_run_at


def test_an_operator_chains_a_node(board: Flask) -> None:
    person = english(board)
    path = f"{BOARD}/nodes/new?master={DISCOVERY}"
    page = person.get(path)
    clocks = soup(page).select("#f-interval, #f-cron, #f-max_retries")
    assert (title_of(page), clocks) == ("Add node chained to discovery", [])
    assert person.post(path, **NEW).status_code == 303
    assert (node_of(board, 5).master_id, node_of(board, 5).interval_seconds) == (DISCOVERY, None)


def test_the_master_in_the_url_must_be_of_this_olt(board: Flask) -> None:
    person = english(board)
    for wrong in ("99", "9" * 12, str(DESCRIPTION)):
        assert person.get(f"{BOARD}/nodes/new?master={wrong}").status_code == 404


MISTAKES: list[tuple[dict[str, str], str, str]] = [
    ({"name": ""}, "name", "required"),
    ({"key": "rx"}, "key", "key"),
    ({"oid": "huawei.onu_rx_pwer"}, "oid", "did you mean huawei.onu_rx_power"),
    ({"oid": "zte.onu_state"}, "oid", "not for this OLT"),
    ({"interval": "", "cron": ""}, "interval", "how often"),
    ({"cron": "0 * * * *"}, "cron", "one of the two"),
    ({"interval": "soon"}, "interval", "15m"),
    ({"interval": "10s"}, "override_reason", "30s"),
    ({"oid": "huawei.onu_rx_power", "interval": "1m"}, "override_reason", "5m"),
    ({"priority": "101"}, "priority", "between 1 and 100"),
]


def test_what_is_wrong_stands_beside_its_field(board: Flask) -> None:
    person = english(board)
    for change, field, words in MISTAKES:
        answer = person.post(BOARD + "/nodes/new", **(NEW | change))
        assert (answer.status_code, words in complaints(answer)[field]) == (422, True), change


def test_a_short_interval_with_a_reason_is_saved_shown_and_logged(board: Flask) -> None:
    person = english(board)
    given = NEW | {"oid": "huawei.onu_rx_power", "interval": "1m", "override_reason": "laboratory"}
    assert person.post(BOARD + "/nodes/new", **given).status_code == 303
    assert "Shorter than is safe: laboratory" in card(person, 5).get_text()
    (log,) = stored(board, select(CoordinatorLog).where(CoordinatorLog.event_type == "INTERVAL_OVERRIDDEN"))
    assert "laboratory" in log.message


@pytest.mark.parametrize("node_id", [DISCOVERY, DESCRIPTION])
def test_the_form_of_a_node_saves_what_it_shows_unchanged(board: Flask, node_id: int) -> None:
    before = values_of(board, WorkflowNode, node_id)
    assert english(board).submit(f"/workflow-nodes/{node_id}/edit").status_code == 303
    assert values_of(board, WorkflowNode, node_id) == before


def test_the_catalogue_of_the_brand_is_offered(board: Flask) -> None:
    page = soup(english(board).get(BOARD + "/nodes/new"))
    offered = {str(option["value"]) for option in page.select("#oids option")}
    assert offered >= {"huawei.onu_rx_power", "generic.sysuptime"}
    assert not any(key.startswith("zte.") for key in offered)


# ------------------------------------------------------------------------------------------------------------- buttons


def test_a_chained_node_moves_up_and_down_without_javascript(board: Flask) -> None:
    person = english(board)
    for way, chain in (("up", [SERIAL, DESCRIPTION]), ("down", [DESCRIPTION, SERIAL])):
        assert person.post(f"/workflow-nodes/{SERIAL}/move", direction=way).status_code == 303
        assert order(person) == [DISCOVERY, RX, *chain]


def test_the_ends_of_a_chain_offer_no_move_beyond(board: Flask) -> None:
    moves = card(english(board), DESCRIPTION).select("button[id^=up-], button[id^=down-]")
    assert [move.has_attr("disabled") for move in moves] == [True, False]


def test_a_node_and_a_workflow_are_switched_off_and_on(board: Flask) -> None:
    person = english(board)
    person.post(f"/workflow-nodes/{RX}/enabled", enabled="0")
    assert (node_of(board, RX).enabled, "is-off" in card(person, RX)["class"]) == (False, True)
    person.post(f"/workflow-nodes/{RX}/enabled", enabled="1")
    person.post(BOARD + "/enabled", enabled="0")
    assert node_of(board, RX).enabled
    assert "This workflow is disabled" in text_of(person.get(BOARD))


def test_deleting_a_master_names_what_goes_with_it(board: Flask) -> None:
    person = english(board)
    assert "The 2 nodes chained to it go too" in text_of(person.get(f"/workflow-nodes/{RX}/delete"))
    assert person.post(f"/workflow-nodes/{RX}/delete").status_code == 303
    assert order(person) == [DISCOVERY]


def test_run_now_leads_to_the_execution_and_a_second_click_to_the_same(board: Flask) -> None:
    person = english(board)
    targets = [path_of(person.post(f"/workflow-nodes/{RX}/run")) for _click in range(2)]
    assert (targets, stored(board, select(Execution.id))) == (["/executions/1", "/executions/1"], [1])
    assert "already on its way" in text_of(person.get("/executions/1"))


def test_a_chained_node_runs_alone_after_a_question(board: Flask) -> None:
    person = english(board)
    form = element(card(person, SERIAL), "form[action$='/run']")
    assert str(form["data-confirm"]) == "Run serial alone? Its master and the rest of the chain are not run."
    targets = [path_of(person.post(str(form["action"]))) for _click in range(2)]
    assert targets == ["/executions/1", "/executions/1"]
    assert "Execution 1 is already on its way" in text_of(person.get("/executions/1"))
    (one,) = stored(board, select(Execution))
    assert (one.node_id, one.trigger, one.requested_by) == (SERIAL, Trigger.MANUAL, "operator")
    assert ["Pending" in text_of(card(person, node)) for node in (SERIAL, RX)] == [True, False]
    assert card(person, SERIAL).select("a[href='/executions/1']")


def test_a_master_runs_without_a_question(board: Flask) -> None:
    assert not element(card(english(board), RX), "form[action$='/run']").has_attr("data-confirm")


def test_a_slot_that_waits_is_moved_to_the_front_by_run_now(board: Flask) -> None:
    with written(board) as session:
        due = clock.now() - timedelta(seconds=9)
        make_execution(session.get_one(WorkflowNode, RX), due, not_before=due + timedelta(seconds=90), queued_at=None)
    person = english(board)
    assert path_of(person.post(f"/workflow-nodes/{RX}/run")) == "/executions/1"
    words = ("Schedule · asked for by operator", "Next try")
    assert missing(person.get("/executions/1"), *words) == ["Next try"]


def test_the_step_of_a_chained_node_is_that_of_its_newest_run(board: Flask) -> None:
    ran(board, ErrorKind.TIMEOUT)
    at = clock.now() - timedelta(seconds=2)
    with written(board) as session:
        described = session.get_one(WorkflowNode, DESCRIPTION)
        alone = make_execution(described, at, status=ExecutionStatus.SUCCESS, trigger=Trigger.MANUAL)
        make_step(
            make_attempt(alone, token=9, finished_at=at), "description", node_id=DESCRIPTION, rows=77, duration_ms=5
        )
    assert missing(card(english(board), DESCRIPTION), "77 rows", "did not answer") == ["did not answer"]


def test_run_now_in_a_fragment_shows_the_waiting_execution_where_it_was_pressed(board: Flask) -> None:
    person = english(board)
    for node, target, code, words in ((RX, "board", 202, "/executions/1"), (DISCOVERY, "olt_live", 200, "Pending")):
        part = person.press(f"/workflow-nodes/{node}/run", target)
        found = ["<html" in part.text, f'id="{target}"' in part.text, words in part.text]
        assert (part.status_code, found) == (code, [False, True, True])


def test_run_now_on_a_disabled_olt_is_refused_with_a_reason(board: Flask) -> None:
    person = english(board)
    update_rows(board, Olt, enabled=False)
    assert person.post(f"/workflow-nodes/{RX}/run").status_code == 303
    page = soup(person.get(BOARD))
    assert page.select("[data-flash].fx-red")
    assert (stored(board, select(Execution)), page.select("button[id^=run-]")) == ([], [])


def test_a_viewer_presses_nothing(board: Flask) -> None:
    person = english(board, "viewer")
    for path in (f"/workflow-nodes/{RX}/run", f"/workflow-nodes/{RX}/move", BOARD + "/enabled", BOARD + "/nodes/new"):
        assert person.post(path).status_code == 403


def test_the_board_and_the_list_work_on_postgresql(postgresql: Flask) -> None:
    seed.seed(postgresql, "few")
    person = english(postgresql)
    assert "24 rows" in text_of(person.get(BOARD))
    assert "OLT-LIMA-01" in text_of(person.get("/workflows/?q=lima"))
