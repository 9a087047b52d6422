"""Pages of quotas and violations: the answer in the title, filters, hours, one promise, one violation, home, an OLT."""

from datetime import datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import delete, select, update

from portal import clock
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import QuotaStatus
from portal.tables import (
    AuditLog,
    CoordinatorLog,
    Execution,
    Olt,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
    WorkflowNode,
)
from testing import seed_quotas
from testing.builders import make_tracker
from testing.cast import HOUR
from testing.pages import Visitor, element, missing, soup, text_of, texts, title_of
from testing.web import complaints, english, form_values, statements, update_rows, written


@pytest.fixture
def hour(seeded: Flask) -> datetime:
    """The running hour with two trackers, written as if a minute were left; of the hours before nothing.

    OLT 1: get_rx at 10 of 12, forecast 12. OLT 2: get_rx at 2 of 12, three lost, forecast 9.
    """
    start = quota.hour_at(clock.now()) - HOUR  # not judged yet, so that the test's minute does not matter
    with written(seeded) as session:
        session.execute(delete(QuotaTracker))
        session.execute(delete(QuotaLoss))
        session.execute(delete(QuotaViolation))
        make_tracker(1, "get_rx", start, Counts(completed=10, pending=2), forecast=12)
        why = {"cause": "olt_busy", "node": "discovery", "seconds": 40}
        make_tracker(2, "get_rx", start, Counts(completed=2, failed=3, pending=7), forecast=9, forecast_details=why)
        session.add(QuotaLoss(olt_id=2, task_type="get_rx", period_start=start, cause="timeout", failed=3))
    return start


def at(start: datetime) -> str:
    return f"/quotas/?hour={start:%Y-%m-%dT%H:%M}Z"


def olts(person: Visitor, path: str) -> list[str]:
    return texts(person.get(path), "tbody td.c-a > a")


def test_the_title_says_how_many_are_at_risk_and_the_worst_comes_first(seeded: Flask, hour: datetime) -> None:
    person = english(seeded, "viewer")
    page = person.get(at(hour))
    assert title_of(page) == "1 quota at risk"
    assert "1 of 2 OLTs keep all their promises" in text_of(page)
    assert olts(person, at(hour)) == ["OLT-CUSCO-02", "OLT-LIMA-01"]


def test_a_row_says_how_it_stands_how_it_will_end_and_what_was_lost(seeded: Flask, hour: datetime) -> None:
    row = soup(english(seeded, "viewer").get(at(hour))).select("tbody tr")[0]
    assert (
        missing(row, "GET rx", "At risk", "3 Timed out", "Will end at 9 of 12: discovery runs 40 s longer than usual")
        == []
    )
    bar = element(row, "svg[role=img]")
    assert bar["aria-label"] == "2 completed, 3 failed, 0 skipped, 7 pending, of 12"


def test_without_a_forecast_nothing_is_foretold(seeded: Flask, hour: datetime) -> None:
    update_rows(seeded, QuotaTracker, forecast=None, forecast_details=None)
    assert "Will end" not in text_of(english(seeded).get(at(hour)))


def test_a_forecast_whose_details_are_of_another_version_is_told_without_a_cause(seeded: Flask, hour: datetime) -> None:
    update_rows(seeded, QuotaTracker, forecast_details={"why": "?"})
    assert "Will end at 9 of 12" in text_of(english(seeded).get(at(hour)))


FILTERS = {
    "status=at_risk": ["OLT-CUSCO-02"],
    "status=IN_PROGRESS": ["OLT-CUSCO-02", "OLT-LIMA-01"],
    "status=COMPLETED": [],
    "olt=1": ["OLT-LIMA-01"],
    "task=discovery": [],
    "q=lima": ["OLT-LIMA-01"],
    "q=GET+rx": ["OLT-CUSCO-02", "OLT-LIMA-01"],
    "status=x&olt=-1&before=zzz&q=%00": ["OLT-CUSCO-02", "OLT-LIMA-01"],
}


