"""Every recorded walk: served, recognised, read through the product, and compared with the recording itself."""

import math
import re
from collections.abc import Callable

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.probing import ProbeFailed
from portal.domain.catalogue_data import Access
from portal.domain.oid_text import is_under
from portal.domain.readings import Reading
from portal.domain.statuses import NodeKind
from portal.queries import olts as olt_queries
from portal.services.cataloguing import catalogue, index_families
from portal.tables import Oid, Olt, Onu, OnuData, PonPort
from tests.walks.product import Reader, add_olt, in_groups, probe, rows_of
from tests.walks.recordings import DEVICES, HIDDEN, NOTHING, UNREAD, WALKS, Line, column_of, lines_of, path_of
from tests.walks.tables import IF_DESCR, IF_NAME
from tests.walks.vendors_page import answers

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not WALKS.is_dir(), reason="../shared/olt/walks is absent"),
]

RECOGNISED = [name for name, (_, _, decided_by) in DEVICES.items() if decided_by not in (NOTHING, HIDDEN)]
UNKNOWN = [name for name, (_, _, decided_by) in DEVICES.items() if decided_by == NOTHING]
# Excerpts for recognition: no interface table in them, or no column that the catalogue reads.
WITHOUT_INTERFACES = {
    "dasan-nos", "dasan-nos_1", "eltex-olt", "fiberhome", "fiberhome_an5516-01", "fiberhome_an5516-06",
    "huawei-ont_centreon", "infinera-pon", "raisecom", "slms_zhone-mxk1", "zxa10",
}  # fmt: skip
TIME_TICKS = "67"
READ = [name for name, columns in answers().items() if columns]
Expected = dict[str, float | str | None]


def test_no_recording_is_left_out() -> None:
    files = {path.name for path in WALKS.iterdir()} - {"INDEX.md"}
    assert files == {f"{name}.snmprec" for name in DEVICES}
    without = {name for name in DEVICES if not column_of(name, IF_NAME) and not column_of(name, IF_DESCR)}
    assert without == WITHOUT_INTERFACES


@pytest.mark.parametrize("name", sorted({one.recording for one in UNREAD}))
def test_what_the_catalogue_cannot_read_is_listed_and_the_list_says_no_more(name: str) -> None:
    brand, _, _ = DEVICES[name]
    columns = [row.oid for data in catalogue.load_shipped() if data.key in (brand, "generic") for row in data.oids]
    maker = [oid for oid in lines_of(name) if is_under(oid, "1.3.6.1.4.1")]
    left = {oid for oid in maker if not any(oid == column or is_under(oid, column) for column in columns)}
    for one in UNREAD:
        if one.recording == name:
            below = {oid for oid in left if oid == one.root or is_under(oid, one.root)}
            assert len(below) == one.rows, one.what
            left -= below
    assert not left


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_recorded_device_is_recognised_and_what_decided_is_said(
    shelf: Session, ports: dict[str, int], name: str
) -> None:
    found = probe(shelf, ports[name])
    brand, model, decided_by = DEVICES[name]
    assert (found["brand"], found["model"]) == (brand, model)
    grounds = [ground for ground in found["decided"] if ground["by"] in ("sysobjectid", "sysdescr", "subtree")]  # type: ignore[attr-defined]
    assert grounds[-1]["by"] == decided_by
    assert grounds[-1]["means"] == f"{brand}.{model}"
    assert int(str(found["requests"])) <= 8


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_recorded_device_of_a_maker_that_the_catalogue_does_not_know_is_taken_for_none(
    shelf: Session, ports: dict[str, int], name: str
) -> None:
    found = probe(shelf, ports[name])
    assert (found["brand"], found["model"]) == (None, None)
    assert found["sysobjectid"] == lines_of(name)["1.3.6.1.2.1.1.2.0"].text


def test_a_recording_without_a_system_group_tells_nothing_of_its_maker(shelf: Session, ports: dict[str, int]) -> None:
    with pytest.raises(ProbeFailed, match="hides its system group"):
        probe(shelf, ports["huawei-ont_centreon"])


