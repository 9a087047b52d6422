"""The page of one ONU over HTTP: what it answers on one screen, its power, its port, its events, proof, reading now."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete

from portal import clock, queueing
from portal.domain.catalogue_fields import OID_READERS
from portal.domain.readings import decode
from portal.domain.statuses import ErrorKind, OltState, OnuEventKind, Presence
from portal.extensions import db
from portal.services.cataloguing import catalogue, catalogue_edit
from portal.tables import IndexFormula, Oid, Olt, OltRead, Onu, OnuData, OnuEvent, OnuHistory, PonPort, WorkflowNode
from testing.pages import Visitor, csv_of, element, missing, soup, text_of, texts
from testing.web import english, statements, update_rows, written
from tests.integration.pages.test_trials import ROW, answer, fail, succeed

PORT = 4194312448  # frame 0, slot 1, port 1
EVIL = '"><img src=x onerror=alert(1)>'


def add(app: Flask, numbers: range, prefix: str, **fields: Any) -> None:
    """ONUs of OLT-LIMA with these numbers; a field that is a function is given the number."""
    at = clock.now() - timedelta(seconds=40)
    with written(app) as session:
        for n in numbers:
            own = {name: value(n) if callable(value) else value for name, value in fields.items()}
            given = {"frame": 0, "first_seen": at, "last_seen": at, "presence_since": at} | own
            session.add(Onu(olt_id=1, index_key=f"{prefix}{n}", onu_number=n, **given))


@pytest.fixture
def one(board: Flask) -> Flask:
    """OLT-LIMA with a discovery and a GET of the power, which the ONUs of port 1/1 have: 1 is Ana's."""
    add(board, range(4), f"{PORT}.", slot=1, port=1, online=lambda n: n != 3, serial=lambda n: f"5A544547030C09{n:02X}",
        description=lambda n: f"C-{n}" if n else "Ana Ñahui")  # fmt: skip
    common = {"metric": "onu_rx_power", "collected_at": clock.now() - timedelta(seconds=40)}
    with written(board) as session:
        session.add(OnuData(onu_id=1, number=-19.24, raw="-1924", **common))
        session.add(OnuData(onu_id=1, text="online", raw="1", **common | {"metric": "onu_state"}))
        session.add(OnuData(onu_id=3, number=-26.5, raw="-2650", **common))
        session.add(OnuData(onu_id=4, raw="2147483647", reason="sentinel 2147483647", **common))
    return board


def change(app: Flask, onu_id: int = 1, **values: Any) -> None:
    update_rows(app, Onu, Onu.id == onu_id, **values)


def past(app: Flask, *samples: tuple[float, float | None], metric: str = "onu_rx_power", onu_id: int = 1) -> datetime:
    """History of (hours ago, dBm); returns now."""
    now = clock.now()
    with written(app) as session:
        for hours, dbm in samples:
            session.add(OnuHistory(onu_id=onu_id, metric=metric, collected_at=now - timedelta(hours=hours), mean=dbm,
                                   minimum=dbm, maximum=dbm, last=dbm))  # fmt: skip
    return now


def happened(app: Flask, *events: tuple[float, str, str, str]) -> None:
    now = clock.now()
    with written(app) as session:
        for hours, kind, before, after in events:
            at = now - timedelta(hours=hours)
            session.add(OnuEvent(onu_id=1, kind=OnuEventKind(kind), before=before, after=after, happened_at=at))


def test_the_page_of_an_onu_answers_on_one_screen(one: Flask) -> None:
    words = ("Ana Ñahui", "OLT-LIMA · slot/port/ONU 1/1/0", "ZTEG030C0900", "−19.2 dBm", "2 / 3", "on port 1/1")
    assert missing(english(one, "viewer").get("/onus/1"), *words) == []


