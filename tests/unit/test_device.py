"""Whether the same device answers, and whether it restarted: pure rules."""

from datetime import timedelta

import pytest

from portal.domain import device
from portal.domain.device import KEPT, TICKS, WRAP, Answer, Device
from testing.cast import NOW

DAY = 86_400 * TICKS
LIMA, ICA = ("1.3.6.1.4.1.2011.2.248", "OLT-LIMA"), ("1.3.6.1.4.1.3902.1082", "OLT-ICA")


@pytest.mark.parametrize(
    ("what", "before", "after", "gap", "restarted"),
    [
        ("it runs on", DAY, DAY + 300 * TICKS, 300, False),
        ("its clock is 1 % slow", DAY, DAY + 297 * TICKS, 300, False),
        ("it restarted a minute ago", DAY, 60 * TICKS, 300, True),
        ("it restarted, and has run for longer than before by now", 60 * TICKS, 200 * TICKS, 3600, True),
        ("it restarted within a walk", DAY, 1, 2, True),
        ("the counter has wrapped", WRAP - 100 * TICKS, 200 * TICKS, 300, False),
        ("it restarted just when it would have wrapped", WRAP - 100 * TICKS, 20 * TICKS, 300, True),
        ("its counter stands still", 500, 500, 300, False),
        ("it counts seconds", 86_400, 86_700, 300, False),
        ("it is read again at once", DAY, DAY, 0, False),
        ("it hides its uptime now", DAY, None, 300, False),
        ("it hid its uptime before", None, 60 * TICKS, 300, False),
    ],
)  # fmt: skip
def test_a_restart_is_told_by_the_uptime(what, before, after, gap, restarted):
    at = NOW + timedelta(seconds=gap)
    found = device.restart(Device(uptime=before, read_at=NOW), Answer("", "", after, at))
    assert (found is not None) is restarted
    if found is not None:
        assert found == at - timedelta(seconds=after / TICKS)


@pytest.mark.parametrize(
    ("what", "says", "same", "other", "onus", "is_other"),
    [
        ("it says what it said", LIMA, 0, 0, True, False),
        ("it was renamed, and its ONUs stand where they stood", ICA, 1, 4, True, False),
        ("it bears the same name, and all ONUs are others", LIMA, 0, 3, True, True),
        ("two ONUs were replaced, and no more were asked for", LIMA, 0, 2, True, False),
        ("another name, and no ONU to tell by", ICA, 0, 0, True, True),
        ("another name, and nothing to lose", ICA, 0, 0, False, False),
        ("it hides its names", ("", ""), 0, 0, True, False),
    ],
)  # fmt: skip
def test_another_device_is_told_by_its_onus_else_by_its_names(what, says, same, other, onus, is_other):
    answer = Answer(*says, None, NOW, same, other)
    assert device.is_other(Device(*LIMA), answer, onus=onus) is is_other


def test_a_device_that_was_never_read_is_whoever_answers():
    assert not device.is_other(Device(), Answer(*LIMA, 1, NOW), onus=True)


def test_witnesses_are_kept_while_they_hold_and_come_from_all_over_the_table():
    table = {f"1.{number}": f"HWTC{number:08d}" for number in range(100)}
    first = device.refreshed({}, table)
    assert len(first) == KEPT and "1.0" in first and any(int(oid[2:]) > 90 for oid in first)
    assert device.refreshed(first, table) == first
    gone = next(iter(first))
    changed = {**table, gone: "ZTEG00000000"}
    again = device.refreshed(first, changed)
    assert len(again) == KEPT and again.items() <= changed.items() and len(again.keys() & first.keys()) >= KEPT - 1
    assert device.refreshed(first, {"1.1": table["1.1"]}) == {"1.1": table["1.1"]}
    assert device.refreshed(first, {}) == {}


def test_after_a_restart_tables_are_believed_again_by_time_and_by_their_rows():
    minutes = [timedelta(minutes=number) for number in (-1, 0, 9, 10, 59, 60)]
    assert [device.unsettled(NOW, NOW + gone) for gone in minutes] == [False, True, True, False, False, False]
    assert [device.may_grow(NOW, NOW + gone) for gone in minutes] == [False, True, True, True, True, False]
    assert not device.unsettled(None, NOW) and not device.may_grow(None, NOW)
