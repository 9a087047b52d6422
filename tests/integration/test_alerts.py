"""Alerts on both databases and a real receiver on loopback: raised with their cause, claimed once, told once."""

import logging
import multiprocessing
import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from portal import notify
from portal.domain import alerting
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, NotificationStatus, OltState, Severity
from portal.extensions import db, keyring, transaction
from portal.queries.alerts import channels as read_channels
from portal.services import retention
from portal.services.alerting import alerts, by_hand, channels, delivery
from portal.services.dispatch import reachability
from portal.services.errors import Conflict, Invalid, NotFound
from portal.tables import AuditLog, Channel, Notification, Olt, QuotaViolation
from scheduler import upkeep
from testing.builders import make_olt
from testing.cast import ACTOR, HOUR, LIMA, MINUTE, NOW, SECOND
from testing.databases import FERNET_KEY
from testing.receiver import TOKEN, Receiver, receiver
from testing.refusals import errors_of
from testing.threads import at_once

pytestmark = pytest.mark.usefixtures("session")

HIGH, LOW, CRITICAL = Severity.HIGH, Severity.LOW, Severity.CRITICAL
PENDING, SENDING = NotificationStatus.PENDING, NotificationStatus.SENDING
SENT, GIVEN_UP = NotificationStatus.SENT, NotificationStatus.GIVEN_UP


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def heard() -> Iterator[StringIO]:
    """What reaches the log at level DEBUG. (caplog would also hear loggers that hand nothing on.)"""
    root, text = logging.getLogger(), StringIO()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    root.removeHandler(handler)


def make_channel(hook: Receiver, name: str = "noc", **fields: object) -> Channel:
    return db.session.get_one(Channel, channels.save({"name": name, "target": hook.url, **fields}, ACTOR, NOW))


@pytest.fixture
def noc(session: Session, hook: Receiver) -> Channel:
    """A channel for everything that leads to the receiver."""
    return make_channel(hook)


def say(now: datetime, subject: str = "OLT-1 does not answer", severity: Severity = HIGH, **more: Any) -> int:
    kind = more.pop("kind", AlertKind.OLT_UNREACHABLE)
    with transaction() as session:
        return alerts.raise_alert(session, kind, subject, "because", now, severity=severity, **more)


def rows() -> list[Notification]:
    db.session.rollback()
    return list(db.session.scalars(select(Notification).order_by(Notification.id)))


def states() -> list[NotificationStatus]:
    return [row.status for row in rows()]


def passes(now: datetime, times: int, every: timedelta = 5 * SECOND) -> None:
    for number in range(times):
        moment = now + number * every
        delivery.deliver(moment, notify.send, lambda: moment)  # noqa: B023  (called before the next)


def violation() -> QuotaViolation:
    row = QuotaViolation(olt_id=make_olt().id, task_type="discovery", period_start=NOW - HOUR, period_end=NOW,
                         report={}, severity=HIGH, created_at=NOW)  # fmt: skip
    db.session.add(row)
    db.session.commit()
    return row


# -------------------------------------------------------------------------------------------------------------- raising


def test_an_alert_goes_to_each_enabled_channel_that_wants_it(hook: Receiver) -> None:
    make_channel(hook, "all")
    make_channel(hook, "severe", min_severity="CRITICAL")
    make_channel(hook, "others", alert_kinds=["olt_back", "system"])
    make_channel(hook, "off", enabled=False)
    assert say(NOW) == 1
    assert [row.channel.name for row in rows()] == ["all"]
    assert say(NOW, severity=CRITICAL) == 2


def test_an_alert_of_a_transaction_that_fails_was_never_raised(noc: Channel) -> None:
    with pytest.raises(RuntimeError), transaction() as writing:
        alerts.raise_alert(writing, AlertKind.SYSTEM, "disk full", "", NOW, severity=LOW)
        raise RuntimeError("the cause did not happen after all")
    assert rows() == []


