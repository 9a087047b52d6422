"""Devices that walk and answer badly (quirks 1 to 16): what is read, what is complete, what the device is spared.

The numbers are those of the project's list of quirks; those of indexes and values have their tests beside the decoders.
"""

import threading
from collections import Counter

import pytest

from jobs.snmp.errors import SnmpTimeout
from jobs.snmp.fake import FakeSession, Faults
from jobs.snmp.pace import FIRST_GAP, GOOD_RUN, LONGEST_GAP, Pace
from jobs.snmp.session import SnmpType, VarBind
from jobs.snmp.walking import MAX_SILENT_PORTS
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import WALK, KnownSize, SizeOutcome
from testing.fake_olts import Ticking
from tests.unit import test_getting, test_walking
from tests.unit.test_getting import OIDS, got
from tests.unit.test_walking import AFTER, A, B, sizes, table, values, walked

PORTS = [str(4194304000 + 256 * port) for port in range(4)]


def olt(*roots: str, ports=PORTS, **settings) -> FakeSession:
    return test_walking.olt(*roots, rows=18, ports=ports, columns=roots, **settings)


def ports_of(column) -> dict[str, int]:
    return dict(Counter(index.partition(".")[0] for index, _ in column.rows))


def both(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, [False, True], ids=["exact driver", "driver that hides the reason"])


@both("vague")
def test_quirk_01_a_name_that_does_not_increase_ends_the_column_with_its_rows_and_a_fault(vague):
    stuck = f"{A}.{PORTS[1]}.3"
    session = olt(A, faults=Faults(stuck_at=stuck), vague=vague)
    (column,) = walked(session, A).columns
    assert not column.complete and column.error_kind is ErrorKind.NOT_INCREASING and stuck in column.message
    assert len(column.rows) == 18 + 4 and f"{A}.{column.rows[-1][0]}" == stuck and len(session.requests) <= 3


@pytest.mark.parametrize(
    "indexes",
    [("1.5", "1.5"), ("1.5", "1.4"), ("2.1", "1.9"), ("1.5", "1.9", "1.6.3"), ("1.5", "1.9", "1"), ("10.1", "9.1")],
    ids=" ".join,
)
def test_quirk_01_names_go_back_within_a_port_and_from_one_to_another(indexes):
    class Wandering(FakeSession):
        def next_rows(self, oids, max_repetitions):
            return [VarBind(f"{A}.{index}", SnmpType.INTEGER, 1) for index in indexes]

    (column,) = walked(Wandering(), A).columns
    assert column.error_kind is ErrorKind.NOT_INCREASING
    assert [index for index, _ in column.rows] == list(indexes[:-1])


def test_names_may_grow_longer_and_shorter_as_long_as_they_increase():
    indexes = ("1.5", "1.5.1", "1.6", "2", "2.0", "10.1.1.1")
    (column,) = walked(FakeSession({f"{A}.{index}": 1 for index in indexes}), A).columns
    assert column.complete and [index for index, _ in column.rows] == list(indexes)


@both("vague")
def test_quirk_02_a_walk_that_dies_is_not_complete(vague):
    (silent,) = walked(olt(A, faults=Faults(dies_after=2), vague=vague), A).columns
    (broken,) = walked(olt(A, faults=Faults(generr=frozenset({f"{A}.{PORTS[2]}.0"})), vague=vague), A).columns
    assert (silent.complete, silent.error_kind, len(silent.rows)) == (False, ErrorKind.TIMEOUT, 40)
    assert (broken.complete, broken.error_kind, len(broken.rows)) == (False, ErrorKind.DEVICE, 36)


@both("vague")
def test_quirk_03_empty_is_not_the_same_as_unsupported(vague):
    rows = table(A, 18, PORTS) | {AFTER: 0}
    empty, missing = walked(FakeSession(rows, columns=[A, B], vague=vague), B, "1.3.6.1.4.1.5.4").columns
    assert empty.complete and empty.supported and not empty.rows
    assert not missing.complete and not missing.supported and missing.error_kind is ErrorKind.NO_SUCH_OBJECT
    assert "1.3.6.1.4.1.5.4" in missing.message and "view" in missing.message


@both("vague")
def test_quirk_04_a_port_that_cannot_be_read_costs_that_port_only(vague):
    guilty = Faults(guilty=frozenset({f"{A}.{PORTS[1]}.5"}))
    whole = walked(olt(A, faults=guilty, vague=vague), A)
    by_port = walked(olt(A, faults=guilty, vague=vague), A, below=PORTS)
    assert whole.rows == 23 and not whole.complete
    (column,) = by_port.columns
    assert ports_of(column) == {PORTS[0]: 18, PORTS[1]: 5, PORTS[2]: 18, PORTS[3]: 18}
    assert not column.complete and column.error_kind is ErrorKind.INCOMPLETE
    assert by_port.timeouts <= 4


