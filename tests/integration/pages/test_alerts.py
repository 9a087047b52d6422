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
from testing.pages import missing, soup, text_of, texts, title_of
from testing.receiver import TOKEN, Receiver, receiver
from testing.web import complaints, english, row_of, statements, stored, update_rows

FORM = "main form.al-form"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


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


def sent(app: Flask) -> list[tuple[str, NotificationStatus]]:
    return [(row.subject, row.status) for row in stored(app, select(Notification).order_by(Notification.id))]


def target_of(app: Flask) -> str | None:
    with app.app_context():
        return db.session.get_one(Channel, 1).target


def given_up(app: Flask) -> None:
    update_rows(app, Notification, Notification.id == 2, status=NotificationStatus.GIVEN_UP)


def test_without_a_channel_the_page_says_that_alerts_reach_nobody(people: Flask) -> None:
    page = english(people, "admin").get("/alerts/")
    assert (title_of(page), missing(page, "No channel yet")) == ("Alerts reach nobody", [])
    pages = (page, english(people).get("/alerts/"))
    assert [len(soup(one).select("a[href='/alerts/channels/new']")) > 0 for one in pages] == [True, False]


def test_a_channel_is_made_by_its_form_and_its_address_is_never_seen_again(people: Flask, hook: Receiver) -> None:
    person = english(people, "admin")
    given = {"name": "noc", "target": hook.url, "quiet_start": "22:00", "quiet_end": "07:00", "min_severity": "HIGH"}
    answer = person.submit("/alerts/channels/new", FORM, **given, alert_kinds=["olt_back", "system"])
    assert answer.location == "/alerts/"
    for path in ("/alerts/", "/alerts/channels/1"):
        page = person.get(path)
        assert "json://127.0.0.1" in page.text and TOKEN not in page.text
    assert "22:00–07:00" in text_of(person.get("/alerts/"))
    row = row_of(people, Channel, 1)
    assert (target_of(people), row.alert_kinds, row.min_severity) == (hook.url, ["olt_back", "system"], Severity.HIGH)
    assert (row.quiet_start, row.quiet_end) == (1320, 420)
    assert TOKEN not in str(stored(people, select(AuditLog.changes)))


def test_a_form_that_is_saved_as_it_stands_changes_nothing(told: Flask, hook: Receiver) -> None:
    person = english(told, "admin")
    page = person.get("/alerts/channels/1")
    kinds = [str(tag["value"]) for tag in soup(page).select("input[name=alert_kinds][checked]")]
    assert person.submit("/alerts/channels/1", FORM, alert_kinds=kinds).status_code == 303
    assert "channel.update" not in stored(told, select(AuditLog.action))
    assert (len(kinds), target_of(told)) == (6, hook.url)


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
    given = {"name": "noc", "target": "json://127.0.0.1/planted-hook-token", "alert_kinds": ["system"]}
    answer = english(people, "admin").submit("/alerts/channels/new", FORM, **given | changes)
    assert (answer.status_code, field in complaints(answer), TOKEN in answer.text) == (422, True, False)
    assert stored(people, select(Channel)) == []


def test_a_failing_channel_is_named_in_the_title_with_what_its_receiver_says(told: Flask) -> None:
    page = english(told, "viewer").get("/alerts/")
    assert (title_of(page), TOKEN in page.text) == ("Nothing gets through noc", False)
    assert missing(page, "The receiver refused the message", "error=500") == []


def test_the_test_button_shows_the_true_answer(told: Flask, hook: Receiver) -> None:
    person = english(told, "admin")
    hook.answers.append(401)
    refused = "The test failed. The receiver refused the user, password or token"
    for words in ((refused, "401"), ("The receiver took the test message",)):
        person.post("/alerts/channels/1/test")
        assert missing(person.get("/alerts/"), *words) == []
    assert hook.titles[-1] in ("Prueba del canal noc", "Test of the channel noc")


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
    assert sent(told)[1][1] is NotificationStatus.SENT
    person.post("/alerts/2/resend")
    assert "Only an alert that was given up can be sent again" in text_of(person.get("/alerts/"))
    assert len(hook.taken) == 2


def test_a_channel_is_deleted_with_what_went_through_it(told: Flask) -> None:
    person = english(told, "admin")
    assert person.post("/alerts/channels/1/delete").status_code == 303
    assert sent(told) == []
    for path in ("channels/1/delete", "channels/1/test", "9/resend"):
        assert person.post(f"/alerts/{path}").status_code == 404
    assert person.get("/alerts/channels/1").status_code == 404


BUTTONS = ("/alerts/channels/1/test", "/alerts/channels/1/delete", "/alerts/2/resend")


def test_only_an_administrator_sees_forms_and_presses_buttons(told: Flask) -> None:
    given_up(told)
    for person in (english(told, "viewer"), english(told)):
        assert not soup(person.get("/alerts/")).select("main form[method=post]")
        assert {person.get(f"/alerts/channels/{which}").status_code for which in ("new", "1")} == {403}
        assert {person.post(target).status_code for target in BUTTONS} == {403}
    assert sent(told)[1][1] is NotificationStatus.GIVEN_UP


def test_no_button_works_without_the_token_of_the_page(told: Flask) -> None:
    given_up(told)
    client = english(told, "admin").client
    for path in ("/alerts/channels/new", *BUTTONS):
        assert client.post(path, data={"name": "x"}).status_code == 400
    assert len(sent(told)) == 2


def test_with_a_broken_key_the_page_stands_and_says_what_to_do(told: Flask) -> None:
    with told.app_context():
        keyring.load(told, [Fernet.generate_key().decode()])
    person = english(told, "admin")
    page = person.get("/alerts/")
    assert missing(page, "Key lost", "enter it again, or restore the key") == []
    assert person.get("/alerts/channels/1").status_code == 200


def test_filters_and_the_reader_s_language_apply_to_what_was_raised(told: Flask) -> None:
    person = english(told, "viewer")
    assert texts(person.get("/alerts/?status=SENT"), "#alerts_live summary") == ["OLT-1 does not answer"]
    assert "No alert matches" in text_of(person.get("/alerts/?status=SENDING&channel=1"))
    assert person.get("/alerts/?status=x&channel=y&before=z").status_code == 200


def test_both_parts_of_the_page_are_live_and_silent_while_nothing_changes(told: Flask) -> None:
    person = english(told, "viewer")
    assert [person.watch("/alerts/", part)() for part in ("channels_live", "alerts_live")] == [204, 204]


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
