"""Pages of quotas and violations: the answer in the title, filters, hours, one promise, one violation, home, an OLT."""

from datetime import datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import QuotaStatus
from portal.tables import AuditLog, CoordinatorLog, Execution, QuotaLoss, QuotaTracker, QuotaViolation, WorkflowNode
from testing import seed_quotas
from testing.builders import make_tracker
from testing.cast import HOUR, NOW
from testing.pages import Visitor, element, form_values, missing, soup, text_of, texts, title_of
from testing.web import add_olts, complaints, delete_rows, english, statements, stored, update_rows, written

START = quota.hour_at(NOW + timedelta(days=2)) - HOUR  # not judged yet, so that the test's minute does not matter
VIOLATION = "/violations/1"
LIMA, CUSCO = "OLT-LIMA-01", "OLT-CUSCO-02"


@pytest.fixture
def asked(seeded: Flask) -> Flask:
    """The hour of START has two trackers, written as if a minute were left; the hours before have none.

    OLT 1: get_rx at 10 of 12, forecast 12. OLT 2: get_rx at 2 of 12, three lost, forecast 9.
    """
    delete_rows(seeded, QuotaTracker, QuotaLoss, QuotaViolation)
    with written(seeded) as session:
        make_tracker(1, "get_rx", START, Counts(completed=10, pending=2), forecast=12)
        why = {"cause": "olt_busy", "node": "discovery", "seconds": 40}
        make_tracker(2, "get_rx", START, Counts(completed=2, failed=3, pending=7), forecast=9, forecast_details=why)
        session.add(QuotaLoss(olt_id=2, task_type="get_rx", period_start=START, cause="timeout", failed=3))
    return seeded


def at(start: datetime) -> str:
    return f"/quotas/?hour={start:%Y-%m-%dT%H:%M}Z"


ASKED = at(START)


def olts(person: Visitor, path: str) -> list[str]:
    return texts(person.get(path), "tbody td.c-a > a")


def test_the_title_says_how_many_are_at_risk_and_the_worst_comes_first(asked: Flask) -> None:
    person = english(asked, "viewer")
    page = person.get(ASKED)
    assert (title_of(page), missing(page, "1 of 2 OLTs keep all their promises")) == ("1 quota at risk", [])
    assert olts(person, ASKED) == [CUSCO, LIMA]


def test_a_row_says_how_it_stands_how_it_will_end_and_what_was_lost(asked: Flask) -> None:
    row = element(english(asked, "viewer").get(ASKED), "tbody tr")
    end = "Will end at 9 of 12: discovery runs 40 s longer than usual"
    assert missing(row, "GET rx", "At risk", "3 Timed out", end) == []
    bar = "2 completed, 3 failed, 0 skipped, 7 pending, of 12"
    assert element(row, "svg[role=img]")["aria-label"] == bar


def test_without_a_forecast_nothing_is_foretold_and_one_of_another_version_without_a_cause(asked: Flask) -> None:
    update_rows(asked, QuotaTracker, forecast_details={"why": "?"})
    assert "Will end at 9 of 12" in text_of(english(asked).get(ASKED))
    update_rows(asked, QuotaTracker, forecast=None, forecast_details=None)
    assert "Will end" not in text_of(english(asked).get(ASKED))


FILTERS = {
    (CUSCO,): ("status=at_risk",),
    (LIMA,): ("olt=1", "q=lima"),
    (): ("status=COMPLETED", "task=discovery"),
    (CUSCO, LIMA): ("status=IN_PROGRESS", "q=GET+rx", "status=x&olt=-1&before=zzz&q=%00"),
}
SORTS = {(CUSCO, LIMA): ("sort=olt", "sort=share", "sort=nonsense"), (LIMA, CUSCO): ("sort=-olt", "sort=-share")}


