"""Intervals and cron lines in words, in both languages; lines too odd for words are shown as they are."""

from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from flask_babel import force_locale

from portal.domain.fields import FieldError
from portal.web import schedule_words
from testing.cast import at

NOW = datetime(2026, 11, 27, 10, 0, 0, 500_000, tzinfo=UTC)  # 05:00 in Lima, a Friday


@pytest.mark.parametrize(
    ("line", "said"),
    [("* * * * *", "Every minute, each day"),
     ("*/10 * * * *", "Every 10 min, each day"),
     ("5,35 * * * *", "Each hour at minute 5 and 35, each day"),
     ("0 */6 * * *", "At 00:00, 06:00, 12:00, and 18:00, each day"),
     ("30 6 * * MON-FRI", "At 06:30, on Monday, Tuesday, Wednesday, Thursday, and Friday"),
     ("0 3 * * 0", "At 03:00, on Sunday"),
     ("0 3 * * 7", "At 03:00, on Sunday"),
     ("0 3 1,15 * *", "At 03:00, on day 1 and 15 of the month"),
     ("0 3 1 JAN *", "At 03:00, on day 1 of the month, in January"),
     ("0 3 1 * 1", "At 03:00, on day 1 of the month, and also on Monday"),
     ("0 8-18 * * *", "At minute 0 of the hours 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, and 18, each day"),
     ("0 3 L * *", "By the cron line 0 3 L * *"),
     ("0 0 3 * * *", "By the cron line 0 0 3 * * *")],
)  # fmt: skip
def test_a_cron_line_in_words(app: Flask, line: str, said: str) -> None:
    with app.test_request_context(), force_locale("en"):
        assert schedule_words.of_cron(line).replace("\u202f", " ") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(30, "Every 30 s: 120 runs an hour"), (900, "Every 15 min: 4 runs an hour"), (3600, "Every 1 h: 1 run an hour"),
     (1440, "Every 24 min: 2.5 runs an hour"), (86400, "Every 1 d")],
)  # fmt: skip
def test_an_interval_in_words(app: Flask, seconds: int, said: str) -> None:
    with app.test_request_context(), force_locale("en"):
        assert schedule_words.of_interval(seconds).replace("\u202f", " ") == said


def test_the_next_runs_are_in_the_portals_zone(app: Flask) -> None:
    with app.app_context():
        assert schedule_words.next_runs(None, "0 6 * * *", NOW, 2) == [
            at("11:00"), datetime(2026, 11, 28, 11, 0, tzinfo=UTC),
        ]  # fmt: skip
        first = NOW.replace(microsecond=0) + timedelta(seconds=60)
        assert schedule_words.next_runs(600, None, NOW, 2) == [first, first + timedelta(minutes=10)]
        with pytest.raises(FieldError):
            schedule_words.next_runs(None, "61 * * * *", NOW)
