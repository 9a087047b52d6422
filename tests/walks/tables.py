"""The tables built by hand under built/: what a device sends beside what it means. Decodes nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

BUILT = Path(__file__).parent / "built"
IF_NAME = "1.3.6.1.2.1.31.1.1.1.1"
IF_DESCR = "1.3.6.1.2.1.2.2.1.2"
ABSENT = "absent"  # the meaning of a row that a walk does not hold


@dataclass(frozen=True)
class Cell:
    """One instance: `raw` None where the device has none; `value` None where it means no value, and then `reason`."""

    index: str
    raw: int | str | None
    value: float | str | None
    reason: str = ""

    @property
    def absent(self) -> bool:
        """True for a row that a walk simply does not hold."""
        return self.reason == ABSENT


@dataclass(frozen=True)
class Column:
    """One column with its cells, in the order of the table's ONUs (or ports, or rows)."""

    name: str
    oid: str
    cells: tuple[Cell, ...]
    type: str = ""  # snmprec type where the value does not tell


@dataclass(frozen=True)
class Table:
    """One device. `onus` and `ports`: index → place such as "0/1/1:2", or None where the index tells none."""

    name: str
    brand: str
    model: str
    object_id: str
    descr: str
    if_name: Mapping[str, str]
    if_descr: Mapping[str, str]
    onus: Mapping[str, str | None]
    ports: Mapping[str, str | None]
    onu_columns: tuple[Column, ...]
    port_columns: tuple[Column, ...]
    rows: tuple[Column, ...]
    scalars: tuple[Column, ...]
    also: Mapping[str, str]  # rows that are asked for to recognise the device and no more

    @property
    def columns(self) -> tuple[Column, ...]:
        """All that the catalogue is asked for."""
        return (*self.onu_columns, *self.port_columns, *self.rows, *self.scalars)

    def snmprec(self) -> str:
        """The walk as the simulator reads it, in the order of an agent."""
        lines = {
            "1.3.6.1.2.1.1.1.0": ("4", self.descr), "1.3.6.1.2.1.1.2.0": ("6", self.object_id),
            "1.3.6.1.2.1.1.3.0": ("67", "123456"), "1.3.6.1.2.1.1.5.0": ("4", f"built-{self.name}"),
        }  # fmt: skip
        for root, names in ((IF_NAME, self.if_name), (IF_DESCR, self.if_descr)):
            lines |= {f"{root}.{index}": _typed(name, "") for index, name in names.items()}
        lines |= {oid: _typed(raw, "") for oid, raw in self.also.items()}
        for column in self.columns:
            for cell in column.cells:
                if cell.raw is not None:
                    oid = column.oid if cell.index == "0" else f"{column.oid}.{cell.index}"
                    lines[oid] = _typed(cell.raw, column.type)
        ordered = sorted(lines, key=lambda oid: tuple(map(int, oid.split("."))))
        return "".join(f"{oid}|{lines[oid][0]}|{lines[oid][1]}\n" for oid in ordered)


def _typed(raw: int | str, given: str) -> tuple[str, str]:
    if isinstance(raw, int):
        return given or "2", str(raw)
    if raw.startswith("0x"):
        return "4x", raw[2:]
    return ("4", raw) if raw.isascii() else ("4x", raw.encode().hex())


@cache
def load_all() -> tuple[Table, ...]:
    """Every table under built/, by file name."""
    return tuple(_load(path) for path in sorted(BUILT.glob("*.yaml")))


def _load(path: Path) -> Table:
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    onus = {str(one["key"]): one["at"] for one in data.get("onus", ())}
    ports = {str(one["key"]): one["at"] for one in data.get("ports", ())}
    return Table(
        name=path.stem, brand=data["brand"], model=data["model"], object_id=data["sysobjectid"],
        descr=data["sysdescr"], if_name=_texts(data.get("if_name")), if_descr=_texts(data.get("if_descr")),
        onus=onus, ports=ports,
        onu_columns=tuple(_columns(data.get("onu_columns"), list(onus))),
        port_columns=tuple(_columns(data.get("port_columns"), list(ports))),
        rows=tuple(_rows(data.get("rows"))), scalars=tuple(_scalars(data.get("scalars"))),
        also=data.get("also") or {},
    )  # fmt: skip


def _texts(given: Mapping[int, str] | None) -> dict[str, str]:
    return {str(index): name for index, name in (given or {}).items()}


def _columns(given: Mapping[str, Any] | None, keys: list[str]) -> Iterator[Column]:
    for name, column in (given or {}).items():
        indexes = [f"{key}{column.get('suffix', '')}" for key in column.get("keys", keys)]
        cells = [
            _cell(index, raw, means)
            for index, raw, means in zip(indexes, column["raw"], column["means"], strict=True)
        ]  # fmt: skip
        yield Column(name, column["oid"], tuple(cells), str(column.get("type", "")))


def _rows(given: Mapping[str, Any] | None) -> Iterator[Column]:
    for name, column in (given or {}).items():
        cells = [_cell(str(index), raw, column["means"][index]) for index, raw in column["raw"].items()]
        yield Column(name, column["oid"], tuple(cells))


def _scalars(given: Mapping[str, Any] | None) -> Iterator[Column]:
    for name, column in (given or {}).items():
        yield Column(name, column["oid"], (_cell("0", column["raw"], column["means"]),))


def _cell(index: str, raw: int | str | None, means: Any) -> Cell:
    if isinstance(means, dict):
        return Cell(index, raw, None, means["none"])
    return Cell(index, raw, float(means) if isinstance(means, int) else means)
