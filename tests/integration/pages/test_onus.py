"""Pages of ONUs over HTTP: search by what a person types, filters, order, paging, and the page of one ONU."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask

from portal import clock
from portal.domain.statuses import ErrorKind, ExecutionStatus, Presence
from portal.queries import onus
from portal.tables import Execution, Olt, Onu, OnuData, OnuEvent
from testing import builders, seed
from testing.databases import Databases
from testing.pages import Visitor, csv_of, element, missing, soup, text_of, texts, title_of
from testing.web import english, statements, update_rows, written

EVIL = '"><img src=x onerror=alert(1)>'


# Ana is well, Beto weak, Carla dark, Diego gone, and of Elsa nothing was read. All on port 1/4 but Elsa.
CAST: list[dict[str, Any]] = [
    {"onu_number": 1, "serial": "5A544547030C0914", "description": "Ana Ñahui", "online": True, "rx": -19.24},
    {"onu_number": 2, "serial": "5A544547030C0A15", "description": "BETO 100%", "online": True, "rx": -26.5},
    {"onu_number": 3, "serial": "48575443AB12CD34", "description": "Carla", "online": False, "rx": None},
    {"onu_number": 4, "serial": "48575443AB12CD35", "description": "Diego", "presence": Presence.DISABLED},
    {"onu_number": 17, "port": 5, "serial": None, "description": "", "online": None},
]


def add(session: Any, olt_id: int, rows: list[dict[str, Any]]) -> None:
    at = clock.now() - timedelta(seconds=40)
    for n, row in enumerate(rows):
        values = {"slot": 1, "port": 4, "frame": 0, "online": True} | row
        power = values.pop("rx", None)
        (onu,) = builders.make_onus(olt_id, [{"index_key": f"k.{n}"} | values], at)
        if "rx" in row:
            raw, reason = ("2147483647", "sentinel 2147483647") if power is None else ("x", "")
            read = {"number": power, "raw": raw, "reason": reason, "collected_at": at}
            session.add(OnuData(onu_id=onu.id, metric="onu_rx_power", **read))


def cast_of_five(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_olt()
        builders.make_zte()
    with written(app) as session:
        add(session, 1, CAST)


@pytest.fixture
def built(app: Flask, databases: Databases) -> Flask:
    """OLT-LIMA with the cast, and OLT-CUSCO with nobody."""
    return databases.prepare(app, cast_of_five)


def ended(app: Flask, status: ExecutionStatus, **fields: Any) -> None:
    """OLT-LIMA's discovery once more, with this end 5 minutes ago."""
    at = clock.now() - timedelta(minutes=5)
    given = {"node_id": 1, "node_name": "discovery", "task_type": "discovery", "olt_id": 1, "device_key": "one",
             "priority": 5, "scheduled_for": at, "finished_at": at, "status": status}  # fmt: skip
    with written(app) as session:
        session.add(Execution(**given | fields))


def test_an_empty_list_says_whether_a_discovery_ran_and_what_became_of_it(board: Flask) -> None:
    person, pages = english(board, "viewer"), ("/onus/", "/olts/1/onus", "/olts/1/sides")
    assert [missing(person.get(page), "No ONUs known yet", "A discovery finds them") for page in pages] == [[], [], []]
    ended(board, ExecutionStatus.FAILED, error_kind=ErrorKind.TIMEOUT, error_message="no answer to 4 requests")
    ended(board, ExecutionStatus.SUCCESS, node_id=2, task_type="get_power", scheduled_for=clock.now())
    for page in pages:
        answer = person.get(page)
        said = ("No ONUs known yet: the last discovery failed", "OLT-LIMA, 5 min ago", "no answer to 4 requests")
        assert missing(answer, *said, "The OLT did not answer") == [], page
        assert soup(answer).select_one('.fx-empty a[href="/executions/1"]') is not None, page
    ended(board, ExecutionStatus.INTERRUPTED, cancelled_by="ana", scheduled_for=clock.now() + timedelta(minutes=1))
    assert missing(person.get("/olts/1/onus"), "the last discovery failed", "Cancelled by ana") == []
    ended(board, ExecutionStatus.SUCCESS, scheduled_for=clock.now() + timedelta(minutes=2))
    assert missing(person.get("/olts/1/onus"), "The last discovery found no ONU", "its table of ONUs was empty") == []
    assert statements(board, person, "/olts/1/onus") <= 9


