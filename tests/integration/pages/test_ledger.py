"""The ledger's page, its file, its card on an OLT's page, the API's answer and the command."""

import json
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.ledger import Sums, Verdict
from portal.extensions import db
from portal.queries import ledger as query
from portal.tables import NodeDay, Olt, WorkflowNode
from testing import seed
from testing.api import by_token
from testing.builders import make_chained, make_node, make_olt
from testing.cast import at
from testing.databases import Databases
from testing.ledger import add_day, enter_hours
from testing.pages import csv_of, element, missing, soup, text_of, texts, title_of
from testing.web import english, statements, stored, update_rows, written

UP_TO = at("14:00")
TODAY = UP_TO.replace(hour=0)
MINUTE = 60_000


def three_days(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        lima = make_node(make_olt("OLT-LIMA"))
        texts = make_chained(lima, name="Descriptions")
        cusco = make_node(make_olt("OLT-CUSCO"))
        ids = [(node.id, node.workflow.olt_id) for node in (lima, texts, cusco)]
        db.session.rollback()
    with written(app) as session:
        enter_hours(session, UP_TO)
        add_day(session, *ids[0], TODAY, runs=100, duration_ms=62 * MINUTE, values_read=6400, values_changed=640)
        add_day(session, *ids[1], TODAY, runs=100, duration_ms=38 * MINUTE, values_read=20_000, values_changed=20)
        add_day(session, *ids[1], TODAY - timedelta(days=2), runs=50, duration_ms=22 * MINUTE, values_read=10_000)
        add_day(session, *ids[2], TODAY, runs=10, failures=9, duration_ms=MINUTE)


@pytest.fixture
def kept(app: Flask, databases: Databases) -> Flask:
    """OLT-LIMA: discovery and descriptions, which cost 38 % and change 0.1 %. OLT-CUSCO: a discovery that fails."""
    return databases.prepare(app, three_days)


def rows(app: Flask, path: str = "/ledger/") -> list[list[str]]:
    return [texts(row, "td") for row in soup(english(app, "viewer").get(path)).select(".lg-table tbody tr")]


# ----------------------------------------------------------------------------------------------------------------- rule


def sums(**values: int) -> Sums:
    given = {"runs": 100, "failures": 0, "duration_ms": 20 * MINUTE, "olt_ms": 50 * MINUTE, "values_read": 1000,
             "values_changed": 1, "hours": 24}  # fmt: skip
    return Sums(**given | values)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, Verdict.COSTLY),
        ({"values_changed": 10}, None),  # one percent is something
        ({"olt_ms": 101 * MINUTE}, None),  # less than a fifth of the OLT's time
        ({"duration_ms": 9 * MINUTE, "olt_ms": 9 * MINUTE}, None),  # nine minutes a day are not much
        ({"duration_ms": 9 * MINUTE, "olt_ms": 9 * MINUTE, "hours": 12}, Verdict.COSTLY),  # … but eighteen are
        ({"hours": 0}, None),
        ({"values_read": 99, "values_changed": 0}, None),
        ({"failures": 50}, Verdict.COSTLY),
        ({"failures": 51}, Verdict.FAILING),
        ({"failures": 3, "runs": 3}, Verdict.COSTLY),  # too few runs to say that it fails
    ],
)
def test_what_is_said_of_a_node(values: dict[str, int], verdict: Verdict | None) -> None:
    assert sums(**values).verdict is verdict


def test_reading_half_as_often_frees_half_of_what_it_costs_in_a_day() -> None:
    assert sums(hours=12).freed_ms == 20 * MINUTE


def test_a_node_that_read_nothing_has_no_share_of_changes() -> None:
    assert sums(values_read=0, values_changed=0).changed_percent is None
    assert sums(duration_ms=0, olt_ms=0).share == 0


# ----------------------------------------------------------------------------------------------------------------- page


def test_the_dearest_node_comes_first_with_its_share_of_its_own_olts_time(kept: Flask) -> None:
    found = rows(kept)
    shares = [("OLT-LIMA", "1 h 2 min", "62 %"), ("OLT-LIMA", "38 min", "38 %"), ("OLT-CUSCO", "1 min", "100 %")]
    assert [(row[1], row[4], row[5]) for row in found] == shares
    assert found[1][8].endswith("0.1 %")
    assert found[1][0].endswith("Costs much, changes little: half as often would free 33 min a day")
    assert found[2][0].endswith("Most of its runs fail: their time is spent for nothing")


def test_it_says_up_to_which_hour_it_reaches(kept: Flask) -> None:
    assert "up to 27 Nov 09:00" in text_of(english(kept, "viewer").get("/ledger/"))  # 14:00 UTC in Lima


def test_the_title_of_one_olt_is_what_costs_it_most(kept: Flask) -> None:
    answer = english(kept, "viewer").get("/ledger/?olt=1")
    assert title_of(answer).endswith("62 % of the time of OLT-LIMA, 10 % changed")
    assert "OLT-CUSCO" not in text_of(element(answer, ".lg-table"))


def test_seven_days_add_up_the_days(kept: Flask) -> None:
    by_time = {row[0].split(" ")[0]: row[2] for row in rows(kept, "/ledger/?days=7")}
    assert by_time["Descriptions"] == "150"


