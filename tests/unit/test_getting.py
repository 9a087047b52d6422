"""What a large GET promises: all that is readable is read, the guilty instance found, a dead OLT costs two requests."""

import threading

import pytest

from jobs.snmp.errors import SnmpLocalFault, SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults
from jobs.snmp.getting import MAX_TIMEOUTS, PROBE_OID, GetResult, get_many
from jobs.snmp.session import SnmpType, VarBind
from jobs.snmp.sizes import LARGEST_OCTETS
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import GET, KnownSize, learn
from testing.cast import NOW
from testing.fake_olts import Gone, Lease, Ticking, failing

TABLE, COLUMN = "1.3.6.1.4.1.5", "1.3.6.1.4.1.5.1"
OIDS = [f"{COLUMN}.4194304000.{onu}" for onu in range(120)]
ROWS = {oid: place for place, oid in enumerate(OIDS)}


def olt(**settings) -> FakeSession:
    return FakeSession(ROWS | {PROBE_OID: 1}, columns=[COLUMN], **settings)


def got(session, oids=OIDS, **settings) -> GetResult:
    defaults = {"max_varbinds": 50, "deadline": 100.0, "checkpoint": lambda: None, "clock": lambda: 0.0}
    return get_many(session, oids, **(defaults | {"pause": lambda seconds: None} | settings))


def sizes(session: FakeSession) -> list[int]:
    return [len(request.oids) for request in session.requests]


def test_instances_are_packed_to_the_size_of_the_device():
    session = olt()
    result = got(session)
    assert sizes(session) == [50, 50, 20]
    assert {oid: bind.value for oid, bind in result.values.items()} == ROWS
    assert result.failed == {} and result.error_kind is None and result.pdus == 3


def test_the_same_instance_is_asked_for_once_and_nothing_to_ask_sends_nothing():
    once, nothing = olt(), olt()
    assert len(got(once, [OIDS[0], OIDS[0], f".{OIDS[0]}"]).values) == 2
    assert got(nothing, []) == GetResult(batch_size=50)
    assert (sizes(once), sizes(nothing)) == ([1], [])


def test_too_big_is_halved_and_the_largest_size_that_fits_is_looked_for():
    session = olt(faults=Faults(get_too_big_above=15))
    result = got(session)
    assert len(result.values) == 120 and result.failed == {}
    assert sizes(session)[:3] == [50, 25, 13]
    assert result.batch_size in (14, 15) and max(sizes(session)[4:]) <= 19 and len(session.requests) < 16
    alone = got(olt(faults=Faults(get_too_big_above=0)), OIDS[:2])
    assert alone.failed == dict.fromkeys(OIDS[:2], ErrorKind.TOO_BIG), "one that is too big by itself fails alone"


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


def test_an_olt_that_dies_midway_keeps_what_it_said_and_one_that_stalls_on_all_data_is_left_alone():
    died, stalls = got(olt(faults=Faults(dies_after=1))), got(olt(faults=Faults(guilty=frozenset(OIDS))))
    assert (died.dead, len(died.values), len(died.failed), died.timeouts) == (True, 50, 70, 2)
    assert (stalls.dead, stalls.error_kind, len(stalls.failed)) == (False, ErrorKind.TIMEOUT, 120)
    assert stalls.timeouts == MAX_TIMEOUTS, "though it answers its probe"


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
    clock = Ticking(10.0)
    result = got(olt(on_request=clock.tick), deadline=15.0, clock=clock)
    assert len(result.values) == 100 and result.error_kind is ErrorKind.TIME_LIMIT
    assert set(result.failed) == set(OIDS[100:]) and "100 of 120" in result.message


def test_a_fault_that_is_not_of_one_instance_stops_the_run():
    result = got(FakeSession(on_request=failing(SnmpUnreachable("no route"))))
    assert result.error_kind is ErrorKind.UNREACHABLE
    assert result.pdus == 0, "nothing was sent, so nothing was answered"


def test_an_exact_session_that_cannot_be_had_stops_the_run_and_keeps_what_was_read():
    class Homeless(FakeSession):
        @property
        def exact(self):
            raise SnmpLocalFault("the name server does not answer")

    session = Homeless(dict.fromkeys(OIDS[:119], 1), vague=True)
    result = got(session)
    assert result.error_kind is ErrorKind.INTERNAL and len(result.values) == 119


def test_a_bad_oid_fails_alone_and_is_never_sent():
    session = olt()
    result = got(session, ["nonsense", OIDS[0]])
    assert result.failed == {"nonsense": ErrorKind.BAD_OID} and OIDS[0] in result.values
    assert session.requests[0].oids == (OIDS[0],)


def test_the_checkpoint_comes_before_every_request_even_the_probe():
    session = olt(faults=Faults(dead=True))
    lease = Lease(session, lost_at=2)
    with pytest.raises(Gone):
        got(session, checkpoint=lease)
    assert lease.seen == [0, 1] and len(session.requests) == 1