FAMILY = {
    "smartax": "huawei_gpon", "zxa10_c320": "zte_zero_based", "zxa10_c620_excerpt": "zte_1082", "cdata": "cdata_onu",
    "nokia-isam": "isam",
}  # fmt: skip


@pytest.mark.parametrize("name", [*RECOGNISED, *UNKNOWN])
def test_quirk_20_the_index_family_is_probed_from_the_names(shelf: Session, ports: dict[str, int], name: str) -> None:
    found = probe(shelf, ports[name])
    assert found["family"] == FAMILY.get(name)
    told = [ground for ground in found["decided"] if ground["by"] == "ifname"]  # type: ignore[attr-defined]
    assert bool(told) is (name in FAMILY)


@pytest.mark.parametrize("name", [name for name in DEVICES if name not in WITHOUT_INTERFACES])
def test_the_interface_table_of_a_recording_is_read_row_by_row(
    shelf: Session, ports: dict[str, int], name: str
) -> None:
    """Names, descriptions and states of every maker, whatever else the catalogue knows of it."""
    olt = olt_of(shelf, ports, name)
    roots = {"if_name": IF_NAME, "if_descr": IF_DESCR, "if_oper_status": "1.3.6.1.2.1.2.2.1.8"}
    wanted = {column: column_of(name, root) for column, root in roots.items() if column_of(name, root)}
    assert wanted
    states = dict(enumerate(
        ("up", "down", "testing", "unknown", "dormant", "not present", "lower layer down"), start=1
    ))  # fmt: skip
    read = Reader(shelf, olt, prefix="generic").read(NodeKind.WALK, list(wanted))
    for column, lines in wanted.items():
        known = {index: reading.value for index, reading in read[column].items()}
        if column == "if_oper_status":
            assert known == {index: states[line.number] for index, line in lines.items()}
        else:
            assert known == {index: printed(line) for index, line in lines.items()}


def printed(line: Line) -> str | None:
    """Device text as a page shows it: up to NUL, line breaks as blanks, no blanks around, at most 255."""
    text = "".join(char for char in re.sub(r"[\r\n\t]+", " ", line.text.split("\0")[0]) if char.isprintable())
    return text.strip()[:255].strip() or None


def olt_of(session: Session, ports: dict[str, int], name: str) -> Olt:
    brand, model, _ = DEVICES[name]
    return add_olt(session, f"recorded-{name}", ports[name], brand, model)


def stored(session: Session, olt: Olt, metric: str) -> dict[str | None, OnuData]:
    """Index → latest reading of one metric."""
    query = select(Onu.index_key, OnuData).join(Onu, Onu.id == OnuData.onu_id)
    rows = session.execute(query.where(Onu.olt_id == olt.id, OnuData.metric == metric))
    return {key: data for key, data in rows}


def places(session: Session, olt: Olt) -> dict[str | None, tuple[int | None, ...]]:
    onus = session.scalars(select(Onu).where(Onu.olt_id == olt.id))
    return {onu.index_key: (onu.slot, onu.port, onu.onu_number) for onu in onus}


def values(read: dict[str, Reading]) -> Expected:
    return {index: reading.value for index, reading in read.items()}


def named_ports(session: Session, olt: Olt) -> dict[str, tuple[int | None, ...]]:
    """Name → frame, slot, port, ONU of the stored interface table."""
    query = select(PonPort).where(PonPort.olt_id == olt.id, PonPort.port.is_not(None))
    return {row.name: (row.frame, row.slot, row.port, row.onu_number) for row in session.scalars(query)}


def after_names(session: Session, olt: Olt, column: str) -> Reader:
    """For what is read once the names of the interfaces are known."""
    reader = Reader(session, olt)
    reader.read(NodeKind.TABLE, [column])
    return reader


def read_numbers(
    reader: Reader, name: str, columns: dict[str, tuple[str, Callable[[Line], float | str | None]]], kind: NodeKind
) -> None:
    """Each column of a recording against what its own lines say; `columns`: name → (root, meaning)."""
    read = reader.read(kind, list(columns))
    for column, (root, meaning) in columns.items():
        lines = column_of(name, root)
        assert lines, f"the recording holds no row of {column}"
        assert values(read[column]) == {index: meaning(line) for index, line in lines.items()}, column


