"""Sessions around the drivers: the fake one that unit tests stand on, and the one that repeats silent requests."""

import threading

import pytest

from jobs.claim import LeaseLost
from jobs.poller import run
from jobs.snmp.errors import SnmpBadOid, SnmpEngineRestarted, SnmpNoSuchObject, SnmpTimeout, SnmpTooBig, SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults, Request, fake_factory
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import SnmpType, VarBind, checked_oid
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.readings import ValueSpec
from portal.domain.statuses import NodeKind
from testing.fake_olts import Lease

COLUMN = "1.3.6.1.4.1.9.1"
ROWS = {f"{COLUMN}.2": b"two", f"{COLUMN}.10": b"ten", f"{COLUMN}.9": 9}


def test_get_tells_an_absent_instance_from_an_absent_object():
    session = FakeSession(ROWS, columns=[COLUMN])
    types = [bind.type for bind in session.get([f"{COLUMN}.2", f"{COLUMN}.3", "1.3.6.1.4.1.8.1.0"])]
    assert types == [SnmpType.OCTETS, SnmpType.NO_SUCH_INSTANCE, SnmpType.NO_SUCH_OBJECT]


def test_rows_come_in_numeric_order_and_interleaved_by_column():
    session = FakeSession({**ROWS, "1.3.6.1.4.1.9.2.1": 1})
    oids = [bind.oid for bind in session.next_rows([COLUMN, "1.3.6.1.4.1.9.2"], 3)]
    assert oids[0::2] == [f"{COLUMN}.2", f"{COLUMN}.9", f"{COLUMN}.10"]
    assert oids[1] == "1.3.6.1.4.1.9.2.1"


def test_the_end_of_everything_is_marked_and_names_the_oid_asked_for():
    assert FakeSession(ROWS).next_rows([f"{COLUMN}.10"], 1) == [VarBind(f"{COLUMN}.10", SnmpType.END_OF_MIB_VIEW)]


def test_every_request_is_recorded_even_one_without_an_answer():
    session = FakeSession(ROWS, faults=Faults(time_out_on=frozenset({2})))
    session.get([f"{COLUMN}.2"])
    with pytest.raises(SnmpTimeout):
        session.next_rows([COLUMN], 5)
    assert session.requests == [Request("get", (f"{COLUMN}.2",)), Request("next", (COLUMN,), 5)]


def test_a_closed_session_refuses_to_be_used():
    session = FakeSession(ROWS)
    session.close()
    with pytest.raises(RuntimeError):
        session.get([f"{COLUMN}.2"])


def test_version_1_refuses_a_whole_get_for_one_missing_name():
    session = FakeSession(ROWS, columns=[COLUMN], v1=True)
    with pytest.raises(SnmpNoSuchObject):
        session.get([f"{COLUMN}.2", f"{COLUMN}.3"])
    assert session.get([f"{COLUMN}.3"])[0].type is SnmpType.NO_SUCH_OBJECT


def test_scripted_faults_strike_where_they_are_told_to():
    session = FakeSession(ROWS, faults=Faults(get_too_big_above=1, guilty=frozenset({f"{COLUMN}.9"}), dies_after=3))
    with pytest.raises(SnmpTooBig):
        session.get([f"{COLUMN}.2", f"{COLUMN}.10"])
    with pytest.raises(SnmpTimeout):
        session.get([f"{COLUMN}.9"])
    session.get([f"{COLUMN}.2"])
    with pytest.raises(SnmpTimeout):
        session.get([f"{COLUMN}.2"])


def test_the_factory_hands_out_the_session_or_fails_as_told_and_keeps_the_targets():
    session, targets = FakeSession(), []
    assert fake_factory(session, targets)(TARGET) is session
    assert targets == [TARGET]
    with pytest.raises(SnmpUnreachable):
        fake_factory(SnmpUnreachable("no route"))(TARGET)


@pytest.mark.parametrize("text", ["", "1", "garbage", "1..3", "1.3.", "1.3.6;7", "3.1.1", "1.40.1", "1.3.4294967296"])
def test_what_is_no_oid_is_refused_before_anything_is_sent(text):
    with pytest.raises(SnmpBadOid):
        checked_oid(text)
    with pytest.raises(SnmpBadOid):
        FakeSession(ROWS).get([text])


def test_an_oid_that_can_be_sent_is_left_as_it_is_or_brought_to_one_form():
    oids = [f"1.3.6.{arc}" for arc in ("0", "4194304000", "4294967295", "999999999", "3999999999")]
    assert [checked_oid(oid) for oid in oids] == oids
    assert checked_oid(".1.3.06.1") == "1.3.6.1"