@both("vague")
def test_quirk_04_ports_that_nobody_knew_are_read_too(vague):
    session = olt(A, vague=vague)
    result = walked(session, A, below=[PORTS[0], PORTS[2]])
    assert result.complete and ports_of(result.columns[0]) == dict.fromkeys(PORTS, 18)
    assert result.pdus == walked(olt(A, vague=vague), A).pdus  # knowing ports costs nothing


def test_quirk_04_an_olt_that_is_silent_at_one_port_after_the_other_is_left_alone():
    silent = frozenset(f"{A}.{PORTS[port]}.0" for port in (1, 2, 3))
    ports = [*PORTS, "4194305024", "4194305280"]
    session = olt(A, ports=ports, faults=Faults(guilty=silent | {f"{A}.{port}.0" for port in ports[4:]}))
    result = walked(session, A, below=ports, answered=True)
    assert result.rows == 18 and not result.complete
    assert result.timeouts <= 2 + MAX_SILENT_PORTS
    assert not any(ports[-1] in oid for request in session.requests for oid in request.oids)


def test_quirk_05_max_repetitions_is_never_zero_and_never_above_fifty():
    for asked, sent in ((0, 1), (-3, 1), (500, 50)):
        session = olt(A)
        walked(session, A, max_repetitions=asked)
        assert sizes(session)[0] == sent and max(sizes(session)) <= 50


@both("vague")
def test_quirk_06_too_big_is_halved_down_to_getnext_and_no_row_is_lost(vague):
    for fits in (1, 2, 7, 20):
        session = olt(A, faults=Faults(bulk_too_big_above=fits), vague=vague)
        result = walked(session, A)
        assert result.complete and result.rows == 72
        assert sum(size > fits for size in sizes(session)) <= 12


def test_quirk_06_silence_at_large_requests_is_answered_by_small_ones_and_remembered():
    session = olt(A, faults=Faults(bulk_silent_above=10))
    result = walked(session, A, answered=True)
    assert result.complete and result.rows == 72 and result.timeouts == 1
    assert SizeOutcome.TIMEOUT in {one.outcome for one in result.sizes}
    known = {(WALK, "1.3.6.1.4.1.5"): KnownSize(5, too_big=20)}
    again = olt(A, faults=Faults(bulk_silent_above=10))
    assert walked(again, A, sizes=known).timeouts == 0


def test_quirk_06_an_answer_that_is_cut_short_loses_nothing():
    result = walked(olt(A, B, faults=Faults(cut_answers_to=7)), A, B)
    assert result.complete and result.rows == 144 and values(result.columns[1]) == [*range(18)] * 4
    assert {one.outcome for one in result.sizes} >= {SizeOutcome.TRUNCATED}


def test_quirk_07_an_olt_set_to_one_repetition_is_never_asked_by_getbulk():
    session = olt(A, B)
    result = walked(session, A, B, max_repetitions=1)
    assert result.complete and set(sizes(session)) == {1}  # one row is GETNEXT in every driver


def test_quirk_08_what_only_a_get_can_read_is_never_called_empty():
    class NoGetNext(FakeSession):
        def next_rows(self, oids, max_repetitions):
            return [VarBind(oid, SnmpType.END_OF_MIB_VIEW) for oid in oids]

    (column,) = walked(NoGetNext({f"{A}.0": 5}), A).columns
    assert not column.complete and column.error_kind is ErrorKind.INCOMPLETE and "GET" in column.message


@both("vague")
def test_quirk_10_a_row_that_vanishes_is_no_data_and_no_failure(vague):
    asked = [f"{A}.{PORTS[0]}.{onu}" for onu in (0, 1, 99)]
    result = got(olt(A, vague=vague), asked)
    assert result.failed == {} and result.error_kind is None
    assert [result.values[oid].type for oid in asked][2] is SnmpType.NO_SUCH_INSTANCE


@both("points")
def test_quirk_11_the_name_that_a_version_1_device_does_not_have_is_dropped_and_the_rest_read(points):
    session = olt(A, v1=True, faults=Faults(names_the_guilty=points))
    asked = [f"{A}.{PORTS[0]}.{onu}" for onu in range(18)]
    result = got(session, [*asked[:9], f"{B}.1", *asked[9:]])
    assert all(not result.values[oid].missing for oid in asked) and result.failed == {}
    assert result.values[f"{B}.1"].type is SnmpType.NO_SUCH_OBJECT
    asked_for = [len(request.oids) for request in session.requests]
    assert asked_for == [19, 1, 18] if points else len(asked_for) > 3