def none_of(*sentinels: int, scale: float = 1.0, digits: int = 4) -> Callable[[Line], float | None]:
    """A number that is none of the sentinels, scaled."""
    return lambda line: None if line.number in sentinels else round(line.number * scale, digits)


# --- Calix


def milliwatts(line: Line) -> float | None:
    """1/10000 mW in dBm."""
    return round(10 * math.log10(line.number / 10_000), 4) if line.number > 0 else None


def test_the_206_onts_of_a_recorded_axos_have_state_id_and_three_powers_in_dbm(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt, table = olt_of(shelf, ports, "axos_e7-2"), "1.3.6.1.4.1.6321.1.2.4.2.6.1.1"
    lines = {number: column_of("axos_e7-2", f"{table}.{number}") for number in range(1, 11)}
    assert {len(rows) for rows in lines.values()} == {206}
    powers = {"onu_rx_power": 6, "onu_tx_power": 7, "onu_olt_rx_power": 8}
    columns = ["onu_description", *powers, "onu_firmware", "onu_equipment_id"]
    read = Reader(shelf, olt).read(NodeKind.DISCOVERY, ["onu_state"], [(NodeKind.GET, columns)])
    onus = list(shelf.scalars(select(Onu).where(Onu.olt_id == olt.id)))
    assert {onu.index_key: (onu.description, onu.online, onu.state_label) for onu in onus} == {
        index: (line.text, True, "enabled") for index, line in lines[2].items()
    }
    for name, column in powers.items():
        kept = {index: data.number for index, data in stored(shelf, olt, name).items()}
        assert kept == {index: milliwatts(line) for index, line in lines[column].items()}
    received = sorted(data.number or 0 for data in stored(shelf, olt, "onu_rx_power").values())
    assert (received[0], received[-1]) == (-27.6955, -14.389), "the weakest and the strongest light of the recording"
    assert values(read["onu_firmware"]) == {index: line.text for index, line in lines[9].items()}


def test_the_pon_ports_of_a_recorded_axos_have_their_light_in_dbm(shelf: Session, ports: dict[str, int]) -> None:
    olt, table = olt_of(shelf, ports, "axos_e7-2"), "1.3.6.1.4.1.6321.1.2.4.2.4.2.1"
    read_numbers(
        Reader(shelf, olt),
        "axos_e7-2",
        {
            "pon_port_temperature": (f"{table}.4", none_of(0, scale=0.001)),
            "pon_port_bias_current": (f"{table}.5", none_of(scale=0.001)),
            "pon_port_tx_power": (f"{table}.6", milliwatts),
            "pon_port_rx_power": (f"{table}.7", milliwatts),
            "pon_port_voltage": (f"{table}.8", none_of(0, scale=0.001)),
        },
        NodeKind.TABLE,
    )


@pytest.mark.parametrize(
    ("name", "ports_named"),
    [
        ("axos_e7-2", {f"1/{slot}/xp{port}": (1, slot, port, None) for slot in (1, 2) for port in range(1, 9)}),
        ("exa_pon", {f"Gponport {slot}/{port}": (0, slot, port, None) for slot in (1, 2) for port in range(1, 9)}),
    ],
)
def test_the_pon_ports_of_a_recorded_calix_are_placed_by_their_names(
    shelf: Session, ports: dict[str, int], name: str, ports_named: dict[str, tuple[int | None, ...]]
) -> None:
    olt = olt_of(shelf, ports, name)
    after_names(shelf, olt, "if_name")
    assert named_ports(shelf, olt) == ports_named
    assert len([row for row in olt_queries.ports(olt.id) if row.port is not None]) == 16


# --- Huawei


def test_a_recorded_ma5603t_has_its_32_pon_ports_with_their_optics(shelf: Session, ports: dict[str, int]) -> None:
    olt, xpon = olt_of(shelf, ports, "smartax"), "1.3.6.1.4.1.2011.6.128.1.1.2"
    reader = after_names(shelf, olt, "if_name")
    wanted = {
        line.text: (*map(int, line.text.removeprefix("GPON ").split("/")), None)
        for line in column_of("smartax", IF_NAME).values() if line.text.startswith("GPON")
    }  # fmt: skip
    assert len(wanted) == 32
    assert named_ports(shelf, olt) == wanted
    no = 2147483647
    read_numbers(
        reader,
        "smartax",
        {
            "pon_port_onu_count": (f"{xpon}.21.1.16", none_of(-1)),
            "pon_port_tx_power": (f"{xpon}.23.1.4", none_of(no, scale=0.01)),
            "pon_port_temperature": (f"{xpon}.23.1.1", none_of(no)),
            "pon_port_voltage": (f"{xpon}.23.1.2", none_of(no, scale=0.01)),
            "pon_port_bias_current": (f"{xpon}.23.1.3", none_of(no)),
        },
        NodeKind.WALK,
    )


def test_quirk_23_the_names_of_an_mdu_win_over_the_formula_that_is_off_by_one(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt = olt_of(shelf, ports, "smartax-mdu")
    after_names(shelf, olt, "if_name")
    interfaces = index_families.named(shelf, olt)
    ethernet = {i: one for i, one in interfaces.items() if one.name.startswith("ethernet")}
    assert len(ethernet) == 24
    for one in ethernet.values():
        assert str(one.position) == one.name.removeprefix("ethernet")


def test_the_onts_of_a_recorded_huawei_are_placed_and_read_as_another_project_reads_them(
    shelf: Session, ports: dict[str, int]
) -> None:
    """Light of the first ONT as the tests of centreon-plugins state it, from whom the recording comes."""
    olt, xpon = olt_of(shelf, ports, "huawei-ont_centreon"), "1.3.6.1.4.1.2011.6.128.1.1.2"
    sides = ["onu_rx_power", "onu_tx_power", "onu_olt_rx_power"]
    more = ["onu_voltage", "onu_temperature", "onu_bias_current", "onu_description"]
    read = Reader(shelf, olt).read(NodeKind.DISCOVERY, ["onu_serial"], [(NodeKind.GET, [*sides, *more])])
    onts = [f"4194312192.{number}" for number in (1, 2, 3)]
    assert places(shelf, olt) == {index: (1, 0, int(index[-1])) for index in onts}
    assert values(read["onu_serial"]) == {index: f"414E4F4E0000000{index[-1]}" for index in onts}
    assert [read[name][onts[0]].value for name in (*sides, "onu_voltage")] == [-14.14, 2.13, -19.36, 3.22]
    for name, column in (("onu_temperature", 1), ("onu_bias_current", 2)):
        lines = column_of("huawei-ont_centreon", f"{xpon}.51.1.{column}")
        assert values(read[name]) == {index: float(lines[index].number) for index in onts}
    assert values(read["onu_rx_power"]) == dict(zip(onts, (-14.14, -15.65, -14.64), strict=True))
    assert values(read["onu_olt_rx_power"]) == dict(zip(onts, (-19.36, -19.71, -18.57), strict=True))
    assert values(read["onu_description"]) == {
        index: printed(line) for index, line in column_of("huawei-ont_centreon", f"{xpon}.43.1.9").items()
    }


# --- ZTE


def test_quirk_19_one_number_is_two_ports_of_a_recorded_c320(shelf: Session, ports: dict[str, int]) -> None:
    """Its 1012 tables count ports from one, its IF-MIB from zero: each keeps its own place."""
    olt, distance = olt_of(shelf, ports, "zxa10_c320"), "1.3.6.1.4.1.3902.1012.3.11.4.1.2"
    reader = after_names(shelf, olt, "if_name")
    assert named_ports(shelf, olt)["gpon_1/1/1"] == (1, 1, 1, None)
    wanted, where = {}, {}
    for index, line in column_of("zxa10_c320", distance).items():
        port, onu = map(int, index.split("."))
        where[index] = (port >> 16 & 255, port >> 8 & 255, onu)
        wanted[index] = None if line.number in (0, -1) else float(line.number)
    assert len(wanted) == 125
    read = reader.read(NodeKind.DISCOVERY, ["onu_distance"])["onu_distance"]
    assert values(read) == wanted
    assert places(shelf, olt) == where
    assert sum(value is None for value in wanted.values()) == 3, "quirk 43: a distance of zero is no distance"
    assert {key: row.number for key, row in stored(shelf, olt, "onu_distance").items()} == wanted


def test_the_pon_ports_of_a_recorded_c320_are_read_row_by_row(shelf: Session, ports: dict[str, int]) -> None:
    olt, table = olt_of(shelf, ports, "zxa10_c320"), "1.3.6.1.4.1.3902.1012.3.13.1.1"
    reader = Reader(shelf, olt)
    read_numbers(
        reader,
        "zxa10_c320",
        {
            "pon_port_name": (f"{table}.1", printed),
            "pon_port_description": (f"{table}.2", printed),
            "pon_port_admin_state": (f"{table}.10", lambda line: {1: "enabled", 2: "disabled"}[line.number]),
            "pon_port_onu_count": (f"{table}.13", none_of()),
            "pon_port_onu_illegal_count": (f"{table}.14", none_of()),
        },
        NodeKind.WALK,
    )
    assert {line.number for line in column_of("zxa10_c320", f"{table}.13").values()} == {0}, (
        "quirk 42: 125 ONUs, count 0"
    )
    reader.read(NodeKind.TABLE, ["if_name"])
    row = rows_of(shelf, olt, ["pon_port_tx_power"])["pon_port_tx_power"]
    formula = index_families.formula_for(shelf, olt, row)
    assert formula is not None
    for index, one in index_families.named(shelf, olt).items():
        assert formula.decode(index) == one.position


def test_quirk_44_a_recorded_c620_names_its_ports_in_ifname_while_ifdescr_holds_notes(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt, cards = olt_of(shelf, ports, "zxa10_c620_excerpt"), "1.3.6.1.4.1.3902.1082.10.1.2.4.1"
    reader = after_names(shelf, olt, "if_name")
    gpon = {name: place for name, place in named_ports(shelf, olt).items() if name.startswith("gpon")}
    assert gpon == {f"gpon_olt-1/1/{port}": (1, 1, port, None) for port in range(1, 17)}
    read_numbers(
        reader,
        "zxa10_c620_excerpt",
        {
            "card_name": (f"{cards}.4", printed),
            "card_state": (f"{cards}.5", none_of()),
            "card_port_count": (f"{cards}.7", none_of()),
            "card_cpu": (f"{cards}.9", none_of()),
            "card_memory": (f"{cards}.11", none_of()),
        },
        NodeKind.WALK,
    )


# --- UFiber


def test_quirk_27_a_recorded_ufiber_is_keyed_by_serial_and_keeps_its_letter_case(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt, table = olt_of(shelf, ports, "edgeosolt"), "1.3.6.1.4.1.41112.1.5.6.2.1"
    reader = Reader(shelf, olt)
    lines = {number: column_of("edgeosolt", f"{table}.{number}") for number in range(1, 10)}
    assert len(lines[1]) == 29
    columns = ["onu_serial", "onu_name", "onu_model", "onu_pon", "onu_rx_power", "onu_tx_power"]
    read = reader.read(NodeKind.DISCOVERY, ["onu_state"], [(NodeKind.GET, columns)])
    assert values(read["onu_state"]) == {i: {1: "online", 2: "offline"}[x.number] for i, x in lines[3].items()}
    for index, line in lines[1].items():
        length, *codes = map(int, index.split("."))
        assert "".join(map(chr, codes)) == line.text
        assert length == len(codes)
    vendor_and_hex = {i: x.text[:4].encode().hex().upper() + x.text[4:].upper() for i, x in lines[1].items()}
    assert values(read["onu_serial"]) == vendor_and_hex
    assert {i: reading.raw for i, reading in read["onu_serial"].items()} == {i: x.text for i, x in lines[1].items()}
    assert values(read["onu_rx_power"]) == {i: none_of(0, scale=0.01)(x) for i, x in lines[9].items()}
    assert values(read["onu_tx_power"]) == {i: none_of(0, scale=0.01)(x) for i, x in lines[8].items()}
    assert values(read["onu_name"]) == {i: printed(x) for i, x in lines[2].items()}
    assert values(read["onu_model"]) == {i: printed(x) for i, x in lines[4].items()}
    dark = [i for i, x in lines[3].items() if x.number == 2]
    assert len(dark) == 13
    assert all(read["onu_rx_power"][i].reason == "sentinel 0" for i in dark), "quirk 29"
    onus = {onu.index_key: onu for onu in shelf.scalars(select(Onu).where(Onu.olt_id == olt.id))}
    assert {key: onu.serial for key, onu in onus.items()} == vendor_and_hex
    assert {key: onu.port for key, onu in onus.items()} == {i: x.number or None for i, x in lines[5].items()}


# --- VSOL


def test_quirk_40_a_recorded_v1600d_writes_its_optics_as_texts_with_units(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt, table = olt_of(shelf, ports, "vsolution_v1600d"), "1.3.6.1.4.1.37950.1.1.5.12.2.1.8.1"
    reader = Reader(shelf, olt)

    def dbm(line: Line) -> float | None:
        found = re.search(r"\((-?[0-9.]+) dBm\)", line.text)
        return float(found[1]) if found else None

    def first(line: Line) -> float | None:
        found = re.match(r"\s*(-?[0-9]+(?:\.[0-9]+)?)", line.text)
        return float(found[1]) if found else None

    read = reader.read(NodeKind.DISCOVERY, ["onu_rx_power"])["onu_rx_power"]
    lines = column_of("vsolution_v1600d", f"{table}.7")
    assert len(lines) == 16
    assert values(read) == {index: dbm(line) for index, line in lines.items()}
    assert places(shelf, olt) == {index: (0, *map(int, index.split("."))) for index in lines}
    read_numbers(reader, "vsolution_v1600d", {
        "onu_tx_power": (f"{table}.6", dbm), "onu_temperature": (f"{table}.3", first),
        "onu_voltage": (f"{table}.4", first), "onu_bias_current": (f"{table}.5", first),
    }, NodeKind.WALK)  # fmt: skip
    read_numbers(reader, "vsolution_v1600d", {
        "pon_port_tx_power": ("1.3.6.1.4.1.37950.1.1.5.10.13.1.1.5", first),
        "pon_port_temperature": ("1.3.6.1.4.1.37950.1.1.5.10.13.1.1.2", first),
    }, NodeKind.WALK)  # fmt: skip


def test_a_recorded_v1600gs_has_its_three_onus(shelf: Session, ports: dict[str, int]) -> None:
    olt, tree = olt_of(shelf, ports, "vsolution_v1600gs"), "1.3.6.1.4.1.37950.1.1.6.1.1"
    phases = dict(
        enumerate(("logging", "LOS", "sync MIB", "working", "dying gasp", "authentication failed", "offline"))
    )
    reader = Reader(shelf, olt)
    read = reader.read(NodeKind.DISCOVERY, ["onu_state"])["onu_state"]
    lines = column_of("vsolution_v1600gs", f"{tree}.1.1.5")
    assert values(read) == {index: phases[line.number] for index, line in lines.items()}
    assert places(shelf, olt) == {index: (0, *map(int, index.split("."))) for index in lines}
    read_numbers(reader, "vsolution_v1600gs", {
        name: (f"{tree}.3.1.{column}", lambda line: float(line.text) or None)
        for name, column in (("onu_temperature", 3), ("onu_voltage", 4), ("onu_tx_power", 6), ("onu_rx_power", 7))
    }, NodeKind.WALK)  # fmt: skip


# --- BDCOM, C-Data, Nokia: places from names


def test_quirk_25_the_onus_of_a_recorded_gp3600_are_placed_by_their_names(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt = olt_of(shelf, ports, "bdcom")
    after_names(shelf, olt, "if_descr")
    wanted = {}
    for line in column_of("bdcom", IF_DESCR).values():
        found = re.fullmatch(r"GPON([0-9]+)/([0-9]+)(?::([0-9]+))?", line.text)
        if found:
            wanted[line.text] = (0, int(found[1]), int(found[2]), int(found[3]) if found[3] else None)
    assert named_ports(shelf, olt) == wanted


def test_quirk_28_the_counters_of_a_recorded_gp3600_tell_how_many_onus_its_names_must_hold(
    shelf: Session, ports: dict[str, int]
) -> None:
    """Its roster as comma text is cut at 255 octets, so it is in no catalogue row: names and counters are."""
    olt, table = olt_of(shelf, ports, "bdcom"), "1.3.6.1.4.1.3320.10.2.1.1"
    reader = after_names(shelf, olt, "if_descr")
    read = reader.read(NodeKind.WALK, ["pon_port_onu_count", "pon_port_onu_inactive_count"])
    for name, column in (("pon_port_onu_count", 4), ("pon_port_onu_inactive_count", 5)):
        lines = column_of("bdcom", f"{table}.{column}")
        assert values(read[name]) == {index: float(line.number) for index, line in lines.items()}
    onus = [place for place in named_ports(shelf, olt).values() if place[3] is not None]
    for index, line in column_of("bdcom", IF_DESCR).items():
        if re.fullmatch(r"GPON0/[0-9]+", line.text):
            counted = sum(float(read[name][index].value or 0) for name in read)
            assert sum(place[2] == int(line.text.removeprefix("GPON0/")) for place in onus) == counted
    longest = max(len(line.octets) for line in column_of("bdcom", f"{table}.6").values())
    assert longest == 255
    row = shelf.scalar(select(Oid).where(Oid.oid == f"{table}.6"))
    assert row is None


def test_the_first_pon_of_a_recorded_fd1208s_is_learned_from_its_names(shelf: Session, ports: dict[str, int]) -> None:
    olt = olt_of(shelf, ports, "cdata")
    after_names(shelf, olt, "if_name")
    (family,) = index_families.of(shelf, olt.id)
    assert (family.formula, family.evidence["tried"][0]["agree"]) == ("cdata_onu", 8)
    formula = index_families.formula_for(shelf, olt, rows_of(shelf, olt, ["onu_state"])["onu_state"])
    assert formula is not None
    for index, line in column_of("cdata", IF_NAME).items():
        if line.text.startswith("pon"):
            assert str(formula.decode(index)) == line.text.removeprefix("pon")
            assert str(formula.decode(str(int(index) + 5))) == f"{line.text.removeprefix('pon')}:5"


def test_quirk_24_the_steps_of_a_recorded_fwlt_c_are_learned_from_its_pon_rows(
    shelf: Session, ports: dict[str, int]
) -> None:
    olt = olt_of(shelf, ports, "nokia-isam")
    after_names(shelf, olt, "if_descr")
    (family,) = index_families.of(shelf, olt.id)
    assert family.definition is not None
    assert family.definition["steps"] == {"1": 65536}
    formula = index_families.formula_for(shelf, olt, rows_of(shelf, olt, ["onu_serial"])["onu_serial"])
    assert formula is not None
    names = column_of("nokia-isam", IF_DESCR)
    pons = sorted(int(index) for index, line in names.items() if line.text.endswith("PON"))
    onts = sorted(int(index) for index, line in names.items() if line.text.endswith("ONT"))
    assert (len(pons), len(onts)) == (16, 30)
    assert [str(formula.decode(str(index))) for index in pons] == [f"0/1/{pon}" for pon in range(1, 17)]
    for index in onts:  # the public formula of FWLT-C: PON step 65536, ONT step 512, from 96468992 for slot 1
        pon, rest = divmod(index - 96468992, 65536)
        assert str(formula.decode(str(index))) == f"0/1/{pon + 1}:{rest // 512 + 1}"
    ports_of = {
        row.index_key: (row.frame, row.slot, row.port, row.onu_number)
        for row in shelf.scalars(select(PonPort).where(PonPort.olt_id == olt.id, PonPort.port.is_not(None)))
    }
    assert {int(index): place for index, place in ports_of.items() if place[3] is None} == {
        index: (0, 1, pon, None) for pon, index in enumerate(pons, start=1)
    }, "all 16, at the first reading"
    assert sorted(int(index) for index, place in ports_of.items() if place[3] is not None) == onts
    shown = {(row.slot, row.port): row.name for row in olt_queries.ports(olt.id)}
    assert shown == {(1, pon): "nokia FWLT-C  PON" for pon in range(1, 17)}
    read = Reader(shelf, olt).read(NodeKind.TABLE, ["if_descr"])["if_descr"]
    assert values(read) == {index: printed(line) for index, line in names.items()}


def test_quirk_41_a_counter_that_comes_as_octets_is_read_as_a_number(shelf: Session, ports: dict[str, int]) -> None:
    olt, counter = olt_of(shelf, ports, "nokia-isam"), "1.3.6.1.2.1.31.1.1.1.6"
    lines = column_of("nokia-isam", counter)
    odd = {index: line for index, line in lines.items() if line.type.startswith("4")}
    assert odd, "eight octets where a counter belongs"
    read = Reader(shelf, olt, prefix="generic").read(NodeKind.WALK, ["if_in_octets"])["if_in_octets"]
    wanted = {
        index: float(int.from_bytes(line.octets, "big") if index in odd else line.number)
        for index, line in lines.items()
    }
    assert values(read) == wanted


def test_the_cards_of_a_recorded_an5516_are_read_row_by_row(shelf: Session, ports: dict[str, int]) -> None:
    olt, cards = olt_of(shelf, ports, "fiberhome"), "1.3.6.1.4.1.5875.800.3.9.8.1.1"
    reader = Reader(shelf, olt)
    read_numbers(reader, "fiberhome", {
        "mgmt_card_cpu": (f"{cards}.5", none_of(scale=0.01)), "mgmt_card_memory": (f"{cards}.6", none_of(scale=0.01)),
    }, NodeKind.WALK)  # fmt: skip
    read = reader.read(NodeKind.GET, ["system_temperature"])["system_temperature"]
    assert [reading.value for reading in read.values()] == [
        float(lines_of("fiberhome")["1.3.6.1.4.1.5875.800.3.9.4.5.0"].number)
    ]


def answered(name: str) -> dict[str, str]:
    """Catalogue column → its OID, of those that a recording holds rows of."""
    brand, model, _ = DEVICES[name]
    data = next(one for one in catalogue.load_shipped() if one.key == brand)
    rows = [row for row in data.oids if (not row.models or model in row.models) and row.access is not Access.GET]
    held = lines_of(name)
    return {row.name: row.oid for row in rows if row.oid in held or column_of(name, row.oid)}


@pytest.mark.parametrize("name", READ)
def test_every_column_that_a_recording_answers_arrives_row_by_row(
    shelf: Session, ports: dict[str, int], name: str
) -> None:
    columns = answered(name)
    reader = Reader(shelf, olt_of(shelf, ports, name))
    for group in in_groups(reader.prefix, columns):
        for column, found in reader.read(NodeKind.WALK, group).items():
            scalar = lines_of(name).get(columns[column])
            lines = column_of(name, columns[column]) if scalar is None else {"0": scalar}
            assert found.keys() == lines.keys(), column
            for index, line in lines.items():
                if line.type == TIME_TICKS:  # the simulator's clock runs on
                    assert int(str(found[index].raw)) >= line.number, f"{column}.{index}"
                elif line.text.isprintable():
                    assert found[index].raw == line.text, f"{column}.{index}"


def test_a_recording_is_read_here_as_it_lies() -> None:
    """Of the reader of these tests: hexadecimal values become octets, others stay as they are."""
    lines = lines_of("bdcom")
    assert lines["1.3.6.1.2.1.1.1.0"].octets.startswith(b"BDCOM(tm) GP3600-16B")
    assert b"\n" in lines["1.3.6.1.2.1.1.1.0"].octets, "quirk 22: sysDescr with a line break"
    assert path_of("bdcom").name == "bdcom.snmprec"