def test_states_are_told_in_the_readers_language_and_texts_of_the_device_are_not(one: Flask) -> None:
    now = clock.now()
    with written(one) as session:
        session.add(OnuData(onu_id=1, metric="last_down_cause", text="fibre cut", raw="0", collected_at=now))
        session.add(OnuData(onu_id=1, metric="onu_description", text="power off", raw="power off", collected_at=now))
    person = english(one, "viewer")
    person.post("/language", language="es")
    assert missing(person.get("/onus/1"), "corte de fibra", "power off", "fibre cut") == ["fibre cut"]


def test_a_reading_without_value_shows_what_was_sent_and_why_it_is_none(one: Flask) -> None:
    row = element(english(one).get("/onus/4"), ".fx-table tbody tr")
    assert missing(row, "The device says it has no value", "2147483647") == []


def test_it_is_read_again_when_a_master_runs_that_reads_onus(one: Flask) -> None:
    person, soon = english(one), clock.now() + timedelta(minutes=3, seconds=30)
    update_rows(one, WorkflowNode, WorkflowNode.id == 1, next_run_at=soon + timedelta(hours=1))
    update_rows(one, WorkflowNode, WorkflowNode.id == 2, next_run_at=soon)
    assert "Read again in 3 min" in text_of(person.get("/onus/1"))
    update_rows(one, WorkflowNode, enabled=False)
    assert "No run that would store them is planned" in text_of(person.get("/onus/1"))


def test_light_of_a_row_of_ones_own_in_milliwatts_is_dbm_on_every_page(one: Flask) -> None:
    """Read by the catalogue's row, from the number that the device sends to what pages, filter and chart say."""
    given = {"name": "mine_rx", "metric": "onu_rx_power", "oid": "1.3.6.1.4.1.2011.99.1", "shape": "onu", "kind": "get",
             "type": "number", "scale": "0.0001", "unit": "mW", "dead_band": "0.3", "source": "bench"}  # fmt: skip
    more = {"name": "mine_level", "oid": "1.3.6.1.4.1.2011.99.2", "metric": "", "dead_band": ""}
    with one.app_context():
        brand_id = db.session.get_one(Olt, 1).brand_id
        defaults = {field: "" for field in OID_READERS} | {"offset": "0", "signed_bits": "0", "confidence": "low"}
        ids = [catalogue_edit.add_oid(brand_id, defaults | given | own, "ana", clock.now()) for own in ({}, more)]
        specs = [catalogue.reading_spec(db.session.get_one(Oid, ident), "", "mine_level") for ident in ids]
    assert [(spec.metric, spec.value.unit) for spec in specs] == [("onu_rx_power", "dBm"), ("mine_level", "mW")]
    decoded = [decode(spec.value, "1", 17) for spec in specs]
    with written(one) as session:
        session.execute(delete(OnuData).where(OnuData.onu_id == 1))
        for name, found in zip(("onu_rx_power", "mine_level"), decoded, strict=True):
            session.add(OnuData(onu_id=1, metric=name, number=found.value, raw=found.raw, collected_at=clock.now()))
    person = english(one)
    page = person.get("/onus/1")
    assert missing(page, "−27.7 dBm", "0.0017 mW", "17") == []
    assert "0.0 dBm" not in text_of(page)
    assert "Weak signal (2)" in " ".join(text_of(person.get("/onus/?state=weak")).split())
    names, ana = csv_of(person.get("/onus/export.csv?q=Ana"))
    assert ana[names.index("ONU receives (dBm)")] == "-27.6955"
    shown = person.get(f"/catalogue/oids/{ids[0]}?raw=17")
    assert missing(shown, "0.0001 mW → dBm", "Value −27.6955 dBm", "0.3 dBm") == []


def test_an_onu_without_position_or_neighbours_is_shown_all_the_same(one: Flask) -> None:
    change(one, slot=None, port=None, frame=None, onu_number=None)
    assert "position unknown" in text_of(english(one).get("/onus/1"))
    change(one, slot=9, port=9)
    page = english(one).get("/onus/1")
    assert (missing(page, "alone on its port"), soup(page).select(".on-marks")) == ([], [])


# ----------------------------------------------------------------------------------------------------------- neighbours


