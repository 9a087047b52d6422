"""The mutator breaks what it says it breaks, one line at a time, and nothing that no test could notice."""

import pytest

from tests.mutants import (
    COMPARISON,
    CONDITION,
    JUNCTION,
    OFF_BY_ONE,
    QUERY,
    Finder,
    Mutant,
    chosen,
    imported,
    noticed_by,
    stopping,
)


def changes(source: str) -> set[tuple[str, str]]:
    """Kind and changed line of every mutant."""
    octets = source.encode()
    return {(one.kind, one.change(octets)[1]) for one in Finder("a.py", octets).mutants()}


def test_a_comparison_is_flipped() -> None:
    source = "a < b\na >= b\na == b\na in b\n(a) not  in (b)\na is not None\n'ñ' != a\n"
    flipped = {"a <= b", "a > b", "a != b", "a not in b", "(a) in (b)", "a is None", "'ñ' == a"}
    assert changes(source) == {(COMPARISON, line) for line in flipped}


MUTANTS = {
    (JUNCTION, "x = a and (b or c)\n"): {"x = a or (b or c)", "x = a and (b and c)"},
    # A number is one more and a sum a difference, but a text is not subtracted.
    (OFF_BY_ONE, "x = a + 9\n"): {"x = a + 10", "x = a - 9"},
    (OFF_BY_ONE, "x = a + 'b'\n"): set(),
    (OFF_BY_ONE, "x = True\n"): set(),
    # Of several conditions of a query each is dropped, and a single one with its call.
    (QUERY, "q = s.where(a, b).limit(c)\n"): {"q = s.where(b).limit(c)", "q = s.where(a).limit(c)"},
    (QUERY, "q = (\n    s\n    .where(a)\n)\n"): {""},
    (QUERY, "q = s.filter_by(a=b)\n"): {"q = s"},
    (QUERY, "q = s.where(\n    a,\n    b,\n)\n"): {""},
    # A condition is negated.
    (CONDITION, "if a:\n    pass\n"): {"if not (a):"},
    (CONDITION, "x = [a for a in b if c]\n"): {"x = [a for a in b if not (c)]"},
}


def test_each_kind_of_mutant_breaks_what_it_says() -> None:
    found = {(kind, source): {line for one, line in changes(source) if one == kind} for kind, source in MUTANTS}
    assert found == MUTANTS


def test_annotations_logs_texts_and_what_never_runs_are_left_alone() -> None:
    source = (
        '"""1 < 2"""\n__all__ = ["a"][0:1]\nx: Literal[1]\ndef f(a: Literal[1]) -> Literal[2]:\n    log.info("%s", 1)\n'
        '    return f"{a + 1}"\nif TYPE_CHECKING:\n    y = 1\n'
    )
    assert changes(source) == set()


def test_a_change_is_of_one_line_and_compiles() -> None:
    source = b"x = (a and\n     b)\ny = s.where(\n    a\n)\n"
    assert [one for one in Finder("a.py", source).mutants() if one.kind == QUERY] == []
    for one in Finder("a.py", source).mutants():
        changed = one.applied(source).split(b"\n")
        assert sum(before != after for before, after in zip(source.split(b"\n"), changed, strict=True)) == 1


def test_the_choice_depends_on_seed_and_lines_and_not_on_where_they_stand() -> None:
    source = "".join(f"a{number} = b < {number}\n" for number in range(40)).encode()
    moved = b"\n\n" + source

    def choice(text: bytes, seed: int) -> list[str]:
        found: list[Mutant] = list(Finder("a.py", text).mutants())
        kinds = [one for one in found if one.kind in (COMPARISON, OFF_BY_ONE)]
        return [one.change(text)[1] for one in chosen(kinds, {"a.py": text}, seed, 8)]

    assert choice(source, 14) == choice(moved, 14) != choice(source, 15)
    assert len(set(choice(source, 14))) == 8, "one mutant a line"


def test_names_that_a_test_imports_are_known_with_their_modules() -> None:
    found = imported(b"import jobs.claim\nfrom portal.domain import quota\n")
    assert found == {"jobs.claim", "portal.domain", "portal.domain.quota"}


def test_the_command_of_the_makefile_stops_at_the_first_failure_and_takes_files_instead_of_folders() -> None:
    command, folders = stopping("KINDS=sqlite .venv/bin/python -m pytest -n 2 tests/unit tests/walks", ["tests/a.py"])
    assert folders == ["tests/unit", "tests/walks"]
    assert command == "KINDS=sqlite .venv/bin/python -m pytest -x -q --no-header -p no:cacheprovider -n 2 tests/a.py"


def test_a_suite_that_could_not_run_has_caught_nothing() -> None:
    assert noticed_by("...F\nFAILED tests/a.py::test_b - assert 1 == 2\n1 failed") == "tests/a.py::test_b"
    with pytest.raises(SystemExit, match="unrecognized arguments"):
        noticed_by("__main__.py: error: unrecognized arguments: --randomly-seed=14\n  rootdir: here")
