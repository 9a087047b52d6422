"""The soak's judge finds what it must find: a bench that cannot fail proves nothing."""

from bench.soak import overlaps


def test_composites_one_after_the_other_do_not_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 0, 5001), (2.0, 0, 5002), (2.1, 0, 5002)]) == 0


def test_two_sockets_taking_turns_at_one_olt_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 0, 5002), (1.2, 0, 5001)]) == 1


def test_sockets_at_different_olts_do_not_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 1, 5002), (1.2, 0, 5001)]) == 0


def test_a_source_port_used_again_minutes_later_is_another_composite() -> None:
    assert overlaps([(1.0, 0, 5001), (50.0, 0, 5002), (100.0, 0, 5001)]) == 0