def test_each_onu_of_the_port_is_a_mark_that_leads_to_it(one: Flask) -> None:
    marks = soup(english(one, "viewer").get("/onus/1")).select(".on-marks a")
    assert [mark["href"] for mark in marks] == [f"/onus/{number}" for number in range(1, 5)]
    assert [mark["class"] for mark in marks] == [["is-lit"], ["is-lit"], ["is-weak"], ["is-dark"]]
    labels = ["0: Online · ZTEG030C0900 · Ana Ñahui", "1: Online · ZTEG030C0901 · C-1"]
    assert [mark["aria-label"] for mark in marks[:2]] == labels
    assert [mark.get("aria-current") for mark in marks] == ["page", None, None, None]


def test_a_dark_onu_among_dark_neighbours_hints_at_a_cut(one: Flask) -> None:
    person = english(one)
    add(one, range(8), "q", slot=2, port=5, online=lambda n: n > 3)
    assert "3 of 7 neighbours on port 2/5 are dark too: a cut is likely" in text_of(person.get("/onus/5"))
    words = ("4 of 7 neighbours offline: a cut is likely", "are dark too")
    assert missing(person.get("/onus/12"), *words) == ["are dark too"]
    assert "1 of 3 neighbours offline" in text_of(person.get("/onus/1"))


def test_neighbours_whose_state_nobody_read_are_no_cut(one: Flask) -> None:
    add(one, range(8), "q", slot=2, port=5, online=lambda n: None if n else False)
    words = ("0 of 7 neighbours offline", "a cut is likely")
    assert missing(english(one).get("/onus/5"), *words) == ["a cut is likely"]


def test_a_port_with_128_onus_costs_no_more_statements(one: Flask) -> None:
    person = english(one)
    few = statements(one, person, "/onus/1")
    add(one, range(4, 128), f"{PORT}.", slot=1, port=1, online=True)
    assert statements(one, person, "/onus/1") == few <= 12
    assert len(soup(person.get("/onus/1")).select(".on-marks a")) == 128


# --------------------------------------------------------------------------------------------------------------- events


def test_of_an_olt_that_was_not_read_of_late_it_is_said_how_the_onu_was(one: Flask) -> None:
    update_rows(one, Olt, Olt.id == 1, stale_at=clock.now() - timedelta(hours=5))
    page = soup(english(one).get("/onus/1"))
    state = text_of(element(page, ".nw-figures .fx-figure"))
    assert "No reading" in state and "last online" in state and "Online" not in state
    assert "No reading" in text_of(element(soup(english(one).get("/onus/")), "#onu-1"))
    listed = soup(english(one).get("/olts/"))
    assert "– / 4" in text_of(element(listed, "#olt-1"))


def test_an_onu_that_is_gone_can_be_forgotten_and_one_that_is_there_cannot(one: Flask) -> None:
    person, way = english(one), "form[action='/onus/1/forget']"
    assert person.post("/onus/1/forget").status_code == 303
    page = soup(person.get("/onus/1"))
    assert "only one that is gone" in text_of(page) and not page.select(way)
    change(one, presence=Presence.DISABLED)
    assert soup(person.get("/onus/1")).select(way) and not soup(english(one, "viewer").get("/onus/1")).select(way)
    assert person.post("/onus/1/forget").headers["Location"] == "/olts/1/onus?state=gone"
    assert person.get("/onus/1").status_code == 404
    with written(one) as session:
        assert session.query(OnuData).filter(OnuData.onu_id == 1).count() == 0


def test_events_are_sentences_and_say_how_long_it_was_dark(one: Flask) -> None:
    happened(
        one, (9, "state", "online", "offline"), (7, "state", "offline", "online"),
        (6, "presence", "ENABLED", "DISABLED"), (5, "moved", "1/3/2", "1/4/3"),
        (4, "replaced", "48575443AB12CD34", "5A544547030C0901"), (3, "duplicate", "1/1/0", "2/2/2"),
    )  # fmt: skip
    lines = texts(english(one).get("/onus/1"), ".on-events li")
    serial, place = "Its serial stands at two places 1/1/0 and 2/2/2", "HWTCAB12CD34 → ZTEG030C0901"
    came = [f"Another ONU took its place {place}", "Moved 1/3/2 → 1/4/3", "No longer listed", "Came back after 2 h"]
    wanted = [serial, *came, "Went dark"]
    assert [line[: len(text)] for line, text in zip(lines, wanted, strict=True)] == wanted