def test_the_url_says_which_quotas_are_listed_and_in_what_order(asked: Flask) -> None:
    person = english(asked, "viewer")
    tables = [*FILTERS.items(), *SORTS.items()]
    wanted = {query: [*found] for found, queries in tables for query in queries}
    assert {query: olts(person, f"{ASKED}&{query}") for query in wanted} == wanted
    for query in (query for queries in SORTS.values() for query in queries):
        assert len(soup(person.get(f"{ASKED}&{query}")).select("th[aria-sort] a[href*='hour=']")) == 3, query


FAR = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00-23:00")
ODD = ("", "x", "2026-13-01T00:00Z", "2999-01-01T00:00Z", "2026-11-27T10:00")


def test_an_hour_that_means_nothing_is_the_running_one_or_one_without_quotas(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    codes = {text: person.get("/quotas/", query_string={"hour": text}).status_code for text in (*FAR, *ODD)}
    assert codes == dict.fromkeys(codes, 200)


def test_the_row_of_hours_leads_a_week_back_and_home_again(seeded: Flask) -> None:
    person, path, steps = english(seeded, "viewer"), "/quotas/", 0
    while path:
        page = soup(person.get(path))
        assert [len(page.select(f".qt-hours {one}")) for one in ("li a", "[aria-current]")] == [24, 1]
        earlier = page.select_one("a[aria-label='Earlier hours']")
        path, steps = str(earlier["href"]) if earlier else "", steps + 1
    assert steps == 8
    for _ in range(7):
        page = soup(person.get(str(element(page, "a[aria-label='Later hours']")["href"])))
    assert [len(page.select(one)) for one in ("a[aria-label='Later hours']", ".qt-hours [aria-current]")] == [0, 1]


def test_an_hour_older_than_quotas_are_kept_is_the_oldest_that_is(seeded: Flask) -> None:
    page = soup(english(seeded, "viewer").get("/quotas/?hour=1999-01-01T00:00Z"))
    (chosen,) = page.select(".qt-hours [aria-current] time")
    kept = clock.now() - datetime.fromisoformat(str(chosen["datetime"]))
    assert timedelta(days=60) <= kept <= timedelta(days=60, hours=1, minutes=1)


def test_the_running_hour_is_live_and_a_judged_one_is_not(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    for path, parts in (("/quotas/", 1), (at(quota.hour_at(clock.now()) - 3 * HOUR), 0)):
        assert len(soup(person.get(path)).select("#quotas_live[hx-trigger]")) == parts
    assert person.watch("/quotas/", "quotas_live")() == 204


def test_the_list_costs_the_same_number_of_statements_whatever_it_shows(asked: Flask) -> None:
    person = english(asked, "viewer")
    few = statements(asked, person, ASKED)
    added = add_olts(asked, 70)
    with written(asked):
        for olt_id in added:
            make_tracker(olt_id, "get_rx", START, Counts(pending=3))
    assert statements(asked, person, ASKED) == few <= 15
    assert len(olts(person, ASKED)) == 50


# -------------------------------------------------------------------------------- one quota, one violation


@pytest.fixture
def broken(seeded: Flask) -> Flask:
    """Tracker 1 and violation 1: the last full hour of OLT 1's discovery, 2 of 4, one timed out, one skipped."""
    delete_rows(seeded, QuotaTracker, QuotaLoss, QuotaViolation, Execution)
    with written(seeded) as session:
        seed_quotas.fill_one(session, session.get_one(WorkflowNode, 1), clock.now())
    return seeded


def test_a_quota_shows_from_what_it_was_reckoned_and_each_slot(broken: Flask) -> None:
    page = soup(english(broken, "viewer").get("/quotas/1"))
    words = ("Not met", "Reckoned from", "15 min", "Not changed since it was made", "1 Timed out", "1 OLT busy")
    assert (texts(page, "h1"), missing(page, *words)) == (["Discovery on OLT-LIMA-01"], [])
    results = [text.split()[0] for text in texts(page, ".qt-slots tbody tr .c-b")]
    assert results == ["Succeeded", "Succeeded", "Failed", "Skipped"]
    assert [bool(row.get("data-href")) for row in page.select(".qt-slots tbody tr")] == [True, True, True, False]
    assert page.select("a[href='/violations/1']")


def test_a_violation_adds_up_leads_to_the_lost_slots_and_outlives_its_quota(broken: Flask) -> None:
    page = soup(english(broken, "viewer").get(VIOLATION))
    assert texts(page, "h1") == ["Discovery on OLT-LIMA-01: 2 of 4"]
    parts, (lost,) = (
        [int(one) for one in texts(page, f".qt-sum {css} td:first-of-type")] for css in (".qt-part", ".qt-line")
    )
    assert (sum(parts), lost, missing(page, "1 + 1 = 2")) == (2, 2, [])
    assert [len(page.select(f".qt-slots {css}")) for css in ("tbody tr", "a[data-explain]")] == [2, 2]
    assert page.select("a[href='/quotas/1']")
    delete_rows(broken, QuotaTracker)
    assert missing(english(broken, "viewer").get(VIOLATION), "1 + 1 = 2") == []


def test_the_list_of_violations_says_what_was_lost_and_who_was_told(broken: Flask) -> None:
    person = english(broken, "viewer")
    page = person.get("/violations/")
    assert title_of(page) == "1 violation in the last hour"
    assert missing(page, "High", "OLT-LIMA-01", "Discovery", "1 Timed out", "1 OLT busy") == []
    for query, count in (("severity=HIGH", 1), ("severity=LOW", 0), ("window=1h", 1), ("olt=2", 0), ("notified=x", 1)):
        assert len(olts(person, f"/violations/?{query}")) == count, query
    update_rows(broken, QuotaViolation, notified=False, notified_at=None)
    assert [len(olts(person, f"/violations/?notified={word}")) for word in ("no", "yes")] == [1, 0]


def test_a_slot_that_was_completed_late_is_not_said_to_be_cleaned_up(broken: Flask) -> None:
    done = {"quota_completed": 4, "quota_failed": 0, "quota_skipped": 0, "status": QuotaStatus.COMPLETED}
    update_rows(broken, QuotaTracker, **done)
    update_rows(broken, Execution, status="SUCCESS", error_kind=None)
    delete_rows(broken, CoordinatorLog)
    person = english(broken, "viewer")
    words = ("2 slots were completed after the hour was judged.", "kept any more")
    assert missing(person.get(VIOLATION), *words) == ["kept any more"]
    assert title_of(person.get("/violations/")) == "1 violation in the last hour"
    assert len(texts(person.get("/quotas/"), ".qt-hours li a.is-broken")) == 1, "the violation stays one"


def test_of_a_slot_that_is_cleaned_up_it_is_said_that_nothing_is_kept(broken: Flask) -> None:
    delete_rows(broken, Execution)
    told = "Of 1 slot nothing is kept any more."  # the skipped one is in the log
    assert told in text_of(english(broken, "viewer").get(VIOLATION))


def test_an_empty_list_of_violations_says_what_is_known(asked: Flask) -> None:
    person = english(asked, "viewer")
    page, title = person.get("/violations/"), "No violation in the last day"
    assert (missing(page, "No hour has been judged yet"), title_of(page)) == (
        [],
        f"{title}; the last hour is being judged",
    )
    assert "not judged yet" in text_of(person.get("/quotas/"))
    update_rows(asked, QuotaTracker, status=QuotaStatus.COMPLETED)
    page = person.get("/violations/")
    assert (missing(page, "No violation yet"), title_of(page)) == ([], title)


# Somebody has seen it


def test_an_operator_acknowledges_a_violation_with_a_note_and_the_audit_says_so(broken: Flask) -> None:
    person = english(broken)
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]
    answer = person.post(f"{VIOLATION}/acknowledge", note="Fibre cut,\r\n  being mended ")
    assert (answer.status_code, answer.headers["Location"]) == (303, VIOLATION)
    assert missing(person.get(VIOLATION), "By operator", "Fibre cut, being mended") == []
    assert (olts(person, "/violations/?seen=no"), olts(person, "/violations/?seen=yes")) == ([], ["OLT-LIMA-01"])
    row = stored(broken, select(AuditLog).order_by(AuditLog.id))[-1]
    assert (row.action, row.actor, row.subject_id) == ("violation.acknowledge", "operator", 1)
    assert row.changes == {"note": "Fibre cut, being mended"}


def test_who_comes_second_is_told_and_the_first_note_stays(broken: Flask) -> None:
    person = english(broken)
    person.post(f"{VIOLATION}/acknowledge", note="first")
    english(broken, "admin").post(f"{VIOLATION}/acknowledge", note="second")
    told = english(broken, "viewer").get(VIOLATION)
    assert missing(told, "By operator", "first", "second") == ["second"]


def test_a_violation_that_is_opened_again_can_be_acknowledged_anew(broken: Flask) -> None:
    person = english(broken)
    person.post(f"{VIOLATION}/acknowledge", note="first")
    for _ in range(2):
        assert person.post(f"{VIOLATION}/reopen").status_code == 303
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]
    person.post(f"{VIOLATION}/acknowledge", note="")
    assert "By operator" in text_of(person.get(VIOLATION))
    actions = stored(broken, select(AuditLog.action).where(AuditLog.subject_type == "violation"))
    assert sorted(actions) == ["violation.acknowledge", "violation.acknowledge", "violation.reopen"]