def test_the_second_run_begins_with_the_size_that_the_first_has_found():
    first = got(olt(faults=Faults(get_too_big_above=20)), roots=[COLUMN])
    known = learn(None, first.sizes, NOW)
    assert len(first.values) == 120
    session = olt(faults=Faults(get_too_big_above=20))
    second = got(session, roots=[COLUMN], sizes={(GET, TABLE): known.known(NOW)})
    assert len(second.values) == 120 and max(sizes(session)) <= 20
    assert second.pdus == -(-120 // known.size)


def test_a_day_later_one_request_finds_out_whether_more_works_by_now():
    known = {(GET, TABLE): KnownSize(20, too_big=22, retry=True)}
    still = olt(faults=Faults(get_too_big_above=20))
    result = got(still, roots=[COLUMN], sizes=known)
    assert len(result.values) == 120 and sum(size > 20 for size in sizes(still)) == 1
    mended = olt()
    got(mended, roots=[COLUMN], sizes=known)
    assert sizes(mended) == [20, 22, 44, 34]


def test_what_one_column_taught_counts_for_its_siblings():
    session = olt(faults=Faults(get_too_big_above=20))
    sibling = "1.3.6.1.4.1.5.2"
    result = got(session, [*OIDS[:60], *[f"{sibling}.1.{onu}" for onu in range(60)]], roots=[COLUMN, sibling])
    assert len(result.values) == 120 and {one.table for one in result.sizes} == {TABLE}
    assert sum(size > 20 for size in sizes(session)) <= 3


def test_scalars_of_different_tables_share_a_request():
    session = FakeSession({f"1.3.6.1.{place}.1.0": place for place in range(10)})
    got(session, list(session.rows), roots=[COLUMN])
    assert sizes(session) == [10]


def test_long_values_are_asked_for_in_small_portions_from_the_second_request_on():
    session = FakeSession(dict.fromkeys(OIDS, b"x" * 400))
    got(session)
    assert sizes(session)[0] == 50 and max(sizes(session)[1:]) * 400 <= LARGEST_OCTETS


def test_octets_are_those_of_names_and_values():
    result = got(FakeSession({f"{COLUMN}.300": b"x" * 10}), [f"{COLUMN}.300"])
    assert result.octets == 8 + 1 + 10 + 6  # 43.6.1.4.1.5.1 and 300 in two octets, the value, three tags and lengths


def test_a_driver_that_hides_why_is_asked_again_exactly_and_all_doubtful_names_share_a_request():
    session = olt(vague=True)
    absent = [f"{COLUMN}.4194304000.{onu}" for onu in (900, 901, 902)]
    result = got(session, [*OIDS[:40], absent[0], *OIDS[40:80], absent[1], *OIDS[80:], absent[2]])
    assert {oid for oid, bind in result.values.items() if bind.type is SnmpType.NO_SUCH_INSTANCE} == set(absent)
    assert sizes(session) == [50, 50, 23, 3] and result.failed == {}


def test_an_error_status_that_a_driver_hides_is_found_by_asking_exactly():
    session = olt(vague=True, faults=Faults(get_too_big_above=20))
    result = got(session)
    assert len(result.values) == 120 and result.failed == {}
    broken = got(olt(vague=True, faults=Faults(generr=frozenset({OIDS[7]}))))
    assert broken.failed == {OIDS[7]: ErrorKind.DEVICE} and len(broken.values) == 119


def test_after_a_time_out_the_next_requests_wait_longer_and_longer():
    waits: list[float] = []
    got(olt(faults=Faults(guilty=frozenset(OIDS))), pause=waits.append)
    assert waits[:5] == [0.05, 0.1, 0.2, 0.4, 0.8] and max(waits) == 1.0


class Crowd:
    """Sessions to one OLT. Requests after the first wait until `together` of them have been under way at once."""

    def __init__(self, together: int) -> None:
        self.together, self.busy, self.first = together, 0, True
        self.met = threading.Event()
        self.lock = threading.Lock()
        self.opened: list[FakeSession] = []
        self.threads: set[int] = set()

    def open(self) -> FakeSession:
        session = FakeSession(ROWS | {PROBE_OID: 1}, on_request=self._meet)
        self.opened.append(session)
        return session

    def _meet(self, request) -> None:
        self.threads.add(threading.get_ident())
        if self.first:
            self.first = False
            return
        with self.lock:
            self.busy += 1
            if self.busy >= self.together:
                self.met.set()
        assert self.met.wait(10)
        with self.lock:
            self.busy -= 1


def test_two_requests_are_under_way_at_once_each_in_its_own_session():
    crowd = Crowd(together=2)
    result = got(crowd.open(), OIDS[:90], max_varbinds=10, max_inflight=2, open_more=crowd.open)
    assert len(result.values) == 90 and result.pdus == 9 and len(crowd.opened) == len(crowd.threads) == 2
    assert [session.closed for session in crowd.opened] == [False, True]
    assert sum(len(session.requests) for session in crowd.opened) == 9


def test_no_further_session_is_opened_for_what_one_request_can_read_nor_before_an_answer():
    crowd = Crowd(together=1)
    got(crowd.open(), OIDS[:50], max_inflight=4, open_more=crowd.open)
    assert len(crowd.opened) == 1
    dead = olt(faults=Faults(dead=True))
    got(dead, max_inflight=4, open_more=crowd.open)
    assert len(crowd.opened) == 1 and len(dead.requests) == 2


def test_sessions_that_must_not_be_used_at_once_are_not():
    crowd = Crowd(together=1)
    got(olt(parallel=False), max_varbinds=10, max_inflight=4, open_more=crowd.open)
    assert crowd.opened == []


def test_a_lease_that_is_lost_in_one_thread_ends_the_work_of_all_and_is_raised_to_the_caller():
    crowd = Crowd(together=1)
    session = crowd.open()
    with pytest.raises(Gone):
        got(session, max_varbinds=2, max_inflight=3, open_more=crowd.open, checkpoint=Lease(session, lost_at=4))
    assert sum(len(session.requests) for session in crowd.opened) == 3
    assert all(session.closed for session in crowd.opened[1:])


def test_a_helper_that_gets_no_session_leaves_the_work_to_the_others():
    def refused():
        raise SnmpUnreachable("no socket")

    assert len(got(olt(), max_varbinds=10, max_inflight=3, open_more=refused).values) == 120


def test_a_fault_of_our_own_code_in_a_helper_is_not_lost():
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        got(olt(), max_varbinds=1, max_inflight=2, open_more=broken)
