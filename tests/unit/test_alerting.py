"""Which alerts of a channel leave now: quiet hours on any night, the rate, retries; nothing is lost or doubled."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from portal.domain import alerting, channel_fields
from portal.domain.alerting import Hold, Rules, Verdict, Waiting
from portal.domain.fields import FieldError
from portal.domain.messages import N_, Message, packed, unpacked
from portal.domain.statuses import AlertKind, Severity
from portal.services.alerting.alerts import lines
from testing.cast import HOUR, LIMA, MINUTE, SANTIAGO

NOW = datetime(2026, 11, 27, 15, 0, tzinfo=UTC)  # 10:00 in Lima
NIGHT = (22 * 60, 7 * 60)


def rules(quiet: tuple[int, int] | None = None, per_hour: int = 30, retry_at: datetime | None = None) -> Rules:
    return Rules(quiet, per_hour, retry_at)


def some(*severities: Severity) -> list[Waiting]:
    return [Waiting(number, severity, NOW + number * MINUTE) for number, severity in enumerate(severities, 1)]


def decided(rules: Rules, *waiting: Severity, sent: Sequence[datetime] = (), now: datetime = NOW) -> Verdict:
    return alerting.decide(rules, some(*waiting), list(sent), now, LIMA)


def at(text: str, zone: ZoneInfo, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).astimezone(UTC)


# ------------------------------------------------------------------------------------------------------ what leaves now


def test_all_that_waits_leaves_in_one_message_the_worst_and_then_the_oldest_first() -> None:
    assert decided(rules(), Severity.LOW, Severity.HIGH, Severity.CRITICAL, Severity.HIGH) == Verdict((3, 2, 4, 1))
    assert decided(rules(quiet=(0, 1439))) == Verdict()


def test_a_channel_gets_the_kinds_it_chose_from_its_severity_on() -> None:
    wanted = {
        (("olt_back",), Severity.LOW, Severity.HIGH): False,
        (("olt_unreachable",), Severity.HIGH, Severity.HIGH): True,
        (("olt_unreachable",), Severity.CRITICAL, Severity.HIGH): False,
        (("olt_back", "olt_unreachable"), Severity.LOW, Severity.LOW): True,
    }
    found = {one: alerting.wants(list(one[0]), one[1], AlertKind.OLT_UNREACHABLE, one[2]) for one in wanted}
    assert found == wanted


def test_severities_are_ranked_as_people_do() -> None:
    assert sorted(Severity, key=lambda one: alerting.RANK[one]) == ["LOW", "MEDIUM", "HIGH", "CRITICAL"]


# ---------------------------------------------------------------------------------------------------------- quiet hours


def test_quiet_hours_hold_what_is_not_critical_until_their_end() -> None:
    night, morning, quiet = at("2026-11-27 23:10", LIMA), at("2026-11-28 07:00", LIMA), rules(quiet=NIGHT)
    assert decided(quiet, Severity.HIGH, Severity.LOW, now=night) == Verdict(hold=Hold.QUIET, until=morning)
    assert decided(quiet, Severity.HIGH, Severity.CRITICAL, now=night) == Verdict((2,), Hold.QUIET, morning)
    assert decided(quiet, Severity.HIGH, now=morning).send == (1,)


def test_quiet_hours_may_cross_midnight() -> None:
    night = {"21:59": False, "22:00": True, "00:00": True, "06:59": True, "07:00": False}
    noon = {"13:00": True, "14:00": False}
    for quiet, clocks in ((NIGHT, night), ((780, 840), noon)):
        assert {clock: alerting.is_quiet(at(f"2026-11-27 {clock}", LIMA), quiet, LIMA) for clock in clocks} == clocks


def test_an_end_that_the_clock_jumps_over_is_the_jump_itself() -> None:
    # On 2026-09-06 in Santiago 00:00 is 01:00.
    end = alerting.quiet_until(at("2026-09-05 23:40", SANTIAGO), (23 * 60, 30), SANTIAGO)
    assert end == at("2026-09-06 01:00", SANTIAGO)


def test_an_hour_that_comes_twice_is_quiet_twice() -> None:
    # On 2026-04-04 in Santiago 24:00 is 23:00 once more.
    quiet = (23 * 60, 23 * 60 + 30)
    first, second = at("2026-04-04 23:10", SANTIAGO), at("2026-04-04 23:10", SANTIAGO, fold=1)
    assert second - first == HOUR
    assert alerting.quiet_until(first, quiet, SANTIAGO) == first + 20 * MINUTE
    assert alerting.quiet_until(second, quiet, SANTIAGO) == second + 20 * MINUTE


@pytest.mark.parametrize("seed", range(20))
def test_the_end_of_quiet_hours_is_the_first_minute_that_is_not_quiet(seed: int) -> None:
    chance = random.Random(seed)
    start = chance.randrange(1440)
    quiet = (start, (start + chance.randrange(1, 1440)) % 1440)
    day = chance.choice(["2026-09-05", "2026-04-04", "2026-06-30", "2026-12-31"])
    now = at(f"{day} 12:00", SANTIAGO) + timedelta(seconds=chance.randrange(24 * 3600))
    until = alerting.quiet_until(now, quiet, SANTIAGO)
    assert (until is not None) == alerting.is_quiet(now, quiet, SANTIAGO)
    if until is not None:
        assert not alerting.is_quiet(until, quiet, SANTIAGO)
        moments = [now + n * MINUTE for n in range(int((until - now) / MINUTE) + 1)]
        assert until > now and all(alerting.is_quiet(one, quiet, SANTIAGO) for one in moments)


# ----------------------------------------------------------------------------------------------------- rate and retries


def test_the_rate_counts_messages_of_the_last_hour_and_keeps_the_last_for_what_is_critical() -> None:
    three, sent, soon = rules(per_hour=3), [NOW - 50 * MINUTE, NOW - 10 * MINUTE], NOW + 10 * MINUTE
    assert decided(three, Severity.HIGH, sent=sent) == Verdict(hold=Hold.RATE, until=soon)
    assert decided(three, Severity.HIGH, Severity.CRITICAL, sent=sent).send == (2, 1)
    assert decided(three, Severity.CRITICAL, sent=[*sent, NOW - MINUTE]).until == soon
    assert decided(three, Severity.HIGH, sent=sent, now=soon).send == (1,)


def test_a_channel_says_something_though() -> None:
    cases = {
        "it may send a single message an hour": decided(rules(per_hour=1), Severity.LOW),
        "messages lie in the future, for the clock was set back": decided(
            rules(per_hour=1), Severity.LOW, sent=[NOW + 5 * HOUR]
        ),
        "its next try is further away than any gap": decided(rules(retry_at=NOW + 5 * HOUR), Severity.LOW),
    }
    assert {case: verdict.send for case, verdict in cases.items()} == dict.fromkeys(cases, (1,))


def test_after_a_failed_try_everything_waits_for_the_next() -> None:
    later = NOW + 2 * MINUTE
    assert decided(rules(retry_at=later), Severity.CRITICAL) == Verdict((), Hold.RETRY, later)
    assert decided(rules(retry_at=later), Severity.CRITICAL, now=later).send == (1,)


def test_gaps_grow_to_half_an_hour_and_an_alert_is_given_up_after_a_day() -> None:
    gaps = [alerting.gap(n).total_seconds() for n in range(1, 12)]
    assert gaps == sorted(gaps) and (gaps[0], gaps[-1]) == (15, 1800)
    assert not alerting.is_over(NOW, NOW + 24 * HOUR - MINUTE) and alerting.is_over(NOW, NOW + 24 * HOUR)


# ---------------------------------------------------------------------------------------------------- random histories


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_over_a_random_day_and_a_half_no_alert_is_lost_doubled_or_told_when_it_is_quiet(seed: int) -> None:
    chance = random.Random(seed)
    quiet = chance.choice([None, NIGHT, (780, 840)])
    per_hour, raised, waiting = chance.choice([1, 2, 6, 60]), 0, dict[int, Waiting]()
    told, messages, failures, retry_at = Counter[int](), list[datetime](), 0, None
    for now in (NOW + timedelta(seconds=37 * n) for n in range(3500)):
        calm = now > NOW + 26 * HOUR  # nothing new, and the receiver is there: everything must leave
        while not calm and chance.random() < 0.2:
            raised += 1
            waiting[raised] = Waiting(raised, chance.choice(list(Severity)), now)
        verdict = alerting.decide(rules(quiet, per_hour, retry_at), list(waiting.values()), messages, now, LIMA)
        if not verdict.send:
            continue
        told_now = {waiting[n].severity for n in verdict.send}
        assert not alerting.is_quiet(now, quiet, LIMA) or told_now == {Severity.CRITICAL}
        if not calm and chance.random() < 0.3:
            failures += 1
            retry_at = now + alerting.gap(failures)
            continue
        failures, retry_at = 0, None
        messages.append(now)
        told.update(verdict.send)
        for one in verdict.send:
            del waiting[one]
        assert len([one for one in messages if one > now - HOUR]) <= per_hour
    assert waiting == {} and told == Counter(range(1, raised + 1))


# ---------------------------------------------------------------------------------------------- settings, and messages


def test_a_channels_settings_are_read_and_its_rules_hold() -> None:
    read = channel_fields.CHANNEL_FIELDS
    assert read["alert_kinds"]("system, olt_back") == ["olt_back", "system"]
    assert (read["quiet_start"]("22:30"), read["quiet_start"](""), channel_fields.clock(1350)) == (1350, None, "22:30")
    assert read["min_severity"]("high") is Severity.HIGH
    wrong = {"quiet_end": "24:00", "alert_kinds": ["test"], "min_severity": "worst", "per_hour": "0"}
    for name, value in wrong.items():
        with pytest.raises(FieldError):
            read[name](value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"), ({"alert_kinds": []}, "alert_kinds"), ({"quiet_start": 60}, "quiet_end"),
        ({"quiet_end": 60}, "quiet_start"), ({"quiet_start": 60, "quiet_end": 60}, "quiet_end"), ({}, None),
    ],
)  # fmt: skip
def test_a_channel_that_makes_no_sense_is_refused_by_field(changes: dict[str, object], field: str | None) -> None:
    errors = channel_fields.check_channel({**channel_fields.CHANNEL_DEFAULTS, "name": "noc", **changes})
    assert set(errors) == ({field} if field else set())


def test_a_message_survives_the_database_with_the_messages_inside_it() -> None:
    one = lines(N_("%(olt)s answers again", olt="OLT-1"), N_("It was away for %(minutes)d min %(seconds)d s.",
                                                            minutes=3, seconds=9), "plain")  # fmt: skip
    again = unpacked(packed(one), "")
    assert again == one == "OLT-1 answers again\nIt was away for 3 min 9 s.\nplain"
    assert isinstance(again, Message) and isinstance(again.params["first"], Message)
    assert (packed("plain"), unpacked(None, "plain")) == (None, "plain")
