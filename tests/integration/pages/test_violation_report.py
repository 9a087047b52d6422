"""The report of violations for a period, the list with the gravest first, and paper."""

from collections.abc import Iterator
from datetime import UTC, timedelta

import pytest
from flask import Flask
from sqlalchemy import delete

from portal import clock
from portal.domain.statuses import Severity
from portal.tables import QuotaViolation
from testing.cast import LIMA
from testing.pages import Visitor, element, soup, text_of, texts, title_of
from testing.web import english, statements, written

GRAVITY = (Severity.LOW, Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM)


def day(back: int) -> str:
    return f"{clock.now().astimezone(LIMA) - timedelta(days=back):%Y-%m-%d}"


@pytest.fixture
def broken(seeded: Flask) -> Iterator[Flask]:
    """120 violations: OLT 1 and 2 in turn, four severities in turn, one an hour; the youngest a full day ago."""
    noon = clock.now().astimezone(LIMA).replace(hour=12, minute=0, second=0, microsecond=0).astimezone(UTC)
    with written(seeded) as session:
        session.execute(delete(QuotaViolation))
        for number in range(120):
            hour = noon - timedelta(days=1, hours=119 - number)
            report = {"required": 12, "completed": 5, "lost": {"timeout": 4, "olt_busy": 3}}
            session.add(QuotaViolation(
                olt_id=1 + number % 2, task_type="get_rx" if number % 3 else "discovery", period_start=hour,
                period_end=hour + timedelta(hours=1), severity=GRAVITY[number % 4], report=report, created_at=hour,
                acknowledged_at=hour if number < 30 else None, acknowledged_by="rosa" if number < 30 else "",
                note="fibre cut" if number < 30 else "",
            ))  # fmt: skip
    yield seeded


def ids(person: Visitor, path: str) -> list[int]:
    return [int(str(row["id"])[1:]) for row in soup(person.get(path)).select("#violations_live tbody tr")]


def sums(person: Visitor, path: str, name: str) -> list[list[str]]:
    table = element(person.get(path), f"table[aria-label='{name}']")
    return [texts(row, "td") for row in table.select("tbody tr")]


# --------------------------------------------------------------------------------------------------------------- report


def test_it_is_about_the_last_seven_days_where_nothing_is_said(broken: Flask) -> None:
    page = english(broken, "viewer").get("/violations/report")
    assert title_of(page) == "120 violations in 7 days"
    fields = {str(tag["name"]): str(tag.get("value")) for tag in soup(page).select("form input[type=date]")}
    assert fields == {"from": day(6), "to": day(0)}
    assert "America/Lima" in text_of(page)


def test_it_sums_by_severity_by_olt_by_task_and_by_cause(broken: Flask) -> None:
    person = english(broken)
    path = "/violations/report"
    assert sums(person, path, "By severity") == [["Critical", "30"], ["High", "30"], ["Medium", "30"], ["Low", "30"]]
    assert sums(person, path, "By task") == [["GET rx", "Critical", "80"], ["Discovery", "Critical", "40"]]
    assert [row[1:] for row in sums(person, path, "By OLT")] == [["Critical", "60", "45"], ["High", "60", "45"]] or [
        row[2:] for row in sums(person, path, "By OLT")
    ] == [["60", "45"], ["60", "45"]]
    assert sums(person, path, "Lost to") == [["Timed out", "480"], ["OLT busy", "360"]]


def test_each_violation_is_told_with_its_causes_and_what_was_said_of_it_the_gravest_first(broken: Flask) -> None:
    found = sums(english(broken), "/violations/report", "The violations")
    assert [row[0] for row in found] == ["Critical"] * 30 + ["High"] * 30 + ["Medium"] * 30 + ["Low"] * 30
    assert " ".join(found[0][5].split()) == "4 Timed out 3 OLT busy"
    assert "rosa fibre cut" in {" ".join(row[6].split()) for row in found}


def test_a_period_holds_the_hours_of_its_days_in_the_portals_zone(broken: Flask) -> None:
    person = english(broken)
    assert title_of(person.get(f"/violations/report?from={day(1)}&to={day(1)}")) == "13 violations in 1 day"
    assert title_of(person.get(f"/violations/report?from={day(2)}&to={day(2)}")) == "24 violations in 1 day"
    assert title_of(person.get(f"/violations/report?from={day(0)}&to={day(0)}")) == "No violation in 1 day"


