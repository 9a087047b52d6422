"""The connection test asks little and says what decided; devices are fakes."""

import pytest

from jobs import probing
from jobs.snmp.fake import FakeSession, Faults, Value
from jobs.snmp.session import SessionFactory
from portal.domain.composite import SnmpTarget
from portal.domain.recognising import Families, Knowledge, KnownModel, shortlist
from portal.services.cataloguing.catalogue import load_shipped

TARGET = SnmpTarget("192.0.2.1", 161, "2c", community="public")
SYSTEM = "1.3.6.1.2.1.1"
IF_NAME, IF_DESCR = probing.IF_NAME, probing.IF_DESCR


def knowledge() -> Knowledge:
    """What the shipped files know, with the spaces that names decide."""
    documents = load_shipped()
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


KNOWLEDGE = knowledge()


def device(
    object_id: str, descr: str = "", /, faults: Faults | None = None, v1: bool = False, **rows: Value
) -> FakeSession:
    given = {oid.replace("_", ".").strip("x."): value for oid, value in rows.items()}
    system: dict[str, Value] = {
        f"{SYSTEM}.1.0": descr.encode(), f"{SYSTEM}.2.0": object_id, f"{SYSTEM}.3.0": 4200, f"{SYSTEM}.5.0": b"olt",
    }  # fmt: skip
    return FakeSession(system | given, faults=faults or Faults(), v1=v1)


def opened(session: FakeSession) -> SessionFactory:
    return lambda target: session


def ask(session: FakeSession, known: Knowledge | None = KNOWLEDGE) -> dict[str, object]:
    return probing.ask(TARGET, opened(session), lambda: 0.0, known)


def named(root: str, names: dict[int, str]) -> dict[str, Value]:
    return {f"x{root}.{index}".replace(".", "_"): name.encode() for index, name in names.items()}


def test_a_device_of_one_identity_is_told_by_one_request_and_its_names() -> None:
    session = device("1.3.6.1.4.1.2011.2.123", "Huawei Integrated Access Software")
    found = ask(session)
    assert (found["brand"], found["model"]) == ("huawei", "MA5603T")
    assert found["decided"] == [
        {
            "by": "sysobjectid", "seen": "1.3.6.1.4.1.2011.2.123", "means": "huawei.MA5603T",
            "text": "sysObjectID 1.3.6.1.4.1.2011.2.123: huawei.MA5603T",
        }
    ]  # fmt: skip
    assert session.closed


def test_the_system_group_is_told_as_before() -> None:
    found = ask(device("1.3.6.1.4.1.9", "router"))
    assert {name: found[name] for name in ("sysdescr", "sysobjectid", "sysname", "uptime_s")} == {
        "sysdescr": "router", "sysobjectid": "1.3.6.1.4.1.9", "sysname": "olt", "uptime_s": 42,
    }  # fmt: skip
    assert (found["brand"], found["model"], found["family"]) == (None, None, None)
    assert found["decided"][0]["by"] == "nothing"  # type: ignore[index]


def test_without_knowledge_only_the_system_group_is_read() -> None:
    session = device("1.3.6.1.4.1.17409")
    assert "brand" not in ask(session, None)
    assert len(session.requests) == 1


def test_subtrees_decide_where_identity_and_description_do_not() -> None:
    session = device("1.3.6.1.4.1.17409", "olt del cerro", x1_3_6_1_4_1_17409_2_8_4_1_1_7_16779009=1)
    found = ask(session)
    assert (found["brand"], found["model"]) == ("cdata", "FD16XX")
    grounds = [(ground["by"], ground["seen"]) for ground in found["decided"]]  # type: ignore[attr-defined]
    assert grounds == [("sysobjectid", "1.3.6.1.4.1.17409"), ("subtree", "1.3.6.1.4.1.17409.2.8")]


def test_a_brand_without_a_single_model_is_proposed_without_one() -> None:
    found = ask(device("1.3.6.1.4.1.5875.800.1001.11", "olt norte"))
    assert (found["brand"], found["model"]) == ("fiberhome", None)
    assert found["decided"][0]["means"] == "fiberhome.AN5516-01, fiberhome.AN5516-04B, fiberhome.AN5516-06"  # type: ignore[index]