def test_what_a_device_calls_itself_breaks_nothing(noc: Channel, hook: Receiver) -> None:
    assert say(NOW, N_("%(olt)s answers again", olt="a\x00b\ud800" + "x" * 400)) == 1
    passes(NOW, 1)
    assert states() == [SENT]
    assert hook.titles[0].startswith(("ab?xxx", "a"))


def test_alerts_are_told_in_their_own_language_and_kept_so_that_pages_can_say_them_in_another(
    app: Flask, noc: Channel, hook: Receiver
) -> None:
    app.config["ALERT_LANGUAGE"] = "es"
    say(NOW, N_("Unreachable"))
    passes(NOW, 1)
    app.config["ALERT_LANGUAGE"] = "en"
    say(NOW, N_("Unreachable"))
    passes(NOW, 1)
    assert hook.titles == ["No responde", "Unreachable"]
    assert rows()[0].subject == "Unreachable"


def test_an_olt_that_does_not_answer_and_one_that_is_back_are_told(noc: Channel, hook: Receiver) -> None:
    olt = make_olt()
    for moment, answers in ((NOW, False), (NOW + 90 * SECOND, True)):
        with transaction() as writing:
            row = writing.get_one(Olt, olt.id)
            if answers:
                reachability.back_up(writing, row, moment, "it answered a probe")
            else:
                row.consecutive_failures = 3
                reachability._give_up(writing, row, moment, "no answer")
    found = rows()
    assert [(row.alert_kind, row.subject, row.severity, row.olt_id) for row in found] == [
        (AlertKind.OLT_UNREACHABLE, "OLT-LIMA does not answer", HIGH, olt.id),
        (AlertKind.OLT_BACK, "OLT-LIMA answers again", HIGH, olt.id),
    ]
    assert "3 times in a row" in found[0].body and found[1].body == "It was away for 1 min 30 s."


def test_an_olt_that_answers_for_the_first_time_is_no_news(noc: Channel) -> None:
    olt = make_olt()
    with transaction() as writing:
        reachability.back_up(writing, writing.get_one(Olt, olt.id), NOW, "it answered")
    assert (db.session.get_one(Olt, olt.id).state, rows()) == (OltState.UP, [])


# ----------------------------------------------------------------------------------------------------------- delivering


def test_a_violation_whose_receiver_fails_twice_arrives_once_and_is_notified_once(noc: Channel, hook: Receiver) -> None:
    row = violation()
    hook.answers.extend((500, 500))
    say(NOW, "Quota not met", kind=AlertKind.QUOTA_VIOLATION, violation_id=row.id)
    passes(NOW, 40)
    assert (hook.refused, hook.titles, states()) == (2, ["Quota not met"], [SENT])
    db.session.refresh(row)
    # Refused at 0 and 15 s; taken 30 s later.
    assert (row.notified, row.notified_at, rows()[0].tries) == (True, NOW + 45 * SECOND, 3)


def test_a_violation_told_through_two_channels_is_notified_by_the_first(noc: Channel, hook: Receiver) -> None:
    other, row = make_channel(hook, "other"), violation()
    assert say(NOW, violation_id=row.id) == 2
    for moment, channel in ((NOW + SECOND, other), (NOW + 2 * SECOND, noc)):
        delivery.settle(delivery.claim(channel.id, moment), None, moment)
    db.session.refresh(row)
    assert (row.notified, row.notified_at) == (True, NOW + SECOND)


def test_a_try_that_fails_leaves_the_violation_unnotified_and_says_why(noc: Channel, hook: Receiver) -> None:
    row = violation()
    hook.answers.append(500)
    say(NOW, violation_id=row.id)
    passes(NOW, 1)
    db.session.refresh(row)
    (one,) = rows()
    assert (row.notified, one.status, one.error) == (False, PENDING, "The receiver refused the message")
    assert "500" in one.answer
    assert (noc.failures, noc.retry_at) == (1, NOW + 15 * SECOND)