def found(person: Visitor, path: str) -> list[str]:
    """Names of the listed people, in order; "-" for who has none."""
    cells = soup(person.get(path)).select("tbody td.c-c .nw-clip")
    return [cell.get_text().split()[0].replace("–", "-") for cell in cells]


ALL = ["Ana", "BETO", "Carla", "Diego", "-"]


BY_SERIAL = ("ZTEG030C0914", "zteg030c0914", "5A544547030C0914", "5A:54:45:47:03:0C:09:14", "030C0914")
SEARCHES = {
    ("Ana",): (*BY_SERIAL, "ana", "ñahui"),
    ("Ana", "BETO"): ("ZTEG03",),
    ("Carla", "Diego"): ("AB12CD",),
    ("BETO",): ("beto", "100%", "%"),
    ("Carla",): ("1/4/3", "0/1/4/3", "0/1/4:3"),
    ("Ana", "BETO", "Carla", "Diego"): ("1/4",),
    ("-",): ("0/1/5",),
    (): ("_", "9/9/9", "nobody", "HWTCAB12CD99"),
}


def test_the_search_box_takes_what_a_person_types(built: Flask) -> None:
    person, wanted = english(built, "viewer"), {q: [*who] for who, typed in SEARCHES.items() for q in typed}
    assert {q: found(person, f"/onus/?{urlencode({'q': q})}") for q in wanted} == wanted


FILTERS = {
    "": ALL,
    "state=online": ["Ana", "BETO"],
    "state=offline": ["Carla"],
    "state=unread": ["-"],
    "state=weak": ["BETO"],
    "state=gone": ["Diego"],
    "slot=1&port=5": ["-"],
    "sort=rx": ["BETO", "Ana", "Carla", "Diego", "-"],
    "sort=-rx": ["Ana", "BETO", "-", "Diego", "Carla"],
    "sort=description": ["-", "Ana", "BETO", "Carla", "Diego"],
    "sort=state": ["Carla", "-", "Ana", "BETO", "Diego"],
    "sort=-position": ALL[::-1],
    "state=x&sort=y&slot=z&port=-1&before=!!": ALL,
}


def test_the_url_says_which_onus_are_listed_and_how(built: Flask) -> None:
    person = english(built, "viewer")
    assert {query: found(person, f"/onus/?{query}") for query in FILTERS} == FILTERS
    assert found(person, "/onus/?olt=2") == []
    assert {query: found(person, f"/olts/1/onus?{query}") for query in FILTERS} == FILTERS


def test_the_title_says_how_many_are_dark(built: Flask) -> None:
    person = english(built, "viewer")
    assert title_of(person.get("/onus/")) == "1 ONU is offline"
    assert title_of(person.get("/olts/1/onus?state=online")) == "OLT-LIMA: 1 ONU is offline"
    assert "5 ONUs: Offline 1 · Weak signal 1 · No reading 1 · Online 2 · Gone 1" in text_of(person.get("/onus/"))


def test_an_olt_without_onus_says_how_they_are_found(built: Flask) -> None:
    assert missing(english(built).get("/olts/2/onus"), "A discovery finds them", "Open the workflow") == []


def test_a_row_shows_serial_power_state_and_age(built: Flask) -> None:
    rows = texts(english(built).get("/onus/"), "tbody tr")
    assert missing(rows[0], "OLT-LIMA", "1/4/1", "ZTEG030C0914", "Ana Ñahui", "Online", "−19.2", "s ago") == []
    assert ("Gone" in rows[3], "−" in rows[2]) == (True, False)


def test_what_a_device_says_is_shown_as_text(built: Flask) -> None:
    told = dict.fromkeys(("description", "model", "state_label", "index_key"), EVIL)
    update_rows(built, Onu, Onu.id == 1, serial=None, **told)
    with written(built) as session:
        session.add(OnuData(onu_id=1, metric=EVIL[:60], text=EVIL, raw=EVIL, collected_at=clock.now()))
        session.add(OnuEvent(onu_id=1, kind="replaced", before=EVIL, after=EVIL, happened_at=clock.now()))
    person = english(built)
    for path in ("/onus/", "/onus/1", "/olts/1/onus"):
        page = soup(person.get(path))
        assert (page.select("img[src=x], [onerror]"), EVIL in page.get_text()) == ([], True), path