def test_the_url_says_which_quotas_are_listed(seeded: Flask, hour: datetime) -> None:
    person = english(seeded, "viewer")
    assert {query: olts(person, f"{at(hour)}&{query}") for query in FILTERS} == FILTERS


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("olt", ["OLT-CUSCO-02", "OLT-LIMA-01"]),
        ("-olt", ["OLT-LIMA-01", "OLT-CUSCO-02"]),
        ("share", ["OLT-CUSCO-02", "OLT-LIMA-01"]),
        ("-share", ["OLT-LIMA-01", "OLT-CUSCO-02"]),
        ("nonsense", ["OLT-CUSCO-02", "OLT-LIMA-01"]),
    ],
)
def test_an_hour_is_sorted_by_its_heads(seeded: Flask, hour: datetime, sort: str, found: list[str]) -> None:
    person = english(seeded, "viewer")
    assert olts(person, f"{at(hour)}&sort={sort}") == found
    heads = soup(person.get(f"{at(hour)}&sort={sort}")).select("th[aria-sort] a[href*='hour=']")
    assert len(heads) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-13-01T00:00Z",
        "2999-01-01T00:00Z",
        "2026-11-27T10:00",
        "0001-01-01T00:00-23:00",
    ],
)
def test_an_hour_that_means_nothing_is_the_running_one_or_one_without_quotas(seeded: Flask, text: str) -> None:
    assert english(seeded, "viewer").get("/quotas/", query_string={"hour": text}).status_code == 200


def test_the_row_of_hours_leads_a_week_back_and_home_again(seeded: Flask) -> None:
    person, path, steps = english(seeded, "viewer"), "/quotas/", 0
    while path:
        page = soup(person.get(path))
        hours = page.select(".qt-hours li a")
        assert len(hours) == 24
        assert len(page.select(".qt-hours [aria-current]")) == 1
        earlier = page.select_one("a[aria-label='Earlier hours']")
        path, steps = str(earlier["href"]) if earlier else "", steps + 1
    assert steps == 8
    for _ in range(7):
        later = element(page, "a[aria-label='Later hours']")
        page = soup(person.get(str(later["href"])))
    assert page.select_one("a[aria-label='Later hours']") is None
    assert page.select_one(".qt-hours [aria-current]") is not None


def test_an_hour_older_than_quotas_are_kept_is_the_oldest_that_is(seeded: Flask) -> None:
    page = soup(english(seeded, "viewer").get("/quotas/?hour=1999-01-01T00:00Z"))
    (chosen,) = page.select(".qt-hours [aria-current] time")
    kept = clock.now() - datetime.fromisoformat(str(chosen["datetime"]))
    assert timedelta(days=60) <= kept <= timedelta(days=60, hours=1, minutes=1)


