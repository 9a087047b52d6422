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

NAME = "1.3.6.1.2.1.1.5.0"
TARGET = SnmpTarget("192.0.2.7", 161, "2c", community="s3cret", retries=2)


class Checkpoints:
    """Counts, and fails from the given call on."""

    def __init__(self, fails_at: int = 0) -> None:
        self.calls = 0
        self.fails_at = fails_at

    def __call__(self) -> None:
        self.calls += 1
        if self.fails_at and self.calls >= self.fails_at:
            raise LeaseLost("gone")


def patient(olt: FakeSession, checkpoints: Checkpoints) -> PatientSession:
    return PatientSession(lambda _target: olt, TARGET, checkpoints)


def test_the_session_underneath_is_told_to_send_once():
    opened = []
    PatientSession(lambda target: opened.append(target) or FakeSession(), TARGET, Checkpoints())
    assert [target.retries for target in opened] == [0]


def test_a_request_that_is_answered_is_sent_once_and_asks_for_no_further_checkpoint():
    olt, checkpoints = FakeSession({NAME: b"OLT-LIMA"}), Checkpoints()
    assert patient(olt, checkpoints).get([NAME])[0].value == b"OLT-LIMA"
    assert len(olt.requests) == 1 and checkpoints.calls == 0


def test_silence_is_asked_again_and_the_answer_to_a_repeat_counts():
    olt, checkpoints = FakeSession({NAME: b"OLT-LIMA"}, faults=Faults(time_out_on=frozenset({1, 2}))), Checkpoints()
    session = patient(olt, checkpoints)
    assert session.get([NAME])[0].value == b"OLT-LIMA"
    assert len(olt.requests) == 3 and checkpoints.calls == session.repeats == 2


def test_a_dead_olt_is_asked_once_and_retries_times_more():
    olt, checkpoints = FakeSession(faults=Faults(dead=True)), Checkpoints()
    with pytest.raises(SnmpTimeout, match="3 tries"):
        patient(olt, checkpoints).next_rows([NAME], 10)
    assert len(olt.requests) == 3


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
    class Restarting(FakeSession):
        def get(self, oids):
            if not self.requests:
                super().get(oids)
                raise SnmpEngineRestarted("not in time window")
            return super().get(oids)

    olt, checkpoints = Restarting({NAME: b"OLT-LIMA"}), Checkpoints()
    session = patient(olt, checkpoints)
    assert session.get([NAME])[0].value == b"OLT-LIMA"
    assert len(olt.requests) == 2 and checkpoints.calls == session.repeats == 1


def test_the_exact_session_is_as_patient_and_its_repeats_are_counted_with_the_others():
    olt, checkpoints = FakeSession({NAME: b"OLT-LIMA"}, vague=True, faults=Faults(time_out_on={1})), Checkpoints()
    session = patient(olt, checkpoints)
    assert session.exact.get([NAME])[0].value == b"OLT-LIMA"
    assert checkpoints.calls == session.repeats == 1
    session.repeats = 0
    assert session.repeats == 0 and session.exact is session.exact is session.exact.exact


def test_nothing_more_is_sent_once_the_lease_is_gone():
    olt = FakeSession(faults=Faults(dead=True))
    with pytest.raises(LeaseLost):
        patient(olt, Checkpoints(fails_at=1)).get([NAME])
    assert len(olt.requests) == 1


def test_every_datagram_of_a_composite_has_its_checkpoint_and_is_counted():
    olt, checkpoints = FakeSession({NAME: b"OLT-LIMA"}, faults=Faults(time_out_on=frozenset({1}))), Checkpoints()
    step = StepWork(1, "name", NodeKind.GET, (ReadingSpec("name", NAME, ValueSpec("text"), scalar=True),))
    work = CompositeWork(1, 1, 1, TARGET, (step,))
    result = run(work, lambda _target: olt, checkpoints, lambda: None, lambda: 0.0)
    assert result.succeeded
    assert result.steps[0].pdus == len(olt.requests) == 2 and result.steps[0].timeouts == 1
    assert checkpoints.calls == len(olt.requests) + 1  # one before the session was opened
