"""Decode proofs, verdicts on formulas, and formulas that interface names complete."""

from typing import Any

import pytest

from portal.domain.formulas import IndexFormula, Interface, Position
from portal.domain.proof import Agreement, choose, judge, prove, read_interfaces, table

COLUMN = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15"


def made(name: str, kind: str = "bitshift", **body: Any) -> IndexFormula:
    return IndexFormula.from_dict({"name": name, "kind": kind, **body})


HUAWEI = made(
    "huawei_gpon",
    names="pon",
    checks=[{"shift": 25, "bits": 7, "value": 125}],
    fields={"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}, "onu": {"part": 2, "bits": 8}},
)
ONE_BASED = made("one", fields={"slot": {"shift": 8, "bits": 8}, "port": {"shift": 0, "bits": 8}})
ZERO = {"bits": 8, "offset": 1}
ZERO_BASED = made("zero", fields={"slot": ZERO | {"shift": 8}, "port": ZERO | {"shift": 0}})
NAMES = made("names", "string", pattern=r"[a-z]+ ?(?:\d/)?(?P<slot>\d+)/(?P<port>\d+)(?::(?P<onu>\d+))?")
PACKED_FIELDS = {"slot": {"shift": 16}, "port": {"shift": 8, "minimum": 1}, "onu": {"shift": 0}}
PACKED = made(
    "packed", names="^pon", learn="port", fields={name: {"bits": 8} | at for name, at in PACKED_FIELDS.items()}
)
BOARDS = made(
    "boards",
    "boards",
    slot={"shift": 25, "bits": 7, "offset": -1},
    level={"shift": 21, "bits": 4, "port": 13, "onu": 14},
    onus=128,
    names={"port": "PON$", "onu": "ONT$"},
)
TWO_BOARDS = {
    "94380032": "FWLT-C PON", "94445568": "FWLT-C PON", "96731648": "FWLT-C ONT", "127926272": "FGLT-B PON",
    "128057344": "FGLT-B PON", "130024448": "FGLT-B ONT",
}  # fmt: skip


def interfaces(**names: str) -> dict[str, Interface]:
    return read_interfaces([(index.removeprefix("i"), name) for index, name in names.items()], [NAMES])


def test_a_proof_shows_index_fields_formula_position_and_the_name_that_agrees() -> None:
    proof = prove(f"{COLUMN}.4194312448.2", COLUMN, HUAWEI, interfaces(i4194312448="GPON 0/1/1"))
    assert (proof.index, proof.formula, str(proof.position)) == ("4194312448.2", "huawei_gpon", "0/1/1:2")
    assert [(part.name, part.where, part.stored, part.value) for part in proof.parts] == [
        ("slot", "bits 13..18", 1, 1), ("port", "bits 8..12", 1, 1), ("onu", "part 2, bits 0..7", 2, 2),
    ]  # fmt: skip
    assert (proof.interface and proof.interface.name, proof.verdict) == ("GPON 0/1/1", Agreement.AGREES)


def test_a_proof_says_where_names_contradict_or_are_silent() -> None:
    verdicts = {
        ("4194312448.2", "4194312448", "GPON 0/1/2"): Agreement.CONTRADICTS,
        ("4194312448.2", "4194312448", "to the north"): Agreement.NO_NAME,
        ("4194312448.2", "7", "loopback"): Agreement.NO_NAME,
        ("234881024", "234881024", "ethernet0/0/0"): Agreement.UNDECODABLE,
    }
    found = {
        (index, port, name): prove(f"{COLUMN}.{index}", COLUMN, HUAWEI, interfaces(**{f"i{port}": name})).verdict
        for index, port, name in verdicts
    }
    assert found == verdicts
    assert prove(f"{COLUMN}.4194312448.2", COLUMN, HUAWEI, {}).verdict is Agreement.NO_NAME


def test_an_oid_outside_the_column_is_refused() -> None:
    with pytest.raises(ValueError, match="not under"):
        prove("1.3.6.1.4.1.9.1", COLUMN, HUAWEI, {})


def test_a_column_that_is_keyed_otherwise_is_not_checked_against_interfaces() -> None:
    known = interfaces(i257="GPON 0/2/2")
    assert prove("1.3.6.1.257", "1.3.6.1", ONE_BASED, known, by_ifindex=False).verdict is Agreement.NOT_CHECKED
    assert prove("1.3.6.1.257", "1.3.6.1", ONE_BASED, known).verdict is Agreement.CONTRADICTS


def test_where_there_is_no_formula_the_name_or_the_text_of_the_index_is_all_there_is() -> None:
    proof = prove("1.3.6.1.1914", "1.3.6.1", None, interfaces(i1914="GPON0/2:21"))
    assert (str(proof.position), proof.verdict) == ("0/0/2:21", Agreement.AGREES)
    spelt, cut = (prove(f"1.3.6.1.{index}", "1.3.6.1", None, {}) for index in ("4.85.66.78.84", "4.85.66.78"))
    assert (spelt.text, spelt.verdict, cut.text) == ("UBNT", Agreement.NO_NAME, "")


def test_an_onu_packed_beside_its_port_is_checked_against_the_port() -> None:
    known = interfaces(i3328="pon 0/1", i3584="pon 0/2")
    learned = PACKED.learned(known.values())
    assert learned is not None
    proof = prove("1.3.6.1.3333", "1.3.6.1", learned, known)
    assert (str(proof.position), proof.verdict) == ("0/0/1:5", Agreement.AGREES)
    assert proof.interface is not None and proof.interface.index == "3328"


def test_the_family_that_agrees_with_all_names_is_chosen_with_the_evidence() -> None:
    known = interfaces(i257="GPON 0/2/2", i256="GPON 0/2/1", i7="loopback")
    choice = choose([ONE_BASED, ZERO_BASED], known)
    assert choice.formula is ZERO_BASED
    assert [(v.formula, v.agree, v.contradict) for v in choice.verdicts] == [("one", 0, 2), ("zero", 2, 0)]
    assert choice.verdicts[0].first == "257 is named GPON 0/2/2, one says 0/1/1"


def test_no_family_is_chosen_where_names_do_not_decide() -> None:
    twin = made("twin", fields={"port": {"shift": 0, "bits": 8}, "slot": {"shift": 8, "bits": 8}})
    both, contradicted = [ONE_BASED, ZERO_BASED], interfaces(i257="GPON 0/2/2", i256="GPON 0/9/9")
    chosen = {
        "one contradicting name is enough": choose(both, contradicted),
        "there are no names": choose(both, interfaces(i257="uplink")),
        "several families fit": choose([ONE_BASED, twin], interfaces(i257="GPON 0/1/1")),
    }
    assert {case: choice.formula for case, choice in chosen.items()} == dict.fromkeys(chosen)


def test_a_formula_answers_for_the_interfaces_in_its_scope_only() -> None:
    known = interfaces(i4194312448="GPON 0/1/1", i234938368="ethernet 0/7/0")
    assert (judge(HUAWEI, known.values()).agree, judge(HUAWEI, known.values()).contradict) == (1, 0)


def test_quirk_24_the_step_of_a_board_is_learned_from_its_own_port_rows() -> None:
    known = read_interfaces(TWO_BOARDS.items(), [])
    learned = BOARDS.learned(known.values())
    assert learned is not None
    assert learned.definition["steps"] == {"1": 65536, "2": 131072}
    places = {"96731648": "0/1/5:2", "130024448": "0/2/1:2"}
    places |= {"94380032": "0/1/1", "94380032.7": "0/1/1:7"}  # FWLT-C adds 0x2000 to its port rows
    places |= {"96731649": "None", "67109312": "None"}  # beside the steps; another level
    assert {index: str(learned.decode(index)) for index in places} == places
    assert learned.encode(Position(slot=1, port=5, onu=2)) == "96731648"
    assert choose([BOARDS], known).formula == learned


def test_a_board_of_one_port_row_and_a_slot_without_any_stay_unknown() -> None:
    known = read_interfaces([("94380032", "PON"), ("96468992", "ONT")], [])
    assert BOARDS.learned(known.values()) is None
    assert BOARDS.decode("96468992") is None
    with pytest.raises(ValueError, match="read the interface names first"):
        BOARDS.encode(Position(slot=1, port=1, onu=1))


def test_a_short_look_begins_before_the_port_rows_of_a_slot() -> None:
    assert BOARDS.before_ports("67109312") == str((2 << 25) + (13 << 21) - 1)
    assert BOARDS.before_ports("20971520") is None, "the shelf's own rows"
    assert HUAWEI.before_ports("67109312") is None


def test_names_that_contradict_each_other_teach_nothing() -> None:
    assert PACKED.learned(interfaces(i3328="pon 0/1", i3584="pon 0/9").values()) is None
    assert PACKED.learned(interfaces(i3328="ge 0/1").values()) is None, "an uplink is no PON"
    assert PACKED.decode("3328") is None
    with pytest.raises(ValueError, match="where port numbers start is not known yet"):
        PACKED.encode(Position(slot=0, port=1))


def test_the_table_of_proofs_has_a_row_for_each_interface() -> None:
    known = interfaces(i257="GPON 0/2/2", i256="GPON 0/1/0", i99999999="Mng1")
    assert [(one.index, one.verdict) for one in table(ONE_BASED, known)] == [
        ("257", Agreement.CONTRADICTS), ("256", Agreement.AGREES), ("99999999", Agreement.UNDECODABLE),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("bitshift", {"fields": {"port": {"bits": 8}}, "learn": "slot"}, "learn: 'slot' must be a field of a port"),
        ("bitshift", {"fields": {"port": {"bits": 8}}, "names": "("}, "names: "),
        ("bitshift", {"fields": {"port": {"bits": 8}}, "names": "(a+)+"}, "names: a repeated group"),
        ("boards", {}, "level: bits must be a whole number"),
        ("boards", {"level": {"shift": 21, "bits": 4, "port": 16, "onu": 14}, "slot": {"shift": 25, "bits": 7}},
         "level: port 16 is outside 0..15"),
        ("boards", {"level": {"shift": 21, "bits": 4, "port": 13, "onu": 14}, "slot": {"shift": 22, "bits": 7}},
         "slot: bits 22..28 are used twice"),
    ],
)  # fmt: skip
def test_a_wrong_definition_names_its_mistake(kind: str, body: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="formula x: ") as caught:
        made("x", kind, **body)
    assert said in str(caught.value)


def test_slots_of_learned_boards_are_numbers() -> None:
    with pytest.raises(ValueError, match="steps: 'one' is no slot number"):
        IndexFormula.from_dict({**BOARDS.definition, "name": "x", "kind": "boards", "steps": {"one": 65536}})
