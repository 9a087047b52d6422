"""Every family of the catalogue, read from a table built by hand: each cell, each position, each identity."""

from collections.abc import Iterable, Mapping

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.catalogue_data import Access, OidData, Shape
from portal.domain.readings import NO_SUCH_INSTANCE, Reading, constant_zero
from portal.domain.statuses import NodeKind
from portal.services.cataloguing import catalogue
from portal.tables import Olt, Onu, OnuData, PonPort
from tests.walks.product import Reader, add_olt, in_groups, kind_of, probe, rows_of
from tests.walks.tables import Cell, Column, Table, load_all

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

TABLES = load_all()
by_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)

EPON = "epon_"


@by_table
def test_a_built_table_is_recognised(shelf: Session, ports: dict[str, int], table: Table) -> None:
    found = probe(shelf, ports[f"built:{table.name}"])
    assert (found["brand"], found["model"]) == (table.brand, table.model)
    assert found["decided"], "what decided is said"
    assert int(str(found["requests"])) <= 8


@by_table
def test_every_cell_of_a_built_table_means_what_it_should(shelf: Session, ports: dict[str, int], table: Table) -> None:
    olt = add_olt(shelf, f"cells-{table.name}", ports[f"built:{table.name}"], table.brand, table.model)
    read = read_all(shelf, olt, table)
    for column in table.columns:
        expected = {cell.index: cell for cell in column.cells if not cell.absent}
        found = {_full(index, column, table): reading for index, reading in read[column.name].items()}
        for index, cell in expected.items():
            if cell.raw is None and index not in found:  # a walk holds no row where a GET says noSuchInstance
                assert cell.reason == NO_SUCH_INSTANCE
                continue
            assert _shown(found[index]) == (cell.value, cell.reason), f"{column.name}.{index}"
        assert found.keys() <= expected.keys(), f"{column.name} holds rows that the table does not"
    assert_stored(shelf, olt, table)


def read_all(session: Session, olt: Olt, table: Table) -> dict[str, dict[str, Reading]]:
    """All columns of the table by the nodes that an operator would make: names first, then ONUs with a chain."""
    reader, read = Reader(session, olt), {}
    rows = rows_of(session, olt, [column.name for column in table.columns])
    names = [name for name, given in (("if_name", table.if_name), ("if_descr", table.if_descr)) if given]
    for name in [name for name in names if _known(session, olt, name)]:
        reader.read(NodeKind.TABLE, [name])
    kinds = {column.name: kind_of(rows[column.name]) for column in table.columns}
    (roster,) = [column.name for column in table.onu_columns if kinds[column.name] is NodeKind.DISCOVERY]
    rest = [column.name for column in table.onu_columns if column.name != roster]
    chain = [
        (kind, group)
        for kind in (NodeKind.GET, NodeKind.WALK)
        for group in in_groups(table.brand, [name for name in rest if kinds[name] is kind])
    ]
    read |= reader.read(NodeKind.DISCOVERY, [roster], chain)
    assert {roster, *rest} == read.keys()
    for kind in (NodeKind.TABLE, NodeKind.WALK, NodeKind.GET):
        others = (*table.port_columns, *table.rows, *table.scalars)
        for group in in_groups(table.brand, [column.name for column in others if kinds[column.name] is kind]):
            read |= reader.read(kind, group)
    return read


def _known(session: Session, olt: Olt, name: str) -> bool:
    text = f"{olt.brand.key}.{name}"
    return catalogue.find_all(session, olt, {text})[text] is not None


def _full(index: str, column: Column, table: Table) -> str:
    """The index as the table writes it; readings come without the suffix."""
    if any(cell.index == index for cell in column.cells):
        return index
    return next((cell.index for cell in column.cells if cell.index.startswith(f"{index}.")), index)


def _shown(reading: Reading) -> tuple[float | str | None, str]:
    return reading.value, reading.reason


def assert_stored(session: Session, olt: Olt, table: Table) -> None:
    """ONUs of the database: key, place, identity, state, and the latest value of every column."""
    onus = {onu.index_key: onu for onu in session.scalars(select(Onu).where(Onu.olt_id == olt.id))}
    assert onus.keys() == table.onus.keys()
    for key, place in table.onus.items():
        assert _place(onus[key]) == (place or _place_by_column(table, key)), key
    _assert_identity(onus, table)
    data = {
        (row.onu_id, row.metric): row
        for row in session.scalars(select(OnuData).join(Onu, Onu.id == OnuData.onu_id).where(Onu.olt_id == olt.id))
    }
    rows = rows_of(session, olt, [column.name for column in table.onu_columns])
    for column in table.onu_columns:
        metric = rows[column.name].metric or column.name
        for key, cell in zip(table.onus, column.cells, strict=True):
            _assert_value(data.get((onus[key].id, metric)), cell, f"{column.name} of {key}")