def more(app: Flask, number: int) -> None:
    at = clock.now()
    with written(app) as session:
        for n in range(number):
            row = {"onu_number": n % 100, "port": 6 + n // 100, "online": n % 7 > 0, "description": f"Z{n:04d}"}
            seen = {"first_seen": at, "last_seen": at - timedelta(seconds=n // 3)}
            session.add(Onu(olt_id=1, index_key=f"m{n}", slot=2, **row, **seen))


def walked(wanted: onus.OnuFilter, **options: Any) -> list[list[int]]:
    """Ids of the ONUs, page after page to the end and then back to the beginning. Needs an app context."""
    pages, cursor = [], ""
    for way in ("next", "previous"):
        while True:
            page = onus.page(wanted, cursor, **options)
            pages.append([row.onu.id for row in page.rows])
            if not getattr(page, way):
                break
            cursor = getattr(page, way)
    return pages


def test_paging_shows_every_onu_once_in_each_order(built: Flask) -> None:
    more(built, 118)
    with built.app_context():
        for sort in onus.SORTS:
            pages = walked(onus.OnuFilter(sort=sort))
            assert [len(page) for page in pages] == [50, 50, 23, 23, 50, 50], sort
            assert (len({ident for page in pages for ident in page}), pages[3:]) == (123, pages[2::-1]), sort


def test_the_next_page_is_one_click_away(built: Flask) -> None:
    more(built, 60)
    person = english(built, "viewer")
    further = element(person.get("/onus/?sort=rx&q=z0"), "a[rel=next]")
    assert len(found(person, str(further["href"]))) == 10


def test_the_list_costs_the_same_for_5_and_for_900_onus(built: Flask) -> None:
    person = english(built)
    few = {path: statements(built, person, path) for path in ("/onus/", "/olts/1/onus", "/olts/1")}
    more(built, 900)
    assert {path: statements(built, person, path) for path in few} == few
    assert few["/onus/"] <= 10


def test_a_very_large_table_is_searched_but_neither_sorted_nor_counted(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onus, "SORT_LIMIT", 3)
    person = english(built)
    page = person.get("/onus/?sort=-rx")
    assert (title_of(page), soup(page).select("th a")) == ("ONUs", [])
    assert found(person, "/onus/?sort=-rx") == ALL
    assert found(person, "/onus/?q=carla") == ["Carla"]


def test_onus_of_a_deleted_olt_are_not_found(built: Flask) -> None:
    update_rows(built, Olt, deleted_at=clock.now())
    person = english(built)
    assert found(person, "/onus/") == []
    assert person.get("/onus/1").status_code == 404


def test_the_list_is_live_and_silent_while_nothing_changes(built: Flask) -> None:
    person = english(built)
    first = person.fragment("/onus/", "onus_live")
    assert person.fragment("/onus/", "onus_live", first.headers["X-Digest"]).status_code == 204
    update_rows(built, Onu, Onu.id == 1, online=False)
    later = person.fragment("/onus/", "onus_live", first.headers["X-Digest"])
    assert (later.status_code, "2 ONUs are offline" in later.text) == (200, True)


# ---------------------------------------------------------------------------------------------------------------- CSV


def lines(person: Visitor, path: str) -> list[list[str]]:
    """Rows of a CSV without its head."""
    return csv_of(person.get(path))[1:]


def test_the_csv_holds_what_the_list_shows(built: Flask) -> None:
    person = english(built, "viewer")
    first = lines(person, "/onus/export.csv")[0]
    assert first[:7] == ["OLT-LIMA", "'1/4/1", "k.0", "ZTEG030C0914", "Ana Ñahui", "", "Online"]
    assert first[8] == "-19.24"
    assert found(person, f"/onus/?{urlencode({'q': first[1]})}") == ["Ana"], "as it is copied from the spreadsheet"
    for query, names in FILTERS.items():
        wanted = [name.replace("-", "") for name in names]
        for path in ("/onus/export.csv?", "/olts/1/onus/export.csv?", "/onus/export.csv?olt=1&"):
            assert [row[4].split()[0] if row[4] else "" for row in lines(person, path + query)] == wanted, path
    assert lines(person, "/olts/2/onus/export.csv") == []
    assert person.get("/olts/9/onus/export.csv").status_code == 404


def test_the_link_to_the_csv_asks_for_what_is_filtered(built: Flask) -> None:
    person = english(built, "viewer")
    paths = ("/onus/?state=weak&sort=-rx", "/olts/1/onus?slot=1&port=4&q=ana", "/onus/?q=nobody")
    links = [soup(person.get(path)).select_one("#page_head a[href*=export]") for path in paths]
    assert [link and link["href"] for link in links] == [
        "/onus/export.csv?state=weak&sort=-rx", "/olts/1/onus/export.csv?q=ana&slot=1&port=4", None,
    ]  # fmt: skip


def test_a_csv_of_too_many_is_cut_and_both_the_link_and_the_file_say_so(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onus, "MOST_EXPORTED", 3)
    person = english(built, "viewer")
    assert "CSV of the first 3 of these ONUs" in text_of(person.get("/onus/"))
    assert "CSV of these ONUs" in text_of(person.get("/onus/?state=weak"))
    rows = lines(person, "/onus/export.csv")
    assert ([row[4] for row in rows[:3]], len(rows)) == (["Ana Ñahui", "BETO 100%", "Carla"], 4)
    assert rows[3][0].startswith("Cut after 3 rows")
    monkeypatch.setattr(onus, "FOUND_LIMIT", 2)  # a search too wide to be shown is still written
    assert len(lines(person, "/onus/export.csv?q=1/4")) == 4


def test_no_text_of_a_device_is_a_formula_in_the_csv(built: Flask) -> None:
    update_rows(built, Onu, Onu.id == 1, description="=cmd|'/c calc'!A0", model="@x")
    assert lines(english(built), "/onus/export.csv")[0][4:6] == ["'=cmd|'/c calc'!A0", "'@x"]


# --------------------------------------------------------------------------------------------------------- large lists


def test_a_large_list_is_put_in_order_olt_by_olt_with_the_same_result(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with built.app_context():
        for n in range(4):
            builders.make_olt(f"OLT-{n}", address=f"10.7.0.{n + 1}")
    with written(built) as session:
        for olt_id in (3, 4, 6):
            add(session, olt_id, [{"onu_number": n, "online": n % 3 > 0, "rx": -20.0 - n} for n in range(40)])
    monkeypatch.setattr(onus, "OLTS_AT_ONCE", 2)
    with built.app_context():
        for sort in ("position", "-position", "rx"):
            for state in ("", "offline", "gone", "weak"):
                wanted = onus.OnuFilter(sort=sort, state=state)
                assert walked(wanted, size=13, large=True) == walked(wanted, size=13, large=False), wanted


def test_counts_of_a_large_list_are_counted_once_for_all_who_look(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onus, "LARGE", 4)
    person = english(built, "viewer")
    monkeypatch.setattr(onus, "_counted", {})
    assert title_of(person.get("/onus/")) == "1 ONU is offline"
    update_rows(built, Onu, Onu.id == 1, online=False)
    assert title_of(person.get("/onus/?state=offline&sort=rx")) == "1 ONU is offline"
    assert found(person, "/onus/?state=offline") == ["Ana", "Carla"]  # the rows are as they are
    assert title_of(person.get("/onus/?slot=1")) == "2 ONUs are offline"  # another scope
    monkeypatch.setattr(onus, "COUNTED_FOR", 0.0)
    assert title_of(person.get("/onus/")) == "2 ONUs are offline"


def test_search_sort_and_paging_work_on_postgresql(postgresql: Flask) -> None:
    cast_of_five(postgresql)
    more(postgresql, 60)
    with postgresql.app_context():
        sizes = {sort: [len(page) for page in walked(onus.OnuFilter(sort=sort))] for sort in onus.SORTS}
    assert sizes == dict.fromkeys(onus.SORTS, [50, 15, 15, 50])
    person = english(postgresql)
    wanted = {"q=ZTEG030C0914": ["Ana"], "q=%C3%91AHUI": ["Ana"], "state=weak&q=1/4": ["BETO"]}
    assert {query: found(person, f"/onus/?{query}") for query in wanted} == wanted
    assert person.get("/onus/1").status_code == 200