def test_what_waits_is_told_in_one_message(noc: Channel, hook: Receiver) -> None:
    for number in range(30):
        say(NOW, f"OLT-{number} does not answer", CRITICAL if number == 7 else HIGH)
    passes(NOW, 3)
    assert states() == [SENT] * 30
    (message,) = hook.taken
    assert hook.titles in (["30 alertas, la peor: gravedad crítica"], ["30 alerts, the worst: critical severity"])
    told = message["message"].splitlines()
    assert told[0].startswith("OLT-7 does not answer") and "10" in told[-1]


def test_two_channels_get_their_own_message_each(noc: Channel, hook: Receiver) -> None:
    make_channel(hook, "other")
    say(NOW)
    passes(NOW, 2)
    assert len(hook.taken) == 2 and states() == [SENT, SENT]


def test_quiet_hours_hold_back_until_the_morning_what_is_not_critical(hook: Receiver) -> None:
    make_channel(hook, quiet_start="22:00", quiet_end="07:00")
    night = datetime(2026, 11, 28, 4, 0, tzinfo=UTC)  # 23:00 in Lima
    say(night, "held one")
    say(night, "held two")
    say(night, "at once", CRITICAL)
    passes(night, 1)
    assert (hook.titles, states()) == (["at once"], [PENDING, PENDING, SENT])
    passes(night + 8 * HOUR - SECOND, 1)
    assert len(hook.taken) == 1
    passes(night + 8 * HOUR, 1)
    assert len(hook.taken) == 2 and states() == [SENT] * 3


def test_no_more_messages_leave_in_an_hour_than_the_channel_allows(hook: Receiver) -> None:
    make_channel(hook, per_hour=3)
    for number in range(12):  # one alert and one pass each minute
        say(NOW + number * MINUTE, f"alert {number}")
        passes(NOW + number * MINUTE, 1)
    assert hook.titles == ["alert 0", "alert 1"]
    say(NOW + 12 * MINUTE, "alert 12", CRITICAL)
    passes(NOW + 12 * MINUTE, 1)
    assert len(hook.taken) == 3 and states() == [SENT] * 13
    say(NOW + 13 * MINUTE, "too much", CRITICAL)
    passes(NOW + 13 * MINUTE, 1)
    assert len(hook.taken) == 3
    passes(NOW + HOUR, 1)
    assert hook.titles[3:] == ["too much"]


def test_an_alert_is_given_up_after_a_day_of_failures_and_can_be_sent_again(noc: Channel, hook: Receiver) -> None:
    hook.answers.extend([500] * 100)
    say(NOW)
    passes(NOW, 25 * 6, 10 * MINUTE)
    (one,) = rows()
    assert (one.status, 40 < one.tries < 60, hook.taken) == (GIVEN_UP, True, [])
    hook.answers.clear()
    end = NOW + 26 * HOUR
    by_hand.resend(one.id, ACTOR, end)
    passes(end, 1)
    assert (states(), len(hook.taken)) == ([SENT], 1)
    with pytest.raises(Conflict):
        by_hand.resend(one.id, ACTOR, end)
    actions = list(db.session.scalars(select(AuditLog.action).order_by(AuditLog.id)))
    assert actions == ["channel.create", "notification.resend"]


