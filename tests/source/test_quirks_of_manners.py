"""Manners towards devices that hold for the whole product: read from its own source."""

import ast
from collections.abc import Iterator
from pathlib import Path

from jobs.snmp.session import SnmpSession

ROOT = Path(__file__).resolve().parents[2]
WRITING = {"set", "set_multiple", "snmp_set", "setCmd", "set_cmd", "SetRequestPDU"}


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            yield path, ast.parse(path.read_text())


def imported(tree: ast.Module) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_quirk_17_no_page_and_no_service_asks_a_device_itself() -> None:
    """A probe that is repeated by each caller costs a dead OLT its time-out each time: jobs ask, pages read rows."""
    speaking = {str(path) for path, tree in trees("portal") if any(n.split(".")[0] == "jobs" for n in imported(tree))}
    assert speaking == set()


def test_quirk_55_nothing_is_ever_written_to_a_device() -> None:
    """SET looks possible on some C-Data and answers genError: the product only reads."""
    methods = {name for name in vars(SnmpSession) if not name.startswith("_")}
    assert methods == {"columns_per_request", "parallel", "repeats", "checks", "exact", "get", "next_rows", "close"}
    drivers = [ROOT / "jobs" / "snmp" / f"{name}_driver.py" for name in ("easysnmp", "gufo")]
    called = {
        node.func.attr
        for path in drivers
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert "get_bulk" in str(called) or "getbulk" in str(called), "the drivers are read by this test"
    assert not called & WRITING
