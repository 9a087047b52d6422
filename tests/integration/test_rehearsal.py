"""The rehearsal before the fork, on both databases: it goes the whole way and leaves nothing behind."""

from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from portal.domain.statuses import StepStatus
from portal.extensions import Base, db
from portal.services.dispatch import executions, rehearsal
from tests.integration.test_executions import outcome, slot_taken


def counts(session: Session) -> dict[str, int]:
    session.rollback()
    return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in
            Base.metadata.tables.items()}  # fmt: skip


def test_a_rehearsal_leaves_no_row(session: Session) -> None:
    before = counts(session)
    rehearsal.rehearse()
    assert counts(session) == before


def test_a_rehearsal_can_be_repeated_beside_real_rows(session: Session) -> None:
    slot_taken(session)
    before = counts(session)
    rehearsal.rehearse()
    rehearsal.rehearse()
    assert counts(session) == before


def test_after_a_rehearsal_a_composite_compiles_nothing_new(session: Session) -> None:
    execution = slot_taken(session)
    ident, slot = execution.id, execution.scheduled_for
    rehearsal.rehearse()
    compiled: list[str] = []

    def note(_conn, _cursor, statement, _parameters, context, _many) -> None:  # type: ignore[no-untyped-def]
        if context.compiled is not None and context.cache_hit.name != "CACHE_HIT":
            compiled.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        work = executions.start(ident, 1, "poller-1", slot, slot)
        assert work is not None
        executions.finish(ident, 1, outcome(work, StepStatus.SUCCESS), slot)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    assert compiled == []
