"""Breaks lines of the product one at a time and tells which test notices: `python -m tests.mutants --list`.

Each mutant changes one line of portal/domain, portal/services, scheduler or jobs in a copy of the checkout; the tests
of `make test-fast` (or `make test`) then run there up to the first failure, those that import the module first.
Which lines are chosen depends on the seed and on the lines themselves, so most stay chosen while others are edited.
"""

import argparse
import ast
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("portal/domain", "portal/services", "scheduler", "jobs")
SPARED = "jobs/snmp/simulator"  # serves tests and demos
SUITES = {"fast": "test-fast", "whole": "test"}  # name → target of the Makefile
LONGEST = 1800  # seconds of one run of pytest: a mutant may wait for ever
NO_TESTS = 5  # exit code of pytest

COMPARISON, JUNCTION, QUERY, OFF_BY_ONE, CONDITION = KINDS = (
    "comparison", "and/or", "query condition", "off by one", "negated condition",
)  # fmt: skip
FLIPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "in": "not in", "not in": "in", "is": "is not", "is not": "is",
}  # fmt: skip
FILTERS = {"where", "filter", "filter_by"}
LOGS = {"log", "logger", "logging"}
Edit = tuple[str, int, int, str]  # kind, start, end, text
_OPERATOR = re.compile(r"not\s+in\b|is\s+not\b|in\b|is\b|[<>=!]=|[<>]")


