"""Two who change the same thing: whose value stands, what came in, where they meet."""

from portal.domain.merging import differences, merge

OPENED = {"name": "a", "every": 15, "cron": None, "tries": 2}
TOGETHER = (("every", "cron"),)


def test_what_nobody_changed_stays_and_is_not_told() -> None:
    merged = merge(OPENED, OPENED, OPENED, TOGETHER)
    assert (merged.values, merged.came_in, merged.conflicts) == (OPENED, {}, {})


def test_each_wins_where_only_one_changed_something() -> None:
    merged = merge(OPENED, OPENED | {"tries": 1}, OPENED | {"name": "b"}, TOGETHER)
    assert merged.values == OPENED | {"tries": 1, "name": "b"}
    assert (merged.came_in, merged.conflicts) == ({"tries": [2, 1]}, {})


def test_where_both_changed_something_yours_is_proposed_and_both_are_told() -> None:
    merged = merge(OPENED, OPENED | {"name": "t"}, OPENED | {"name": "y"}, TOGETHER)
    assert (merged.values["name"], merged.came_in, merged.conflicts) == ("y", {}, {"name": ["t", "y"]})


def test_the_same_change_is_no_conflict() -> None:
    both = OPENED | {"name": "b"}
    merged = merge(OPENED, both, both, TOGETHER)
    assert (merged.values, merged.came_in, merged.conflicts) == (both, {}, {})


def test_fields_that_make_sense_only_together_are_taken_together() -> None:
    by_cron = OPENED | {"every": None, "cron": "0 * * * *"}
    merged = merge(OPENED, by_cron, OPENED | {"every": 30}, TOGETHER)
    assert merged.values == OPENED | {"every": 30}
    assert merged.conflicts == {"every": [None, 30], "cron": ["0 * * * *", None]}
    other_way = merge(OPENED, OPENED | {"every": 30}, by_cron, TOGETHER)
    assert other_way.values == by_cron
    assert other_way.conflicts == {"every": [30, None], "cron": [None, "0 * * * *"]}


def test_differences_are_told_as_here_and_there() -> None:
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3}) == {"b": [2, 3]}
