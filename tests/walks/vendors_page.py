"""Writes docs/vendors.md from the catalogue and from what these tests read: `python -m tests.walks.vendors_page`."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from portal.domain.catalogue_data import BrandData, OidData, Shape
from portal.services.cataloguing.catalogue import GENERIC, load_shipped
from tests.walks.recordings import DEVICES, UNREAD
from tests.walks.tables import Table, load_all

PAGE = Path(__file__).resolve().parents[2] / "docs" / "vendors.md"
ANSWERS = Path(__file__).parent / "answers.yaml"

HEAD = """\
# Makers and what is read from them

Made by `python -m tests.walks.vendors_page > docs/vendors.md` from the catalogue and from what `tests/walks` reads; a
test fails when it is stale. *Recorded*: a walk of a real device, in `../shared/olt/walks`. *Built*: a table written by
hand from the reference data under `tests/walks/built`, raw values beside their meaning. Each row of both is served by
the simulator over UDP, read by the product and compared: recognition, places, serials, states, values.

Of a maker without an ONU column only the generic columns (system group, interface table) are read; of a maker that is
not in the table, too (*Generic*). What recordings hold and the product does not read stands at the end, with the
reason. Nothing was ever tried on a device that the makers of this product could touch.

| maker | models | ONU columns | others | rows compared |
| --- | --- | ---: | ---: | --- |
"""


def page() -> str:
    """The whole document."""
    makers = sorted(load_shipped(), key=lambda data: data.name.lower())
    lines = [_line(data) for data in makers]
    own = [data for data in makers if data.key != GENERIC]
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join([*_sections(own), *_unread()]) + "\n"


def _line(data: BrandData) -> str:
    onu = {row.name for row in data.oids if row.shape is Shape.ONU}
    others = {row.name for row in data.oids if row.shape is not Shape.ONU}
    models = ", ".join(model.key for model in data.models) or "any other"
    return f"| {data.name} | {models} | {len(onu)} | {len(others)} | {'; '.join(_evidence(data)) or 'none'} |"


def _evidence(data: BrandData) -> Iterable[str]:
    """Each walk with how many cells of how many columns it holds for this maker."""
    for name, (brand, model, _) in DEVICES.items():
        if brand == data.key:
            columns = answers()[name]
            read = f"{sum(columns.values())} in {len(columns)} columns" if columns else "recognition"
            yield f"recorded `{name}` ({model or 'model not known'}): {read}"
    for table in load_all():
        if table.brand == data.key:
            cells = sum(len(column.cells) for column in table.columns)
            yield f"built `{table.name}` ({table.model}): {cells} in {len(table.columns)} columns"


def _sections(makers: Iterable[BrandData]) -> Iterable[str]:
    for data in makers:
        if data.oids:
            yield f"## {data.name}\n"
            yield "| column | models | OID | kind | every | sources agree | walks |"
            yield "| --- | --- | --- | --- | ---: | --- | --- |"
            yield from (_column(data, row) for row in data.oids)
            yield ""


def _unread() -> Iterable[str]:
    yield "## Recorded and not read\n"
    yield "| recording | below | rows | what | why it is not read |"
    yield "| --- | --- | ---: | --- | --- |"
    for one in UNREAD:
        yield f"| `{one.recording}` | {one.root} | {one.rows} | {one.what} | {one.why} |"


def _column(data: BrandData, row: OidData) -> str:
    pace = f"{row.safe_interval} s" if row.safe_interval else ""
    walks = [f"recorded `{name}` {rows}" for name, rows in _recorded(data.key, row)]
    walks += [f"built `{table.name}` {len(cells)}" for table, cells in _built(data.key, row)]
    return (
        f"| {row.name} | {', '.join(row.models) or 'all'} | {row.oid} | {row.kind.value} | {pace} "
        f"| {row.confidence.value} | {', '.join(walks) or '-'} |"
    )


def _recorded(brand: str, row: OidData) -> Iterable[tuple[str, int]]:
    for name, (maker, model, _) in DEVICES.items():
        if maker == brand and (not row.models or model in row.models):
            rows = answers()[name].get(row.name)
            if rows:
                yield name, rows


def _built(brand: str, row: OidData) -> Iterable[tuple[Table, tuple[object, ...]]]:
    for table in load_all():
        if table.brand != brand or (row.models and table.model not in row.models):
            continue
        for column in table.columns:
            if column.name == row.name and column.oid == row.oid:
                yield table, column.cells


@cache
def answers() -> Mapping[str, Mapping[str, int]]:
    """Recording → catalogue column → rows that it answers. Kept in a file, since the recordings are not."""
    loaded: Mapping[str, Mapping[str, int]] = YAML(typ="safe", pure=True).load(ANSWERS.read_text(encoding="utf-8"))
    return loaded


if __name__ == "__main__":
    print(page(), end="")
