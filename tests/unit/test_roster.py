"""Who is on an OLT: presence from discoveries, identity from serials, on plain facts."""

from dataclasses import replace

from portal.domain.roster import Identities, Known, Move, Presence, by_index, identities, presence, same_onus
from testing.tables import differing


def table(count: int) -> list[Known]:
    return [Known(number, f"7.{number}") for number in range(1, count + 1)]


def seen(known: list[Known], *listed: int, complete: bool = True, suspected: bool = False) -> Presence:
    return presence(by_index(known), {f"7.{number}" for number in listed}, complete=complete, suspected=suspected)


def test_presence_follows_from_discoveries() -> None:
    missing, others, last = [Known(1, "7.1", present=False), Known(2, "7.2")], by_index([Known(2, "9.1")]), range(5, 11)
    cases = {
        "what a discovery lists for the first time is new": (seen([], 1), Presence(new=("7.1",))),
        "what a complete walk does not list is gone": (seen(table(3), 1, 2), Presence(gone=(3,))),
        "one that was missing is back even in a cut walk": (seen(missing, 1, complete=False), Presence(back=(1,))),
        "one that is missing already is not gone again": (seen(missing, 2), Presence()),
        "half of a table may go at once": (seen(table(10), 1, 2, 3, 4, 5), Presence(gone=tuple(last)[1:])),
        "more than half is held once": (seen(table(10), 1, 2, 3, 4), Presence(gone=tuple(last), held=True)),
        "and believed the second time": (seen(table(10), 1, 2, 3, 4, suspected=True), Presence(gone=tuple(last))),
        "a small table may lose all": (seen(table(9)), Presence(gone=tuple(range(1, 10)))),
        "a discovery takes away only those it answers for": (
            presence(by_index(table(1)) | others, set(), complete=True, suspected=False, mine={1}),
            Presence(gone=(1,)),
        ),
    }
    assert differing(cases) == {}


def test_quirk_2_a_walk_that_died_in_the_middle_takes_nobody_away() -> None:
    assert seen(table(3), 1, complete=False) == Presence()


def test_quirk_3_an_empty_answer_where_there_were_onus_is_held() -> None:
    assert seen(table(12)) == Presence(gone=tuple(range(1, 13)), held=True)


def identified(known: list[Known], serials: dict[str, str], *elsewhere: Known, complete: bool = True) -> Identities:
    return identities(by_index(known), {one.serial or "": one for one in elsewhere}, serials, complete=complete)


def test_identity_follows_from_serials() -> None:
    new, bare, a, b = Known(1, "7.1"), Known(2, "7.2"), Known(1, "7.1", "A"), Known(2, "7.2", "B")
    elsewhere = Known(1, None, "A", present=False), Known(9, None, "C", present=False)
    twice = Identities(named=[(2, "A")], duplicates=[(2, "A", "7.1")])
    cases = {
        "the serial that is known there says nothing new": (identified([a], {"7.1": "A"}), Identities()),
        "a first serial names the ONU": (identified([new], {"7.1": "A"}), Identities(named=[(1, "A")])),
        "another serial at the same index is another ONU": (
            identified([a], {"7.1": "B"}),
            Identities(replaced=[(1, "B")], created=[("7.1", "B")]),
        ),
        "a serial that left its index has moved and the row that stood for it is absorbed": (
            identified([replace(a, present=False), bare], {"7.2": "A"}),
            Identities(moved=[Move(1, "7.2", absorbed=2)]),
        ),
        "a move onto the place of another replaces that one": (
            identified([a, b], {"7.2": "A"}),
            Identities(replaced=[(2, "A")], moved=[Move(1, "7.2")]),
        ),
        "two ONUs that changed places have both moved and nobody is lost": (
            identified([a, b], {"7.1": "B", "7.2": "A"}),
            Identities(moved=[Move(2, "7.1"), Move(1, "7.2")]),
        ),
        "a serial at two places at once moves nobody": (identified([a, bare], {"7.1": "A", "7.2": "A"}), twice),
        "a cut table does not prove that it left": (identified([a, bare], {"7.2": "A"}, complete=False), twice),
        "an ONU whose place was taken and one that another OLT misses come back as themselves": (
            identified([bare, Known(3, "7.3")], {"7.2": "A", "7.3": "C"}, *elsewhere),
            Identities(moved=[Move(1, "7.2", absorbed=2), Move(9, "7.3", absorbed=3)]),
        ),
        "serials at indexes that no discovery listed are ignored": (identified([], {"7.9": "A"}), Identities()),
    }
    assert differing(cases) == {}


# Who is known where: index → (serial, place), and whether another discovery answers for it.
def listed(
    *columns: dict[str, str | None], known: dict[str, tuple[str | None, str | None]],
    serials: dict[str, str] | None = None,
    mine: bool = False, complete: bool = True,
) -> tuple[dict[str, str], dict[str, str]]:  # fmt: skip
    at = {index: Known(number, index, serial) for number, (index, (serial, _)) in enumerate(known.items(), start=1)}
    places = {index: place for index, (_, place) in known.items() if place is not None}
    own = {onu.id for onu in at.values()} if mine else set()
    found = same_onus(columns, at, places, serials or {}, own, complete=complete)
    return found.aliases, found.renumbered


ONE: dict[str, tuple[str | None, str | None]] = {"a": ("S", "1/1:1")}
NONE: tuple[dict[str, str], dict[str, str]] = ({}, {})


def test_one_onu_under_two_indexes_is_told_by_its_place_else_by_its_serial() -> None:
    other = {"b": "a"}, {}
    assert listed({"b": "1/1:1"}, known=ONE) == other
    assert listed({"b": "1/1:1"}, known=ONE, serials={"b": "S"}) == other
    assert listed({"b": None}, known=ONE, serials={"b": "S"}) == other
    assert listed({"a": "1/1:1"}, {"b": "1/1:1"}, known=ONE, mine=True) == other, "two columns of one discovery"
    assert listed({"a": "1/1:1"}, {"b": "1/1:1"}, known={}) == other, "whom nobody knows yet"
    assert listed({"a": "1/1:1"}, {"b": None}, known={}, serials={"a": "S", "b": "S"}) == other
    assert listed({"b": "1/1:1"}, known={"a": ("S", None)}, serials={"b": "S"}) == ({}, {"a": "b"}), (
        "the one that tells"
    )
    assert listed({"b": "1/1:1"}, known=ONE, mine=True) == ({}, {"a": "b"}), "its table numbers it anew"


def test_what_is_not_surely_one_onu_stays_two() -> None:
    assert listed({"b": "1/1:2"}, known=ONE) == NONE
    assert listed({"b": None}, known=ONE) == NONE
    assert listed({"a": "1/1:1", "b": "1/1:1"}, known=ONE) == NONE, "two rows of one table"
    assert listed({"b": "1/1:1", "c": "1/1:1"}, known=ONE) == NONE
    assert listed({"b": "1/1:1"}, known=ONE, serials={"b": "T"}) == NONE, "two serials"
    assert listed({"b": "1/1:2"}, known=ONE, serials={"b": "S"}) == NONE, "that is a move"
    assert listed({"b": None}, known=ONE, serials={"b": "S"}, mine=True) == NONE, "and that may be one"
    assert listed({"b": "1/1:1"}, known=ONE, mine=True, complete=False) == NONE, "the old row may come yet"
