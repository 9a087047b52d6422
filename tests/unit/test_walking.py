"""What a walk promises: complete or cut short, never endless, gentle on a weak device."""

from collections.abc import Sequence

import pytest

from jobs.snmp.errors import SnmpAuthError, SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults
from jobs.snmp.session import SnmpType, VarBind
from jobs.snmp.walking import WalkedColumn, WalkResult, walk
from portal.domain.statuses import ErrorKind
from testing.fake_olts import Gone, Lease, Ticking, failing
from testing.tables import differing

A, B, AFTER = "1.3.6.1.4.1.5.1", "1.3.6.1.4.1.5.2", "1.3.6.1.4.1.5.9.0"


def table(root: str, rows: int = 60, ports: Sequence[str] = ("4194304000",)) -> dict[str, int]:
    return {f"{root}.{port}.{onu}": onu for port in ports for onu in range(rows)}


def olt(*roots: str, rows: int = 60, ports: Sequence[str] = ("4194304000",), **settings) -> FakeSession:
    values = {AFTER: 0}
    for root in roots:
        values |= table(root, rows, ports)
    return FakeSession(values, **settings)


def walked(session, *roots: str, **settings) -> WalkResult:
    defaults = {"max_repetitions": 20, "max_rows": 1000, "deadline": 100.0, "checkpoint": lambda: None}
    defaults |= {"clock": lambda: 0.0, "pause": lambda seconds: None}
    return walk(session, roots, **(defaults | settings))


def sizes(session: FakeSession) -> list[int]:
    return [request.max_repetitions for request in session.requests]


def values(column: WalkedColumn) -> list[object]:
    return [value for _, value in column.rows]


def test_a_walk_that_leaves_the_column_is_complete():
    session = olt(A)
    result = walked(session, A)
    assert result.complete and result.rows == 60 and result.pdus == len(session.requests) == 4
    assert values(result.columns[0]) == list(range(60))


def test_a_walk_that_ends_with_the_mib_or_with_max_rows_is_complete() -> None:
    assert walked(FakeSession(table(A, 5)), A).complete
    assert walked(olt(A, rows=45), A, max_rows=45).complete


@pytest.mark.parametrize(("vague", "requests"), [(False, [20, 20, 20]), (True, [20, 20, 20, 20])])
def test_a_doubt_of_the_driver_costs_one_further_request_to_the_exact_one(vague, requests):
    session = FakeSession(table(A, 40), vague=vague)
    result = walked(session, A)
    assert result.complete and sizes(session) == requests and result.pdus == len(requests)


def test_columns_are_walked_together_and_the_shorter_one_is_not_asked_again():
    session = FakeSession(table(A, 60) | table(B, 3) | {AFTER: 0})
    result = walked(session, A, B)
    assert [len(column.rows) for column in result.columns] == [60, 3]
    assert result.complete
    assert [len(request.oids) for request in session.requests] == [2, 1, 1, 1]


def test_many_columns_share_one_answer_instead_of_multiplying_it():
    roots = [f"1.3.6.1.4.1.5.{column}" for column in range(1, 9)]
    session = olt(*roots, rows=30)
    assert walked(session, *roots, max_repetitions=50).complete
    assert max(request.max_repetitions * len(request.oids) for request in session.requests) <= 100


def test_names_are_compared_as_numbers_not_as_text():
    rows = {f"{A}.{onu}": onu for onu in (9, 10, 100, 99)}
    assert values(walked(FakeSession(rows), A).columns[0]) == [9, 10, 99, 100]


def test_an_agent_that_starts_over_from_the_top_is_not_taken_for_the_end():
    class StartsOver(FakeSession):
        def next_rows(self, oids, max_repetitions):
            return [VarBind("1.3.6.1.2.1.1.1.0", SnmpType.OCTETS, b"sysDescr")]

    (column,) = walked(StartsOver(), A).columns
    assert not column.complete and column.error_kind is ErrorKind.NOT_INCREASING


def test_the_time_limit_keeps_the_rows_read_so_far():
    clock = Ticking(10.0)
    result = walked(olt(A, on_request=clock.tick), A, deadline=15.0, clock=clock)
    assert result.pdus == 2 and result.rows == 40
    assert result.first_error.error_kind is ErrorKind.TIME_LIMIT


def told(*roots: str, faults: Faults, **settings) -> tuple[ErrorKind | None, int, int, list[int]]:
    """The first error, rows, time-outs, and the sizes of all requests."""
    session = olt(*roots, faults=faults)
    result = walked(session, *roots, **settings)
    return result.first_error and result.first_error.error_kind, result.rows, result.timeouts, sizes(session)