@dataclass(frozen=True)
class Mutant:
    """One change of one line; offsets are octets of the file."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def change(self, source: bytes) -> tuple[str, str]:
        """The line before and after."""
        start, end = source.rfind(b"\n", 0, self.start) + 1, source.find(b"\n", self.end)
        before = source[start:end]
        after = source[start : self.start] + self.text.encode() + source[self.end : end]
        return before.decode().strip(), after.decode().strip()

    def shown(self, source: bytes) -> str:
        """As the report has it."""
        before, after = self.change(source)
        return f"{self.path}:{self.line}  {self.kind}\n    - {before}\n    + {after}"


class Finder:
    """Every mutant of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.starts = [0, *(found.end() for found in re.finditer(rb"\n", source))]

    def mutants(self) -> Iterator[Mutant]:
        """Those that touch one line only; a few may not compile."""
        for node in nodes(ast.parse(self.source)):
            for kind, start, end, text in (*self._operators(node), *self._others(node)):
                if b"\n" not in self.source[start:end]:
                    line = bisect_right(self.starts, start)
                    yield Mutant(self.path, line, kind, start, end, text)

    def _operators(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Compare():
                for left, right in pairwise([node.left, *node.comparators]):
                    yield from self._flip(COMPARISON, left, right, _OPERATOR, FLIPPED)
            case ast.BoolOp():
                for left, right in pairwise(node.values):
                    yield from self._flip(JUNCTION, left, right, re.compile(r"and\b|or\b"), {"and": "or", "or": "and"})
            case ast.BinOp(op=ast.Add() | ast.Sub()) if not (is_text(node.left) or is_text(node.right)):
                yield from self._flip(OFF_BY_ONE, node.left, node.right, re.compile(r"[+-]"), {"+": "-", "-": "+"})

    def _others(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                yield OFF_BY_ONE, self._start(node), self._end(node), str(value + 1)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield self._negated(test)
            case ast.comprehension(ifs=tests):
                yield from map(self._negated, tests)
            case ast.Call(func=ast.Attribute(attr=name, value=query)) if name in FILTERS:
                yield from self._drop(node, query)

    def _flip(
        self, kind: str, left: ast.expr, right: ast.expr, operator: re.Pattern[str], to: Mapping[str, str]
    ) -> Iterator[Edit]:
        """The operator between two operands; around it there may be brackets."""
        start = self._end(left)
        found = operator.search(self.source[start : self._start(right)].decode())
        if found:
            yield kind, start + found.start(), start + found.end(), to[" ".join(found[0].split())]

    def _negated(self, test: ast.expr) -> Edit:
        start, end = self._start(test), self._end(test)
        return CONDITION, start, end, f"not ({self.source[start:end].decode()})"

    def _drop(self, call: ast.Call, query: ast.expr) -> Iterator[Edit]:
        """One condition of several, or the whole call."""
        conditions: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        if len(conditions) == 1:
            start = self.source.index(b".", self._end(query))
            yield QUERY, start, self._end(call), ""
            return
        for condition in conditions:
            start, end = self._start(condition), self._end(condition)
            behind = re.match(rb" *, *", self.source[end:])
            before = re.search(rb", *\Z", self.source[:start])
            if behind:
                end += behind.end()
            elif before:
                start = before.start()
            yield QUERY, start, end, ""

    def _start(self, node: ast.expr | ast.keyword) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.keyword) -> int:
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, f-strings (their positions are not those of the file), logs and what is never run."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _spared(child):
                yield child
                yield from nodes(child)


def _spared(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in LOGS
        case ast.If(test=ast.Name(id=name)):
            return name == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__"
    return False


def is_text(node: ast.expr) -> bool:
    """True for a literal text: its sum breaks at every call, so it proves nothing."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def compiles(source: bytes) -> bool:
    """False for a change that no interpreter would take."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def chosen(mutants: Iterable[Mutant], sources: Mapping[str, bytes], seed: int, count: int) -> list[Mutant]:
    """`count` that compile, one a line, the kinds in turn; by a hash of the seed and the line, not by its number."""
    ranked: dict[str, list[tuple[str, int, Mutant]]] = {kind: [] for kind in KINDS}
    for mutant in mutants:
        text = f"{seed}|{mutant.path}|{'|'.join(mutant.change(sources[mutant.path]))}"
        ranked[mutant.kind].append((sha256(text.encode()).hexdigest(), mutant.start, mutant))
    queues = [iter(sorted(ranked[kind], key=lambda item: item[:2])) for kind in KINDS]
    found: dict[tuple[str, int], Mutant] = {}
    while queues and len(found) < count:
        queue = queues.pop(0)
        fit = (one for *_, one in queue if (one.path, one.line) not in found)
        best = next((one for one in fit if compiles(one.applied(sources[one.path]))), None)
        if best is not None:
            found[best.path, best.line] = best
            queues.append(queue)
    return list(found.values())


def sources_of(root: Path) -> dict[str, bytes]:
    """Path → content of every file that may be broken."""
    files = sorted(path for room in ROOMS for path in (root / room).rglob("*.py"))
    names = {str(path.relative_to(root)): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(SPARED)}


def module_of(path: str) -> str:
    """portal/domain/quota.py → portal.domain.quota."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(source: bytes) -> set[str]:
    """Dotted names that a file imports, whether modules or what is in them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def nearest(root: Path, folders: Sequence[str], module: str) -> list[str]:
    """Test files below `folders` that import the module."""
    files = sorted(path for folder in folders for path in (root / folder).rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in files if module in imported(path.read_bytes())]


def commands(root: Path, target: str) -> list[str]:
    """The calls of pytest that a target of the Makefile makes."""
    shown = subprocess.run(["make", "-n", target], cwd=root, capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if "-m pytest" in line]


def stopping(command: str, files: Sequence[str] = ()) -> tuple[str, list[str]]:
    """The command so that it ends at the first failure, over `files` if given; and the paths that it had."""
    words = shlex.split(command)
    paths = [word for word in words if word.startswith("tests/")]
    kept = [word for word in words if word not in paths]
    at = kept.index("pytest") + 1
    quiet = ["-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    settings = [word for word in kept[:at] if re.fullmatch(r"[A-Z_]+=.*", word)]
    words = [*kept[len(settings) : at], *quiet, *kept[at:], *(files or paths)]
    return " ".join([*settings, *map(shlex.quote, words)]), paths


def run(root: Path, command: str) -> str:
    """What failed first; empty when nothing did."""
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"nothing ended within {LONGEST} s"
    if process.returncode in (0, NO_TESTS):
        return ""
    return noticed_by(output)


def noticed_by(output: str) -> str:
    """The first test that failed in what pytest printed. SystemExit when none did: then it could not run at all."""
    found = re.search(r"^(?:FAILED|ERROR|(?=ImportError while loading)) ?(.+?)(?: - .*)?$", output, re.MULTILINE)
    if found is None:
        sys.exit(f"nothing can be told: pytest did not run\n{output[-2000:]}")
    return found[1]


def caught_by(root: Path, mutant: Mutant, suite: Sequence[str]) -> str:
    """The test that notices the mutant which lies in `root`; those that import its module are asked first."""
    for command in suite:
        _, folders = stopping(command)
        files = nearest(root, folders, module_of(mutant.path))
        found = run(root, stopping(command, files)[0]) if files else ""
        if found:
            return found
    return next((found for command in suite if (found := run(root, stopping(command)[0]))), "")


def copied(folder: Path) -> Path:
    """A copy of what lies in the checkout, beside what it expects beside itself."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    root = folder / ROOT.name
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    for link, to in ((root / ".venv", ROOT / ".venv"), (folder / "shared", ROOT.parent / "shared")):
        if to.exists() and not link.exists():
            link.symlink_to(to.resolve())
    return root


def judge(mutants: Sequence[tuple[int, Mutant]], sources: Mapping[str, bytes], suite: Sequence[str], root: Path) -> int:
    """Break one after the other; returns how many were caught."""
    caught = 0
    for number, mutant in mutants:
        began = time.monotonic()
        (root / mutant.path).write_bytes(mutant.applied(sources[mutant.path]))
        found = caught_by(root, mutant, suite)
        shutil.copy2(ROOT / mutant.path, root / mutant.path)
        caught += bool(found)
        verdict = f"caught by {found}" if found else "SURVIVED"
        took = time.monotonic() - began
        print(f"{number:2} {mutant.shown(sources[mutant.path])}\n    {verdict}, {took:.0f} s", flush=True)
    return caught


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--suite", choices=SUITES, default="fast")
    parser.add_argument("--only", type=int, action="append", help="number of a mutant of the list")
    parser.add_argument("--least", type=int, help="how many must be caught (default: all)")
    parser.add_argument("--list", action="store_true", help="show what would be broken, and run nothing")
    args = parser.parse_args(argv)
    sources = sources_of(ROOT)
    every = [mutant for path, source in sources.items() for mutant in Finder(path, source).mutants()]
    mutants = [
        (number, mutant) for number, mutant in enumerate(chosen(every, sources, args.seed, args.count), start=1)
        if not args.only or number in args.only
    ]  # fmt: skip
    if args.list:
        for number, mutant in mutants:
            print(f"{number:2} {mutant.shown(sources[mutant.path])}")
        return 0
    suite = commands(ROOT, SUITES[args.suite])
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder))
        for command in () if args.only else suite:
            if failed := run(root, stopping(command)[0]):
                print(f"nothing can be told: unbroken, {failed} fails")
                return 2
        caught = judge(mutants, sources, suite, root)
    print(f"caught {caught} of {len(mutants)}")
    return int(caught < (len(mutants) if args.least is None else args.least))


if __name__ == "__main__":
    sys.exit(main())