def test_the_running_hour_is_live_and_a_judged_one_is_not(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    past = quota.hour_at(clock.now()) - 3 * HOUR
    assert soup(person.get("/quotas/")).select("#quotas_live[hx-trigger]")
    assert not soup(person.get(at(past))).select("#quotas_live[hx-trigger]")
    part = person.fragment("/quotas/", "quotas_live")
    assert person.fragment("/quotas/", "quotas_live", part.headers["X-Digest"]).status_code == 204


def test_the_list_costs_the_same_number_of_statements_whatever_it_shows(seeded: Flask, hour: datetime) -> None:
    person = english(seeded, "viewer")
    few = statements(seeded, person, at(hour))
    with written(seeded) as session:
        first = session.get_one(Olt, 1)
        for n in range(70):
            device = Olt(name=f"OLT-{n:03}", address=f"10.7.0.{n}", brand_id=first.brand_id,
                         credential_id=first.credential_id, created_at=first.created_at)  # fmt: skip
            session.add(device)
            session.flush()
            make_tracker(device.id, "get_rx", hour, Counts(pending=3))
    assert statements(seeded, person, at(hour)) == few <= 15
    assert len(olts(person, at(hour))) == 50


# -------------------------------------------------------------------------------- one quota, one violation


@pytest.fixture
def broken(seeded: Flask) -> tuple[int, int]:
    """(tracker, violation) of the last full hour of OLT 1's discovery: 2 of 4, one timed out, one skipped."""
    with written(seeded) as session:
        for table in (QuotaTracker, QuotaLoss, QuotaViolation, Execution):
            session.execute(delete(table))
        node = session.scalars(select(WorkflowNode).order_by(WorkflowNode.id)).first()
        assert node is not None
        seed_quotas.fill_one(session, node, clock.now())
        session.flush()
        return session.scalars(select(QuotaTracker.id)).one(), session.scalars(select(QuotaViolation.id)).one()


def test_a_quota_shows_from_what_it_was_reckoned_and_each_slot(seeded: Flask, broken: tuple[int, int]) -> None:
    page = english(seeded, "viewer").get(f"/quotas/{broken[0]}")
    assert title_of(page) == "Discovery on OLT-LIMA-01"
    assert (
        missing(
            page, "Not met", "Reckoned from", "15 min", "Not changed since it was made", "1 Timed out", "1 OLT busy"
        )
        == []
    )
    rows = soup(page).select(".qt-slots tbody tr")
    assert [row.select_one(".c-b").get_text(" ").split()[0] for row in rows] == [  # type: ignore[union-attr]
        "Succeeded", "Succeeded", "Failed", "Skipped",
    ]  # fmt: skip
    assert [bool(row.get("data-href")) for row in rows] == [True, True, True, False]
    assert soup(page).select_one(f"a[href='/violations/{broken[1]}']") is not None


def test_a_violation_adds_up_and_leads_to_the_lost_slots(seeded: Flask, broken: tuple[int, int]) -> None:
    page = english(seeded, "viewer").get(f"/violations/{broken[1]}")
    assert title_of(page) == "Discovery on OLT-LIMA-01: 2 of 4"
    told = element(page, ".qt-sum")
    parts = [int(row.select_one("td").get_text()) for row in told.select(".qt-part")]  # type: ignore[union-attr]
    (lost,) = [int(row.select_one("td").get_text()) for row in told.select(".qt-line")]  # type: ignore[union-attr]
    assert sum(parts) == lost == 2
    assert "1 + 1 = 2" in text_of(page)
    assert len(soup(page).select(".qt-slots tbody tr")) == 2
    assert len(soup(page).select(".qt-slots a[data-explain]")) == 2
    assert soup(page).select_one(f"a[href='/quotas/{broken[0]}']") is not None


def test_a_violation_outlives_its_quota(seeded: Flask, broken: tuple[int, int]) -> None:
    with written(seeded) as session:
        session.execute(delete(QuotaTracker))
    page = english(seeded, "viewer").get(f"/violations/{broken[1]}")
    assert page.status_code == 200
    assert "1 + 1 = 2" in text_of(page)


def test_the_list_of_violations_says_what_was_lost_and_who_was_told(seeded: Flask, broken: tuple[int, int]) -> None:
    person = english(seeded, "viewer")
    page = person.get("/violations/")
    assert title_of(page) == "1 violation in the last hour"
    assert missing(page, "High", "OLT-LIMA-01", "Discovery", "1 Timed out", "1 OLT busy") == []
    for query, count in (("severity=HIGH", 1), ("severity=LOW", 0), ("window=1h", 1), ("olt=2", 0), ("notified=x", 1)):
        assert len(olts(person, f"/violations/?{query}")) == count, query
    update_rows(seeded, QuotaViolation, notified=False, notified_at=None)
    assert len(olts(person, "/violations/?notified=no")) == 1
    assert olts(person, "/violations/?notified=yes") == []


def test_a_slot_that_was_completed_late_is_not_said_to_be_cleaned_up(seeded: Flask, broken: tuple[int, int]) -> None:
    with written(seeded) as session:
        session.execute(update(QuotaTracker).values(quota_completed=4, quota_failed=0, quota_skipped=0,
                                                    status=QuotaStatus.COMPLETED))  # fmt: skip
        session.execute(update(Execution).values(status="SUCCESS", error_kind=None))
        session.execute(delete(CoordinatorLog))
    person = english(seeded, "viewer")
    text = text_of(person.get(f"/violations/{broken[1]}"))
    assert "2 slots were completed after the hour was judged." in text and "kept any more" not in text
    assert title_of(person.get("/violations/")) == "1 violation in the last hour"
    hours = soup(person.get("/quotas/")).select(".qt-hours li a.is-broken")
    assert len(hours) == 1, "the violation stays one"


def test_of_a_slot_that_is_cleaned_up_it_is_said_that_nothing_is_kept(seeded: Flask, broken: tuple[int, int]) -> None:
    with written(seeded) as session:
        session.execute(delete(Execution))
    text = text_of(english(seeded, "viewer").get(f"/violations/{broken[1]}"))
    assert "Of 1 slot nothing is kept any more." in text  # the skipped one is in the log


def test_an_empty_list_of_violations_says_what_is_known(seeded: Flask, hour: datetime) -> None:
    person = english(seeded, "viewer")
    page = person.get("/violations/")
    assert "No hour has been judged yet" in text_of(page)
    assert title_of(page) == "No violation in the last day; the last hour is being judged"
    assert "not judged yet" in text_of(person.get("/quotas/"))
    update_rows(seeded, QuotaTracker, status=QuotaStatus.COMPLETED)
    page = person.get("/violations/")
    assert "No violation yet" in text_of(page) and title_of(page) == "No violation in the last day"


# Somebody has seen it


def test_an_operator_acknowledges_a_violation_with_a_note_and_the_audit_says_so(
    seeded: Flask, broken: tuple[int, int]
) -> None:
    person, path = english(seeded, "operator"), f"/violations/{broken[1]}"
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]
    answer = person.post(f"{path}/acknowledge", note="Fibre cut,\r\n  being mended ")
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    assert missing(person.get(path), "By operator", "Fibre cut, being mended") == []
    assert (olts(person, "/violations/?seen=no"), olts(person, "/violations/?seen=yes")) == ([], ["OLT-LIMA-01"])
    with written(seeded) as session:
        row = session.scalars(select(AuditLog).order_by(AuditLog.id.desc())).first()
        assert row is not None and (row.action, row.actor, row.subject_id) == (
            "violation.acknowledge", "operator", broken[1],
        )  # fmt: skip
        assert row.changes == {"note": "Fibre cut, being mended"}