def test_what_a_device_does_wrong_costs_few_requests():
    dead = Faults(dead=True)
    cases = {
        "a dead OLT is given up after the first": (told(A, B, faults=dead), (ErrorKind.TIMEOUT, 0, 1, [20])),
        "one that answered a moment ago gets smaller ones before it is given up": (
            told(A, faults=dead, answered=True),
            (ErrorKind.TIMEOUT, 0, 3, [20, 5, 1]),
        ),
        "a time-out in the middle shrinks the request and the walk goes on": (
            told(A, faults=Faults(time_out_on=frozenset({2}))),
            (None, 60, 1, [20, 20, *[5] * 9]),
        ),
        "too big halves the request until it fits": (
            told(A, faults=Faults(bulk_too_big_above=6))[:3],
            (None, 60, 0),
        ),
        "an answer without values ends the walk": (
            told(A, faults=Faults(cut_answers_to=0)),
            (ErrorKind.DEVICE, 0, 0, [20]),
        ),
    }
    assert differing(cases) == {}
    assert told(A, faults=Faults(bulk_too_big_above=6))[3][:3] == [20, 10, 5]
    assert {column.error_kind for column in walked(olt(A, B, faults=dead), A, B).columns} == {ErrorKind.TIMEOUT}


def test_a_row_the_device_fails_on_spoils_its_own_column_only():
    bad = f"{A}.4194304000.33"
    session = olt(A, B, faults=Faults(generr=frozenset({bad})))
    first, second = walked(session, A, B).columns
    assert first.error_kind is ErrorKind.DEVICE and len(first.rows) == 33
    assert second.complete and len(second.rows) == 60
    assert len(session.requests) < 30


@pytest.mark.parametrize(("rows", "kind"), [(0, ErrorKind.NO_SUCH_OBJECT), (2, ErrorKind.INCOMPLETE)])
def test_a_marker_where_a_row_should_be_is_never_a_row_nor_an_end(rows, kind):
    class HiddenByView(FakeSession):
        def next_rows(self, oids, max_repetitions):
            if len(self.requests) < rows:
                return super().next_rows(oids, 1)
            return [VarBind(oid, SnmpType.NO_SUCH_OBJECT) for oid in oids]

    (column,) = walked(HiddenByView(table(A, 5)), A).columns
    assert not column.complete and column.error_kind is kind
    assert len(column.rows) == rows and column.supported is (rows > 0)


def test_version_1_walks_columns_of_different_length_to_their_ends():
    session = FakeSession(table(A, 4) | table(B, 6), v1=True)
    # B is the end of the MIB: an SNMPv1 agent then refuses the whole request without saying which name it was.
    result = walked(session, B, A)
    assert [len(column.rows) for column in result.columns] == [6, 4]
    assert result.columns[1].complete


def test_a_credential_refused_stops_everything():
    result = walked(FakeSession(on_request=failing(SnmpAuthError("wrong key"))), A, B)
    assert result.pdus == 1 and {column.error_kind for column in result.columns} == {ErrorKind.AUTH}


def test_a_bad_oid_spoils_its_own_column_and_nothing_is_sent_for_it():
    session = olt(A)
    bad, good = walked(session, "nonsense", A).columns
    assert bad.error_kind is ErrorKind.BAD_OID and "nonsense" in bad.message
    assert good.complete
    assert all("nonsense" not in request.oids for request in session.requests)


def test_the_checkpoint_comes_before_every_request_and_can_stop_the_walk():
    session, other = olt(A), olt(A)
    lease, kept = Lease(session, lost_at=3), Lease(other)
    with pytest.raises(Gone):
        walked(session, A, checkpoint=lease)
    assert lease.seen == [0, 1, 2] and len(session.requests) == 2
    walked(other, B, checkpoint=kept)
    assert [request.kind for request in other.requests] == ["next", "get"], "it asks whether the column exists"
    assert kept.seen == [0, 1]


def test_what_could_not_be_sent_is_no_request():
    result = walked(FakeSession(table(A, 5), on_request=failing(SnmpUnreachable("no route"))), A)
    assert (result.pdus, result.timeouts) == (0, 0)
    assert result.first_error.error_kind is ErrorKind.UNREACHABLE


def test_a_column_that_goes_back_costs_its_neighbour_in_the_same_answers_no_row():
    class Repeats(FakeSession):
        def next_rows(self, oids, max_repetitions):
            binds = super().next_rows(oids, max_repetitions)
            if len(self.requests) == 2:
                binds[4] = binds[0]
            return binds

    first, second = walked(Repeats(table(A, 60) | table(B, 60) | {AFTER: 0}), A, B).columns
    assert first.error_kind is ErrorKind.NOT_INCREASING
    assert values(first) == list(range(22))
    assert second.complete and values(second) == list(range(60))