def test_quirk_11_the_name_that_silences_a_device_is_found_by_division():
    result = got(test_getting.olt(faults=Faults(guilty=frozenset({OIDS[33]}))))
    assert result.failed == {OIDS[33]: ErrorKind.TIMEOUT}
    assert len(result.values) == 119 and result.error_kind is None and not result.dead
    assert result.timeouts == 4 and OIDS[33] in result.message


def test_quirk_12_the_operator_is_told_which_subtree_is_empty_and_that_a_view_may_be_the_cause():
    (column,) = walked(FakeSession({AFTER: 0}), A).columns
    assert A in column.message and "view" in column.message


def test_quirk_13_a_table_without_end_is_cut_at_the_row_limit_and_says_so():
    (column,) = walked(olt(A), A, max_rows=30).columns
    assert len(column.rows) == 30 and not column.complete and "more than 30 rows" in column.message
    assert column.error_kind is ErrorKind.INCOMPLETE


def test_quirk_14_after_a_silence_one_request_fewer_is_under_way_and_the_next_comes_later():
    waits: list[float] = []
    pace = Pace(3, waits.append)
    for expected in (2, 1, 1):
        pace.silent()
        pace.wait()
        pace.wait()  # one gap for one silence, whoever takes it
        assert pace.allowed == expected
    assert waits == [FIRST_GAP, FIRST_GAP * 2, FIRST_GAP * 4]
    for _ in range(10):
        pace.silent()
    assert pace.gap == LONGEST_GAP
    for _ in range(GOOD_RUN * 2):
        pace.answered()
    assert (pace.allowed, pace.gap) == (3, 0.0)


def test_quirk_14_an_agent_that_cannot_serve_two_at_once_is_soon_asked_one_at_a_time():
    busy, most, lock = [0], [0], threading.Lock()
    second = threading.Event()

    class OneAtATime(FakeSession):
        def get(self, oids):
            with lock:
                busy[0] += 1
                overlap = busy[0] > 1
                most[0] = max(most[0], busy[0])
            if overlap:
                second.set()
            elif len(self.requests) == 1:  # the first one after the helper's start lets it come
                second.wait(10)
            try:
                if overlap:
                    raise SnmpTimeout("no answer while another request is served")
                return super().get(oids)
            finally:
                with lock:
                    busy[0] -= 1

    rows = table(A, 20, PORTS)
    make = lambda: OneAtATime(rows | {"1.3.6.1.2.1.1.3.0": 1}, columns=[A])  # noqa: E731
    result = got(make(), list(rows), max_varbinds=4, max_inflight=2, open_more=make, roots=[A])
    assert {one.outcome for one in result.sizes} == {SizeOutcome.ANSWERED} and result.batch_size == 4  # not the size
    assert most[0] == 2 and len(result.values) == 80 and result.error_kind is None
    assert 1 <= result.timeouts <= 3


def test_quirk_15_a_walk_cut_by_its_time_limit_goes_on_there_the_next_time():
    clock = Ticking(10.0)
    first = walked(olt(A, B, on_request=clock.tick), A, B, deadline=25.0, clock=clock)
    assert [column.error_kind for column in first.columns] == [ErrorKind.TIME_LIMIT] * 2
    second = walked(olt(A, B), A, B, resume={column.root: column.stopped_at for column in first.columns})
    indexes = [name.removeprefix(f"{A}.") for name in table(A, 18, PORTS)]
    for before, after in zip(first.columns, second.columns, strict=True):
        assert after.complete and after.started_at == before.stopped_at == before.rows[-1][0]
        assert [index for index, _ in (*before.rows, *after.rows)] == indexes


def test_quirk_15_a_resumed_walk_that_finds_no_further_row_is_complete_from_there():
    session = olt(A)
    (column,) = walked(session, A, resume={A: f"{PORTS[3]}.17"}).columns
    assert column.complete and not column.rows and column.started_at == column.stopped_at == f"{PORTS[3]}.17"
    # It is not empty, so nobody asks whether it exists.
    assert [request.kind for request in session.requests] == ["next"]


def test_quirk_15_nonsense_to_resume_from_spoils_its_own_column_and_is_never_sent():
    session = olt(A, B)
    bad, good = walked(session, A, B, resume={A: "not.an.index"}).columns
    assert bad.error_kind is ErrorKind.BAD_OID and good.complete
    assert all(oid.startswith(B) for request in session.requests for oid in request.oids)
