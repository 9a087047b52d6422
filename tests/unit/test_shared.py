"""The shelf of fragments: one is made while others wait, and nobody gets what is older than they may see."""

import threading
from collections.abc import Callable

import pytest

from portal.web.shared import LIFE, MOST, STALE, Flight, Fragment, Shelf


class Hand:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(shelf: Shelf, key: str = "page", since: float = 0.0) -> Flight:
    found = shelf.get(key, since)
    assert isinstance(found, Flight)
    return found


def shown(shelf: Shelf, key: str = "page", since: float = 0.0) -> str:
    found = shelf.get(key, since)
    return "to be made" if isinstance(found, Flight) else found.body.decode()


def landed(shelf: Shelf, html: str, key: str = "page", since: float = 0.0) -> None:
    flight = started(shelf, key, since)
    flight.land(Fragment(html, "digest", flight.began))


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def shelf(clock: Hand) -> Shelf:
    return Shelf(clock=clock)


@pytest.fixture
def outlived(shelf: Shelf, clock: Hand) -> Shelf:
    """A page that landed has just become too old."""
    landed(shelf, "first")
    clock.now += LIFE + 0.1
    return shelf


def test_a_fragment_is_there_for_a_second_from_before_its_first_query(shelf: Shelf, clock: Hand) -> None:
    flight = started(shelf)
    clock.now += 0.1  # rendering took so long
    flight.land(Fragment("first", "digest", flight.began))
    clock.now += LIFE - 0.11
    assert shown(shelf) == "first"
    clock.now += 0.02
    assert shown(shelf) == "to be made"


def test_while_another_is_made_one_of_less_than_two_seconds_is_shown_and_older_ones_never(
    outlived: Shelf, clock: Hand
) -> None:
    other = started(outlived, "another page")
    assert (shown(outlived), outlived.peek("page") is not None) == ("first", True)
    assert shown(outlived, since=clock.now - 0.05) == "to be made"  # who has just clicked gets nothing older
    outlived._flights.pop("page").land(None)
    clock.now = other.began + STALE - LIFE
    assert (shown(outlived), outlived.peek("page")) == ("to be made", None)


def test_after_a_rendering_there_is_a_pause_twice_as_long_as_it_took(outlived: Shelf, clock: Hand) -> None:
    slow = started(outlived, "another page")
    clock.now += 0.2
    slow.land(Fragment("slow", "digest", slow.began))
    clock.now += 0.39
    assert shown(outlived) == "first"
    clock.now += 0.02
    assert shown(outlived) == "to be made"


def test_a_look_from_afar_makes_nothing_and_waits_for_nothing(shelf: Shelf) -> None:
    assert shelf.peek("page") is None
    started(shelf)
    assert shelf.peek("page") is None


def test_keys_do_not_share(shelf: Shelf) -> None:
    landed(shelf, "for operators", "operator")
    assert shown(shelf, "viewer") == "to be made"


def test_whoever_wrote_meanwhile_makes_a_new_one_which_is_then_everybodys(shelf: Shelf, clock: Hand) -> None:
    landed(shelf, "before the click")
    clock.now += 0.1
    clicked = clock.now
    clock.now += 0.1
    landed(shelf, "after the click", since=clicked)
    assert shown(shelf) == "after the click"


def test_a_rendering_begun_before_the_click_is_not_waited_for_and_replaces_nothing_when_it_lands_late(
    shelf: Shelf, clock: Hand
) -> None:
    slow = started(shelf)
    clock.now += 0.1
    clicked = clock.now
    clock.now += 0.1
    fresh = started(shelf, since=clicked)
    assert shelf._flights["page"] is fresh  # others wait for this one from now on
    fresh.land(Fragment("after the click", "digest", fresh.began))
    slow.land(Fragment("before the click", "digest", slow.began))
    assert shown(shelf) == "after the click"


def joined(shelf: Shelf, count: int, act: Callable[[], None]) -> list[object]:
    """What so many get who ask for the page before `act`."""
    found: list[object] = []

    def ask() -> None:
        found.append(shelf.get("page"))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    act()
    for thread in threads:
        thread.join(timeout=10)
    return found


def test_fifty_who_ask_while_it_is_made_get_the_one_that_is_made() -> None:
    shelf = Shelf()
    flight = started(shelf)
    fragment = Fragment("made once", "digest", flight.began)
    assert joined(shelf, 50, lambda: flight.land(fragment)) == [fragment] * 50


def test_when_the_rendering_fails_all_who_waited_make_their_own() -> None:
    shelf = Shelf()
    flight = started(shelf)
    assert [type(one) for one in joined(shelf, 3, lambda: flight.land(None))] == [Flight] * 3


def test_the_shelf_never_grows_beyond_its_room(shelf: Shelf, clock: Hand) -> None:
    for number in range(MOST + 20):
        clock.now += 0.0001
        landed(shelf, str(number), f"page {number}")
    assert len(shelf._kept) == MOST
    assert shown(shelf, f"page {MOST + 19}") == str(MOST + 19)