def _assert_value(row: OnuData | None, cell: Cell, what: str) -> None:
    if cell.absent or (row is None and cell.value is None):
        return
    assert row is not None, what
    assert (row.number if isinstance(cell.value, float) else row.text) == cell.value, what


def _place(onu: Onu) -> str | None:
    if onu.port is None:
        return None
    place = f"{onu.frame or 0}/{onu.slot or 0}/{onu.port}"
    return place if onu.onu_number is None else f"{place}:{onu.onu_number}"


def _place_by_column(table: Table, key: str) -> str | None:
    """UFiber: the index tells no place, the column onu_pon names the port."""
    cell = cell_of(table, "onu_pon", key)
    return f"0/0/{int(cell.value)}" if cell is not None and isinstance(cell.value, float) else None


def cell_of(table: Table, name: str, key: str) -> Cell | None:
    """The cell of one ONU in a column, if the table has that column."""
    column = next((column for column in table.onu_columns if column.name == name), None)
    return dict(zip(table.onus, column.cells, strict=True))[key] if column is not None else None


def _assert_identity(onus: Mapping[str | None, Onu], table: Table) -> None:
    epon = any(column.name.startswith(EPON) for column in table.onu_columns)
    for key in table.onus:
        onu, start = onus[key], EPON if epon else ""
        state = cell_of(table, f"{start}onu_state", key)
        if state is not None:
            assert onu.state_label == (state.value or ""), key
        serial, mac = cell_of(table, f"{start}onu_serial", key), cell_of(table, f"{start}onu_mac", key)
        gpon = serial is not None and serial.value is not None
        identity = serial.value if serial is not None and gpon else mac.value if mac is not None else None
        if identity is not None and (gpon or serial is None or table.brand == "fiberhome"):
            assert onu.serial == str(identity).replace(":", ""), key


def test_ports_of_the_interface_table_have_the_places_that_their_names_say(
    shelf: Session, ports: dict[str, int]
) -> None:
    table = next(one for one in TABLES if one.name == "bdcom_gp3600")
    olt = add_olt(shelf, "ports-bdcom", ports["built:bdcom_gp3600"], table.brand, table.model)
    Reader(shelf, olt).read(NodeKind.TABLE, ["if_descr"])
    found = {
        row.name: (row.slot, row.port, row.onu_number)
        for row in shelf.scalars(select(PonPort).where(PonPort.olt_id == olt.id))
    }
    assert found == {
        "GPON0/1": (0, 1, None), "GPON0/2": (0, 2, None), "GPON0/2:23": (0, 2, 23), "GPON0/2:21": (0, 2, 21),
        "GPON0/2:4": (0, 2, 4), "GigaEthernet0/1": (None, None, None),
    }  # fmt: skip


def test_quirk_45_a_card_whose_load_is_zero_on_every_row_has_no_reading(shelf: Session, ports: dict[str, int]) -> None:
    olt = add_olt(shelf, "zero-c600", ports["built:zte_c600"], "zte", "C600")
    rows = rows_of(shelf, olt, ["card_cpu", "card_memory", "card_port_count"])
    assert {name for name, row in rows.items() if row.zero_unsupported} == {"card_cpu", "card_memory"}
    read = Reader(shelf, olt).read(NodeKind.WALK, list(rows))
    assert {name for name, found in read.items() if constant_zero(list(found.values()))} == {"card_cpu", "card_memory"}


PROFILES = [
    (data.key, models)
    for data in catalogue.load_shipped()
    if data.key != "generic"
    for models in sorted({row.models for row in data.oids if row.shape is Shape.ONU})
]


def covered(brand: str, models: tuple[str, ...]) -> set[str]:
    """Names of the columns that some built table of this profile holds."""
    return {
        column.name
        for table in TABLES
        if table.brand == brand and (not models or table.model in models)
        for column in table.onu_columns
    }


@pytest.mark.parametrize(("brand", "models"), PROFILES, ids=lambda given: str(given))
def test_no_profile_is_without_a_walk_and_its_expected_rows(brand: str, models: tuple[str, ...]) -> None:
    rows: Iterable[OidData] = next(data for data in catalogue.load_shipped() if data.key == brand).oids
    wanted = {row.name for row in rows if row.shape is Shape.ONU and row.models == models}
    assert wanted <= covered(brand, models), "each column of an ONU needs a row in tests/walks/built"


def test_a_column_that_is_keyed_otherwise_is_never_asked_for_by_get() -> None:
    for data in catalogue.load_shipped():
        for row in data.oids:
            assert row.access is not Access.WALK or row.kind is not NodeKind.GET, f"{data.key}.{row.name}"