@pytest.mark.parametrize("note", ["x" * 501, "a\x00b", "a\x07b"])
def test_a_note_that_cannot_be_kept_is_refused_and_not_lost(broken: Flask, note: str) -> None:
    person = english(broken)
    answer = person.post(f"{VIOLATION}/acknowledge", note=note)
    assert (answer.status_code, list(complaints(answer))) == (422, ["note"])
    assert form_values(answer, f"form[action='{VIOLATION}/acknowledge']")["note"].startswith(note[0])
    assert olts(person, "/violations/?seen=no") == ["OLT-LIMA-01"]


def test_a_viewer_acknowledges_nothing(broken: Flask) -> None:
    person = english(broken, "viewer")
    assert [person.post(f"{VIOLATION}/{verb}").status_code for verb in ("acknowledge", "reopen")] == [403, 403]
    assert not soup(person.get(VIOLATION)).select(f"form[action^='{VIOLATION}']")
    operator = english(broken, "operator")
    assert [operator.post(f"/violations/99/{verb}").status_code for verb in ("acknowledge", "reopen")] == [404, 404]


def test_what_never_was_is_not_found(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    assert [person.get(path).status_code for path in ("/quotas/99999", "/violations/99999")] == [404, 404]


# --------------------------------------------------------------------------------------------------------- other pages


def test_home_counts_what_is_at_risk_and_broken_and_leads_there(broken: Flask) -> None:
    line = element(english(broken, "viewer").get("/"), "a[href='/violations/?seen=no&window=24h']")
    assert "1 violation is open" in text_of(line)


def test_an_olt_shows_its_last_24_hours_each_with_a_word(broken: Flask) -> None:
    strip = soup(english(broken, "viewer").get("/olts/1/sides")).select(".qt-strip li > *")
    assert (len(strip), strip[-1].name, missing(strip[-1], "Not met")) == (24, "a", [])
    assert str(strip[0]["title"]).endswith("nothing promised")


def test_interrupted_quotas_are_no_broken_promises(asked: Flask) -> None:
    update_rows(asked, QuotaTracker, QuotaTracker.olt_id == 2, status=QuotaStatus.INTERRUPTED)
    page = english(asked, "viewer").get(ASKED)
    assert (title_of(page), missing(page, "1 of 1 OLTs keep all their promises")) == ("No quota at risk", [])
    update_rows(asked, QuotaTracker, status=QuotaStatus.INTERRUPTED)
    assert title_of(english(asked, "viewer").get(ASKED)) == "All 2 quotas were interrupted"
