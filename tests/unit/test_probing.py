"""The connection test asks little and says what decided; devices are fakes."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from jobs import probing
from jobs.snmp.fake import FakeSession, Faults, Value, fake_factory
from portal.domain.composite import SnmpTarget
from portal.domain.recognising import Families, Knowledge, KnownModel, shortlist
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
    keys = {"2011.2.248.7": "huawei.MA5608T", "2011.2.2481": "huawei.MA5800", "20112.2.248": None}
    found = {
        key: shortlist(knowledge().models, f"{ENTERPRISES}.{key}", "Huawei Integrated Access Software") for key in keys
    }
    decided = {key: one.decided.key if one.decided and not one.unknown else None for key, one in found.items()}
    assert decided == keys
