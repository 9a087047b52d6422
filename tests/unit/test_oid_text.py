"""OIDs as text: only whole sub-identifiers count."""

import pytest

from portal.domain.oid_text import as_tuple, index_of, is_under, normalise

LONGEST = ".".join(["1", "3"] + ["7"] * 126)


def test_a_valid_oid_is_brought_to_one_form() -> None:
    forms = {" .1.3.6.1 ": "1.3.6.1", "1.03.006.1": "1.3.6.1"}
    forms |= {oid: oid for oid in ("1.3.6.1.2.1.1.3.0", "0.0", "2.999.3", "1.3.6.1.4294967295", LONGEST)}
    assert {given: normalise(given) for given in forms} == forms


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("numbers separated", ["", "..1.3", "1.3.", "1..3", "1.3.6 .1", "1.3.-6", "1.3.٣", "ifName.1"]),
        ("must be 2 to 128", ["1", ".".join(["1"] * 129)]),
        ("first number", ["3.1.2"]),
        ("second number", ["1.40.1"]),
        ("above 4294967295", ["1.3.4294967296", "1.3." + "9" * 5000]),
    ],
)
def test_an_invalid_oid_is_refused_with_the_reason(said: str, given: list[str]) -> None:
    for oid in given:
        with pytest.raises(ValueError, match=said):
            normalise(oid)


def test_oids_sort_as_numbers_the_way_an_agent_walks() -> None:
    assert as_tuple("1.3.6.10") > as_tuple(".1.3.6.9")


def test_a_longer_number_is_not_a_deeper_branch() -> None:
    assert [is_under(oid, "1.3.6") for oid in ("1.3.6.1", "1.3.61", "1.3.6")] == [True, False, False]


def test_the_index_is_what_follows_the_column() -> None:
    column = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.1"
    assert index_of(f".{column}.4194312448.2", column) == "4194312448.2"
    with pytest.raises(ValueError, match="is not under"):
        index_of(f"{column}5.4194312448.2", column)
