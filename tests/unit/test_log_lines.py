"""Lines of the decision log's file: the documents' format, and no text that leaves its line."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from portal.domain.log_lines import LONGEST, clean, line

# `2025-10-21 08:30:15 [INFO] coordinator.coordinator_loop: text`
FORMAT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[[A-Z]+\] coordinator\.coordinator_loop: .+\n")


def test_a_line_has_the_time_the_level_and_the_loop_in_the_format_that_log_readers_expect() -> None:
    moment = datetime(2025, 10, 21, 8, 30, 15, tzinfo=ZoneInfo("America/Lima"))
    made = line(moment, "INFO", "OLT-CENTRAL-01: changes", "event=TASK_ADDED id=7")
    assert FORMAT.fullmatch(made)
    assert made == (
        "2025-10-21 08:30:15 [INFO] coordinator.coordinator_loop: OLT-CENTRAL-01: changes (event=TASK_ADDED id=7)\n"
    )


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("two\nlines\r\n2026 [CRITICAL] forged", "two lines 2026 [CRITICAL] forged"),
        ("bell\x07 nul\x00 escape\x1b[31m", "bell nul escape [31m"),
        ("next\x85line\u2028sep\u2029par", "next line sep par"),
        ("right\u202eto left\u200b", "right to left"),
        ("half \ud800 character", "half character"),
        ("pictures \U0001f6a8 and \u2705 gone", "pictures and gone"),
        ("Potencia óptica −21,4 dBm a 20 °C", "Potencia óptica −21,4 dBm a 20 °C"),
    ],
)
def test_what_a_device_wrote_stays_on_its_line(told: str, kept: str) -> None:
    assert clean(told) == kept


def test_a_text_without_end_is_cut() -> None:
    assert len(clean("x" * 100_000)) == LONGEST