def test_an_oid_of_more_than_128_numbers_is_refused():
    assert checked_oid("1.3" + ".5" * 126)
    with pytest.raises(SnmpBadOid):
        checked_oid("1.3" + ".5" * 127)


NAME = "1.3.6.1.2.1.1.5.0"
TARGET = SnmpTarget("192.0.2.7", 161, "2c", community="s3cret", retries=2)


class Asked:
    """An OLT behind a patient session, whose checkpoints count, and fail from the given call on."""

    def __init__(self, olt: FakeSession, fails_at: int = 0) -> None:
        self.olt, self.calls, self.fails_at = olt, 0, fails_at
        self.session = PatientSession(lambda _target: olt, TARGET, self.checkpoint)

    def checkpoint(self) -> None:
        self.calls += 1
        if self.fails_at and self.calls >= self.fails_at:
            raise LeaseLost("gone")

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests, checkpoints, repeats."""
        return len(self.olt.requests), self.calls, self.session.repeats


def test_the_session_underneath_is_told_to_send_once():
    opened = []
    PatientSession(lambda target: opened.append(target) or FakeSession(), TARGET, lambda: None)
    assert [target.retries for target in opened] == [0]


@pytest.mark.parametrize(
    ("silent", "counts"),
    [((), (1, 0, 0)), ((1, 2), (3, 2, 2))],
    ids=["an answer asks for no further checkpoint", "silence is asked again and the answer to a repeat counts"],
)
def test_a_request_is_sent_until_it_is_answered(silent, counts):
    asked = Asked(FakeSession({NAME: b"OLT-LIMA"}, faults=Faults(time_out_on=frozenset(silent))))
    assert asked.session.get([NAME])[0].value == b"OLT-LIMA"
    assert asked.counts == counts


def test_a_dead_olt_is_asked_once_and_retries_times_more():
    asked = Asked(FakeSession(faults=Faults(dead=True)))
    with pytest.raises(SnmpTimeout, match="3 tries"):
        asked.session.next_rows([NAME], 10)
    assert len(asked.olt.requests) == 3


def test_a_checkpoint_is_passed_by_one_thread_at_a_time():
    inside, leave = threading.Event(), threading.Event()
    passed: list[str] = []

    def checkpoint() -> None:
        if not inside.is_set():
            inside.set()
            assert leave.wait(10)
        passed.append(threading.current_thread().name)

    guarded = PatientSession.one_at_a_time(checkpoint)
    first, second = threading.Thread(target=guarded, name="first"), threading.Thread(target=guarded, name="second")
    first.start()
    assert inside.wait(10)
    second.start()
    second.join(0.2)  # it cannot end; were it not held up, it would have by now
    leave.set()
    first.join(10)
    second.join(10)
    assert passed == ["first", "second"]


def test_a_restarted_engine_is_asked_once_more_and_the_repeat_passes_the_checkpoint():
    def restart(_request) -> None:
        if len(olt.requests) == 1:
            raise SnmpEngineRestarted("not in time window")

    olt = FakeSession({NAME: b"OLT-LIMA"}, on_request=restart)
    asked = Asked(olt)
    assert asked.session.get([NAME])[0].value == b"OLT-LIMA"
    assert asked.counts == (2, 1, 1)


def test_the_exact_session_is_as_patient_and_its_repeats_are_counted_with_the_others():
    asked = Asked(FakeSession({NAME: b"OLT-LIMA"}, vague=True, faults=Faults(time_out_on={1})))
    session = asked.session
    assert session.exact.get([NAME])[0].value == b"OLT-LIMA"
    assert asked.calls == session.repeats == 1
    session.repeats = 0
    assert session.repeats == 0 and session.exact is session.exact is session.exact.exact


def test_nothing_more_is_sent_once_the_lease_is_gone():
    asked = Asked(FakeSession(faults=Faults(dead=True)), fails_at=1)
    with pytest.raises(LeaseLost):
        asked.session.get([NAME])
    assert len(asked.olt.requests) == 1


def test_every_datagram_of_a_composite_has_its_checkpoint_and_is_counted():
    olt = FakeSession({NAME: b"OLT-LIMA"}, faults=Faults(time_out_on=frozenset({1})))
    step = StepWork(1, "name", NodeKind.GET, (ReadingSpec("name", NAME, ValueSpec("text"), scalar=True),))
    lease = Lease(olt)
    result = run(CompositeWork(1, 1, 1, TARGET, (step,)), lambda _target: olt, lease, lambda: None, lambda: 0.0)
    assert result.succeeded
    assert result.steps[0].pdus == len(olt.requests) == 2 and result.steps[0].timeouts == 1
    assert len(lease.seen) == len(olt.requests) + 1  # one before the session was opened
