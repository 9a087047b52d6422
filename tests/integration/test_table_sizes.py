"""Learned message sizes on both databases: what the next run is told, what is kept as evidence, whose they are."""

from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.table_sizes import GET, KEPT_EVIDENCE, WALK, KnownSize, SizeEvidence, SizeOutcome
from portal.extensions import transaction
from portal.models.table_size import TableSize
from portal.services.collecting import table_sizes
from testing.builders import make_catalogue, make_olt

TABLE, OTHER = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1", "1.3.6.1.4.1.2011.6.128.1.1.2.51.1"
FOUND = (
    SizeEvidence(GET, TABLE, 50, SizeOutcome.TOO_BIG),
    SizeEvidence(GET, TABLE, 25, SizeOutcome.TOO_BIG),
    SizeEvidence(GET, TABLE, 20, SizeOutcome.ANSWERED),
)


def olts() -> tuple[int, int]:
    make_catalogue()
    return make_olt("OLT-LIMA").id, make_olt("OLT-CUSCO", address="127.0.0.2").id


def store(olt: int, *evidence: SizeEvidence, at: datetime) -> None:
    with transaction() as session:
        table_sizes.store(session, olt, evidence, at)


def test_the_next_run_is_told_what_was_found_and_a_day_later_to_try_more(session: Session, now: datetime) -> None:
    lima, cusco = olts()
    store(lima, *FOUND, SizeEvidence(WALK, TABLE, 100, SizeOutcome.ANSWERED), at=now)
    assert table_sizes.load(session, lima, now) == {
        (GET, TABLE): KnownSize(20, too_big=25),
        (WALK, TABLE): KnownSize(100),
    }
    later = table_sizes.load(session, lima, now + timedelta(days=1))
    assert later[GET, TABLE] == KnownSize(20, too_big=25, retry=True)
    assert table_sizes.load(session, cusco, now) == {}


def test_evidence_says_which_sizes_were_tried_what_came_of_them_and_when(session: Session, now: datetime) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=now)
    row = session.scalars(select(TableSize)).one()
    assert [(size, outcome) for size, outcome, _ in row.evidence] == [
        (50, "too_big"), (25, "too_big"), (20, "answered"),
    ]  # fmt: skip
    assert {datetime.fromisoformat(at) for *_, at in row.evidence} == {now} and row.learned_at == now
    for day in range(1, 12):
        store(lima, *FOUND, at=now + timedelta(days=day))
    session.expire_all()
    assert len(row.evidence) == KEPT_EVIDENCE


def test_a_run_that_only_confirms_what_is_known_writes_nothing(session: Session, now: datetime) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=now)
    store(lima, SizeEvidence(GET, TABLE, 20, SizeOutcome.ANSWERED), at=now + timedelta(hours=1))
    store(lima, at=now + timedelta(hours=2))
    assert session.scalars(select(TableSize)).one().learned_at == now
    store(lima, SizeEvidence(GET, OTHER, 50, SizeOutcome.ANSWERED), at=now + timedelta(hours=3))
    assert session.scalar(select(func.count()).select_from(TableSize)) == 2


def test_a_size_that_works_again_is_used_again(session: Session, now: datetime) -> None:
    lima, _ = olts()
    store(lima, *FOUND, at=now)
    store(lima, SizeEvidence(GET, TABLE, 50, SizeOutcome.ANSWERED), at=now + timedelta(days=1))
    assert table_sizes.load(session, lima, now + timedelta(days=1)) == {(GET, TABLE): KnownSize(50)}