def test_who_comes_second_is_told_and_the_first_note_stays(seeded: Flask, broken: tuple[int, int]) -> None:
    person, path = english(seeded, "operator"), f"/violations/{broken[1]}"
    person.post(f"{path}/acknowledge", note="first")
    english(seeded, "admin").post(f"{path}/acknowledge", note="second")
    text = text_of(english(seeded, "viewer").get(path))
    assert "By operator" in text and "first" in text and "second" not in text


def test_a_violation_that_is_opened_again_can_be_acknowledged_anew(seeded: Flask, broken: tuple[int, int]) -> None:
    person, path = english(seeded, "operator"), f"/violations/{broken[1]}"
    person.post(f"{path}/acknowledge", note="first")
    for _ in range(2):
        assert person.post(f"{path}/reopen").status_code == 303
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]
    person.post(f"{path}/acknowledge", note="")
    assert "By operator" in text_of(person.get(path))
    with written(seeded) as session:
        actions = session.scalars(select(AuditLog.action).where(AuditLog.subject_type == "violation")).all()
    assert sorted(actions) == ["violation.acknowledge", "violation.acknowledge", "violation.reopen"]


@pytest.mark.parametrize("note", ["x" * 501, "a\x00b", "a\x07b"])
def test_a_note_that_cannot_be_kept_is_refused_and_not_lost(seeded: Flask, broken: tuple[int, int], note: str) -> None:
    person, path = english(seeded, "operator"), f"/violations/{broken[1]}"
    answer = person.post(f"{path}/acknowledge", note=note)
    assert answer.status_code == 422
    assert list(complaints(answer)) == ["note"]
    assert form_values(answer, f"form[action='{path}/acknowledge']")["note"].startswith(note[0])
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]


def test_a_viewer_acknowledges_nothing(seeded: Flask, broken: tuple[int, int]) -> None:
    person, path = english(seeded, "viewer"), f"/violations/{broken[1]}"
    assert [person.post(f"{path}/{verb}").status_code for verb in ("acknowledge", "reopen")] == [403, 403]
    assert not soup(person.get(path)).select(f"form[action^='{path}']")
    operator = english(seeded, "operator")
    assert [operator.post(f"/violations/99/{verb}").status_code for verb in ("acknowledge", "reopen")] == [404, 404]


def test_what_never_was_is_not_found(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    assert [person.get(path).status_code for path in ("/quotas/99999", "/violations/99999")] == [404, 404]


# --------------------------------------------------------------------------------------------------------- other pages


def test_home_counts_what_is_at_risk_and_broken_and_leads_there(seeded: Flask, broken: tuple[int, int]) -> None:
    line = element(english(seeded, "viewer").get("/"), "a[href='/violations/?seen=no&window=24h']")
    assert "1 violation is open" in line.get_text(" ", strip=True)


def test_an_olt_shows_its_last_24_hours_each_with_a_word(seeded: Flask, broken: tuple[int, int]) -> None:
    strip = soup(english(seeded, "viewer").get("/olts/1/sides")).select(".qt-strip li > *")
    assert len(strip) == 24
    assert strip[-1].name == "a"
    assert "Not met" in strip[-1].get_text()
    assert strip[0]["title"].endswith("nothing promised")  # type: ignore[union-attr]


def test_interrupted_quotas_are_no_broken_promises(seeded: Flask, hour: datetime) -> None:
    update_rows(seeded, QuotaTracker, QuotaTracker.olt_id == 2, status=QuotaStatus.INTERRUPTED)
    page = english(seeded, "viewer").get(at(hour))
    assert title_of(page) == "No quota at risk"
    assert "1 of 1 OLTs keep all their promises" in text_of(page)
    update_rows(seeded, QuotaTracker, status=QuotaStatus.INTERRUPTED)
    assert title_of(english(seeded, "viewer").get(at(hour))) == "All 2 quotas were interrupted"