def test_what_a_device_says_is_shown_as_text(one: Flask) -> None:
    change(one, description=EVIL, model=EVIL, state_label=EVIL)
    change(one, 2, description=EVIL)
    with written(one) as session:
        session.add(OnuData(onu_id=1, metric=EVIL[:60], text=EVIL, raw=EVIL, collected_at=clock.now()))
        session.add(OnuEvent(onu_id=1, kind="replaced", before=EVIL, after=EVIL, happened_at=clock.now()))
        session.add(OnuEvent(onu_id=1, kind="state", before=EVIL, after=EVIL, happened_at=clock.now()))
        session.add(PonPort(olt_id=1, index_key=str(PORT), name=EVIL, last_seen=clock.now()))
    person = english(one)
    for path in ("/onus/1", "/onus/1/proof"):
        page = soup(person.get(path))
        assert (page.select("img[src=x], [onerror]"), EVIL in page.get_text()) == ([], True), path
    assert person.get("/onus/1/power.json").json is not None


# ---------------------------------------------------------------------------------------------------------------- power


def power(person: Visitor, span: str = "week", onu_id: int = 1) -> dict[str, Any]:
    return dict(person.get(f"/onus/{onu_id}/power.json?span={span}").json)


def at_hours(data: dict[str, Any], hours: float, series: int = 0) -> float | None:
    """What the chart says of a moment so many hours ago."""
    wanted = data["to"] - hours * 3600
    points = zip(data["x"], data["series"][series]["y"], strict=True)
    return ([None] + [y for x, y in points if x <= wanted])[-1]


def test_without_scripts_the_span_is_a_picture_chosen_by_links(one: Flask) -> None:
    past(one, (300, -18.0), (100, -19.5), (20, -24.0))
    person = english(one, "viewer")
    for query, begin in (("", "0.0,41.7"), ("?span=day", "0.0,47.9")):
        (line,) = soup(person.get(f"/onus/1{query}")).select("#power_plot polyline")
        assert str(line["points"]).split()[0] == begin
    links = soup(person.get("/onus/1")).select(".on-spans a")
    assert [(link.get_text(), link["href"]) for link in links] == [
        (word, f"/onus/1?span={word.lower()}") for word in ("Day", "Week", "Month")
    ]
    assert [link.get("aria-current") for link in links] == [None, "true", None]
    assert soup(person.get("/onus/1?span=nonsense")).select("#power[data-span=week]")


def test_a_value_holds_until_the_next_and_a_gap_stays_a_gap(one: Flask) -> None:
    past(one, (300, -18.0), (100, -19.5), (50, None), (30, -24.0))
    data = power(english(one, "viewer"))
    assert [one["kind"] for one in data["series"]] == ["rx"]
    held = [at_hours(data, hours) for hours in (167.9, 101, 99, 51, 49, 31, 29, 1)]
    assert held == [-18.0, -18.0, -19.5, -19.5, None, None, -24.0, -24.0]
    assert data["to"] - data["from"] == 7 * 86400
    assert (data["x"][0], power(english(one), "day")["series"][0]["y"][0]) == (data["from"], -24.0)


def test_what_the_olt_receives_is_a_second_line(one: Flask) -> None:
    past(one, (30, -20.0))
    past(one, (40, -22.0), (10, -23.0), metric="onu_olt_rx_power")
    data = power(english(one))
    assert [(one["kind"], one["label"]) for one in data["series"]] == [("rx", "ONU receives"), ("olt", "OLT receives")]
    assert [at_hours(data, 20, n) for n in (0, 1)] == [-20.0, -22.0]
    assert at_hours(data, 35, 0) is None


