"""The page of the audit log: who, what, from where, what changed; filters, pages, links, and the file."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete

from portal import clock
from portal.services import audit
from portal.tables import AuditLog, Credential, Olt, WorkflowNode
from testing.pages import Visitor, soup, text_of, texts
from testing.web import statements, written

PAGE = "/settings/audit/"


@pytest.fixture
def admin(built: Flask, admin: Visitor) -> Visitor:
    with written(built) as session:
        session.execute(delete(AuditLog))
    return admin


def note(app: Flask, action: str = "olt.update", table: type = Olt, actor: str = "operator", **given: Any) -> None:
    with written(app) as session:
        subject = given.get("subject") or session.query(table).first()
        moment = clock.now() - given.get("ago", timedelta())
        audit.record(session, actor=actor, action=action, subject=subject, changes=given.get("changes"), now=moment)


def done(person: Visitor, query: str = "") -> list[str]:
    cells = soup(person.get(f"{PAGE}?{query}")).select("tbody .pe-what")
    return [" ".join((cell.summary or cell).get_text().split()) for cell in cells]


def test_a_change_is_told_as_before_and_after_in_words(built: Flask, admin: Visitor) -> None:
    changes = {"address": ["10.0.0.1", "10.0.0.2"], "site": ["", "Lima"], "enabled": [True, False]}
    note(built, changes=changes)
    line = texts(admin.get(PAGE), ".pe-changes li")
    assert line == ["Address : 10.0.0.1 now 10.0.0.2", "Site : – now Lima", "Enabled : yes now no"]


def test_a_secret_is_never_shown_and_a_replaced_one_is_told(built: Flask, admin: Visitor) -> None:
    note(built, "credential.update", Credential, changes={"community": ["old-planted", "new-planted"]})
    page = admin.get(PAGE)
    assert "planted" not in page.text
    assert "(not shown) now another one, not shown" in text_of(page)


def test_who_did_it_is_named_and_a_name_of_a_device_is_no_markup(built: Flask, admin: Visitor) -> None:
    note(built, actor="cli")
    note(built, actor="token:zabbix")
    note(built, subject=audit.Subject("execution", "<script>alert(1)</script>", 5))
    page = admin.get(PAGE)
    assert texts(page, ".pe-actor") == ["operator", "Token zabbix", "Command line"]
    assert "<script>alert(1)" not in page.text


def test_the_filters_find_by_actor_kind_action_time_and_name(built: Flask, admin: Visitor) -> None:
    note(built, "olt.pause", ago=timedelta(days=40))
    note(built, "olt.update")
    note(built, "node.run_now", WorkflowNode, actor="token:zabbix")
    assert done(admin) == ["Node run by hand", "OLT changed"]
    assert done(admin, "days=all") == ["Node run by hand", "OLT changed", "OLT paused"]
    assert done(admin, "actor=token:zabbix") == ["Node run by hand"]
    assert done(admin, "kind=olt&days=90") == ["OLT changed", "OLT paused"]
    assert done(admin, "action=olt.pause&days=all") == ["OLT paused"]
    assert done(admin, "q=lima") == ["OLT changed"]
    assert done(admin, "about=olt:1&days=all") == ["OLT changed", "OLT paused"]
    assert done(admin, "about=olt:2") == []
    assert done(admin, "kind=x&action=y&days=z&about=olt:x&about=:&q=%00&before=garbage") == done(admin)
    assert done(admin, "actor=' OR 1=1 --") == []


def test_a_subject_that_has_a_page_leads_there_and_a_deleted_one_does_not(built: Flask, admin: Visitor) -> None:
    note(built, "olt.update")
    note(built, "node.run_now", WorkflowNode)
    note(built, "credential.update", Credential)
    links = [str(link["href"]) for link in soup(admin.get(PAGE)).select(".pe-subject a:not(.pe-only)")]
    assert links == ["/credentials/1", "/olts/1/workflow", "/olts/1"]
    assert all(admin.get(link).status_code == 200 for link in links)
    with written(built) as session:
        session.query(Olt).update({"deleted_at": clock.now()})
    assert len(soup(admin.get(PAGE)).select(".pe-subject a:not(.pe-only)")) == 1


def test_an_action_of_another_version_is_shown_as_it_is_called(built: Flask, admin: Visitor) -> None:
    note(built, "future.thing", subject=audit.Subject("future", "x", 1), changes={"some_field": [1, 2], "odd": [3]})
    assert done(admin) == ["future.thing"]
    assert "some field : 1 now 2" in soup(admin.get(PAGE)).select_one(".pe-changes li").get_text(" ", strip=True)


def test_a_page_follows_a_page_without_a_gap_also_at_one_moment(built: Flask, admin: Visitor) -> None:
    moment = clock.now()
    with written(built) as session:
        olt = session.query(Olt).first()
        for n in range(70):
            audit.record(
                session, actor="operator", action="olt.update", subject=olt, changes={"port": [n, n + 1]}, now=moment
            )
    first = soup(admin.get(PAGE))
    second = soup(admin.get(str(first.select_one('a[rel="next"]')["href"])))
    ids = [row["id"] for page in (first, second) for row in page.select("tbody tr")]
    assert (len(ids), len(set(ids))) == (70, 70)


def test_the_file_holds_what_is_filtered_and_no_formula(built: Flask, admin: Visitor) -> None:
    note(built, changes={"site": ["", "Lima"]}, subject=audit.Subject("olt", "=1+1", 1))
    note(built, "olt.pause")
    answer = admin.get(f"{PAGE}export.csv?action=olt.update")
    head, *rows = csv.reader(io.StringIO(answer.text.lstrip("\ufeff")))
    cells = dict(zip(head, rows[0], strict=True))
    assert len(rows) == 1
    told = [cells[name] for name in ("Name", "Action", "What was done", "Changes")]
    assert told == ["'=1+1", "olt.update", "OLT changed", "Site: – → Lima"]


def test_the_first_page_is_live_and_an_unchanged_one_costs_nothing(built: Flask, admin: Visitor) -> None:
    note(built)
    answer = admin.fragment(PAGE, "audit_live")
    assert "OLT changed" in answer.text
    assert admin.fragment(PAGE, "audit_live", answer.headers["X-Digest"]).status_code == 204
    assert "Only what this one did" in answer.text


def test_many_kinds_on_a_page_are_looked_up_together(built: Flask, admin: Visitor) -> None:
    note(built)
    few = statements(built, admin, PAGE)
    for kind in ("node", "template", "credential", "user", "violation", "execution", "oid", "statemap"):
        note(built, subject=audit.Subject(kind, "x", 1))
    assert statements(built, admin, PAGE) == few
