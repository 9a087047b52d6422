"""An OLT that lacks what its model has is asked by itself what it is, where others have its sysObjectID."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs import tasks
from portal import clock, queueing
from portal.domain.composite import CompositeResult, StepResult
from portal.domain.statuses import ErrorKind, StepStatus
from portal.services.cataloguing import catalogue, recognition
from portal.services.trying import probes
from portal.tables import Olt, OltDevice, Probe
from testing.builders import make_olt
from testing.cast import NOW

C320, MA5608T = "1.3.6.1.4.1.3902.1082.1001.320.2.1", "1.3.6.1.4.1.2011.2.248"


@pytest.fixture
def olt(session: Session, monkeypatch: pytest.MonkeyPatch) -> Olt:
    catalogue.sync(catalogue.load_shipped(), NOW)
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_, **__: None)
    found = make_olt(brand="zte", model="C320")
    session.add(OltDevice(olt_id=found.id, object_id=C320, witnesses={}))
    session.commit()
    return found


def ended(kind: ErrorKind | None) -> CompositeResult:
    status = StepStatus.FAILED if kind else StepStatus.SUCCESS
    return CompositeResult((StepResult(1, status, error_kind=kind),))


def asked(session: Session) -> list[tuple[int | None, str, str]]:
    session.rollback()
    return [(row.olt_id, row.address, row.requested_by) for row in session.scalars(select(Probe))]


def test_a_column_that_is_not_there_has_the_olt_tested_once_a_day(session: Session, olt: Olt) -> None:
    for _ in range(2):
        tasks.ask_what_it_is(olt.id, ended(ErrorKind.NO_SUCH_OBJECT))
    assert asked(session) == [(olt.id, olt.address, probes.PROVER)]
    later = clock.now() + probes.PROOF_HOLDS + timedelta(seconds=1)
    assert probes.prove(olt.id, later) is not None
    assert len(asked(session)) == 2


@pytest.mark.parametrize("kind", [None, ErrorKind.TIMEOUT, ErrorKind.INCOMPLETE])
def test_other_ends_have_nothing_tested(session: Session, olt: Olt, kind: ErrorKind | None) -> None:
    tasks.ask_what_it_is(olt.id, ended(kind))
    assert asked(session) == []


def test_an_identity_that_nobody_shares_needs_no_test(session: Session, olt: Olt) -> None:
    session.get_one(OltDevice, olt.id).object_id = MA5608T
    session.commit()
    tasks.ask_what_it_is(olt.id, ended(ErrorKind.NO_SUCH_OBJECT))
    assert asked(session) == []


def test_which_identities_are_shared_is_what_the_catalogue_says(session: Session, olt: Olt) -> None:
    shared = {"2011.2.123": False, "17409": True, "3902.1082.1001.320.2.1": True, "4413": False, "9": False}
    assert {key: recognition.is_shared(session, f"1.3.6.1.4.1.{key}") for key in shared} == shared


def test_a_test_that_cannot_be_asked_for_costs_no_composite(
    session: Session, olt: Olt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(probes, "prove", broken)
    tasks.ask_what_it_is(olt.id, ended(ErrorKind.NO_SUCH_OBJECT))
