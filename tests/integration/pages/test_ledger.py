"""The ledger's page, its file, its card on an OLT's page, the API's answer and the command."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from flask import Flask

from portal import clock
from portal.domain.ledger import Sums, Verdict
from portal.extensions import db
from portal.queries import ledger as query
from portal.tables import NodeDay, WorkflowNode
from portal.web.export import harmless
from testing import seed
from testing.api import Client, make_token
from testing.builders import make_chained, make_node, make_olt
from testing.cast import at
from testing.ledger import add_day, enter_hours
from testing.pages import element, soup, text_of, title_of
from testing.web import english, statements, written

UP_TO = at("14:00")
TODAY = UP_TO.replace(hour=0)
MINUTE = 60_000


@pytest.fixture
def kept(app: Flask) -> Iterator[Flask]:
    """OLT-LIMA: discovery and descriptions, which cost 38 % and change 0.1 %. OLT-CUSCO: a discovery that fails."""
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
    yield app


def rows(app: Flask, path: str = "/ledger/") -> list[list[str]]:
    page = soup(english(app, "viewer").get(path))
    lines = [row.select("td") for row in page.select(".lg-table tbody tr")]
    return [[text_of(cell) for cell in cells] for cells in lines]


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
    assert [(row[1], row[4], row[5]) for row in found] == [
        ("OLT-LIMA", "1 h 2 min", "62 %"), ("OLT-LIMA", "38 min", "38 %"), ("OLT-CUSCO", "1 min", "100 %"),
    ]  # fmt: skip
    assert found[1][8].endswith("0.1 %")
    assert found[1][0].endswith("Costs much, changes little: half as often would free 33 min a day")
    assert found[2][0].endswith("Most of its runs fail: their time is spent for nothing")


def test_it_says_up_to_which_hour_it_reaches(kept: Flask) -> None:
    assert "up to 27 Nov 09:00" in text_of(english(kept, "viewer").get("/ledger/"))  # 14:00 UTC in Lima


def test_the_title_of_one_olt_is_what_costs_it_most(kept: Flask) -> None:
    answer = english(kept, "viewer").get("/ledger/?olt=1")
    assert title_of(answer).endswith("62 % of the time of OLT-LIMA, 10 % changed")
    assert "OLT-CUSCO" not in soup(answer).select_one(".lg-table").get_text()  # type: ignore[union-attr]


def test_seven_days_add_up_the_days(kept: Flask) -> None:
    by_time = {row[0].split(" ")[0]: row[2] for row in rows(kept, "/ledger/?days=7")}
    assert by_time["Descriptions"] == "150"


@pytest.mark.parametrize("word", query.SORTS)
@pytest.mark.parametrize("sign", ["", "-"])
def test_every_column_sorts_both_ways(kept: Flask, word: str, sign: str) -> None:
    with kept.app_context():
        asked = query.period(1)
        assert asked is not None
        forth = [row.node_id for row in query.all_rows(asked, sort=sign + word, most=100)]
        pages, cursor = [], ""
        while page := query.page(asked, sort=sign + word, cursor=cursor, size=1):
            pages += [row.node_id for row in page.rows]
            if not (cursor := page.next):
                break
    assert sorted(forth) == [1, 2, 3]
    assert pages == forth


def test_before_the_first_hour_the_page_says_what_will_be_here(built: Flask) -> None:
    assert "No hour has been entered yet" in text_of(english(built, "viewer").get("/ledger/"))


def test_arguments_that_mean_nothing_do_no_harm(kept: Flask) -> None:
    for path in ("?days=x&sort=%00&olt=abc", "?olt=999", "?after=AAAA", "?olt=99999999999999999999"):
        assert english(kept, "viewer").get(f"/ledger/{path}").status_code == 200


def test_the_page_costs_the_same_whatever_it_lists(kept: Flask) -> None:
    before = statements(kept, english(kept, "viewer"), "/ledger/")
    with written(kept) as session:
        for number in range(40):
            node = session.get_one(WorkflowNode, 1)
            copy = WorkflowNode(workflow_id=node.workflow_id, key=f"k{number}", name=f"N{number}", kind=node.kind,
                                oid=node.oid, interval_seconds=900, priority=1)  # fmt: skip
            session.add(copy)
            session.flush()
            add_day(session, copy.id, 1, TODAY, runs=1, duration_ms=number)
    assert statements(kept, english(kept, "viewer"), "/ledger/") == before


def test_the_olts_page_shows_what_costs_it_most_and_leads_to_its_ledger(kept: Flask) -> None:
    page = soup(english(kept, "viewer").get("/olts/1/costs"))
    card = element(page, "#ledger")
    assert [row.select("td")[2].get_text() for row in card.select("tbody tr")] == ["51\u202f%", "49\u202f%"]
    assert card.select_one("a[href='/ledger/?olt=1&days=7']") is not None


def test_a_deleted_olts_nodes_are_not_listed(kept: Flask) -> None:
    english(kept).post("/olts/2/delete", reason="gone")
    with written(kept) as session:
        node = session.get_one(WorkflowNode, 3)
        node.workflow.olt.deleted_at = UP_TO
    assert {row[1] for row in rows(kept)} == {"OLT-LIMA"}


# --------------------------------------------------------------------------------------------- file, API, command


def test_the_file_holds_all_rows_and_no_text_that_a_spreadsheet_would_calculate(kept: Flask) -> None:
    with written(kept) as session:
        session.get_one(WorkflowNode, 1).name = '=HYPERLINK("http://x")'
    answer = english(kept, "viewer").get("/ledger/export.csv?olt=1")
    assert answer.mimetype == "text/csv"
    lines = list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))
    assert [line["Node"] for line in lines] == ['\'=HYPERLINK("http://x")', "Descriptions"]
    cells = [lines[1][head] for head in ("OLT time (ms)", "Share (%)", "Up to", "Verdict")]
    assert cells == ["2280000", "38.0", "2026-11-27T14:00:00+00:00", "Costs much, changes little"]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t=1", " =1", "\r=1", "\uff1d1"])
def test_a_dangerous_text_is_made_harmless(text: str) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "OLT-1", "0/1/2:3", "a=b"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


def test_the_api_gives_the_same_page_by_page(kept: Flask) -> None:
    client = Client(kept, make_token(kept, "viewer", "v"))
    first = client.get("/api/v1/ledger/?limit=2").get_json()
    assert [(row["node_id"], row["olt_time_percentage"], row["verdict"]) for row in first["items"]] == [
        (1, 62.0, None), (2, 38.0, "costly"),
    ]  # fmt: skip
    assert first["up_to"] == "2026-11-27T14:00:00.000Z"
    second = client.get(first["next"]).get_json()
    assert ([row["node_id"] for row in second["items"]], second["next"]) == ([3], None)


@pytest.mark.parametrize("path", ["cursor=x", "cursor=WzEsMiwzXQ", "days=0", "days=731", "olt=-1", "nonsense=1"])
def test_the_api_names_what_it_does_not_take(kept: Flask, path: str) -> None:
    assert Client(kept, make_token(kept, "viewer", "v")).get(f"/api/v1/ledger/?{path}").status_code == 400


def test_the_command_prints_the_same(kept: Flask) -> None:
    runner = kept.test_cli_runner()
    told = runner.invoke(args=["ledger", "--olt", "OLT-LIMA"]).output
    assert "read half as often: frees 33 min a day" in told and "OLT-CUSCO" not in told
    assert "up to 2026-11-27 14:00 UTC" in told
    found = json.loads(runner.invoke(args=["ledger", "--json"]).output)
    assert [node["node_id"] for node in found["nodes"]] == [1, 2, 3]
    assert runner.invoke(args=["ledger", "--olt", "OLT-NOWHERE"]).exit_code == 1


def test_days_of_a_node_go_with_it(kept: Flask) -> None:
    with written(kept) as session:
        session.delete(session.get_one(WorkflowNode, 3))
    with kept.app_context():
        assert db.session.query(NodeDay).filter_by(node_id=3).count() == 0