def test_of_one_olt_only_its_violations_are_told(broken: Flask) -> None:
    person = english(broken)
    assert title_of(person.get("/violations/report?olt=1")) == "60 violations in 7 days"
    assert soup(person.get("/violations/report?olt=1")).select("table[aria-label='By OLT']") == []


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("from=x&to=y&olt=z", 7),
        ("from=9999-12-31&to=0001-01-01", 7),
        ("from={0}&to={3}", 4),  # the wrong way round
        ("from=2001-01-01", 92),
        ("to={10}", 7),
        ("from=%00&to=&olt=99999999999999", 7),
    ],
)
def test_days_that_mean_nothing_are_left_out_and_long_periods_end_in_the_past(
    broken: Flask, query: str, days: int
) -> None:
    page = english(broken).get(f"/violations/report?{query.format(*map(day, range(11)))}")
    assert title_of(page).endswith(f"in {days} days")


def test_the_file_of_a_report_holds_the_same_violations(broken: Flask) -> None:
    person = english(broken)
    link = element(person.get(f"/violations/report?from={day(2)}&to={day(2)}"), "a[href*='export.csv']")
    assert len(person.get(str(link["href"])).text.splitlines()) == 1 + 24


def test_a_report_costs_the_same_statements_however_many_there_are(broken: Flask) -> None:
    person = english(broken)
    few = statements(broken, person, f"/violations/report?from={day(1)}&to={day(1)}")
    assert few == statements(broken, person, "/violations/report") <= 12


# ---------------------------------------------------------------------------------------------------- the gravest first


def test_the_gravest_come_first_page_by_page_without_a_gap_and_back(broken: Flask) -> None:
    person = english(broken)
    pages, path = [], "/violations/?sort=worst"
    while path:
        page = soup(person.get(path))
        listed = page.select("#violations_live tbody tr")
        pages.append([(row.select("td")[0].get_text(strip=True), int(str(row["id"])[1:])) for row in listed])
        older = page.select_one("a[rel=next]")
        last, path = path, str(older["href"]) if older else ""
    rows = [row for one in pages for row in one]
    order = ["Critical", "High", "Medium", "Low"]
    assert rows == sorted(rows, key=lambda row: (order.index(row[0]), -row[1]))
    assert (len(rows), len(set(rows)), len(pages)) == (120, 120, 3)
    for wanted in reversed(pages[:-1]):
        newer = element(person.get(last), "a[rel=prev]")
        last = str(newer["href"])
        assert ids(person, last) == [ident for _word, ident in wanted]


def test_the_order_keeps_the_filters_and_the_filters_the_order(broken: Flask) -> None:
    person = english(broken)
    assert len(ids(person, "/violations/?sort=worst&severity=HIGH")) == 30
    assert len(ids(person, "/violations/?sort=worst&olt=1&seen=yes")) == 15
    head = element(person.get("/violations/?olt=1"), "th[aria-sort=none] a[href*='sort=worst']")
    assert "olt=1" in str(head["href"])


@pytest.mark.parametrize("cursor", ["x", "WzAsIngiLDEsMl0", "WzAsImEiLC0xLDFd"])
def test_a_cursor_of_somebody_else_leads_to_the_first_page(broken: Flask, cursor: str) -> None:
    person = english(broken)
    assert ids(person, f"/violations/?sort=worst&before={cursor}") == ids(person, "/violations/?sort=worst")


def test_days_narrow_the_list_and_are_chips(broken: Flask) -> None:
    page = soup(english(broken).get(f"/violations/?from={day(2)}&to={day(2)}"))
    assert len(page.select("#violations_live tbody tr")) == 24
    assert [str(chip.get_text(strip=True))[:5] for chip in page.select(".fx-chip")] == ["From ", "Until"]


# ---------------------------------------------------------------------------------------------------------------- paper


@pytest.mark.parametrize("path", ["/violations/", "/violations/report", "/violations/1", "/olts/1"])
def test_what_is_printed_has_a_button_and_says_when_and_in_which_zone(broken: Flask, path: str) -> None:
    page = soup(english(broken).get(path))
    paper = element(page, ".fx-paper [data-printed]")
    assert paper.get_text().endswith("America/Lima")
    assert len(page.select("[data-print].fx-scripted")) == 1
    assert page.select_one("link[href*='css/print.css'][media=print]")
