"""Index formulas: every worked number of the reference data, both ways, and what must be refused."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import typed_values
from portal.domain.formulas import IndexFormula, Position
from testing import shipped

WALKS = Path(__file__).parents[3] / "shared" / "olt" / "walks"
Formula = IndexFormula | str


def known(formula: Formula) -> IndexFormula:
    """A formula of this file, or a shipped one by its name."""
    return shipped.formula(formula) if isinstance(formula, str) else formula


def fields(**given: dict[str, int]) -> dict[str, dict[str, int]]:
    return given


def made(name: str, kind: str = "bitshift", **definition: Any) -> IndexFormula:
    return IndexFormula.from_dict({"name": name, "kind": kind, **definition})


HUAWEI_LINEAR = made(
    "huawei_linear",
    "linear",
    base=4194304000,
    fields=fields(
        frame={"stride": 524288, "count": 64},
        slot={"stride": 8192, "count": 64},
        port={"stride": 256, "count": 32},
        onu={"part": 2, "count": 256},
    ),
)


def cdata(first: int) -> IndexFormula:
    """C-Data counts uplinks first, so the field of PON 1 depends on the model."""
    return made(
        f"cdata_{first}",
        fields=fields(
            frame={"shift": 24, "bits": 8, "offset": -1},
            slot={"shift": 16, "bits": 8},
            port={"shift": 8, "bits": 8, "offset": 1 - first, "minimum": 1},
            onu={"shift": 0, "bits": 8},
        ),
    )


HUAWEI_NUMBERS = (
    "4194304000=0/0/0 4194304256=0/0/1 4194312192=0/1/0 4194312448=0/1/1 4194316032=0/1/15 4194338304=0/4/6 "
    "4194345216=0/5/1 4194385920=0/10/0 4194395904=0/11/7 "
    "4194312448.2=0/1/1:2 4194345216.25=0/5/1:25 4194304000.0=0/0/0:0"
)
WORKED = [
    ("huawei.huawei_gpon", HUAWEI_NUMBERS),
    (HUAWEI_LINEAR, HUAWEI_NUMBERS),
    ("huawei.huawei_ethernet", "234938368=0/7/0 234938432=0/7/1 234946624=0/8/1 235028544=0/18/1"),
    (
        "zte.zte_1012",
        "268501248=1/1/1 268501504=1/1/2 268503040=1/1/8 268566784=1/2/1 268569088=1/2/10 268632320=1/3/1 "
        "268894464=1/7/1 268501248.3=1/1/1:3",
    ),
    (
        "zte.zte_1082",
        "285278465=1/1/1 285278466=1/1/2 285278480=1/1/16 285278721=1/2/1 285278977=1/3/1 285279233=1/4/1 "
        "285279489=1/5/1 285280013=1/7/13 285278465.87=1/1/1:87",
    ),
    (
        "zte.zte_zero_based",
        "268435456=1/1/1 268435712=1/1/2 268437248=1/1/8 268632064=1/4/1 268632320=1/4/2 268500992=1/2/1",
    ),
    (
        "zte.zte_epon_onu",
        "805830912=1/1/1:1 805831168=1/1/1:2 805896448=1/1/2:1 806355200=1/2/1:1 810500096=1/9/8:64",
    ),
    ("fiberhome.fiberhome_onu", "34078720=0/1/1 67633152=0/2/1 67633408=0/2/1:1 606089728=0/18/4:50"),
    ("fiberhome.fiberhome_pon", "34078720.1=0/1/1:1 67633152=0/2/1"),
    ("fiberhome.an5116_onu", "2433105920=0/18/4:50"),
    (cdata(1), "16777472=0/0/1 16779008=0/0/7"),
    (cdata(7), "16779008=0/0/1 16779013=0/0/1:5"),
    (cdata(11), "16780032=0/0/1"),
    (cdata(13), "16780544=0/0/1"),
    ("cdata.cdata_v3", "4718593=0/0/1:1 4718594=0/0/1:2 4722689=0/0/2:1 4780160=0/0/16:128"),
    ("vsol.vsol_pon_onu", "1.3=0/0/1:3 16=0/0/16"),
]


@pytest.mark.parametrize(("formula", "worked"), WORKED, ids=[getattr(one, "name", one) for one, _ in WORKED])
def test_worked_numbers_decode_and_encode(formula: Formula, worked: str) -> None:
    for index, place in (number.split("=") for number in worked.split()):
        position = typed_values.position(place)
        assert (known(formula).decode(index), known(formula).encode(position)) == (position, index)


def test_one_number_is_two_ports_in_two_zte_families_and_none_in_the_third() -> None:
    found = [shipped.formula(f"zte.{name}").decode("268501248") for name in ("zte_1012", "zte_zero_based", "zte_1082")]
    assert found == [Position(frame=1, slot=1, port=1), Position(frame=1, slot=2, port=2), None]


def test_the_same_port_carries_over_from_family_a_to_family_b() -> None:
    position = shipped.formula("zte.zte_1012").decode("268501248.3")
    assert position is not None
    assert shipped.formula("zte.zte_1082").encode(position) == "285278465.3"


@pytest.mark.parametrize(
    ("formula", "index"), [("fiberhome.fiberhome_onu", "606089733"), ("fiberhome.an5116_onu", "2433106000")]
)
def test_the_port_number_inside_a_fiberhome_onu_is_disregarded(formula: Formula, index: str) -> None:
    assert known(formula).decode(index) == Position(slot=18, port=4, onu=50)


OTHER_TYPES = ["4227858432", "234938368", "128", "263", "4194312449", "4294967295", "4194312448.2.1", "4194312448.256"]
GARBAGE = ["", "GPON 0/1/1", "4194312448.x", "4194312448.-1", "4194312448.", ".4194312448", "1e9", "٣", "+5"]
GARBAGE += ["0xFA002100", "99999999999", "-2147483649", "4294967296"]


@pytest.mark.parametrize(
    ("formula", "indexes"),
    [
        ("huawei.huawei_gpon", [*OTHER_TYPES, *GARBAGE]),
        (HUAWEI_LINEAR, ["4194303999", "4194312449"]),
        ("huawei.huawei_ethernet", ["234881023", "234938369", "234938368.1"]),
        ("zte.zte_1082", ["654311425", "285278208"]),  # Mng1: another type; port 0
        ("zte.zte_1012", ["268435456", "268501249", "268501248.0", "268501248.3.1"]),  # slot 0; reserved bits; ONU 0
        ("zte.zte_epon_onu", ["268501248"]),
        (cdata(7), ["16777472"]),  # an uplink
        ("cdata.cdata_v3", ["1310721"]),
        ("vsol.vsol_pon_onu", ["0.3", "1.0", "1.257"]),
    ],
)
def test_an_index_that_does_not_fit_is_no_position(formula: Formula, indexes: list[str]) -> None:
    assert {index: known(formula).decode(index) for index in indexes} == dict.fromkeys(indexes)


@pytest.mark.parametrize("formula", ["huawei.huawei_gpon", HUAWEI_LINEAR])
def test_a_huawei_port_above_31_never_spills_into_the_slot(formula: Formula) -> None:
    with pytest.raises(ValueError, match=r"formula huawei.*: port 32 is outside 0\.\.31"):
        known(formula).encode(Position(slot=1, port=32))
    spilled = str(4194304000 + 1 * 8192 + 32 * 256)
    assert known(formula).decode(spilled) == Position(slot=2, port=0)  # never slot 1, port 32


@pytest.mark.parametrize(
    ("formula", "position", "said"),
    [
        ("huawei.huawei_gpon", Position(slot=64, port=0), "slot 64 is outside"),
        ("huawei.huawei_gpon", Position(slot=-1, port=0), "slot -1 is outside"),
        ("huawei.huawei_gpon", Position(slot=0, port=0, onu=256), "onu 256 is outside"),
        ("huawei.huawei_ethernet", Position(slot=7, port=0, onu=1), "this formula is for ports"),
        ("zte.zte_zero_based", Position(frame=1, slot=0, port=1), "slot 0 is outside 1..256"),
        ("zte.zte_epon_onu", Position(frame=1, slot=1, port=9, onu=1), "port 9 is outside 1..8"),
        ("zte.zte_epon_onu", Position(frame=1, slot=1, port=1, onu=0), "onu 0 cannot be told"),
        ("vsol.vsol_pon_onu", Position(slot=1, port=1), "slot 1 cannot be written"),
    ],
)
def test_a_position_out_of_range_is_refused_by_name(formula: Formula, position: Position, said: str) -> None:
    with pytest.raises(ValueError, match=f"formula {known(formula).name}: {said}"):
        known(formula).encode(position)


def test_a_negative_number_is_read_as_the_unsigned_one_it_was() -> None:
    assert shipped.formula("huawei.huawei_gpon").decode("-100654848.2") == Position(slot=1, port=1, onu=2)


@given(st.integers(0, 63), st.integers(0, 63), st.integers(0, 31), st.none() | st.integers(0, 255))
def test_linear_and_bitshift_huawei_are_the_same(frame: int, slot: int, port: int, onu: int | None) -> None:
    position, bitshift = Position(frame=frame, slot=slot, port=port, onu=onu), shipped.formula("huawei.huawei_gpon")
    index = bitshift.encode(position)
    assert HUAWEI_LINEAR.encode(position) == index
    assert HUAWEI_LINEAR.decode(index) == bitshift.decode(index) == position


@cache
def numbered() -> list[IndexFormula]:
    """The formulas of these brands whose numbers tell a position and nothing else."""
    items = [item for key in ("huawei", "zte", "generic", "vsol", "cdata") for item in shipped.brand(key).formulas]
    return [formula for item in items if not (formula := item.build()).learns and formula.kind != "string"]


@pytest.mark.slow
@given(st.text(max_size=40) | st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,12}){0,3}", fullmatch=True))
def test_whatever_decodes_encodes_to_the_same_number(index: str) -> None:
    for formula in numbered():
        position = formula.decode(index)
        if position is not None:
            repaired = ".".join(str(int(part) & 0xFFFFFFFF) for part in index.strip().split("."))
            assert formula.encode(position) == repaired


@pytest.mark.parametrize(
    ("formula", "place", "names"),
    [
        ("zte.zte_pon_name", "1/1/1", ["gpon_1/1/1"]),
        ("zte.zte_pon_name", "1/1/16", ["gpon_olt-1/1/16"]),
        ("zte.zte_pon_name", "1/2/1", ["gpon-olt_1/2/1"]),
        ("zte.zte_pon_name", "1/2/1:33", ["gpon-onu_1/2/1:33"]),
        ("zte.zte_pon_name", "None", ["xgei-1/4/1", "gpon_1/1"]),
        ("huawei.huawei_gpon_name", "0/1/15", ["GPON 0/1/15"]),
        ("huawei.huawei_gpon_name", "None", ["ethernet0/7/0", "GPON 0/1/15 spare"]),
        ("generic.port_name", "1/1/1", ["gpon_1/1/1", "gpon_olt-1/1/1", "gpon-olt_1/1/1"]),
        ("generic.port_name", "0/1/15", ["GPON 0/1/15"]),
        ("generic.port_name", "0/7/0", ["ethernet0/7/0"]),
        ("generic.port_name", "1/5/1", ["xgei-1/5/1"]),
        ("generic.port_name", "None", ["vlanif264", "Mng1", "gpon_1/1/" + "1" * 400]),
        ("generic.slot_port_name", "0/0/1:3", ["EPON0/1:3"]),
        ("generic.slot_port_name", "0/0/2:21", ["GPON0/2:21"]),
        ("generic.slot_port_name", "0/0/2", ["GPON0/2"]),
    ],
)
def test_a_port_name_is_read(formula: Formula, place: str, names: list[str]) -> None:
    assert {name: str(known(formula).decode(name)) for name in names} == dict.fromkeys(names, place)


def test_names_are_written_through_the_template() -> None:
    assert shipped.formula("huawei.huawei_gpon_name").encode(Position(slot=1, port=15)) == "GPON 0/1/15"
    assert shipped.formula("zte.zte_pon_name").encode(Position(frame=1, slot=2, port=3)) == "gpon_1/2/3"
    assert shipped.formula("zte.zte_pon_name").encode(Position(frame=1, slot=2, port=3, onu=4)) == "gpon-onu_1/2/3:4"
    with pytest.raises(ValueError, match="huawei_gpon_name: no onu_template"):
        shipped.formula("huawei.huawei_gpon_name").encode(Position(slot=1, port=15, onu=1))
    with pytest.raises(ValueError, match="would not be read back"):
        shipped.formula("zte.zte_pon_name").encode(Position(frame=1, slot=200, port=1))


FIELDS = {"kind": "bitshift", "fields": fields(port={"shift": 8, "bits": 8})}
ONU_AT_OFFSET = {"kind": "bitshift", "fields": fields(port={"shift": 8, "bits": 8}, onu={"bits": 8, "offset": 1})}


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"name": None, "kind": "linear"}, "formula without a name"),
        ({"kind": "magic"}, "formula x: kind 'magic' is unknown"),
        ({}, "kind None is unknown"),
        ({"kind": "linear"}, "fields: at least port"),
        ({"kind": "linear", "fields": fields(slot={"stride": 1})}, "fields: port is needed"),
        ({"kind": "linear", "fields": {"port": {"strid": 1}}}, "port: 'strid' is unknown"),
        ({"kind": "linear", "fields": {"port": {"stride": "8"}}}, "stride must be a whole number"),
        ({"kind": "linear", "fields": {"card": {"stride": 1}}}, "fields: 'card' is unknown"),
        ({"kind": "linear", "fields": {"port": {"count": 0}}}, "count 0 is outside"),
        ({"kind": "linear", "fields": fields(slot={"stride": 8}, port={"count": 9})}, "slot: overlaps"),
        ({"kind": "linear", "fields": fields(port={"part": 2})}, "nothing is in part 1"),
        ({"kind": "linear", "base": 4294967295, "fields": fields(port={"count": 2})}, "above 32 bits"),
        ({"kind": "linear", "fields": fields(port={"count": 4, "minimum": 9})}, "minimum 9 is above"),
        ({"kind": "bitshift", "fields": {"port": {"shift": 8}}}, "bits must be a whole number"),
        ({"kind": "bitshift", "fields": {"port": {"shift": 30, "bits": 4}}}, "bits 4 is outside 1..2"),
        (FIELDS | {"checks": {"shift": 1}}, "checks: must be a list"),
        (FIELDS | {"checks": [{"shift": 15, "bits": 2, "value": 1}]}, "port: bits 8..15 are used twice"),
        (FIELDS | {"checks": [{"shift": 20, "bits": 2, "value": 4}]}, "check 1: value 4 is outside 0..3"),
        (ONU_AT_OFFSET, "onu: an offset needs a dotted part"),
        (FIELDS | {"constants": {"port": 1}}, "constants: 'port' is unknown"),
        (FIELDS | {"chekcs": []}, "definition: 'chekcs' is unknown"),
        ({"kind": "string"}, "pattern: write a regular expression"),
        ({"kind": "string", "pattern": "("}, "pattern: "),
        ({"kind": "string", "pattern": r"(?P<slot>\d+)"}, "port is needed"),
        ({"kind": "string", "pattern": r"(?:\d+)+(?P<port>\d+)"}, "a repeated group"),
        ({"kind": "string", "pattern": r"(?P<port>\d+)", "template": "{port.real}"}, "template: only"),
        ({"kind": "string", "pattern": r"(?P<port>\d+)", "template": "{onu}"}, "template: only"),
        ({"kind": "string", "pattern": r"(?P<port>\d+)", "template": "{port"}, "formula x: "),
    ],
)
def test_a_bad_definition_says_what_is_wrong(definition: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IndexFormula.from_dict({"name": "x"} | definition)


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
        ("smartax.snmprec", "huawei.huawei_gpon", "GPON ", 32),
        ("smartax.snmprec", "huawei.huawei_ethernet", "ethernet", 1),
        ("zxa10_c320.snmprec", "zte.zte_zero_based", "gpon_", 8),
        ("zxa10_c320.snmprec", "zte.zte_zero_based", "", 11),
        ("zxa10_c620_excerpt.snmprec", "zte.zte_1082", "", 18),
    ],
)
def test_recorded_interface_names_agree_with_the_formula(file: str, formula: Formula, prefix: str, count: int) -> None:
    named = [
        (index, position)
        for index, name in recorded_names(file)
        if name.startswith(prefix) and (position := shipped.formula("generic.port_name").decode(name))
    ]
    assert len(named) >= count
    assert [known(formula).decode(index) for index, _ in named] == [position for _, position in named]
