"""F24: writers killed in the middle of their commits leave nothing half written.

`python -m bench.killed_writers` does it 500 times.
"""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db, transaction
from portal.services.dispatch import executions
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, Olt, OnuData
from testing.cast import NOW
from testing.measuring import commit_audit, committing, killed_writers
from testing.measuring.killed_writers import Plan

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(240)]

KILLS = 24
FOUND = (
    "corrupt", "half_composites", "tokens_not_rising", "half_readings", "half_requests", "slots_lost", "slots_doubled",
    "left_running",
)  # fmt: skip


def test_f24_writers_killed_in_their_commits_leave_no_half_composite(database_url: str, tmp_path: Path) -> None:
    found = killed_writers.run(Plan(kills=KILLS, pollers=3, url=database_url), tmp_path)
    assert {name: found[name] for name in FOUND} == dict.fromkeys(FOUND, 0)
    assert int(str(found["at_commit"])) > KILLS / 8, "the kills missed the commits"
    assert int(str(found["ended"])) > KILLS / 4, "hardly anything was written"


BREAKS = {
    "half_composites": delete(ExecutionStep).where(ExecutionStep.id == 1),
    "half_readings": delete(OnuData).where(OnuData.metric == "power"),
    "tokens_not_rising": update(ExecutionAttempt).values(token=1),
    "left_running": update(Execution).where(Execution.id == 1).values(status=ExecutionStatus.RUNNING),
    "slots_lost": delete(Execution).where(Execution.id == 1),
    "half_requests": update(Execution).values(requested_by="nobody"),
}


def ended_twice(first: datetime) -> dict[int, int]:
    """One OLT with two composites that ended well; OLT id → master."""
    masters = committing.fill(1, interval=1, first=first)
    (olt_id, master), = masters.items()  # fmt: skip
    for number in (1, 2):
        with transaction() as session:
            key = session.get_one(Olt, olt_id).device_key
            execution = Execution(node_id=master, node_name="state", olt_id=olt_id, device_key=key, priority=90,
                                  scheduled_for=first + timedelta(seconds=number - 1))  # fmt: skip
            session.add(execution)
            session.flush()
            ident = execution.id
        composed = executions.start(ident, number, "writer", first, first + timedelta(seconds=15))
        assert composed is not None
        executions.finish(ident, number, committing.outcome(composed, number), first + timedelta(seconds=number))
    return masters


@pytest.mark.parametrize("law", BREAKS)
def test_f24_the_audit_sees_what_is_half_written(tmp_path: Path, law: str) -> None:
    first = NOW
    with committing.product(where=tmp_path):
        (master,) = ended_twice(first).values()
        laws = {master: first}, 1, first + timedelta(seconds=1)
        assert not any(commit_audit.audit(*laws).values())
        db.session.execute(BREAKS[law])
        db.session.commit()
        assert commit_audit.audit(*laws)[law] > 0
