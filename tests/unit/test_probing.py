"""The connection test asks little and says what decided; devices are fakes."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from jobs import probing
from jobs.snmp.fake import FakeSession, Faults, Value, fake_factory
from portal.domain.composite import SnmpTarget
from portal.domain.recognising import Families, Knowledge, KnownModel, answers_as, shortlist
from testing.fake_olts import Lease
from testing.shipped import brands

TARGET = SnmpTarget("192.0.2.1", 161, "2c", community="public")
SYSTEM, ENTERPRISES = "1.3.6.1.2.1.1", "1.3.6.1.4.1"
IF_NAME, IF_DESCR = probing.IF_NAME, probing.IF_DESCR


@cache
def knowledge() -> Knowledge:
    """What the shipped files know, with the spaces that names decide."""
    documents = brands()
    models = tuple(KnownModel(data.key, model) for data in documents for model in data.models)
    readers = {data.key: [f.build() for f in data.formulas if f.kind == "string"] for data in documents}
    families = {}
    for data in documents:
        built = {item.name: item.build() for item in data.formulas}
        spaces = [row.candidates for row in data.oids if row.candidates]
        spaces += [(row.formula,) for row in data.oids if row.formula and built[row.formula].learns]
        families[data.key] = Families(
            tuple(tuple(built[name] for name in space) for space in dict.fromkeys(spaces)),
            (*readers[data.key], *readers["generic"]),
        )
    return Knowledge(models, families)


def device(
    enterprise: str,
    descr: str = "",
    /,
    faults: Faults | None = None,
    v1: bool = False,
    rows: dict[str, Value] | None = None,
) -> FakeSession:
    system: dict[str, Value] = {f"{SYSTEM}.1.0": descr.encode(), f"{SYSTEM}.2.0": f"{ENTERPRISES}.{enterprise}"}
    system |= {f"{SYSTEM}.3.0": 4200, f"{SYSTEM}.5.0": b"olt"}
    return FakeSession(system | (rows or {}), faults=faults or Faults(), v1=v1)


def ask(session: FakeSession, clock: Callable[[], float] = lambda: 0.0) -> dict[str, Any]:
    return probing.ask(TARGET, fake_factory(session), clock, knowledge())


def named(root: str, names: dict[int, str]) -> dict[str, Value]:
    return {f"{root}.{index}": name.encode() for index, name in names.items()}


def test_a_device_of_one_identity_is_told_by_one_request_and_its_names() -> None:
    session = device("2011.2.123", "Huawei Integrated Access Software")
    found = ask(session)
    assert (found["brand"], found["model"]) == ("huawei", "MA5603T")
    identity, model = f"{ENTERPRISES}.2011.2.123", "huawei.MA5603T"
    ground = {"by": "sysobjectid", "seen": identity, "means": model, "text": f"sysObjectID {identity}: {model}"}
    assert found["decided"] == [ground]
    assert session.closed


def test_the_system_group_is_told_as_before() -> None:
    found = ask(device("9", "router"))
    system = {"sysdescr": "router", "sysobjectid": f"{ENTERPRISES}.9", "sysname": "olt", "uptime_s": 42}
    assert {name: found[name] for name in system} == system
    assert (found["brand"], found["model"], found["family"]) == (None, None, None)
    assert found["decided"][0]["by"] == "nothing"


def test_without_knowledge_only_the_system_group_is_read() -> None:
    session = device("17409")
    assert "brand" not in probing.ask(TARGET, fake_factory(session), lambda: 0.0, None)
    assert len(session.requests) == 1


def test_subtrees_decide_where_identity_and_description_do_not() -> None:
    found = ask(device("17409", "olt del cerro", rows={f"{ENTERPRISES}.17409.2.8.4.1.1.7.16779009": 1}))
    assert (found["brand"], found["model"]) == ("cdata", "FD16XX")
    grounds = [(ground["by"], ground["seen"]) for ground in found["decided"]]
    assert grounds == [("sysobjectid", f"{ENTERPRISES}.17409"), ("subtree", f"{ENTERPRISES}.17409.2.8")]


def test_a_brand_without_a_single_model_is_proposed_without_one() -> None:
    found = ask(device("5875.800.1001.11", "olt norte"))
    assert (found["brand"], found["model"]) == ("fiberhome", None)
    assert found["decided"][0]["means"] == "fiberhome.AN5516-01, fiberhome.AN5516-04B, fiberhome.AN5516-06"


def test_the_names_of_the_interfaces_choose_the_family() -> None:
    c320, ports = "3902.1082.1001.320.2.1", {268435456: "gpon_1/1/1", 268435712: "gpon_1/1/2"}
    found = ask(device(c320, "C320", rows=named(IF_NAME, ports)))
    assert found["family"] == "zte_zero_based"
    text = "ifName gpon_1/1/1 = 268435456: fits zte_zero_based, as all 2 names do"
    assert found["decided"][-1]["text"] == text
    contradicting = ask(device(c320, "C320", rows=named(IF_NAME, {7: "gpon_1/1/1"})))
    assert contradicting["family"] is None
    assert "7 is named gpon_1/1/1" in contradicting["decided"][-1]["means"]


def test_an_empty_name_gives_way_to_the_description_of_the_interface() -> None:
    rows = named(IF_DESCR, {285278465: "gpon_1/1/1"}) | named(IF_NAME, {285278465: ""})
    assert ask(device("3902.1082.1001.620.1.1", "", rows=rows))["family"] == "zte_1082"


def test_boards_are_looked_for_where_their_port_rows_begin() -> None:
    many = {67109312 + step: "FWLT-C  PHYSICALUNI" for step in range(40)}
    rows = named(IF_DESCR, many | {94380032: "FWLT-C  PON", 94445568: "FWLT-C  PON"})
    assert ask(device("637.61.1", "ISAM", rows=rows))["family"] == "isam"


@pytest.mark.parametrize("enterprise", ["17409", "99999", "637.61.1"])
@pytest.mark.parametrize("v1", [False, True])
def test_a_probe_sends_at_most_eight_requests(enterprise: str, v1: bool) -> None:
    session = device(enterprise, "", v1=v1, rows={f"{ENTERPRISES}.17409.2.8.1": 1})
    ask(session)
    assert len(session.requests) <= probing.REQUESTS
    assert all(len(request.oids) * max(request.max_repetitions, 1) <= 30 for request in session.requests)


def test_a_device_that_falls_silent_after_its_system_group_is_asked_once_more_and_no_more() -> None:
    session = device("17409", faults=Faults(dies_after=1))
    found = ask(session)
    assert (found["brand"], found["model"]) == ("cdata", None)
    assert len(session.requests) == 2


def test_no_request_starts_after_the_patience_of_a_probe() -> None:
    session, times = device("17409"), iter([0.0, 0.0, *[probing.PATIENCE + 1] * 50])
    ask(session, clock=lambda: next(times))
    assert len(session.requests) == 1


def test_the_checkpoint_runs_before_each_request() -> None:
    session = device("17409")
    lease = Lease(session)
    probing.ask(TARGET, fake_factory(session), lambda: 0.0, knowledge(), lease)
    assert lease.seen == list(range(len(session.requests)))


def test_a_device_that_is_silent_or_hides_its_system_group_is_a_failed_probe() -> None:
    with pytest.raises(probing.ProbeFailed):
        ask(device("17409", faults=Faults(dead=True)))
    with pytest.raises(probing.ProbeFailed, match="hides its system group"):
        ask(FakeSession({}))


def test_the_longest_prefix_wins_and_whole_sub_identifiers_count() -> None:
    keys = {"2011.2.248.7": "huawei.MA5608T", "2011.2.2481": "huawei.ACCESS", "20112.2.248": None}
    found = {
        key: shortlist(knowledge().models, f"{ENTERPRISES}.{key}", "Huawei Integrated Access Software") for key in keys
    }
    decided = {key: one.decided.key if one.decided and not one.unknown else None for key, one in found.items()}
    assert decided == keys


HUAWEI = "Huawei Integrated Access Software"
ONTS = f"{ENTERPRISES}.2011.6.128.1.1.2.43.1.9.4194312448.1"
# Devices that share their maker's, or their chip maker's, sysObjectID with an OLT.
NO_OLTS = [
    ("4413", "Quanta LB4M 48x1G 2x10G, 5.13.12.14, Linux 2.6.21.7", {}),
    ("4413", "Aerohive SR2348P", {}),
    ("4413", "DM1200E 24GT+4GX", {}),
    ("41112.1.5", "EdgeOS v2.0.9-hotfix.4", {f"{ENTERPRISES}.41112.1.5.1.1.0": b"EdgeRouter X"}),
    ("41112.1.5", "EdgeOS v1.10.11", {f"{ENTERPRISES}.41112.1.5.4.2.1.1.1": b"psu"}),
    ("25355", "a switch of HiOSO", {}),
    ("2011.2.169", HUAWEI, {}),
    ("2011.2.9999", HUAWEI, {}),
]  # fmt: skip
MDUS = (128, 132, 134, 135, 137, 167, 168, 172, 184, 185, 186, 190, 195, 213, 246, 262, 296)
OLTS = [
    *[(f"2011.2.{number}", HUAWEI, {}, "huawei.MA5800") for number in (294, 300, 316, 317, 327, 328, 329, 330)],
    *[(f"2011.2.{number}", HUAWEI, {}, "huawei.MA5801") for number in (337, 381, 382)],
    ("2011.2.169", HUAWEI, {ONTS: b"x"}, "huawei.ACCESS"),
    ("2011.2.9999", HUAWEI, {ONTS: b"x"}, "huawei.ACCESS"),
    ("4413", "EdgeOS v4.4.2", {f"{ENTERPRISES}.41112.1.5.6.1.0": 0}, "ufiber.UISP-FIBER"),
    ("41112.1.5", "EdgeOS v4.4.2", {f"{ENTERPRISES}.41112.1.5.6.1.0": 0}, "ufiber.UF-OLT"),
]  # fmt: skip


@pytest.mark.parametrize(("enterprise", "descr", "rows"), NO_OLTS, ids=lambda given: str(given)[:40])
def test_what_only_shares_the_identity_of_an_olt_is_taken_for_none(
    enterprise: str, descr: str, rows: dict[str, Value]
) -> None:
    found = ask(device(enterprise, descr, rows=rows))
    assert (found["brand"], found["model"], found["fits"]) == (None, None, [])
    assert found["decided"][0]["by"] == "sysobjectid", "and it is said what it was not taken for"
    assert found["decided"][-1] | {"means": ""} == found["decided"][-1] | {"by": "nothing", "means": ""}


@pytest.mark.parametrize("number", MDUS)
def test_an_mdu_is_told_as_what_it_is_and_no_olt(number: int) -> None:
    found = ask(device(f"2011.2.{number}", HUAWEI))
    assert (found["brand"], found["model"]) == ("huawei", "MDU")


@pytest.mark.parametrize(("enterprise", "descr", "rows", "model"), OLTS, ids=lambda given: str(given)[:40])
def test_an_olt_that_gives_proof_is_told(enterprise: str, descr: str, rows: dict[str, Value], model: str) -> None:
    found = ask(device(enterprise, descr, rows=rows))
    assert f"{found['brand']}.{found['model']}" == model


C320_IDENTITY, PHASE_1012, PHASE_1082 = "3902.1082.1001.320.2.1", "3902.1012.3.28.2.1.4", "3902.1082.500.10.2.3.8.1.4"


@pytest.mark.parametrize(
    ("answers", "model", "fits"),
    [
        ([PHASE_1012], "C320", ["zte.C320"]),
        ([PHASE_1082], "C320-1082", ["zte.C320-1082"]),
        ([PHASE_1012, PHASE_1082], "C320", ["zte.C320", "zte.C320-1082"]),
        ([], "C320", ["zte.C320"]),
    ],
)
def test_quirk_20_the_tree_that_answers_tells_one_c320_from_the_other(
    answers: list[str], model: str, fits: list[str]
) -> None:
    found = ask(device(C320_IDENTITY, "C320", rows={f"{ENTERPRISES}.{oid}.268501248.1": 3 for oid in answers}))
    assert (found["brand"], found["model"], found["fits"]) == ("zte", model, fits)


MODEL_NAME = f"{ENTERPRISES}.17409.2.3.1.2.1.1.3.1"
GPON, EPON, V3 = "17409.2.8.4.1.1.3", "17409.2.3.4.1.1.7", "34592.1.5.1.1.2.1.1"


@pytest.mark.parametrize(
    ("answers", "name", "model", "fits"),
    [
        ([GPON, EPON, V3], b"FD1608S-B1-NDA0", "FD16XX-V3", 1),
        ([GPON, EPON], b"FD1601S-B1", "FD16XX-V3", 1),
        ([GPON, EPON], b"FD1608Y-B1", "FD16XX-V3", 1),
        ([EPON], b"FD1204SN", "FD12XX", 1),
        ([GPON, EPON], b"FD1216S-R1", "FD12XX", 1),
        ([GPON, EPON, V3], b"renamed", None, 3),
        ([GPON, EPON], None, None, 2),
        ([GPON], None, "FD16XX", 1),
    ],
)
def test_the_name_of_its_model_decides_what_subtrees_leave_open(
    answers: list[str], name: bytes | None, model: str | None, fits: int
) -> None:
    rows: dict[str, Value] = {f"{ENTERPRISES}.{oid}.1": b"x" for oid in answers}
    found = ask(device("17409", "olt", rows=rows | ({MODEL_NAME: name} if name else {})))
    assert (found["brand"], found["model"], len(found["fits"])) == ("cdata", model, fits)
    if name and model and len(answers) > 1:
        assert (found["decided"][-1]["by"], found["decided"][-1]["seen"]) == ("name", name.decode())


@pytest.mark.parametrize(
    ("identity", "entered", "fits", "answer"),
    [
        ("2011.2.248", "zte.C320", (), ("huawei", "MA5608T")),
        ("2011.2.248", "huawei.MA5600T", (), ("huawei", "MA5608T")),
        ("2011.2.248", "huawei.MA5608T", (), None),
        ("2011.2.248", "huawei.", (), None),
        ("2011.2.248", "generic.", (), ("huawei", "MA5608T")),
        (C320_IDENTITY, "huawei.MA5608T", (), ("zte", "C320")),
        (C320_IDENTITY, "zte.C320", (), None),
        (C320_IDENTITY, "zte.C320-1082", (), None),
        (C320_IDENTITY, "zte.C600", (), ("zte", "C320")),
        (C320_IDENTITY, "zte.C320", ("zte.C320-1082",), ("zte", "C320-1082")),
        (C320_IDENTITY, "zte.C320", ("zte.C320", "zte.C320-1082"), None),
        ("17409", "cdata.FD12XX", (), None),
        ("17409", "vsol.V1600G", (), ("cdata", "")),
        ("17409", "cdata.FD12XX", ("cdata.FD16XX-V3",), ("cdata", "FD16XX-V3")),
        ("4413", "cdata.FD12XX", (), None),
        ("99999", "huawei.MA5608T", (), None),
        ("2011.2.185", "huawei.MA5600T", (), ("huawei", "MDU")),
    ],
)
def test_a_device_that_cannot_be_what_it_was_entered_as_is_told(
    identity: str, entered: str, fits: tuple[str, ...], answer: tuple[str, str] | None
) -> None:
    brand, _, model = entered.partition(".")
    assert answers_as(knowledge().models, f"{ENTERPRISES}.{identity}", brand, model, fits) == answer
