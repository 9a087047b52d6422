"""What a large GET promises: all that is readable is read, the guilty instance found, a dead OLT costs two requests."""

import pytest

from jobs.snmp.errors import SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults
from jobs.snmp.getting import MAX_TIMEOUTS, PROBE_OID, GetResult, get_many
from jobs.snmp.session import SnmpType, VarBind
from portal.domain.statuses import ErrorKind

COLUMN = "1.3.6.1.4.1.5.1"
OIDS = [f"{COLUMN}.4194304000.{onu}" for onu in range(120)]
ROWS = {oid: place for place, oid in enumerate(OIDS)}


def olt(**settings) -> FakeSession:
    return FakeSession(ROWS | {PROBE_OID: 1}, columns=[COLUMN], **settings)


def got(session, oids=OIDS, **settings) -> GetResult:
    defaults = {"max_varbinds": 50, "deadline": 100.0, "checkpoint": lambda: None, "clock": lambda: 0.0}
    return get_many(session, oids, **(defaults | settings))


def sizes(session: FakeSession) -> list[int]:
    return [len(request.oids) for request in session.requests]


def test_instances_are_packed_to_the_size_of_the_device():
    session = olt()
    result = got(session)
    assert sizes(session) == [50, 50, 20]
    assert {oid: bind.value for oid, bind in result.values.items()} == ROWS
    assert result.failed == {} and result.error_kind is None and result.pdus == 3


def test_the_same_instance_is_asked_for_once():
    session = olt()
    assert len(got(session, [OIDS[0], OIDS[0], f".{OIDS[0]}"]).values) == 2
    assert sizes(session) == [1]


def test_nothing_to_ask_sends_nothing():
    session = olt()
    assert got(session, []) == GetResult(batch_size=50)
    assert session.requests == []


def test_too_big_is_halved_and_the_size_that_fits_is_kept():
    session = olt(faults=Faults(get_too_big_above=15))
    result = got(session)
    assert len(result.values) == 120 and result.batch_size == 13
    assert sizes(session)[:3] == [50, 25, 13]
    assert max(sizes(session)[2:]) == 13 and len(session.requests) < 15


def test_an_instance_that_is_too_big_by_itself_fails_alone():
    result = got(olt(faults=Faults(get_too_big_above=0)), OIDS[:2])
    assert result.failed == dict.fromkeys(OIDS[:2], ErrorKind.TOO_BIG)


def test_the_instance_that_silences_the_device_is_found_and_the_rest_is_kept():
    session = olt(faults=Faults(guilty=frozenset({OIDS[33]})))
    result = got(session)
    assert result.failed == {OIDS[33]: ErrorKind.TIMEOUT}
    assert len(result.values) == 119 and result.error_kind is None and not result.dead
    assert result.timeouts == 4 and OIDS[33] in result.message


def test_the_instance_the_device_fails_on_is_found_and_the_rest_is_kept():
    session = olt(faults=Faults(generr=frozenset({OIDS[7], OIDS[99]})))
    result = got(session)
    assert result.failed == {OIDS[7]: ErrorKind.DEVICE, OIDS[99]: ErrorKind.DEVICE}
    assert len(result.values) == 118


def test_a_dead_olt_costs_one_request_and_one_probe():
    session = olt(faults=Faults(dead=True))
    result = got(session)
    assert session.requests[1].oids == (PROBE_OID,) and result.pdus == result.timeouts == 2
    assert result.dead and result.error_kind is ErrorKind.TIMEOUT
    assert result.failed == dict.fromkeys(OIDS, ErrorKind.TIMEOUT)


def test_an_olt_that_dies_midway_keeps_what_it_said():
    result = got(olt(faults=Faults(dies_after=1)))
    assert result.dead and len(result.values) == 50 and len(result.failed) == 70
    assert result.timeouts == 2


def test_an_olt_that_stalls_on_all_data_is_left_alone_though_it_answers_its_probe():
    result = got(olt(faults=Faults(guilty=frozenset(OIDS))))
    assert result.timeouts == MAX_TIMEOUTS and not result.dead
    assert result.error_kind is ErrorKind.TIMEOUT and len(result.failed) == 120


def test_an_onu_without_data_is_not_a_failure():
    result = got(olt(), [OIDS[0], f"{COLUMN}.4194304000.999"])
    assert result.failed == {}
    assert result.values[f"{COLUMN}.4194304000.999"].type is SnmpType.NO_SUCH_INSTANCE


def test_version_1_finds_the_missing_name_by_division():
    session = olt(v1=True)
    result = got(session, [*OIDS[:50], f"{COLUMN}.1.1"])
    assert len([bind for bind in result.values.values() if not bind.missing]) == 50
    assert result.values[f"{COLUMN}.1.1"].type is SnmpType.NO_SUCH_OBJECT
    assert result.failed == {}


def test_an_answer_that_was_cut_is_asked_for_again_in_smaller_pieces():
    session = olt(faults=Faults(cut_answers_to=30))
    result = got(session)
    assert len(result.values) == 120 and result.failed == {}
    assert sizes(session) == [50, 20, 30, 30, 10]


def test_values_count_by_name_not_by_place():
    class Shuffled(FakeSession):
        def get(self, oids):
            return list(reversed(super().get(oids)))

    result = got(Shuffled(ROWS), OIDS[:10])
    assert {oid: bind.value for oid, bind in result.values.items()} == {oid: ROWS[oid] for oid in OIDS[:10]}


def test_an_answer_about_something_else_is_no_answer():
    class Liar(FakeSession):
        def get(self, oids):
            return [VarBind("1.3.6.1.9.9", SnmpType.INTEGER, 1)]

    result = got(Liar(), OIDS[:3])
    assert result.values == {} and set(result.failed.values()) == {ErrorKind.DEVICE}


def test_the_time_limit_keeps_what_was_read():
    now = [0.0]

    def tick(request):
        now[0] += 10.0

    result = got(olt(on_request=tick), deadline=15.0, clock=lambda: now[0])
    assert len(result.values) == 100 and result.error_kind is ErrorKind.TIME_LIMIT
    assert set(result.failed) == set(OIDS[100:]) and "100 of 120" in result.message


def test_a_fault_that_is_not_of_one_instance_stops_the_run():
    class Unroutable(FakeSession):
        def get(self, oids):
            raise SnmpUnreachable("no route")

    result = got(Unroutable())
    assert result.pdus == 1 and result.error_kind is ErrorKind.UNREACHABLE


def test_a_bad_oid_fails_alone_and_is_never_sent():
    session = olt()
    result = got(session, ["nonsense", OIDS[0]])
    assert result.failed == {"nonsense": ErrorKind.BAD_OID} and OIDS[0] in result.values
    assert session.requests[0].oids == (OIDS[0],)


def test_the_checkpoint_comes_before_every_request_even_the_probe():
    class Gone(BaseException):
        pass

    session, seen = olt(faults=Faults(dead=True)), []

    def checkpoint():
        seen.append(len(session.requests))
        if len(seen) == 2:
            raise Gone

    with pytest.raises(Gone):
        got(session, checkpoint=checkpoint)
    assert seen == [0, 1] and len(session.requests) == 1