def test_the_names_of_the_interfaces_choose_the_family() -> None:
    rows = named(IF_NAME, {268435456: "gpon_1/1/1", 268435712: "gpon_1/1/2"})
    found = ask(device("1.3.6.1.4.1.3902.1082.1001.320.2.1", "C320", **rows))
    assert found["family"] == "zte_zero_based"
    assert found["decided"][-1]["text"] == (  # type: ignore[index]
        "ifName gpon_1/1/1 = 268435456: fits zte_zero_based, as all 2 names do"
    )


def test_names_that_fit_no_family_are_told_as_the_contradiction_that_they_are() -> None:
    found = ask(device("1.3.6.1.4.1.3902.1082.1001.320.2.1", "C320", **named(IF_NAME, {7: "gpon_1/1/1"})))
    assert found["family"] is None
    assert "7 is named gpon_1/1/1" in found["decided"][-1]["means"]  # type: ignore[index]


def test_an_empty_name_gives_way_to_the_description_of_the_interface() -> None:
    rows = named(IF_DESCR, {285278465: "gpon_1/1/1"}) | named(IF_NAME, {285278465: ""})
    assert ask(device("1.3.6.1.4.1.3902.1082.1001.620.1.1", "", **rows))["family"] == "zte_1082"


def test_boards_are_looked_for_where_their_port_rows_begin() -> None:
    many = {67109312 + step: "FWLT-C  PHYSICALUNI" for step in range(40)}
    rows = named(IF_DESCR, many | {94380032: "FWLT-C  PON", 94445568: "FWLT-C  PON"})
    assert ask(device("1.3.6.1.4.1.637.61.1", "ISAM", **rows))["family"] == "isam"


@pytest.mark.parametrize("object_id", ["1.3.6.1.4.1.17409", "1.3.6.1.4.1.99999", "1.3.6.1.4.1.637.61.1"])
@pytest.mark.parametrize("v1", [False, True])
def test_a_probe_sends_at_most_eight_requests(object_id: str, v1: bool) -> None:
    session = device(object_id, "", v1=v1, x1_3_6_1_4_1_17409_2_8_1=1)
    ask(session)
    assert len(session.requests) <= probing.REQUESTS
    assert all(len(request.oids) * max(request.max_repetitions, 1) <= 30 for request in session.requests)


def test_a_device_that_falls_silent_after_its_system_group_is_asked_once_more_and_no_more() -> None:
    session = device("1.3.6.1.4.1.17409", faults=Faults(dies_after=1))
    found = ask(session)
    assert (found["brand"], found["model"]) == ("cdata", None)
    assert len(session.requests) == 2


def test_no_request_starts_after_the_patience_of_a_probe() -> None:
    session, clock = device("1.3.6.1.4.1.17409"), iter([0.0, 0.0, *[probing.PATIENCE + 1] * 50])
    probing.ask(TARGET, opened(session), lambda: next(clock), KNOWLEDGE)
    assert len(session.requests) == 1


def test_the_checkpoint_runs_before_each_request() -> None:
    session, calls = device("1.3.6.1.4.1.17409"), []
    probing.ask(TARGET, opened(session), lambda: 0.0, KNOWLEDGE, lambda: calls.append(len(session.requests)))
    assert calls == list(range(len(session.requests)))


def test_a_silent_device_is_a_failed_probe() -> None:
    with pytest.raises(probing.ProbeFailed):
        ask(device("1.3.6.1.4.1.17409", faults=Faults(dead=True)))


def test_a_device_that_hides_its_system_group_is_told_so() -> None:
    with pytest.raises(probing.ProbeFailed, match="hides its system group"):
        ask(FakeSession({}))


def test_the_longest_prefix_wins_and_whole_sub_identifiers_count() -> None:
    def key(object_id: str) -> str | None:
        found = shortlist(KNOWLEDGE.models, object_id, "Huawei Integrated Access Software")
        return found.decided.key if found.decided and not found.unknown else None

    assert key("1.3.6.1.4.1.2011.2.248.7") == "huawei.MA5608T"
    assert key("1.3.6.1.4.1.2011.2.2481") == "huawei.MA5800"
    assert key("1.3.6.1.4.1.20112.2.248") is None
