"""Pages of an OLT's ports, cards and of itself: what is read of them, and a month of it."""

from datetime import timedelta

import pytest
from flask import Flask

from portal import clock
from portal.tables import OltData, OltHistory, PonPort
from testing import routes
from testing.pages import element, missing, soup, text_of, texts
from testing.web import english, written

pytestmark = pytest.mark.integration


@pytest.fixture
def shelf(board: Flask) -> Flask:
    """A month of eight ports, two cards and the processor of OLT-LIMA; two of its ports have names."""
    now = clock.now()
    with written(board) as session:
        routes.parts_of(session, 1, now)
        for number, name in ((0, "nokia FWLT-C  PON"), (1, "GPON 0/1/1")):
            index = str(4194312192 + (number << 8))
            session.add(PonPort(olt_id=1, index_key=index, name=name, frame=0, slot=1, port=number, last_seen=now))
    return board


def test_ports_and_cards_are_listed_with_short_heads_and_each_number_leads_to_its_chart(shelf: Flask) -> None:
    page = english(shelf, "viewer").get("/olts/1/parts")
    assert missing(page, "Cards (2)", "Ports: light, temperature, state (8)", "Processor of the OLT") == []
    assert [texts(table, "th") for table in soup(page).select(".op-parts table")] == [
        ["Card", "Name", "Temperature"], ["Port", "State", "Sent"],
    ]  # fmt: skip
    assert [cell.get_text() for cell in soup(page).select(".op-parts td.c-a")][2:5] == [
        "1/0 · nokia FWLT-C  PON", "GPON 0/1/1", "4194312704"
    ], "a name that many ports share goes with the place, one that nobody knows with the index"  # fmt: skip
    link = element(page, ".op-parts td a.num")
    assert link["href"] == "/olts/1/parts/card_temperature?index=0.1"


@pytest.mark.parametrize(
    ("metric", "index", "unit"),
    [("pon_port_tx_power", "4194312192", "dBm"), ("card_temperature", "0.9", "°C"), ("system_cpu", "0", "%")],
)
def test_a_month_of_a_reading_is_a_chart_with_its_unit_and_its_weeks(
    shelf: Flask, metric: str, index: str, unit: str
) -> None:
    person = english(shelf, "viewer")
    page = soup(person.get(f"/olts/1/parts/{metric}?index={index}"))
    assert len(page.select(".op-plot-line")) == 1
    assert "a gap: no reading" not in text_of(page), "there is none"
    assert all(text.endswith(unit) for text in texts(page, ".op-plot-axis li"))
    counts = {span: len(soup(person.get(f"/olts/1/parts/{metric}?index={index}&span={span}")).select(
        ".op-plot-times text")) for span in ("month", "week", "day")}  # fmt: skip
    assert counts["month"] in (4, 5, 6) and counts["week"] in (6, 7, 8) and counts["day"] in (3, 4, 5)


def test_a_stretch_without_a_reading_is_a_gap_and_said_to_be_one(shelf: Flask) -> None:
    now = clock.now()
    with written(shelf) as session:
        session.add(OltData(olt_id=1, shape="scalar", metric="mine", index_key="0", number=2.5, unit="mW", raw="25",
                            kept=2.5, collected_at=now))  # fmt: skip
        for hours, value in ((400, 1.0), (300, None), (200, 2.5)):
            session.add(OltHistory(olt_id=1, metric="mine", index_key="0", collected_at=now - timedelta(hours=hours),
                                   mean=value, minimum=value, maximum=value, last=value))  # fmt: skip
    page = english(shelf, "viewer").get("/olts/1/parts/mine?index=0")
    assert missing(page, "2.5 mW", "a gap: no reading", "between 1 mW and 2.5 mW") == []
    assert len(soup(page).select(".op-plot-line")) == 2
