"""What is told in words: members of closed sets, lines of the log, readings and their charts."""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from portal.domain import words
from portal.domain.log_lines import LONGEST, clean, line
from portal.domain.messages import Message
from portal.domain.series import Step
from portal.domain.statuses import ErrorKind, LossCause, OltState, SkipReason
from portal.web.metrics import EPON, METRICS, chart, meaning
from portal.web.state_words import STATE_WORDS
from testing.cast import DAY, NOW
from testing.shipped import brands
from testing.tables import differing


def test_every_member_has_words_of_its_own() -> None:
    told: dict[type[StrEnum], Mapping[StrEnum, Message]] = {
        ErrorKind: words.ERRORS,
        SkipReason: words.SKIPS,
        LossCause: words.LOSSES,
        OltState: words.OLT_STATES,
    }
    for known, sayings in told.items():
        assert (set(sayings), len(set(sayings.values()))) == (set(known), len(known))


def test_one_skipped_slot_and_several_are_told_apart() -> None:
    told = [words.skipped("ONUs", slots, SkipReason.OLT_PAUSED) for slots in (1, 3)]
    assert told == [f"ONUs: {what} skipped. The OLT was paused" for what in ("its slot was", "3 slots were")]


# `2025-10-21 08:30:15 [INFO] coordinator.coordinator_loop: text`
FORMAT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[[A-Z]+\] coordinator\.coordinator_loop: .+\n")


def test_a_line_has_the_time_the_level_and_the_loop_in_the_format_that_log_readers_expect() -> None:
    moment = datetime(2025, 10, 21, 8, 30, 15, tzinfo=ZoneInfo("America/Lima"))
    made = line(moment, "INFO", "OLT-CENTRAL-01: changes", "event=TASK_ADDED id=7")
    assert FORMAT.fullmatch(made)
    assert made == (
        "2025-10-21 08:30:15 [INFO] coordinator.coordinator_loop: OLT-CENTRAL-01: changes (event=TASK_ADDED id=7)\n"
    )


def test_what_a_device_wrote_stays_on_its_line() -> None:
    kept = {
        "two\nlines\r\n2026 [CRITICAL] forged": "two lines 2026 [CRITICAL] forged",
        "bell\x07 nul\x00 escape\x1b[31m": "bell nul escape [31m",
        "next\x85line\u2028sep\u2029par": "next line sep par",
        "right\u202eto left\u200b": "right to left",
        "half \ud800 character": "half character",
        "pictures \U0001f6a8 and \u2705 gone": "pictures and gone",
        "Potencia óptica −21,4 dBm a 20 °C": "Potencia óptica −21,4 dBm a 20 °C",
    }
    assert {told: clean(told) for told in kept} == kept
    assert len(clean("x" * 100_000)) == LONGEST


TERMS = {"Ethernet", "GPON", "LCDG", "LOAMi", "LOAi", "LOBi", "LOFi", "LOKi", "LOS", "LOSi", "LOSi/LOBi", "PON LOS",
         "SFi", "SUFi", "TIWi", "loopback"}  # fmt: skip


def test_every_reading_of_the_catalogue_has_a_name() -> None:
    names = {oid.name.removeprefix(EPON) for brand in brands() for oid in brand.oids}
    assert names - set(METRICS) == set()


def test_every_state_of_the_catalogue_has_words_or_is_a_term() -> None:
    labels = {state.label for brand in brands() for one in brand.state_maps for state in one.states.values()}
    assert labels == set(STATE_WORDS) | TERMS


def test_the_readings_whose_texts_are_states_are_those_with_a_state_map() -> None:
    coded = {oid.name.removeprefix(EPON) for brand in brands() for oid in brand.oids if oid.states}
    assert coded == {name for name, known in METRICS.items() if known.coded}


def test_a_key_that_nobody_knows_has_no_meaning() -> None:
    assert meaning("huawei.nonsense") == ""


def drawn(*samples: tuple[float, float | None]) -> list[list[float]]:
    """Of (days ago, dBm): for each line the x of its first and its last point, in a box of 600 for 7 days."""
    found = chart([Step(NOW - ago * DAY, dbm) for ago, dbm in samples], NOW - 7 * DAY, NOW)
    if found is None:
        return []
    xs = [[float(point.split(",")[0]) for point in line.split()] for line in found.lines]
    return [[line[0], line[-1]] for line in xs]


def test_a_line_is_drawn_where_there_were_readings() -> None:
    cases = {
        "a value holds until the next change, the last one until now": (drawn((9, -20.0), (3.5, -21.0)), [[0, 600]]),
        "where there was no reading the line has a gap": (
            drawn((7, -20.0), (3.5, None), (1.75, -21.0)),
            [[0, 300], [450, 600]],
        ),
        "it ends where readings ended": (drawn((7, -20.0), (5.25, -22.0), (3.5, None)), [[0, 300]]),
        "one value that never changed is a line too": (drawn((30, -20.0)), [[0, 600]]),
        "even a short one": (drawn((3.5, -20.0), (1.75, None)), [[300, 450]]),
    }
    assert differing(cases) == {}


def test_a_value_holds_no_longer_than_it_was_read() -> None:
    samples = [Step(NOW - 30 * DAY, -20.0)]
    found = chart(samples, NOW - 7 * DAY, NOW, until=NOW - 3.5 * DAY)
    assert found is not None
    assert found.lines[0].split()[-1].startswith("300.0,")
    assert chart(samples, NOW - 7 * DAY, NOW, until=NOW - 8 * DAY) is None
