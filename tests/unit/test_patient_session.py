"""Repeating a silent request: how often, and never without asking the lease first."""

import threading

import pytest

from jobs.claim import LeaseLost
from jobs.poller import run
from jobs.snmp.errors import SnmpEngineRestarted, SnmpTimeout
from jobs.snmp.fake import FakeSession, Faults
from jobs.snmp.patient import PatientSession
from portal.domain.composite import CompositeWork, ReadingSpec, SnmpTarget, StepWork
from portal.domain.readings import ValueSpec
from portal.domain.statuses import NodeKind
from testing.fake_olts import Lease

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
