"""The palette: pages, OLTs and ONUs by whatever is known of them, as a page and as the fragment of its dialog."""

from collections.abc import Iterator

import pytest
from bs4 import Tag
from flask import Flask

from portal import clock
from portal.domain.statuses import Presence
from portal.queries import palette
from testing import builders, seed
from testing.pages import Visitor, soup
from testing.web import english, statements


@pytest.fixture
def built(app: Flask) -> Iterator[Flask]:
    """OLTs "OLT-Lima" and "Norte Lima" and 12 more; ONUs on the first."""
    now = clock.now()
    with app.app_context():
        seed.add_users(now)
        lima = builders.make_olt("OLT-Lima").id
        builders.make_olt("Norte Lima", address="10.9.9.9")
        for number in range(12):
            builders.make_olt(f"Sur {number}", address=f"10.8.0.{number + 1}")
        builders.make_onus(lima, [
            {"slot": 1, "port": 2, "onu_number": number, "online": True, "serial": f"48575443000000{number:02X}",
             "description": f"Pérez {number}", "presence": Presence.ENABLED}
            for number in range(1, 13)
        ], now)  # fmt: skip
    yield app


def hits(person: Visitor, q: str) -> list[Tag]:
    """The links of the fragment, as the dialog asks for it."""
    answer = person.get(f"/palette?q={q}", headers={"HX-Request": "true", "HX-Target": "palette_found"})
    assert "<html" not in answer.text
    return soup(answer).select("[role=option]")


def test_before_anything_is_written_all_pages_are_there_and_nothing_else(built: Flask) -> None:
    links = [str(hit["href"]) for hit in hits(english(built), "")]
    assert "/olts/" in links and "/onus/" in links
    assert not any(link.startswith("/olts/1") for link in links)


def test_an_olt_is_found_by_a_part_of_its_name_or_address_and_those_that_begin_so_come_first(built: Flask) -> None:
    named = [hit.get_text(" ", strip=True) for hit in hits(english(built), "LIMA") if "/olts/" in str(hit["href"])]
    assert [text.partition(" 10.")[0] for text in named] == ["Norte Lima", "OLT-Lima"]
    assert "Norte Lima" in hits(english(built), "10.9.9")[0].get_text()
    assert len([hit for hit in hits(english(built), "sur") if "/olts/" in str(hit["href"])]) == palette.OLTS


@pytest.mark.parametrize("q", ["HWTC-00000005", "48575443 00000005", "0000 0005", "perez 5"])
def test_an_onu_is_found_by_its_serial_in_any_spelling_and_by_its_description(built: Flask, q: str) -> None:
    found = [hit for hit in hits(english(built), q) if "/onus/" in str(hit["href"]) and hit["id"] != "pa-all"]
    assert ["Pérez 5" in hit.get_text() for hit in found] == [True]


def test_more_onus_than_fit_lead_to_their_list(built: Flask) -> None:
    found = hits(english(built), "perez")
    assert len([hit for hit in found if str(hit["id"]).startswith("pa-u")]) == palette.ONUS
    assert found[-1]["href"] == "/onus/?q=perez"


def test_two_letters_search_no_onu_and_nothing_found_says_what_can_be_written(built: Flask) -> None:
    assert not [hit for hit in hits(english(built), "pe") if "/onus/" in str(hit["href"]) and "pa-u" in str(hit["id"])]
    answer = english(built).get("/palette?q=%3Cb%3Ezzz")
    assert "Nothing matches" in answer.text
    assert "<b>zzz" not in answer.text


def test_without_scripts_it_is_a_page_with_a_form(built: Flask) -> None:
    page = soup(english(built).get("/palette?q=lima"))
    assert page.select_one("main form[role=search] input[name=q]")
    assert page.select_one("dialog#palette") is None
    assert [str(hit["href"]) for hit in page.select("main [role=option]")][:1] == ["/olts/2"]


def test_it_costs_the_same_few_statements_whatever_it_finds(built: Flask) -> None:
    person = english(built)
    assert statements(built, person, "/palette?q=perez") <= statements(built, person, "/palette?q=zzzzz") + 2 <= 12
