"""The page of alerts over HTTP, with a real receiver on loopback: what it shows, what it hides, and its buttons."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select

from portal import clock, notify
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import db, keyring, transaction
from portal.services.alerting import alerts, channels, delivery
from portal.tables import AuditLog, Channel, Notification
from testing import seed
from testing.pages import missing, soup, text_of, texts, title_of
from testing.receiver import TOKEN, Receiver, receiver
from testing.web import complaints, english, form_values, statements, update_rows

FORM = "main form.al-form"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def people(app: Flask) -> Flask:
    with app.app_context():
        seed.add_users(clock.now())
    return app


@pytest.fixture
def told(people: Flask, hook: Receiver) -> Flask:
    """Channel noc (1) that leads to the receiver; one alert that it took, one that it has refused."""
    moment = clock.now() - timedelta(minutes=5)
    with people.app_context():
        channels.save({"name": "noc", "target": hook.url}, "admin", moment)
        for subject in ("OLT-1", "OLT-2"):
            with transaction() as session:
                text = N_("%(olt)s does not answer", olt=subject)
                alerts.raise_alert(session, AlertKind.OLT_UNREACHABLE, text, "", moment, severity=Severity.HIGH)
            delivery.deliver(moment, notify.send)
            hook.answers.append(500)
    hook.answers.clear()
    return people


def stored(app: Flask) -> list[tuple[str, NotificationStatus]]:
    with app.app_context():
        found = db.session.scalars(select(Notification).order_by(Notification.id)).all()
        return [(row.subject, row.status) for row in found]


def given_up(app: Flask) -> None:
    update_rows(app, Notification, Notification.id == 2, status=NotificationStatus.GIVEN_UP)


def test_without_a_channel_the_page_says_that_alerts_reach_nobody(people: Flask) -> None:
    page = english(people, "admin").get("/alerts/")
    assert title_of(page) == "Alerts reach nobody" and "No channel yet" in text_of(page)
    assert soup(page).select("a[href='/alerts/channels/new']")
    assert not soup(english(people, "operator").get("/alerts/")).select("a[href='/alerts/channels/new']")


def test_a_channel_is_made_by_its_form_and_its_address_is_never_seen_again(people: Flask, hook: Receiver) -> None:
    person = english(people, "admin")
    fields = form_values(person.get("/alerts/channels/new"), FORM)
    fields |= {"name": "noc", "target": hook.url, "quiet_start": "22:00", "quiet_end": "07:00", "min_severity": "HIGH"}
    answer = person.post("/alerts/channels/new", **(fields | {"alert_kinds": ["olt_back", "system"]}))
    assert answer.location == "/alerts/"
    for path in ("/alerts/", "/alerts/channels/1"):
        page = person.get(path)
        assert "json://127.0.0.1" in page.text and TOKEN not in page.text
    assert "22:00–07:00" in text_of(person.get("/alerts/"))
    with people.app_context():
        row = db.session.get_one(Channel, 1)
        assert (row.target, row.alert_kinds, row.min_severity) == (hook.url, ["olt_back", "system"], Severity.HIGH)
        assert (row.quiet_start, row.quiet_end) == (1320, 420)
        assert TOKEN not in str(list(db.session.scalars(select(AuditLog.changes))))


def test_a_form_that_is_saved_as_it_stands_changes_nothing(told: Flask) -> None:
    person = english(told, "admin")
    page = person.get("/alerts/channels/1")
    kinds = [str(tag["value"]) for tag in soup(page).select("input[name=alert_kinds][checked]")]
    assert person.post("/alerts/channels/1", **form_values(page, FORM) | {"alert_kinds": kinds}).status_code == 303
    with told.app_context():
        assert [row.action for row in db.session.scalars(select(AuditLog)) if row.action != "user.language"].count(
            "channel.update"
        ) == 0
        assert len(kinds) == 5 and db.session.get_one(Channel, 1).target is not None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": "nonsense planted-hook-token"}, "target"), ({"target": ""}, "target"), ({"name": ""}, "name"),
        ({"alert_kinds": []}, "alert_kinds"), ({"quiet_start": "25:00", "quiet_end": "07:00"}, "quiet_start"),
        ({"quiet_start": "22:00"}, "quiet_end"), ({"per_hour": "0"}, "per_hour"),
        ({"min_severity": "x"}, "min_severity"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_beside_its_field_and_the_address_not_repeated(
    people: Flask, changes: dict[str, object], field: str
) -> None:
    person = english(people, "admin")
    page = person.get("/alerts/channels/new")
    fields = form_values(page, FORM) | {"name": "noc", "target": "json://127.0.0.1/planted-hook-token"}
    answer = person.post("/alerts/channels/new", **{**fields, "alert_kinds": ["system"], **changes})
    assert answer.status_code == 422 and field in complaints(answer) and TOKEN not in answer.text
    with people.app_context():
        assert db.session.scalars(select(Channel)).all() == []


def test_a_failing_channel_is_named_in_the_title_with_what_its_receiver_says(told: Flask) -> None:
    page = english(told, "viewer").get("/alerts/")
    assert title_of(page) == "Nothing gets through noc"
    assert missing(page, "The receiver refused the message", "error=500") == []
    assert TOKEN not in page.text


def test_the_test_button_shows_the_true_answer(told: Flask, hook: Receiver) -> None:
    person = english(told, "admin")
    hook.answers.append(401)
    person.post("/alerts/channels/1/test")
    page = text_of(person.get("/alerts/"))
    assert missing(page, "The test failed. The receiver refused the user, password or token", "401") == []
    person.post("/alerts/channels/1/test")
    page = text_of(person.get("/alerts/"))
    assert "The receiver took the test message" in page
    assert hook.titles[-1] == "Prueba del canal noc" or hook.titles[-1] == "Test of the channel noc"


def test_the_test_button_works_while_the_network_is_away(told: Flask) -> None:
    with told.app_context():
        channels.save({"target": "json://127.0.0.1:1/hook"}, "admin", clock.now(), 1)
    person = english(told, "admin")
    assert person.post("/alerts/channels/1/test").status_code == 303
    assert "The receiver refuses the connection ([Errno 111] Connection refused)" in text_of(person.get("/alerts/"))


def test_an_alert_that_was_given_up_is_sent_again_by_its_button(told: Flask, hook: Receiver) -> None:
    given_up(told)
    person = english(told, "admin")
    assert soup(person.get("/alerts/")).select("form[action='/alerts/2/resend']")
    person.post("/alerts/2/resend")
    assert "The alert is sent again." in text_of(person.get("/alerts/"))
    with told.app_context():
        delivery.deliver(clock.now(), notify.send)
    assert stored(told)[1][1] is NotificationStatus.SENT
    person.post("/alerts/2/resend")
    assert "Only an alert that was given up can be sent again" in text_of(person.get("/alerts/"))
    assert len(hook.taken) == 2


def test_a_channel_is_deleted_with_what_went_through_it(told: Flask) -> None:
    person = english(told, "admin")
    assert person.post("/alerts/channels/1/delete").status_code == 303
    assert stored(told) == []
    for action in ("delete", "test"):
        assert person.post(f"/alerts/channels/1/{action}").status_code == 404
    assert (person.get("/alerts/channels/1").status_code, person.post("/alerts/9/resend").status_code) == (404, 404)


@pytest.mark.parametrize("path", ["/alerts/channels/new", "/alerts/channels/1"])
def test_only_an_administrator_sees_forms_and_presses_buttons(told: Flask, path: str) -> None:
    given_up(told)
    for role in ("viewer", "operator"):
        person = english(told, role)
        page = soup(person.get("/alerts/"))
        assert not page.select("main form[method=post]")
        assert person.get(path).status_code == 403
        for target in ("/alerts/channels/1/test", "/alerts/channels/1/delete", "/alerts/2/resend"):
            assert person.post(target).status_code == 403
    assert stored(told)[1][1] is NotificationStatus.GIVEN_UP


def test_no_button_works_without_the_token_of_the_page(told: Flask) -> None:
    given_up(told)
    client = english(told, "admin").client
    for path in ("/alerts/channels/new", "/alerts/channels/1/test", "/alerts/channels/1/delete", "/alerts/2/resend"):
        assert client.post(path, data={"name": "x"}).status_code == 400
    assert len(stored(told)) == 2


def test_with_a_broken_key_the_page_stands_and_says_what_to_do(told: Flask) -> None:
    with told.app_context():
        keyring.load(told, [Fernet.generate_key().decode()])
    person = english(told, "admin")
    page = person.get("/alerts/")
    assert missing(page, "Key lost", "enter it again, or restore the key") == []
    assert person.get("/alerts/channels/1").status_code == 200


def test_filters_and_the_reader_s_language_apply_to_what_was_raised(told: Flask) -> None:
    person = english(told, "viewer")
    page = soup(person.get("/alerts/?status=SENT"))
    assert texts(page, "#alerts_live summary") == ["OLT-1 does not answer"]
    assert "No alert matches" in text_of(person.get("/alerts/?status=SENDING&channel=1"))
    assert person.get("/alerts/?status=x&channel=y&before=z").status_code == 200


def test_both_parts_of_the_page_are_live_and_silent_while_nothing_changes(told: Flask) -> None:
    person = english(told, "viewer")
    for part in ("channels_live", "alerts_live"):
        first = person.fragment("/alerts/", part)
        assert first.status_code == 200 and "<html" not in first.text
        assert person.fragment("/alerts/", part, first.headers["X-Digest"]).status_code == 204


def test_the_page_costs_as_many_statements_with_many_alerts_as_with_few(told: Flask, hook: Receiver) -> None:
    person = english(told, "viewer")
    few = statements(told, person, "/alerts/")
    moment = clock.now()
    with told.app_context():
        for number in range(8):
            channels.save({"name": f"channel {number}", "target": hook.url}, "admin", moment)
        for _ in range(20):
            with transaction() as session:
                alerts.raise_alert(session, AlertKind.SYSTEM, "x", "y", moment, severity=Severity.LOW)
    assert statements(told, person, "/alerts/") == few <= 14