def test_every_column_sorts_both_ways(kept: Flask) -> None:
    with kept.app_context():
        asked = query.period(1)
        assert asked is not None
        for sort in (sign + word for word in query.SORTS for sign in ("", "-")):
            forth = [row.node_id for row in query.all_rows(asked, sort=sort, most=100)]
            pages, cursor = [], ""
            while page := query.page(asked, sort=sort, cursor=cursor, size=1):
                pages += [row.node_id for row in page.rows]
                if not (cursor := page.next):
                    break
            assert (sorted(forth), pages) == ([1, 2, 3], forth), sort


def test_before_the_first_hour_the_page_says_what_will_be_here(built: Flask) -> None:
    assert "No hour has been entered yet" in text_of(english(built, "viewer").get("/ledger/"))


def test_arguments_that_mean_nothing_do_no_harm(kept: Flask) -> None:
    for path in ("?days=x&sort=%00&olt=abc", "?olt=999", "?after=AAAA", "?olt=99999999999999999999"):
        assert english(kept, "viewer").get(f"/ledger/{path}").status_code == 200


def test_the_page_costs_the_same_whatever_it_lists(kept: Flask) -> None:
    before = statements(kept, english(kept, "viewer"), "/ledger/")
    with written(kept) as session:
        node = session.get_one(WorkflowNode, 1)
        alike = {"workflow_id": node.workflow_id, "kind": node.kind, "oid": node.oid, "interval_seconds": 900}
        for number in range(40):
            copy = WorkflowNode(key=f"k{number}", name=f"N{number}", priority=1, **alike)
            session.add(copy)
            session.flush()
            add_day(session, copy.id, 1, TODAY, runs=1, duration_ms=number)
    assert statements(kept, english(kept, "viewer"), "/ledger/") == before


def test_the_olts_page_shows_what_costs_it_most_and_leads_to_its_ledger(kept: Flask) -> None:
    card = element(english(kept, "viewer").get("/olts/1/costs"), "#ledger")
    assert texts(card, "tbody td:nth-of-type(3)") == ["51 %", "49 %"]
    assert card.select("a[href='/ledger/?olt=1&days=7']")


def test_a_deleted_olts_nodes_are_not_listed(kept: Flask) -> None:
    update_rows(kept, Olt, Olt.id == 2, deleted_at=UP_TO)
    assert {row[1] for row in rows(kept)} == {"OLT-LIMA"}


# --------------------------------------------------------------------------------------------- file, API, command


def test_the_file_holds_all_rows_and_no_text_that_a_spreadsheet_would_calculate(kept: Flask) -> None:
    update_rows(kept, WorkflowNode, WorkflowNode.id == 1, name='=HYPERLINK("http://x")')
    head, *found = csv_of(english(kept, "viewer").get("/ledger/export.csv?olt=1"))
    lines = [dict(zip(head, line, strict=True)) for line in found]
    assert [line["Node"] for line in lines] == ['\'=HYPERLINK("http://x")', "Descriptions"]
    cells = [lines[1][head] for head in ("OLT time (ms)", "Share (%)", "Up to", "Verdict")]
    assert cells == ["2280000", "38.0", "2026-11-27T14:00:00+00:00", "Costs much, changes little"]


def test_the_api_gives_the_same_page_by_page(kept: Flask) -> None:
    client = by_token(kept, "viewer")
    first = client.get("/api/v1/ledger/?limit=2").get_json()
    told = [(row["node_id"], row["olt_time_percentage"], row["verdict"]) for row in first["items"]]
    assert told == [(1, 62.0, None), (2, 38.0, "costly")]
    assert first["up_to"] == "2026-11-27T14:00:00.000Z"
    second = client.get(first["next"]).get_json()
    assert ([row["node_id"] for row in second["items"]], second["next"]) == ([3], None)


def test_the_api_names_what_it_does_not_take(kept: Flask) -> None:
    client = by_token(kept, "viewer")
    for wrong in ("cursor=x", "cursor=WzEsMiwzXQ", "days=0", "days=731", "olt=-1", "nonsense=1"):
        assert client.get(f"/api/v1/ledger/?{wrong}").status_code == 400, wrong


def test_the_command_prints_the_same(kept: Flask) -> None:
    runner = kept.test_cli_runner()
    told = runner.invoke(args=["ledger", "--olt", "OLT-LIMA"]).output
    words = ("read half as often: frees 33 min a day", "up to 2026-11-27 14:00 UTC", "OLT-CUSCO")
    assert missing(told, *words) == ["OLT-CUSCO"]
    found = json.loads(runner.invoke(args=["ledger", "--json"]).output)
    assert [node["node_id"] for node in found["nodes"]] == [1, 2, 3]
    assert runner.invoke(args=["ledger", "--olt", "OLT-NOWHERE"]).exit_code == 1


def test_days_of_a_node_go_with_it(kept: Flask) -> None:
    with written(kept) as session:
        session.delete(session.get_one(WorkflowNode, 3))
    assert 3 not in stored(kept, select(NodeDay.node_id))
