"""Two who change the same thing: whose value stands, what came in, where they meet."""

from typing import Any

from portal.domain.merging import differences, merge
from testing.tables import differing

OPENED = {"name": "a", "every": 15, "cron": None, "tries": 2}
TOGETHER = (("every", "cron"),)


def told(theirs: dict[str, Any], yours: dict[str, Any]) -> tuple[object, object, object]:
    merged = merge(OPENED, theirs, yours, TOGETHER)
    return merged.values, merged.came_in, merged.conflicts


def test_of_what_two_changed_each_wins_where_only_one_did() -> None:
    both, one, other = OPENED | {"name": "b"}, OPENED | {"tries": 1}, OPENED | {"name": "y"}
    cases = {
        "what nobody changed stays and is not told": (told(OPENED, OPENED), (OPENED, {}, {})),
        "each wins where only one changed something": (told(one, both), (one | {"name": "b"}, {"tries": [2, 1]}, {})),
        "where both did, yours is proposed and both are told": (told(both, other), (other, {}, {"name": ["b", "y"]})),
        "the same change is no conflict": (told(both, both), (both, {}, {})),
    }
    assert differing(cases) == {}


def test_fields_that_make_sense_only_together_are_taken_together() -> None:
    by_cron, half = OPENED | {"every": None, "cron": "0 * * * *"}, OPENED | {"every": 30}
    assert told(by_cron, half) == (half, {}, {"every": [None, 30], "cron": ["0 * * * *", None]})
    assert told(half, by_cron) == (by_cron, {}, {"every": [30, None], "cron": [None, "0 * * * *"]})


def test_differences_are_told_as_here_and_there() -> None:
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3}) == {"b": [2, 3]}
