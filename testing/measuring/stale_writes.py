"""Triggers in a database that note each write of somebody who had nothing to say any more. Nothing else."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from portal.domain.statuses import AttemptStatus, ExecutionStatus, StepStatus
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, Olt

TABLE = "bench_stale_writes"
ENDED = "('SUCCESS', 'FAILED', 'INTERRUPTED')"


@dataclass(frozen=True)
class _Watch:
    """One kind of stale write. `when` may look at OLD and NEW only; `also` is a subquery on the row's id."""

    what: str
    event: str
    table: str
    when: str
    execution: str = "NEW.id"
    also: str = ""


WATCHES = (
    _Watch(
        "terminal_rewritten", "UPDATE", "executions",
        f"OLD.status IN {ENDED} AND (NEW.status <> OLD.status OR NEW.attempt <> OLD.attempt"
        " OR COALESCE(NEW.token, 0) <> COALESCE(OLD.token, 0))",
    ),
    _Watch(
        "foreign_token", "UPDATE", "executions",
        "OLD.status = 'RUNNING' AND NEW.status IN ('SUCCESS', 'FAILED')"
        " AND COALESCE(NEW.token, 0) <> COALESCE(OLD.token, 0)",
    ),
    _Watch("success_unstarted", "UPDATE", "executions", "OLD.status = 'PENDING' AND NEW.status = 'SUCCESS'"),
    _Watch(
        "try_rewritten", "UPDATE", "execution_attempts", "OLD.status <> 'RUNNING' AND NEW.status <> OLD.status",
        "NEW.execution_id",
    ),
    _Watch(
        "step_of_an_ended_try", "INSERT", "execution_steps", "NEW.attempt_id IS NOT NULL", "NEW.attempt_id",
        "SELECT 1 FROM execution_attempts a JOIN executions e ON e.id = a.execution_id"
        " WHERE a.id = NEW.attempt_id AND (a.status = 'INTERRUPTED' OR e.attempt <> a.number)",
    ),
)  # fmt: skip


def install(session: Session) -> None:
    """Make the table and the triggers, and commit them."""
    postgres = _is_postgres(session)
    session.execute(text(f"CREATE TABLE {TABLE} (what VARCHAR(40), row_id BIGINT, noted VARCHAR(40))"))
    for watch in WATCHES:
        for statement in _postgres(watch) if postgres else _sqlite(watch):
            session.execute(text(statement))
    session.commit()


@contextmanager
def installed(session: Session) -> Iterator[None]:
    """Installed and proven meanwhile: for a database that others use afterwards."""
    install(session)
    try:
        prove(session)
        yield
    finally:
        session.rollback()
        for watch in WATCHES:
            drop = f"DROP FUNCTION bench_{watch.what} CASCADE"  # with its trigger
            session.execute(text(drop if _is_postgres(session) else f"DROP TRIGGER bench_{watch.what}"))
        session.execute(text(f"DROP TABLE {TABLE}"))
        session.commit()


def _is_postgres(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"


def _note(watch: _Watch) -> str:
    where = f"WHERE EXISTS ({watch.also})" if watch.also else ""
    row = f"SELECT '{watch.what}', {watch.execution}, CURRENT_TIMESTAMP"
    return f"INSERT INTO {TABLE} (what, row_id, noted) {row} {where};"  # noqa: S608  (our own words)


def _sqlite(watch: _Watch) -> list[str]:
    return [
        f"CREATE TRIGGER bench_{watch.what} AFTER {watch.event} ON {watch.table} FOR EACH ROW WHEN {watch.when}"
        f" BEGIN {_note(watch)} END"
    ]


def _postgres(watch: _Watch) -> list[str]:
    name = f"bench_{watch.what}"
    body = f"BEGIN {_note(watch)} RETURN NULL; END"
    return [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
        f"CREATE TRIGGER {name} AFTER {watch.event} ON {watch.table} FOR EACH ROW WHEN ({watch.when})"
        f" EXECUTE FUNCTION {name}()",
    ]


def counts(session: Session) -> dict[str, int]:
    """Stale writes by kind; empty when there were none."""
    rows = session.execute(text(f"SELECT what, COUNT(*) FROM {TABLE} GROUP BY what"))  # noqa: S608  (our own name)
    return {what: count for what, count in rows}


def prove(session: Session) -> None:
    """Provoke each kind once in a transaction that is rolled back; AssertionError when a trigger says nothing.

    The right way through the same statuses must say nothing.
    """
    try:
        execution, attempt = _run_to_the_end(session)
        if counts(session):
            raise AssertionError(f"the triggers note what is right: {counts(session)}")
        _provoke(session, execution, attempt)
        missing = {watch.what for watch in WATCHES} - Counter(counts(session)).keys()
        if missing:
            raise AssertionError(f"these triggers noted nothing: {sorted(missing)}")
    finally:
        session.rollback()


def _run_to_the_end(session: Session) -> tuple[Execution, ExecutionAttempt]:
    now = datetime(2000, 1, 1, tzinfo=UTC)
    olt = session.query(Olt).first()
    assert olt is not None  # an inventory was loaded before
    execution = Execution(olt_id=olt.id, node_name="proof", device_key="proof", priority=1, scheduled_for=now)
    session.add(execution)
    session.flush()
    _set(session, execution, status=ExecutionStatus.RUNNING, token=1, attempt=1)
    attempt = ExecutionAttempt(execution_id=execution.id, number=1, worker="proof", token=1, started_at=now)
    session.add(attempt)
    session.flush()
    _step(session, attempt, 0)
    attempt.status = AttemptStatus.SUCCESS
    _set(session, execution, status=ExecutionStatus.SUCCESS)
    return execution, attempt


def _provoke(session: Session, execution: Execution, attempt: ExecutionAttempt) -> None:
    _set(session, execution, status=ExecutionStatus.RUNNING, token=2)  # an ended one goes on
    _set(session, execution, status=ExecutionStatus.FAILED, token=1)  # the older holder ends the younger's
    _set(session, execution, status=ExecutionStatus.PENDING)
    _set(session, execution, status=ExecutionStatus.SUCCESS)
    attempt.status = AttemptStatus.INTERRUPTED
    session.flush()
    _step(session, attempt, 1)


def _set(session: Session, execution: Execution, **values: object) -> None:
    session.flush()
    session.execute(update(Execution).where(Execution.id == execution.id).values(values))


def _step(session: Session, attempt: ExecutionAttempt, position: int) -> None:
    step = ExecutionStep(attempt_id=attempt.id, position=position, node_key="proof", status=StepStatus.SUCCESS)
    session.add(step)
    session.flush()
