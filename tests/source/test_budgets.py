"""The house's size budgets, measured on the source as it lies; a failure lists the offenders."""

import ast
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("portal", "jobs", "scheduler")
FRONT = ("app.py", "config.py")

FUNCTION_MEDIAN = 9
FUNCTION_P95 = 40
FUNCTION_MAX = 60
MODULE_MAX = 400
PAGE_MAX = 150
FRAGMENT_MAX = 80
TEMPLATE_LINE_MAX = 140
VIEW_MAX = 25
ROUTE_DECORATORS = {"route", "get", "post", "put", "patch", "delete"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Sized:
    """A thing with a length in lines and the place to look at."""

    lines: int
    place: str


def modules() -> list[Path]:
    """Every Python file of the product."""
    found = [ROOT / name for name in FRONT] + [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return sorted(path for path in found if path.exists())


def place(path: Path, line: int = 1, name: str = "") -> str:
    return f"{path.relative_to(ROOT)}:{line} {name}".rstrip()


def functions(path: Path) -> Iterator[FunctionNode]:
    tree = ast.parse(path.read_text(), str(path))
    return (node for node in ast.walk(tree) if isinstance(node, FunctionNode))


def length(node: FunctionNode) -> int:
    """Lines from `def` to the last statement, docstring and blank lines included, decorators not."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def sized_functions(paths: Iterable[Path]) -> list[Sized]:
    return [Sized(length(node), place(path, node.lineno, node.name)) for path in paths for node in functions(path)]


def is_view(node: FunctionNode) -> bool:
    calls = (item.func for item in node.decorator_list if isinstance(item, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in ROUTE_DECORATORS for call in calls)


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def is_fragment(path: Path) -> bool:
    return path.name.startswith("_") or "fragments" in path.parts


def report(offenders: Iterable[Sized], budget: int) -> str:
    ordered = sorted(offenders, key=lambda item: -item.lines)
    return "\n".join([f"over {budget} lines:", *(f"  {item.lines:4d}  {item.place}" for item in ordered)])


def assert_within(items: Iterable[Sized], budget: int) -> None:
    offenders = [item for item in items if item.lines > budget]
    assert not offenders, report(offenders, budget)


@pytest.fixture(scope="module")
def all_functions() -> list[Sized]:
    found = sized_functions(modules())
    assert found, "no function found: the rooms are not where this test looks"
    return found


def test_no_function_is_longer_than_sixty_lines(all_functions: list[Sized]) -> None:
    assert_within(all_functions, FUNCTION_MAX)


def test_half_of_all_functions_have_at_most_nine_lines(all_functions: list[Sized]) -> None:
    median = statistics.median(item.lines for item in all_functions)
    assert median <= FUNCTION_MEDIAN, f"median of {len(all_functions)} functions: {median} lines"


def test_95_of_100_functions_have_at_most_forty_lines(all_functions: list[Sized]) -> None:
    ordered = sorted(all_functions, key=lambda item: item.lines)
    percentile = ordered[-(-len(ordered) * 95 // 100) - 1]
    offenders = [item for item in ordered if item.lines > FUNCTION_P95]
    assert percentile.lines <= FUNCTION_P95, report(offenders, FUNCTION_P95)


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    assert_within((Sized(line_count(path), place(path)) for path in modules()), MODULE_MAX)


def test_every_module_starts_with_a_docstring() -> None:
    silent = [place(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, "no docstring that says what lives there:\n  " + "\n  ".join(silent)


def test_no_view_is_longer_than_twenty_five_lines() -> None:
    paths = (ROOT / "portal" / "web").rglob("*.py")
    views = ((path, node) for path in paths for node in functions(path) if is_view(node))
    assert_within((Sized(length(node), place(path, node.lineno, node.name)) for path, node in views), VIEW_MAX)


def templates() -> list[Path]:
    return sorted((ROOT / "portal" / "templates").rglob("*.html"))


def test_no_page_template_is_longer_than_150_lines_and_no_fragment_than_80() -> None:
    sizes = [(path, Sized(line_count(path), place(path))) for path in templates()]
    assert_within((size for path, size in sizes if is_fragment(path)), FRAGMENT_MAX)
    assert_within((size for path, size in sizes if not is_fragment(path)), PAGE_MAX)


def test_no_line_of_a_template_is_longer_than_140_characters() -> None:
    lines = (
        (path, number, line) for path in templates() for number, line in enumerate(path.read_text().split("\n"), 1)
    )
    long = [f"{place(path, number)} ({len(line)})" for path, number, line in lines if len(line) > TEMPLATE_LINE_MAX]
    assert not long, "break attributes, arguments or branches:\n  " + "\n  ".join(long)


def test_the_measure_itself_counts_from_def_to_the_last_line(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text('def f(\n    a,\n):\n    """One.\n\n    Two.\n    """\n    b = a\n    return b\n')
    (node,) = functions(source)
    assert length(node) == 9


def test_a_view_is_known_by_its_route(tmp_path: Path) -> None:
    source = tmp_path / "views.py"
    source.write_text('@pages.get("/")\n@login_required\ndef index(): ...\n\n\n@cached\ndef helper(): ...\n')
    assert [(node.name, is_view(node)) for node in functions(source)] == [("index", True), ("helper", False)]
