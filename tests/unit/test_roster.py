"""Who is on an OLT: presence from discoveries, identity from serials, on plain facts."""

from portal.domain.roster import Identities, Known, Move, Presence, by_index, identities, presence


def roster(*onus: Known) -> dict[str, Known]:
    return by_index(onus)


def table(count: int) -> dict[str, Known]:
    return roster(*(Known(number, f"7.{number}") for number in range(1, count + 1)))


def indexes(*numbers: int) -> set[str]:
    return {f"7.{number}" for number in numbers}


# Presence


def test_what_a_discovery_lists_for_the_first_time_is_new() -> None:
    assert presence({}, indexes(1), complete=True, suspected=False) == Presence(new=("7.1",))


def test_what_a_complete_walk_does_not_list_is_gone() -> None:
    assert presence(table(3), indexes(1, 2), complete=True, suspected=False) == Presence(gone=(3,))


def test_quirk_2_a_walk_that_died_in_the_middle_takes_nobody_away() -> None:
    assert presence(table(3), indexes(1), complete=False, suspected=False) == Presence()


def test_one_that_was_missing_is_back_even_in_a_walk_that_was_cut() -> None:
    known = roster(Known(1, "7.1", present=False), Known(2, "7.2"))
    assert presence(known, indexes(1), complete=False, suspected=False) == Presence(back=(1,))


def test_one_that_is_missing_already_is_not_gone_again() -> None:
    known = roster(Known(1, "7.1", present=False), Known(2, "7.2"))
    assert presence(known, indexes(2), complete=True, suspected=False) == Presence()


def test_a_table_that_lost_more_than_half_is_held_once_and_believed_the_second_time() -> None:
    first = presence(table(10), indexes(1, 2, 3, 4), complete=True, suspected=False)
    assert first.held and len(first.gone) == 6
    second = presence(table(10), indexes(1, 2, 3, 4), complete=True, suspected=True)
    assert not second.held and len(second.gone) == 6


def test_half_of_a_table_may_go_at_once_and_a_small_table_may_lose_all() -> None:
    assert not presence(table(10), indexes(1, 2, 3, 4, 5), complete=True, suspected=False).held
    assert not presence(table(9), indexes(), complete=True, suspected=False).held


def test_quirk_3_an_empty_answer_where_there_were_onus_is_held() -> None:
    assert presence(table(12), indexes(), complete=True, suspected=False).held


def test_a_discovery_takes_away_only_those_it_answers_for() -> None:
    known = roster(Known(1, "7.1"), Known(2, "9.1"))
    assert presence(known, set(), complete=True, suspected=False, mine={1}) == Presence(gone=(1,))


# Identity


def identified(
    known: dict[str, Known], serials: dict[str, str], *elsewhere: Known, complete: bool = True
) -> Identities:
    return identities(known, {one.serial or "": one for one in elsewhere}, serials, complete=complete)


def test_the_serial_that_is_known_there_says_nothing_new() -> None:
    assert identified(roster(Known(1, "7.1", "A")), {"7.1": "A"}) == Identities()


def test_a_first_serial_names_the_onu() -> None:
    assert identified(roster(Known(1, "7.1")), {"7.1": "A"}) == Identities(named=[(1, "A")])


def test_another_serial_at_the_same_index_is_another_onu() -> None:
    found = identified(roster(Known(1, "7.1", "A")), {"7.1": "B"})
    assert found == Identities(replaced=[(1, "B")], created=[("7.1", "B")])


def test_a_serial_that_left_its_index_has_moved_and_the_row_that_stood_for_it_is_absorbed() -> None:
    known = roster(Known(1, "7.1", "A", present=False), Known(2, "7.2"))
    assert identified(known, {"7.2": "A"}) == Identities(moved=[Move(1, "7.2", absorbed=2)])


def test_a_move_onto_the_place_of_another_replaces_that_one() -> None:
    known = roster(Known(1, "7.1", "A"), Known(2, "7.2", "B"))
    assert identified(known, {"7.2": "A"}) == Identities(replaced=[(2, "A")], moved=[Move(1, "7.2")])


def test_two_onus_that_changed_places_have_both_moved_and_nobody_is_lost() -> None:
    known = roster(Known(1, "7.1", "A"), Known(2, "7.2", "B"))
    found = identified(known, {"7.1": "B", "7.2": "A"})
    assert sorted(move.id for move in found.moved) == [1, 2]
    assert {move.id: move.index for move in found.moved} == {1: "7.2", 2: "7.1"}
    assert not found.replaced and not found.created


def test_a_serial_at_two_places_at_once_is_a_duplicate_and_moves_nobody() -> None:
    known = roster(Known(1, "7.1", "A"), Known(2, "7.2"))
    found = identified(known, {"7.1": "A", "7.2": "A"})
    assert found == Identities(named=[(2, "A")], duplicates=[(2, "A", "7.1")])


def test_a_table_that_was_cut_does_not_prove_that_a_serial_left_its_place() -> None:
    known = roster(Known(1, "7.1", "A"), Known(2, "7.2"))
    found = identified(known, {"7.2": "A"}, complete=False)
    assert not found.moved and found.named == [(2, "A")]


def test_an_onu_whose_place_was_taken_and_one_that_another_olt_misses_come_back_as_themselves() -> None:
    known = roster(Known(2, "7.2"), Known(3, "7.3"))
    found = identified(known, {"7.2": "A", "7.3": "C"}, Known(1, None, "A", False), Known(9, None, "C", False))
    assert found.moved == [Move(1, "7.2", absorbed=2), Move(9, "7.3", absorbed=3)]


def test_serials_at_indexes_that_no_discovery_listed_are_ignored() -> None:
    assert identified({}, {"7.9": "A"}) == Identities()