def test_the_line_ends_where_the_last_reading_was_not_at_this_moment(one: Flask) -> None:
    now = past(one, (30, -20.0))
    update_rows(one, OnuData, OnuData.onu_id == 1, collected_at=now - timedelta(hours=30))
    assert at_hours(power(english(one)), 29) is None
    with written(one) as session:  # read since, without a change
        session.add(OltRead(olt_id=1, metric="onu_rx_power", read_at=now - timedelta(hours=5)))
    update_rows(one, Onu, presence_since=now - timedelta(days=9))
    data = power(english(one))
    assert [at_hours(data, hours) for hours in (29, 6, 4)] == [-20.0, -20.0, None]


def test_a_month_of_readings_is_thinned_and_keeps_the_dip(one: Flask) -> None:
    past(one, *((n / 8, -20.0 - n % 3) for n in range(5000)), (300.05, -39.0))
    data = power(english(one), "month")
    assert (len(data["x"]) <= 1500, -39.0 in data["series"][0]["least"]) == (True, True)


def test_going_dark_and_coming_back_are_marks(one: Flask) -> None:
    past(one, (30, -20.0))
    happened(one, (9, "state", "online", "offline"), (7, "state", "offline", "online"), (200, "state", "x", "offline"),
             (6, "presence", "ENABLED", "DISABLED"), (5, "moved", "1/3/2", "1/4/3"))  # fmt: skip
    marks = [(mark["look"], mark["text"]) for mark in power(english(one))["marks"]]
    assert marks == [("dark", "Went dark"), ("lit", "Came back"), ("dark", "No longer listed")]


def test_the_chart_costs_four_statements_and_nothing_is_404(one: Flask) -> None:
    person = english(one, "viewer")
    past(one, *((n, -20.0) for n in range(200)))
    assert statements(one, person, "/onus/1/power.json?span=month") <= 4
    assert power(person, onu_id=2) == power(person, onu_id=2) | {"x": [], "series": [], "marks": []}
    update_rows(one, Olt, deleted_at=clock.now())
    paths = ("/onus/1/power.json", "/onus/9/power.json", "/onus/1/proof")
    assert {person.get(path).status_code for path in paths} == {404}
    assert one.test_client().get("/onus/1/power.json").status_code in (302, 303, 401)


def test_a_fragment_leaves_the_chart_and_what_was_read_now_alone(one: Flask) -> None:
    past(one, (300, -18.0), (20, -24.0))
    root = soup(english(one).fragment("/onus/1", "onu_live"))
    for part in ("power", "read_answer", "onu_proof"):
        (empty,) = root.select(f"#{part}[data-own]")
        assert empty.find() is None, part


# ---------------------------------------------------------------------------------------------------------------- proof


def test_the_proof_shows_each_step_from_the_oid_to_the_value(one: Flask) -> None:
    update_rows(one, Oid, by_name=True)
    pattern = r"GPON (?P<frame>\d+)/(?P<slot>\d+)/(?P<port>\d+)"
    reader = {"pattern": pattern, "template": "GPON {frame}/{slot}/{port}"}
    place = {"frame": 0, "slot": 1, "port": 1, "last_seen": clock.now()}
    with written(one) as session:
        session.add(PonPort(olt_id=1, index_key=str(PORT), name="GPON 0/1/1", **place))
        brand_id = session.get_one(Olt, 1).brand_id
        session.add(IndexFormula(brand_id=brand_id, name="names", kind="string", definition=reader))
        session.add(OnuData(onu_id=1, metric="old_thing", text="x", raw="x", collected_at=clock.now()))
    person = english(one, "viewer")
    page = person.get("/onus/1/proof")
    steps = (f"1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4 .{PORT}.0", "−1924 × 0.01 = −19.24 dBm", "1 means online", "0/1/1:0")
    assert missing(page, *steps, "GPON 0/1/1", "Agrees", "by Potencia RX", "huawei.onu_rx_power") == []
    assert "no node of the workflow reads it any more" in text_of(page)
    assert statements(one, person, "/onus/1/proof") <= 12


