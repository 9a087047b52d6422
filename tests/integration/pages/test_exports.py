"""Files of the lists: what is filtered, in the reader's language, absolute times, no formula, never cut in silence."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType

import pytest
from flask import Flask
from sqlalchemy import select, update

from portal import clock
from portal.domain import quota
from portal.domain.statuses import EventType, ExecutionStatus
from portal.extensions import db
from portal.services import decisions
from portal.tables import Execution, Olt, QuotaTracker, QuotaViolation
from portal.web import executions, export, log, violations
from testing.pages import Visitor, element, soup
from testing.web import english, statements, update_rows, written

LAST_HOUR = f"hour={quota.hour_at(clock.now()) - timedelta(hours=1):%Y-%m-%dT%H:%MZ}"
LISTS = {
    "/executions/": "", "/queue/": "", "/quotas/": LAST_HOUR, "/violations/": "", "/log/": "", "/ledger/": "",
}  # fmt: skip


@pytest.fixture
def kept(seeded: Flask) -> Iterator[Flask]:
    """Two OLTs as after a day, with names that a spreadsheet would calculate, and two decisions."""
    with written(seeded) as session:
        for olt_id in (1, 2):
            session.execute(update(Olt).where(Olt.id == olt_id).values(name=f"=1+{olt_id}"))
        decisions.record(session, EventType.SYSTEM, "started", clock.now())
        decisions.record(session, EventType.WORKER_LOST, "=2+2", clock.now(), olt_id=1, level="ERROR")
    yield seeded


def lines(person: Visitor, path: str) -> list[dict[str, str]]:
    answer = person.get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))


@pytest.mark.parametrize("path", [*LISTS, "/pollers/"])
def test_a_file_has_a_head_in_the_readers_language_and_costs_few_statements(kept: Flask, path: str) -> None:
    person = english(kept, "viewer")
    heads = set(person.get(f"{path}export.csv").text.splitlines()[0].removeprefix("\ufeff").split(","))
    assert heads & {"OLT", "Until"}
    assert statements(kept, person, f"{path}export.csv?{LISTS.get(path, '')}") <= 12


@pytest.mark.parametrize("path", ["/executions/", "/queue/", "/quotas/", "/violations/", "/log/"])
def test_no_cell_is_taken_for_a_formula(kept: Flask, path: str) -> None:
    text = english(kept, "viewer").get(f"{path}export.csv?{LISTS[path]}").text
    assert "'=1+" in text
    assert not [line for line in text.splitlines() if line.startswith("=") or ",=" in line]


@pytest.mark.parametrize("path", LISTS)
def test_the_lists_head_leads_to_the_file_of_what_is_filtered(kept: Flask, path: str) -> None:
    page = soup(english(kept, "viewer").get(f"{path}?olt=1&before=x&follow=1"))
    found = [str(link["href"]) for link in page.select(".fx-actions .dropdown-menu a[href*='export.csv']")]
    assert found == [f"{path}export.csv?olt=1"]


def test_executions_are_those_of_the_filter_newest_first_with_times_in_utc(kept: Flask) -> None:
    found = lines(english(kept), "/executions/export.csv?status=SUCCESS&olt=2")
    with kept.app_context():
        wanted = select(Execution).where(Execution.status == ExecutionStatus.SUCCESS, Execution.olt_id == 2)
        rows = db.session.scalars(wanted.order_by(Execution.id.desc())).all()
        assert [line["Number"] for line in found] == [str(row.id) for row in rows]
        assert found[0]["Scheduled for"] == rows[0].scheduled_for.isoformat(timespec="seconds")
        assert found[0]["Duration (ms)"] == str(rows[0].duration_ms)
    assert {line["Result"] for line in found} == {"Succeeded"}


def test_quotas_are_those_of_the_hour_with_what_they_lost(kept: Flask) -> None:
    with written(kept) as session:
        broken = session.scalars(select(QuotaViolation).order_by(QuotaViolation.id.desc())).first()
        assert broken is not None
        hour, olt = broken.period_start, broken.olt_id
        count = len(session.scalars(select(QuotaTracker.id).where(QuotaTracker.period_start == hour)).all())
    person = english(kept)
    found = lines(person, f"/quotas/export.csv?hour={hour:%Y-%m-%dT%H:%MZ}")
    assert len(found) == count
    assert {line["Hour from"] for line in found} == {hour.isoformat(timespec="seconds")}
    mine = lines(person, f"/quotas/export.csv?hour={hour:%Y-%m-%dT%H:%MZ}&olt={olt}")
    lost = next(line for line in mine if line["Lost to"])
    told = sum(int(part.rpartition(": ")[2]) for part in lost["Lost to"].split("; "))
    assert told == int(lost["Failed"]) + int(lost["Skipped"])


def test_what_waits_is_in_the_file_with_its_cause(kept: Flask) -> None:
    update_rows(kept, Olt, enabled=False)
    found = lines(english(kept), "/queue/export.csv")
    assert found
    assert {line["Why it waits"] for line in found} == {"The OLT is disabled"}


def test_decisions_are_those_of_the_filter_with_their_details(kept: Flask) -> None:
    (row,) = lines(english(kept), "/log/export.csv?level=ERROR&type=WORKER_LOST&olt=1")
    assert (row["Level"], row["Event"], row["Decision"]) == ("Error", "Poller lost", "'=2+2")


def test_the_history_of_the_pollers_is_a_file_too(kept: Flask) -> None:
    person = english(kept)
    found = lines(person, "/pollers/export.csv?span=24h")
    assert found
    assert all(0 <= float(line["Busy (%)"]) <= 100 for line in found)
    assert soup(person.get("/pollers/?span=24h")).select_one("a[href='/pollers/export.csv?span=24h']")


@pytest.mark.parametrize(
    ("module", "path"), [(executions, "/executions/"), (violations, "/violations/"), (log, "/log/")]
)
def test_a_file_that_is_cut_says_so_in_its_last_line_and_the_page_beside_its_link(
    kept: Flask, monkeypatch: pytest.MonkeyPatch, module: ModuleType, path: str
) -> None:
    person = english(kept)
    whole = person.get(f"{path}export.csv").text.splitlines()
    rows = len(whole) - 1
    monkeypatch.setattr(module, "MOST", rows)
    assert person.get(f"{path}export.csv").text.splitlines() == whole
    monkeypatch.setattr(module, "MOST", rows - 1)
    cut = person.get(f"{path}export.csv").text.splitlines()
    assert cut[:-1] == whole[:-1]
    assert cut[-1].startswith(f"Cut after {rows - 1} rows") or cut[-1].startswith(f'"Cut after {rows - 1} rows')
    link = element(person.get(path), ".dropdown-menu a[href*='export.csv']")
    assert f"at most {rows - 1}" in link.get_text()


def test_a_long_file_is_read_bit_by_bit_and_waits_on_the_disk(app: Flask) -> None:
    taken: list[int] = []

    def rows() -> Iterator[list[export.Cell]]:
        for number in range(30_000):
            taken.append(number)
            yield [number, "x" * 100]

    with app.test_request_context():
        answer = export.csv_file("long.csv", ["No.", "Text"], rows(), most=20_000)
        parts = list(answer.iter_encoded())
        answer.close()
    assert len(taken) == 20_001
    assert max(map(len, parts)) <= 1 << 16
    assert b"".join(parts).splitlines()[-1].startswith(b"Cut after 20")