def test_a_channel_that_hangs_delays_no_other(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as stuck:
        stuck.hang = threading.Event()
        make_channel(stuck, "a hangs")
        make_channel(hook, "b works")
        say(NOW)
        both = threading.Event()

        def send(url: str, title: str, body: str) -> None:
            if url == hook.url:
                notify.send(url, title, body)
                both.set()
            else:
                assert both.wait(20)  # hangs until the other has been sent to
                raise notify.DeliveryFailed(notify.NOT_IN_TIME)

        assert delivery.deliver(NOW, send) == delivery.Delivered(1, 1)
    assert len(hook.taken) == 1


def test_a_pause_is_counted_from_the_end_of_a_try_that_the_receiver_let_hang(noc: Channel) -> None:
    def hangs(_url: str, _title: str, _body: str) -> None:
        raise notify.DeliveryFailed(notify.NOT_IN_TIME)

    say(NOW)
    delivery.deliver(NOW, hangs, lambda: NOW + 15 * SECOND)
    db.session.refresh(noc)
    assert noc.retry_at == NOW + 30 * SECOND


@pytest.mark.parametrize("step", ["claim", "settle"])
def test_a_channel_whose_rows_cannot_be_written_holds_up_no_other_and_is_not_hushed_up(
    noc: Channel, hook: Receiver, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    others = [make_channel(hook, name) for name in ("b", "c")]
    say(NOW)
    whole = getattr(delivery, step)

    def breaks(which: Any, *more: Any) -> Any:
        if noc.id in (which, getattr(which, "channel_id", None)):
            raise OSError("the database went away")
        return whole(which, *more)

    monkeypatch.setattr(delivery, step, breaks)
    with pytest.raises(OSError, match="went away"):
        passes(NOW, 1)
    told = {row.channel_id: row.status for row in rows()}
    assert [told[one.id] for one in others] == [SENT, SENT] and told[noc.id] is not SENT


def test_a_channel_says_what_it_did_last_whichever_row_that_was(noc: Channel, hook: Receiver) -> None:
    hook.answers.append(500)
    say(NOW, "first")
    passes(NOW, 1)
    say(NOW + SECOND, "second")
    (shown,) = read_channels(NOW, LIMA)
    assert (shown.error, shown.last_sent_at) == ("The receiver refused the message", None)
    passes(NOW + 15 * SECOND, 1)
    (shown,) = read_channels(NOW, LIMA)
    assert (shown.error, shown.answer, shown.last_sent_at) == ("", "", NOW + 15 * SECOND)
    hook.answers.append(403)
    by_hand.test(noc.id, ACTOR, NOW + MINUTE, notify.send)
    (shown,) = read_channels(NOW, LIMA)
    assert (shown.error, shown.last_sent_at) == (str(notify.WHO_ARE_YOU), NOW + 15 * SECOND)


# ----------------------------------------------------------------------------------------- two at once, and killed ones


def test_while_a_message_is_on_its_way_nobody_else_takes_anything_of_that_channel(noc: Channel) -> None:
    say(NOW, "first")
    assert delivery.claim(noc.id, NOW) is not None
    say(NOW, "second")
    assert delivery.claim(noc.id, NOW + SECOND) is None
    assert states() == [SENDING, PENDING]


def test_two_deliverers_at_once_send_each_alert_exactly_once(app: Flask, noc: Channel, hook: Receiver) -> None:
    make_channel(hook, "other")
    for number in range(20):
        say(NOW, f"alert {number}")
    seen, guard = Counter[str](), threading.Lock()

    def send(_url: str, _title: str, body: str) -> None:
        with guard:
            seen.update(line.split(" (")[0] for line in body.splitlines() if line.startswith("alert "))

    def work() -> None:
        for number in range(5):
            delivery.deliver(NOW + number * SECOND, send)

    db.session.rollback()
    at_once(app, [work] * 4)
    assert seen == {f"alert {number}": 2 for number in range(20)}
    assert states() == [SENT] * 40


def test_who_is_killed_before_sending_leaves_its_alerts_to_the_next(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    assert delivery.claim(noc.id, NOW) is not None  # and then it was killed
    passes(NOW + delivery.SENDING - SECOND, 1)
    assert hook.taken == []
    passes(NOW + delivery.SENDING, 1)
    assert (len(hook.taken), states()) == (1, [SENT])


def test_a_kill_between_sending_and_writing_it_down_makes_the_alert_come_twice(noc: Channel, hook: Receiver) -> None:
    # At least once, as docs/alerts.md says: no receiver can be asked whether it took something.
    say(NOW)
    batch = delivery.claim(noc.id, NOW)
    assert batch is not None and delivery.attempt(notify.send, batch) is None  # and then it was killed
    passes(NOW + delivery.SENDING, 3)
    assert (len(hook.taken), states()) == (2, [SENT])


def test_who_wakes_up_late_writes_nothing_over_what_another_did(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    stalled = delivery.claim(noc.id, NOW)
    passes(NOW + delivery.SENDING, 1)
    assert states() == [SENT]
    delivery.settle(stalled, delivery.Failure(delivery.OUR_FAULT), NOW + 4 * MINUTE)
    (one,) = rows()
    assert (one.status, one.error, noc.failures) == (SENT, "", 0)


def test_who_wakes_up_late_does_not_settle_the_message_of_another(noc: Channel) -> None:
    say(NOW)
    stalled, other = delivery.claim(noc.id, NOW), delivery.claim(noc.id, NOW + delivery.SENDING)
    for outcome in (None, delivery.Failure(delivery.OUR_FAULT)):
        delivery.settle(stalled, outcome, NOW + 4 * MINUTE)
        assert [(row.status, row.message) for row in rows()] == [(SENDING, other.message)]


def test_who_wakes_up_late_but_before_another_try_is_believed(noc: Channel) -> None:
    say(NOW)
    slow = delivery.claim(noc.id, NOW)
    with transaction() as writing:
        delivery._take_back(writing, noc.id, NOW + delivery.SENDING)
    delivery.settle(slow, None, NOW + 4 * MINUTE)
    assert states() == [SENT]


def test_rows_claimed_in_a_future_that_did_not_come_are_taken_back(noc: Channel, hook: Receiver) -> None:
    say(NOW + HOUR)
    assert delivery.claim(noc.id, NOW + HOUR) is not None
    passes(NOW, 1)  # the clock was set back by an hour, and the deliverer is gone
    assert states() == [SENT]


@pytest.mark.parametrize("seed", range(2))
def test_over_random_passes_failures_and_kills_no_alert_is_lost_and_none_doubled_without_a_kill(
    noc: Channel, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "LISTED", 1000)  # so that the receiver can name each
    monkeypatch.setattr(alerting, "LONGEST_BODY", 100_000)
    chance, arrived, killed, raised = random.Random(seed), Counter[str](), set[str](), 0

    def send(_url: str, title: str, body: str) -> None:
        subjects = [title.removeprefix("Facho Deluxe: ")] if "alert-" in title else []
        subjects += [line.split(" (")[0] for line in body.splitlines() if line.startswith("alert-")]
        if chance.random() < 0.3:
            raise notify.DeliveryFailed(notify.REFUSED)
        arrived.update(subjects)

    for step in range(40):
        moment = NOW + step * 20 * SECOND
        for _ in range(chance.choice((0, 0, 1, 3))):
            raised += 1
            say(moment, f"alert-{raised}")
        if chance.random() < 0.15:
            batch = delivery.claim(noc.id, moment)  # a deliverer that is killed, before or after sending
            if batch is not None and delivery.attempt(send, batch) is None:
                killed.update(row.subject for row in rows() if row.status is SENDING)
        else:
            delivery.deliver(moment, send)
    for step in range(20):
        delivery.deliver(NOW + HOUR + step * MINUTE, lambda *told: send(*told))
        if all(state is SENT for state in states()):
            break
    assert set(states()) == {SENT} and len(states()) == raised
    assert set(arrived) == {f"alert-{number}" for number in range(1, raised + 1)}
    assert {subject for subject, times in arrived.items() if times > 1} <= killed


# ------------------------------------------------------------------------------------------------ channels, and secrets


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("", "is missing"),
        ("nonsense", "begins with the service"),
        ("gopher://planted-hook-token", "no service that is known"),
        ("slack://planted-hook-token", "no complete address of slack://"),
        ("https://planted-hook-token.example.net/x", "jsons://"),
        ("file:///planted-hook-token", "no service that is known"),
    ],
)
def test_an_address_that_is_nonsense_gets_a_clear_error_that_does_not_repeat_it(target: str, told: str) -> None:
    errors = errors_of(channels.save, {"name": "noc", "target": target}, ACTOR, NOW)
    assert set(errors) == {"target"} and told in errors["target"] and TOKEN not in str(errors)


T2BOT_TOKEN = "planted" + "a1B2c3D4" * 7 + "z"


@pytest.mark.parametrize(
    ("target", "kind", "host"),
    [
        (f"matrixs://{T2BOT_TOKEN}", "matrixs", ""),
        (f"matrixs://{T2BOT_TOKEN}?mode=t2bot", "matrixs", ""),
        (f"https://webhooks.t2bot.io/api/v1/matrix/hook/{T2BOT_TOKEN}", "matrixs", ""),
        ("matrixs://user:planted@matrix.example.net/#noc", "matrixs", "matrix.example.net"),
        ("rockets://planted1234567890/planted9876@chat.example.net/#noc", "rockets", "chat.example.net"),
        ("rocket://user:planted@chat.example.net/#noc", "rocket", "chat.example.net"),
        ("ntfys://planted-topic", "ntfys", ""),
        ("ntfys://planted-topic/?mode=cloud", "ntfys", ""),
        ("ntfys://planted-one/planted-one/?mode=cloud", "ntfys", ""),
        ("ntfys://ntfy.example.net/planted-topic", "ntfys", "ntfy.example.net"),
        ("zulip://planted@org/plantedplantedplantedplanted0123/noc", "zulip", "org"),
        ("jsons://[2001:db8::7]/planted", "jsons", "[2001:db8::7]"),
    ],
)
def test_of_an_address_only_the_server_is_shown_wherever_the_secret_stands(target: str, kind: str, host: str) -> None:
    made = db.session.get_one(Channel, channels.save({"name": "noc", "target": target}, ACTOR, NOW))
    assert (made.kind, made.host) == (kind, host)
    assert "planted" not in str([row.changes for row in db.session.scalars(select(AuditLog))])
    failed = notify._failure(target, notify._service(target)[0], [notify._Heard("ERROR", f"no {target}")])
    assert "planted" not in failed.answer


@pytest.mark.parametrize(
    "target",
    ["tgram://123456789:bot_token_of_planted/1234/5678", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#a/#b"],
)
def test_an_address_of_several_targets_is_refused_one_that_fails_would_tell_the_rest(noc: Channel, target: str) -> None:
    told = errors_of(channels.save, {"target": target}, ACTOR, NOW, noc.id)["target"]
    assert "a channel for each" in told and "planted" not in told


def test_an_address_is_stored_encrypted_and_never_in_the_audit(noc: Channel) -> None:
    channels.save({"target": "tgram://123456789:planted_bot_token_abc/42"}, ACTOR, NOW, noc.id)
    db.session.refresh(noc)
    assert (noc.kind, noc.host, noc.target) == ("tgram", "", "tgram://123456789:planted_bot_token_abc/42")
    assert b"planted" not in (noc.sealed_target or b"")
    stored = list(db.session.scalars(select(AuditLog).order_by(AuditLog.id)))
    assert "planted" not in str([(row.changes, row.subject_name) for row in stored])
    assert stored[1].changes == {"target": ["***", "***"], "address": ["json://127.0.0.1", "tgram://…"]}


def test_nothing_of_an_address_reaches_errors_or_logs(hook: Receiver, heard: StringIO) -> None:
    for name, url in (
        ("closed", f"json://usuario:{TOKEN}@127.0.0.1:1/{TOKEN}?+X-Key={TOKEN}"),
        ("telegram", f"tgram://123456789:{TOKEN.replace('-', '_')}_and_more/42"),
        ("moved", hook.url),
    ):
        channels.save({"name": name, "target": url}, ACTOR, NOW)
    hook.answers.append(302)
    say(NOW)
    passes(NOW, 1)
    found = rows()
    assert {row.status for row in found} == {PENDING} and all(row.error for row in found)
    told = str([(row.error, row.answer) for row in found]) + heard.getvalue()
    assert "event=alert_failed channel=closed" in told
    assert TOKEN not in told and "planted_hook" not in told


def test_what_a_service_says_of_itself_is_told_without_any_part_of_the_address() -> None:
    heard = [notify._Heard("WARNING", f"Failed: {TOKEN} of user%40isp, chat 12315544, error=404 at isp.example")]
    url = f"mailto://user%40isp:{TOKEN}@isp.example?to=12315544"
    failed = notify._failure(url, notify._service(url)[0], heard)
    assert failed.message == notify.REFUSED
    assert failed.answer == "Failed: *** of ***, chat ***, error=404 at isp.example"


def test_a_redirect_is_not_followed_for_it_would_lose_the_message(noc: Channel, hook: Receiver) -> None:
    hook.answers.append(302)
    say(NOW)
    passes(NOW, 1)
    assert (states(), "302" in rows()[0].answer) == ([PENDING], True)


def test_an_address_cannot_ask_for_a_failure_to_count_as_success_or_for_tries_of_its_own(hook: Receiver) -> None:
    hook.answers.extend([500] * 9)
    with pytest.raises(notify.DeliveryFailed):
        notify.send(f"{hook.url}?optional=yes&retry=3&wait=0&redirect=yes&rto=900", "title", "body")
    assert hook.refused == 1


def test_a_receiver_that_never_answers_is_given_up_in_time(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.hang = threading.Event()
    for read, total in ((0.2, notify.TOTAL_SECONDS), (30.0, 0.3)):
        monkeypatch.setattr(notify, "READ_SECONDS", read)
        monkeypatch.setattr(notify, "TOTAL_SECONDS", total)
        with pytest.raises(notify.DeliveryFailed) as caught:
            notify.send(hook.url, "title", "body")
        assert caught.value.message == notify.NOT_IN_TIME


def test_a_process_forked_after_a_message_was_sent_sends_its_own(hook: Receiver) -> None:
    """Workers are forks: a pool of threads that their parent had used would never answer them."""
    notify.send(hook.url, "of the parent", "body")
    child = multiprocessing.get_context("fork").Process(target=notify.send, args=(hook.url, "of the child", "body"))
    child.start()
    child.join()
    assert (child.exitcode, hook.titles) == (0, ["of the parent", "of the child"])


def test_without_the_key_alerts_wait_and_say_so_and_leave_when_the_address_is_entered_again(
    app: Flask, noc: Channel, hook: Receiver
) -> None:
    say(NOW)
    keyring.load(app, [Fernet.generate_key().decode()])
    passes(NOW, 1)
    (one,) = rows()
    assert (one.status, one.error) == (PENDING, str(delivery.LOST_KEY))
    failed = by_hand.test(noc.id, ACTOR, NOW, notify.send)
    assert failed is not None and failed.error == delivery.LOST_KEY
    channels.save({"name": "renamed"}, ACTOR, NOW, noc.id)  # the rest of it can be changed
    channels.save({"target": hook.url}, ACTOR, NOW, noc.id)
    passes(NOW + SECOND, 1)
    assert [row.status for row in rows() if row.alert_kind is not AlertKind.TEST] == [SENT]
    keyring.load(app, [FERNET_KEY])


def test_the_test_button_tells_the_true_answer_whatever_the_channel_is_set_to(hook: Receiver) -> None:
    channel = make_channel(hook, alert_kinds=["system"], enabled=False, per_hour=1,
                           quiet_start="00:00", quiet_end="23:59")  # fmt: skip
    hook.answers.append(403)
    refused = by_hand.test(channel.id, ACTOR, NOW, notify.send)
    assert refused is not None and refused.error == notify.WHO_ARE_YOU and "403" in refused.answer
    assert by_hand.test(channel.id, ACTOR, NOW, notify.send) is None
    assert states() == [GIVEN_UP, SENT] and len(hook.taken) == 1
    passes(NOW, 2)
    assert len(hook.taken) == 1  # a test is never repeated by itself


def test_a_test_that_arrives_lets_what_waits_for_a_retry_leave_at_once(noc: Channel, hook: Receiver) -> None:
    hook.answers.extend((500, 500))
    say(NOW)
    passes(NOW, 4)
    assert states() == [PENDING]
    assert by_hand.test(noc.id, ACTOR, NOW + 16 * SECOND, notify.send) is None
    passes(NOW + 17 * SECOND, 1)
    assert states() == [SENT, SENT]


def test_a_test_whose_sender_vanished_is_given_up(noc: Channel, hook: Receiver) -> None:
    by_hand._begin(noc.id, ACTOR, NOW)
    passes(NOW + delivery.SENDING, 1)
    assert (states(), hook.taken) == ([GIVEN_UP], [])


def test_what_waits_for_a_channel_that_is_disabled_is_given_up(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    channels.save({"enabled": False}, ACTOR, NOW, noc.id)
    channels.save({"enabled": True}, ACTOR, NOW, noc.id)
    passes(NOW, 1)
    (one,) = rows()
    assert (one.status, one.error, hook.taken) == (GIVEN_UP, str(channels.SWITCHED_OFF), [])


def test_what_was_on_its_way_as_its_channel_was_disabled_never_leaves_weeks_later(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    batch = delivery.claim(noc.id, NOW)
    channels.save({"enabled": False}, ACTOR, NOW, noc.id)
    delivery.settle(batch, delivery.Failure(notify.REFUSED), NOW + SECOND)
    assert states() == [GIVEN_UP]
    channels.save({"enabled": True}, ACTOR, NOW + timedelta(days=20), noc.id)
    passes(NOW + timedelta(days=20), 2)
    assert hook.taken == []


def test_what_a_killed_one_left_behind_never_leaves_when_the_channel_is_on_again(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    assert delivery.claim(noc.id, NOW) is not None  # and then it was killed
    channels.save({"enabled": False}, ACTOR, NOW, noc.id)
    with transaction() as writing:  # raised in the moment in which it was disabled
        writing.add(alerts.row(noc.id, AlertKind.SYSTEM, "late", "", NOW, HIGH))
    channels.save({"enabled": True}, ACTOR, NOW + HOUR, noc.id)
    passes(NOW + HOUR, 2)
    assert (states(), hook.taken) == ([GIVEN_UP, GIVEN_UP], [])


def test_a_channel_takes_its_alerts_along_and_frees_its_name(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    with pytest.raises(Invalid):
        make_channel(hook, "noc")
    channels.delete(noc.id, ACTOR, NOW)
    assert rows() == []
    make_channel(hook, "noc")
    with pytest.raises(NotFound):
        channels.delete(99, ACTOR, NOW)


def test_alerts_are_kept_for_thirty_days_but_those_that_still_wait_for_ever(noc: Channel) -> None:
    for _ in range(4):
        say(NOW - timedelta(days=31))
    say(NOW - timedelta(days=29))
    ids = [row.id for row in rows()]
    for ident, status in zip(ids, (SENT, GIVEN_UP, PENDING, SENDING, SENT), strict=True):
        db.session.execute(update(Notification).where(Notification.id == ident).values(status=status))
    db.session.commit()
    retention.clean_up(NOW, 14, 30)
    assert [row.id for row in rows()] == ids[2:]


def test_the_periodic_job_delivers(noc: Channel, hook: Receiver) -> None:
    say(NOW)
    upkeep.send_alerts()
    assert (len(hook.taken), states()) == (1, [SENT])


def test_a_message_is_short_enough_for_every_service(noc: Channel, hook: Receiver) -> None:
    moment = datetime(2026, 11, 27, tzinfo=UTC)
    with transaction() as writing:
        for number in range(40):
            alerts.raise_alert(writing, AlertKind.SYSTEM, f"s{number} " + "x" * 250, "y" * 5000, moment, severity=HIGH)
    passes(moment, 1)
    (message,) = hook.taken
    assert len(message["message"]) <= alerting.LONGEST_BODY + 100 and states() == [SENT] * 40