def test_the_proof_says_when_the_catalogue_now_decodes_differently(one: Flask) -> None:
    person = english(one)
    assert "decodes it differently" not in text_of(person.get("/onus/1/proof"))
    update_rows(one, OnuData, OnuData.metric == "onu_rx_power", number=-192.4)
    assert "the catalogue decodes it differently now" in text_of(person.get("/onus/1/proof"))


def test_an_onu_that_lost_its_place_has_no_way_from_its_index(one: Flask) -> None:
    change(one, index_key=None, presence=Presence.DISABLED)
    assert "It has no index now" in text_of(english(one).get("/onus/1/proof"))


# ------------------------------------------------------------------------------------------------------------- read now


def press(person: Visitor) -> str:
    made = person.press("/trials/onus/1", "trial")
    assert made.status_code == 200
    return made.text


@pytest.fixture
def unqueued(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is queued goes nowhere."""
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_words, **_options: None)


@pytest.mark.usefixtures("unqueued")
def test_an_operator_reads_an_onu_now_and_is_told_that_nothing_is_stored(one: Flask) -> None:
    person = english(one)
    page = person.get("/onus/1")
    assert soup(page).select("form[action='/trials/onus/1'] #read-now")
    assert "They are shown here and not stored" in text_of(page)
    assert "ZTEG030C0900 on OLT-LIMA waits for its turn" in press(person)
    power = answer(ROW | {"raw": "-2516", "value": -25.16})["columns"][0]
    lit = ROW | {"raw": "1", "value": "online", "online": True}
    state, gone = {"metric": "onu_state", "unit": "", "shown": [lit]}, {"metric": "onu_distance", "shown": []}
    succeed(one, answer(ROW, columns=[power | state, power, power | gone]))
    told = person.fragment("/trials/1", "trial")
    rows = ["State Online 1", "Received by the ONU −25.2 dBm -2516", "Distance – The device does not have this value"]
    assert texts(told, "tbody tr") == rows
    assert ("not stored" in text_of(told), "hx-get" in str(element(told, "#trial"))) == (True, False)
    assert soup(person.get("/trials/1")).select("a[href='/onus/1']") != []


@pytest.mark.usefixtures("unqueued")
def test_a_silent_or_busy_olt_is_told_in_words(one: Flask) -> None:
    person = english(one)
    press(person)
    for kind, message, words in (
        (ErrorKind.TIMEOUT, "no answer from 10.0.0.1", "The OLT did not answer in time"),
        (ErrorKind.DEVICE, "the OLT is being read right now: try again in a moment", "is being read right now"),
    ):
        fail(one, kind, message)
        assert words in text_of(person.fragment("/trials/1", "trial"))


def test_who_may_not_or_cannot_read_now_is_told_why(one: Flask) -> None:
    viewer, operator = english(one, "viewer"), english(one)
    assert "Operators can read it now" in text_of(viewer.get("/onus/1"))
    assert viewer.post("/trials/onus/1").status_code == 403
    assert operator.post("/trials/onus/99").status_code == 404
    for values, words, offered in (
        ({"state": OltState.PAUSED}, "The OLT is paused: its schedule does not read it, this button does", True),
        ({"state": OltState.UNREACHABLE}, "The OLT did not answer its last runs", True),
        ({"enabled": False}, "The OLT is disabled: it is not asked anything", False),
    ):
        update_rows(one, Olt, **values)
        page = operator.get("/onus/1")
        assert (missing(page, words), bool(soup(page).select("#read-now"))) == ([], offered)
    assert "is disabled: enable it first" in press(operator)
    assert operator.get("/trials/1").status_code == 404, "nothing is asked"


def test_the_whole_page_keeps_to_its_budget(one: Flask) -> None:
    past(one, *((n, -20.0) for n in range(200)))
    assert statements(one, english(one), "/onus/1") <= 12
