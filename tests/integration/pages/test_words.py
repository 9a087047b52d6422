"""Words of closed sets that pages show, their gender, and intervals and cron lines in words, in both languages."""

from datetime import timedelta

import pytest
from flask import Flask
from flask_babel import force_locale

from portal.domain.fields import FieldError
from portal.domain.statuses import ErrorKind, SkipReason
from portal.queries.queue import Lane
from portal.web import schedule_words, words
from testing.cast import NOW, at
from testing.pages import Visitor, texts


def test_every_member_of_a_set_with_faces_has_one() -> None:
    missing = [f"{kind.__name__}.{one.name}" for kind in words.FACES for one in kind if one not in words.FACES[kind]]
    assert missing == []


def test_every_error_reason_and_lane_has_its_words() -> None:
    for known, told in ((ErrorKind, words.ERRORS), (SkipReason, words.SKIPS), (Lane, words.LANES)):
        assert set(known) == set(told)


def test_an_olt_is_habilitada_and_a_node_habilitado(built: Flask) -> None:
    person = Visitor(built).enter("operator")
    paths = ("/olts/1/edit", "/workflow-nodes/1/edit")
    assert [texts(person.get(path), "label:has(#f-enabled)") for path in paths] == [["Habilitada"], ["Habilitado"]]


# --------------------------------------------------------------------------------------------- intervals and cron lines

CRON_LINES = {
    "* * * * *": "Every minute, each day",
    "*/10 * * * *": "Every 10 min, each day",
    "5,35 * * * *": "Each hour at minute 5 and 35, each day",
    "0 */6 * * *": "At 00:00, 06:00, 12:00, and 18:00, each day",
    "30 6 * * MON-FRI": "At 06:30, on Monday, Tuesday, Wednesday, Thursday, and Friday",
    "0 3 * * 0": "At 03:00, on Sunday",
    "0 3 * * 7": "At 03:00, on Sunday",
    "0 3 1,15 * *": "At 03:00, on day 1 and 15 of the month",
    "0 3 1 JAN *": "At 03:00, on day 1 of the month, in January",
    "0 3 1 * 1": "At 03:00, on day 1 of the month, and also on Monday",
    "0 8-18 * * *": "At minute 0 of the hours 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, and 18, each day",
    "0 3 L * *": "By the cron line 0 3 L * *",
    "0 0 3 * * *": "By the cron line 0 0 3 * * *",
}
INTERVALS = {
    30: "Every 30 s: 120 runs an hour",
    900: "Every 15 min: 4 runs an hour",
    3600: "Every 1 h: 1 run an hour",
    1440: "Every 24 min: 2.5 runs an hour",
    86400: "Every 1 d",
}


def test_cron_lines_and_intervals_in_words(app: Flask) -> None:
    with app.test_request_context(), force_locale("en"):
        lines = {line: schedule_words.of_cron(line) for line in CRON_LINES}
        intervals = {seconds: schedule_words.of_interval(seconds) for seconds in INTERVALS}
    assert {line: said.replace("\u202f", " ") for line, said in lines.items()} == CRON_LINES
    assert {seconds: said.replace("\u202f", " ") for seconds, said in intervals.items()} == INTERVALS


def test_the_next_runs_are_in_the_portals_zone(app: Flask) -> None:
    now = NOW + timedelta(seconds=0.5)  # 05:00 in Lima, a Friday
    with app.app_context():
        six = [at("11:00"), at("11:00") + timedelta(days=1)]
        assert schedule_words.next_runs(None, "0 6 * * *", now, 2) == six
        first = NOW + timedelta(seconds=60)
        assert schedule_words.next_runs(600, None, now, 2) == [first, first + timedelta(minutes=10)]
        with pytest.raises(FieldError):
            schedule_words.next_runs(None, "61 * * * *", now)
