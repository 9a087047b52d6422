"""Index formulas: every worked number of the reference data, both ways, and what must be refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from portal.domain.catalogue_data import parse
from portal.domain.formulas import IndexFormula, Position

CATALOGUE = Path(__file__).parents[2] / "portal" / "catalogue"
WALKS = Path(__file__).parents[3] / "shared" / "olt" / "walks"


def shipped(brand: str) -> dict[str, IndexFormula]:
    document = YAML(typ="safe").load(CATALOGUE / f"{brand}.yaml")
    return {item.name: item.build() for item in parse(document, brand).formulas}


HUAWEI, ZTE, GENERIC = shipped("huawei"), shipped("zte"), shipped("generic")


def fields(**given: dict[str, int]) -> dict[str, dict[str, int]]:
    return given


def bitshift(name: str, **definition: Any) -> IndexFormula:
    return IndexFormula.from_dict({"name": name, "kind": "bitshift", **definition})


HUAWEI_LINEAR = IndexFormula.from_dict(
    {
        "name": "huawei_linear",
        "kind": "linear",
        "base": 4194304000,
        "fields": fields(
            frame={"stride": 524288, "count": 64},
            slot={"stride": 8192, "count": 64},
            port={"stride": 256, "count": 32},
            onu={"part": 2, "count": 256},
        ),
    }
)
FIBERHOME = bitshift(
    "fiberhome_onu",
    ignore=[{"shift": 0, "bits": 8}],
    fields=fields(slot={"shift": 25, "bits": 7}, port={"shift": 19, "bits": 6}, onu={"shift": 8, "bits": 11}),
)
FIBERHOME_PON = bitshift(
    "fiberhome_pon",
    fields=fields(slot={"shift": 25, "bits": 7}, port={"shift": 19, "bits": 6}, onu={"part": 2, "bits": 11}),
)
AN5116 = bitshift(
    "an5116",
    ignore=[{"shift": 0, "bits": 13}],
    fields=fields(slot={"shift": 27, "bits": 5}, port={"shift": 22, "bits": 5}, onu={"shift": 13, "bits": 9}),
)
VSOL = IndexFormula.from_dict(
    {
        "name": "vsol",
        "kind": "linear",
        "fields": fields(port={"part": 1, "minimum": 1, "count": 129}, onu={"part": 2, "minimum": 1, "count": 257}),
    }
)
CDATA_V3 = bitshift(
    "cdata_v3",
    checks=[{"shift": 18, "bits": 14, "value": 18}],
    fields=fields(port={"shift": 12, "bits": 6, "offset": 1}, onu={"shift": 0, "bits": 12}),
)


def cdata(first: int) -> IndexFormula:
    """C-Data counts uplinks first, so the field of PON 1 depends on the model."""
    return bitshift(
        f"cdata_{first}",
        fields=fields(
            frame={"shift": 24, "bits": 8, "offset": -1},
            slot={"shift": 16, "bits": 8},
            port={"shift": 8, "bits": 8, "offset": 1 - first, "minimum": 1},
            onu={"shift": 0, "bits": 8},
        ),
    )


BOTH_WAYS = [
    *[
        (formula, index, position)
        for formula in (HUAWEI["huawei_gpon"], HUAWEI_LINEAR)
        for index, position in [
            ("4194304000", Position(frame=0, slot=0, port=0)),
            ("4194304256", Position(frame=0, slot=0, port=1)),
            ("4194312192", Position(frame=0, slot=1, port=0)),
            ("4194312448", Position(frame=0, slot=1, port=1)),
            ("4194316032", Position(frame=0, slot=1, port=15)),
            ("4194338304", Position(frame=0, slot=4, port=6)),
            ("4194345216", Position(frame=0, slot=5, port=1)),
            ("4194385920", Position(frame=0, slot=10, port=0)),
            ("4194395904", Position(frame=0, slot=11, port=7)),
            ("4194312448.2", Position(frame=0, slot=1, port=1, onu=2)),
            ("4194345216.25", Position(frame=0, slot=5, port=1, onu=25)),
            ("4194304000.0", Position(frame=0, slot=0, port=0, onu=0)),
        ]
    ],
    (HUAWEI["huawei_ethernet"], "234938368", Position(frame=0, slot=7, port=0)),
    (HUAWEI["huawei_ethernet"], "234938432", Position(frame=0, slot=7, port=1)),
    (HUAWEI["huawei_ethernet"], "234946624", Position(frame=0, slot=8, port=1)),
    (HUAWEI["huawei_ethernet"], "235028544", Position(frame=0, slot=18, port=1)),
    (ZTE["zte_1012"], "268501248", Position(frame=1, slot=1, port=1)),
    (ZTE["zte_1012"], "268501504", Position(frame=1, slot=1, port=2)),
    (ZTE["zte_1012"], "268503040", Position(frame=1, slot=1, port=8)),
    (ZTE["zte_1012"], "268566784", Position(frame=1, slot=2, port=1)),
    (ZTE["zte_1012"], "268569088", Position(frame=1, slot=2, port=10)),
    (ZTE["zte_1012"], "268632320", Position(frame=1, slot=3, port=1)),
    (ZTE["zte_1012"], "268894464", Position(frame=1, slot=7, port=1)),
    (ZTE["zte_1012"], "268501248.3", Position(frame=1, slot=1, port=1, onu=3)),
    (ZTE["zte_1082"], "285278465", Position(frame=1, slot=1, port=1)),
    (ZTE["zte_1082"], "285278466", Position(frame=1, slot=1, port=2)),
    (ZTE["zte_1082"], "285278480", Position(frame=1, slot=1, port=16)),
    (ZTE["zte_1082"], "285278721", Position(frame=1, slot=2, port=1)),
    (ZTE["zte_1082"], "285278977", Position(frame=1, slot=3, port=1)),
    (ZTE["zte_1082"], "285279233", Position(frame=1, slot=4, port=1)),
    (ZTE["zte_1082"], "285279489", Position(frame=1, slot=5, port=1)),
    (ZTE["zte_1082"], "285280013", Position(frame=1, slot=7, port=13)),
    (ZTE["zte_1082"], "285278465.87", Position(frame=1, slot=1, port=1, onu=87)),
    (ZTE["zte_zero_based"], "268435456", Position(frame=1, slot=1, port=1)),
    (ZTE["zte_zero_based"], "268435712", Position(frame=1, slot=1, port=2)),
    (ZTE["zte_zero_based"], "268437248", Position(frame=1, slot=1, port=8)),
    (ZTE["zte_zero_based"], "268632064", Position(frame=1, slot=4, port=1)),
    (ZTE["zte_zero_based"], "268632320", Position(frame=1, slot=4, port=2)),
    (ZTE["zte_zero_based"], "268500992", Position(frame=1, slot=2, port=1)),
    (ZTE["zte_epon_onu"], "805830912", Position(frame=1, slot=1, port=1, onu=1)),
    (ZTE["zte_epon_onu"], "805831168", Position(frame=1, slot=1, port=1, onu=2)),
    (ZTE["zte_epon_onu"], "805896448", Position(frame=1, slot=1, port=2, onu=1)),
    (ZTE["zte_epon_onu"], "806355200", Position(frame=1, slot=2, port=1, onu=1)),
    (ZTE["zte_epon_onu"], "810500096", Position(frame=1, slot=9, port=8, onu=64)),
    (FIBERHOME, "34078720", Position(slot=1, port=1)),
    (FIBERHOME, "67633152", Position(slot=2, port=1)),
    (FIBERHOME, "67633408", Position(slot=2, port=1, onu=1)),
    (FIBERHOME, str(606089733 - 5), Position(slot=18, port=4, onu=50)),
    (FIBERHOME_PON, "34078720.1", Position(slot=1, port=1, onu=1)),
    (FIBERHOME_PON, "67633152", Position(slot=2, port=1)),
    (AN5116, str(2433106000 - (5 << 4)), Position(slot=18, port=4, onu=50)),
    (cdata(1), "16777472", Position(frame=0, slot=0, port=1)),
    (cdata(1), "16779008", Position(frame=0, slot=0, port=7)),
    (cdata(7), "16779008", Position(frame=0, slot=0, port=1)),
    (cdata(7), "16779013", Position(frame=0, slot=0, port=1, onu=5)),
    (cdata(11), "16780032", Position(frame=0, slot=0, port=1)),
    (cdata(13), "16780544", Position(frame=0, slot=0, port=1)),
    (CDATA_V3, "4718593", Position(slot=0, port=1, onu=1)),
    (CDATA_V3, "4718594", Position(slot=0, port=1, onu=2)),
    (CDATA_V3, "4722689", Position(slot=0, port=2, onu=1)),
    (CDATA_V3, "4780160", Position(slot=0, port=16, onu=128)),
    (VSOL, "1.3", Position(slot=0, port=1, onu=3)),
    (VSOL, "16", Position(slot=0, port=16)),
]


@pytest.mark.parametrize(("formula", "index", "position"), BOTH_WAYS, ids=lambda item: getattr(item, "name", None))
def test_a_worked_number_decodes_and_encodes(formula: IndexFormula, index: str, position: Position) -> None:
    assert formula.decode(index) == position
    assert formula.encode(position) == index


def test_one_number_is_two_ports_in_two_zte_families() -> None:
    assert ZTE["zte_1012"].decode("268501248") == Position(frame=1, slot=1, port=1)
    assert ZTE["zte_zero_based"].decode("268501248") == Position(frame=1, slot=2, port=2)
    assert ZTE["zte_1082"].decode("268501248") is None


def test_the_same_port_carries_over_from_family_a_to_family_b() -> None:
    position = ZTE["zte_1012"].decode("268501248.3")
    assert position is not None
    assert ZTE["zte_1082"].encode(position) == "285278465.3"


@pytest.mark.parametrize(("formula", "index"), [(FIBERHOME, "606089733"), (AN5116, "2433106000")])
def test_the_port_number_inside_a_fiberhome_onu_is_disregarded(formula: IndexFormula, index: str) -> None:
    assert formula.decode(index) == Position(slot=18, port=4, onu=50)


OTHER_TYPES = ["4227858432", "234938368", "128", "263", "4194312449", "4294967295", "4194312448.2.1", "4194312448.256"]
GARBAGE = [
    "",
    "GPON 0/1/1",
    "4194312448.x",
    "4194312448.-1",
    "4194312448.",
    ".4194312448",
    "1e9",
    "٣",
    "+5",
    "0xFA002100",
]
GARBAGE += ["99999999999", "-2147483649", "4294967296"]


@pytest.mark.parametrize(
    ("formula", "index"),
    [
        *[(HUAWEI["huawei_gpon"], index) for index in OTHER_TYPES],
        *[(HUAWEI["huawei_gpon"], index) for index in GARBAGE],
        (HUAWEI_LINEAR, "4194303999"),
        (HUAWEI_LINEAR, "4194312449"),
        (HUAWEI["huawei_ethernet"], "234881023"),
        (HUAWEI["huawei_ethernet"], "234938369"),
        (HUAWEI["huawei_ethernet"], "234938368.1"),
        (ZTE["zte_1082"], "654311425"),  # Mng1: another type
        (ZTE["zte_1082"], "285278208"),  # port 0
        (ZTE["zte_1012"], "268435456"),  # slot 0
        (ZTE["zte_1012"], "268501249"),  # reserved bits
        (ZTE["zte_1012"], "268501248.0"),
        (ZTE["zte_1012"], "268501248.3.1"),
        (ZTE["zte_epon_onu"], "268501248"),
        (cdata(7), "16777472"),  # an uplink
        (CDATA_V3, "1310721"),
        (VSOL, "0.3"),
        (VSOL, "1.0"),
        (VSOL, "1.257"),
    ],
)
def test_an_index_that_does_not_fit_is_no_position(formula: IndexFormula, index: str) -> None:
    assert formula.decode(index) is None


@pytest.mark.parametrize("formula", [HUAWEI["huawei_gpon"], HUAWEI_LINEAR])
def test_a_huawei_port_above_31_never_spills_into_the_slot(formula: IndexFormula) -> None:
    with pytest.raises(ValueError, match=r"formula huawei.*: port 32 is outside 0\.\.31"):
        formula.encode(Position(slot=1, port=32))
    spilled = str(4194304000 + 1 * 8192 + 32 * 256)
    assert formula.decode(spilled) == Position(slot=2, port=0)  # never slot 1, port 32


@pytest.mark.parametrize(
    ("formula", "position", "said"),
    [
        (HUAWEI["huawei_gpon"], Position(slot=64, port=0), "slot 64 is outside"),
        (HUAWEI["huawei_gpon"], Position(slot=-1, port=0), "slot -1 is outside"),
        (HUAWEI["huawei_gpon"], Position(slot=0, port=0, onu=256), "onu 256 is outside"),
        (HUAWEI["huawei_ethernet"], Position(slot=7, port=0, onu=1), "this formula is for ports"),
        (ZTE["zte_zero_based"], Position(frame=1, slot=0, port=1), "slot 0 is outside 1..256"),
        (ZTE["zte_epon_onu"], Position(frame=1, slot=1, port=9, onu=1), "port 9 is outside 1..8"),
        (ZTE["zte_epon_onu"], Position(frame=1, slot=1, port=1, onu=0), "onu 0 cannot be told"),
        (VSOL, Position(slot=1, port=1), "slot 1 cannot be written"),
    ],
)
def test_a_position_out_of_range_is_refused_by_name(formula: IndexFormula, position: Position, said: str) -> None:
    with pytest.raises(ValueError, match=f"formula {formula.name}: {said}"):
        formula.encode(position)


def test_a_negative_number_is_read_as_the_unsigned_one_it_was() -> None:
    assert HUAWEI["huawei_gpon"].decode("-100654848.2") == Position(slot=1, port=1, onu=2)


@given(st.integers(0, 63), st.integers(0, 63), st.integers(0, 31), st.none() | st.integers(0, 255))
def test_linear_and_bitshift_huawei_are_the_same(frame: int, slot: int, port: int, onu: int | None) -> None:
    position = Position(frame=frame, slot=slot, port=port, onu=onu)
    index = HUAWEI["huawei_gpon"].encode(position)
    assert HUAWEI_LINEAR.encode(position) == index
    assert HUAWEI_LINEAR.decode(index) == HUAWEI["huawei_gpon"].decode(index) == position


@pytest.mark.slow
@given(st.text(max_size=40) | st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,12}){0,3}", fullmatch=True))
def test_whatever_decodes_encodes_to_the_same_number(index: str) -> None:
    for formula in (*HUAWEI.values(), *ZTE.values(), *GENERIC.values(), VSOL, CDATA_V3):
        position = formula.decode(index)
        if position is not None and formula.kind != "string":
            repaired = ".".join(str(int(part) & 0xFFFFFFFF) for part in index.strip().split("."))
            assert formula.encode(position) == repaired


@pytest.mark.parametrize(
    ("formula", "name", "position"),
    [
        (ZTE["zte_pon_name"], "gpon_1/1/1", Position(frame=1, slot=1, port=1)),
        (ZTE["zte_pon_name"], "gpon_olt-1/1/16", Position(frame=1, slot=1, port=16)),
        (ZTE["zte_pon_name"], "gpon-olt_1/2/1", Position(frame=1, slot=2, port=1)),
        (ZTE["zte_pon_name"], "gpon-onu_1/2/1:33", Position(frame=1, slot=2, port=1, onu=33)),
        (ZTE["zte_pon_name"], "xgei-1/4/1", None),
        (ZTE["zte_pon_name"], "gpon_1/1", None),
        (HUAWEI["huawei_gpon_name"], "GPON 0/1/15", Position(frame=0, slot=1, port=15)),
        (HUAWEI["huawei_gpon_name"], "ethernet0/7/0", None),
        (HUAWEI["huawei_gpon_name"], "GPON 0/1/15 spare", None),
        (GENERIC["port_name"], "gpon_1/1/1", Position(frame=1, slot=1, port=1)),
        (GENERIC["port_name"], "gpon_olt-1/1/1", Position(frame=1, slot=1, port=1)),
        (GENERIC["port_name"], "gpon-olt_1/1/1", Position(frame=1, slot=1, port=1)),
        (GENERIC["port_name"], "GPON 0/1/15", Position(frame=0, slot=1, port=15)),
        (GENERIC["port_name"], "ethernet0/7/0", Position(frame=0, slot=7, port=0)),
        (GENERIC["port_name"], "xgei-1/5/1", Position(frame=1, slot=5, port=1)),
        (GENERIC["port_name"], "vlanif264", None),
        (GENERIC["port_name"], "Mng1", None),
        (GENERIC["port_name"], "gpon_1/1/" + "1" * 400, None),
        (GENERIC["slot_port_name"], "EPON0/1:3", Position(slot=0, port=1, onu=3)),
        (GENERIC["slot_port_name"], "GPON0/2:21", Position(slot=0, port=2, onu=21)),
        (GENERIC["slot_port_name"], "GPON0/2", Position(slot=0, port=2)),
    ],
)
def test_a_port_name_is_read(formula: IndexFormula, name: str, position: Position | None) -> None:
    assert formula.decode(name) == position


def test_names_are_written_through_the_template() -> None:
    assert HUAWEI["huawei_gpon_name"].encode(Position(slot=1, port=15)) == "GPON 0/1/15"
    assert ZTE["zte_pon_name"].encode(Position(frame=1, slot=2, port=3)) == "gpon_1/2/3"
    assert ZTE["zte_pon_name"].encode(Position(frame=1, slot=2, port=3, onu=4)) == "gpon-onu_1/2/3:4"
    with pytest.raises(ValueError, match="huawei_gpon_name: no onu_template"):
        HUAWEI["huawei_gpon_name"].encode(Position(slot=1, port=15, onu=1))
    with pytest.raises(ValueError, match="would not be read back"):
        ZTE["zte_pon_name"].encode(Position(frame=1, slot=200, port=1))


FIELDS = fields(port={"shift": 8, "bits": 8})


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"kind": "linear"}, "formula without a name"),
        ({"name": "x", "kind": "magic"}, "formula x: kind 'magic' is unknown"),
        ({"name": "x"}, "kind None is unknown"),
        ({"name": "x", "kind": "linear"}, "fields: at least port"),
        ({"name": "x", "kind": "linear", "fields": fields(slot={"stride": 1})}, "fields: port is needed"),
        ({"name": "x", "kind": "linear", "fields": {"port": {"strid": 1}}}, "port: 'strid' is unknown"),
        ({"name": "x", "kind": "linear", "fields": {"port": {"stride": "8"}}}, "stride must be a whole number"),
        ({"name": "x", "kind": "linear", "fields": {"card": {"stride": 1}}}, "fields: 'card' is unknown"),
        ({"name": "x", "kind": "linear", "fields": {"port": {"count": 0}}}, "count 0 is outside"),
        ({"name": "x", "kind": "linear", "fields": fields(slot={"stride": 8}, port={"count": 9})}, "slot: overlaps"),
        ({"name": "x", "kind": "linear", "fields": fields(port={"part": 2})}, "nothing is in part 1"),
        ({"name": "x", "kind": "linear", "base": 4294967295, "fields": fields(port={"count": 2})}, "above 32 bits"),
        ({"name": "x", "kind": "linear", "fields": fields(port={"count": 4, "minimum": 9})}, "minimum 9 is above"),
        ({"name": "x", "kind": "bitshift", "fields": {"port": {"shift": 8}}}, "bits must be a whole number"),
        ({"name": "x", "kind": "bitshift", "fields": {"port": {"shift": 30, "bits": 4}}}, "bits 4 is outside 1..2"),
        ({"name": "x", "kind": "bitshift", "fields": FIELDS, "checks": {"shift": 1}}, "checks: must be a list"),
        (
            {"name": "x", "kind": "bitshift", "fields": FIELDS, "checks": [{"shift": 15, "bits": 2, "value": 1}]},
            "port: bits 8..15 are used twice",
        ),
        (
            {"name": "x", "kind": "bitshift", "fields": FIELDS, "checks": [{"shift": 20, "bits": 2, "value": 4}]},
            "check 1: value 4 is outside 0..3",
        ),
        (
            {"name": "x", "kind": "bitshift", "fields": FIELDS | {"onu": {"bits": 8, "offset": 1}}},
            "onu: an offset needs a dotted part",
        ),
        ({"name": "x", "kind": "bitshift", "fields": FIELDS, "constants": {"port": 1}}, "constants: 'port' is unknown"),
        ({"name": "x", "kind": "bitshift", "fields": FIELDS, "chekcs": []}, "definition: 'chekcs' is unknown"),
        ({"name": "x", "kind": "string"}, "pattern: write a regular expression"),
        ({"name": "x", "kind": "string", "pattern": "("}, "pattern: "),
        ({"name": "x", "kind": "string", "pattern": r"(?P<slot>\d+)"}, "port is needed"),
        ({"name": "x", "kind": "string", "pattern": r"(?:\d+)+(?P<port>\d+)"}, "a repeated group"),
        ({"name": "x", "kind": "string", "pattern": r"(?P<port>\d+)", "template": "{port.real}"}, "template: only"),
        ({"name": "x", "kind": "string", "pattern": r"(?P<port>\d+)", "template": "{onu}"}, "template: only"),
        ({"name": "x", "kind": "string", "pattern": r"(?P<port>\d+)", "template": "{port"}, "formula x: "),
    ],
)
def test_a_bad_definition_says_what_is_wrong(definition: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IndexFormula.from_dict(definition)


def recorded_names(file: str) -> list[tuple[str, str]]:
    path = WALKS / file
    if not path.exists():
        pytest.skip(f"recorded walk {file} absent")
    column = "1.3.6.1.2.1.31.1.1.1.1."
    rows = [line.split("|", 2) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [(row[0].removeprefix(column), row[2]) for row in rows if row[0].startswith(column)]


@pytest.mark.parametrize(
    ("file", "formula", "prefix", "count"),
    [
        ("smartax.snmprec", HUAWEI["huawei_gpon"], "GPON ", 32),
        ("smartax.snmprec", HUAWEI["huawei_ethernet"], "ethernet", 1),
        ("zxa10_c320.snmprec", ZTE["zte_zero_based"], "gpon_", 8),
        ("zxa10_c320.snmprec", ZTE["zte_zero_based"], "", 11),
        ("zxa10_c620_excerpt.snmprec", ZTE["zte_1082"], "", 18),
    ],
)
def test_recorded_interface_names_agree_with_the_formula(
    file: str, formula: IndexFormula, prefix: str, count: int
) -> None:
    named = [
        (index, position)
        for index, name in recorded_names(file)
        if name.startswith(prefix) and (position := GENERIC["port_name"].decode(name))
    ]
    assert len(named) >= count
    assert [formula.decode(index) for index, _ in named] == [position for _, position in named]
