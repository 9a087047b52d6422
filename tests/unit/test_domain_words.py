"""Every member of a closed set that is told in words has them, and each its own."""

from collections.abc import Mapping
from enum import StrEnum

import pytest

from portal.domain import words
from portal.domain.messages import Message
from portal.domain.statuses import ErrorKind, LossCause, OltState, SkipReason


@pytest.mark.parametrize(
    ("known", "told"),
    [(ErrorKind, words.ERRORS), (SkipReason, words.SKIPS), (LossCause, words.LOSSES), (OltState, words.OLT_STATES)],
)
def test_every_member_has_words_of_its_own(known: type[StrEnum], told: Mapping[StrEnum, Message]) -> None:
    assert (set(told), len(set(told.values()))) == (set(known), len(known))


def test_one_skipped_slot_and_several_are_told_apart() -> None:
    assert words.skipped("ONUs", 1, SkipReason.OLT_PAUSED) == "ONUs: its slot was skipped. The OLT was paused"
    assert words.skipped("ONUs", 3, SkipReason.OLT_PAUSED) == "ONUs: 3 slots were skipped. The OLT was paused"
