"""Days of trouble on the virtual clock: every slot in one state, the trackers true, and every gap explained truly."""

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from portal.domain import schedule
from portal.domain.explain import explain
from portal.domain.statuses import TERMINAL, ExecutionStatus, LossCause, OltState, SkipReason
from scheduler.timemachine.book import Book
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import Havoc, scenario
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.recall import Recall
from scheduler.timemachine.witness import Witness
from testing.cast import DAY, TEN
from testing.virtual import cron_in, many_olts

GAPS = 1000

pytestmark = pytest.mark.timeout(240)


def lived(seed: int, length: timedelta, havoc: Havoc, **more: Any) -> Machine:
    """A world with its trouble, lived for so long."""
    next_cron = cron_in("America/Santiago")
    world = many_olts(TEN, seed, next_cron, **more)
    events = scenario(world, TEN, TEN + length, seed, havoc)
    machine = Machine(world, TEN, next_cron=next_cron, fortune=Fortune(seed, drift=0.4), history=events, keep_all=True)
    machine.run(TEN + length)
    return machine


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "pollers"), [(1, 12), (2, 2), (3, 5)])
def test_in_a_day_of_trouble_every_slot_is_in_one_state_and_the_trackers_are_true(seed: int, pollers: int) -> None:
    machine = lived(seed, DAY, Havoc(edits=120, restarts=12), pollers=pollers)
    assert machine.wrong_slots() == []
    assert machine.audit() == []
    assert machine.state.figures.composites > 12_000
    statuses = {run.status for runs in machine.history().runs.values() for run in runs}
    assert statuses >= {ExecutionStatus.SUCCESS, ExecutionStatus.FAILED}
    reasons = {*machine.state.figures.skipped}
    assert reasons >= {SkipReason.SCHEDULER_DOWN, SkipReason.OLT_UNREACHABLE, SkipReason.OLT_BUSY}


def test_explain_answers_a_thousand_random_gaps_with_the_true_cause() -> None:
    machine, chance = lived(7, DAY / 3, Havoc(300, 90, 150, 150, 12), olts=30, pollers=3), Random(7)
    book = machine.history()
    witness, recall = Witness(machine.state, book), Recall(machine.state, book)
    nodes = {name[0]: run.node for name, runs in book.runs.items() for run in runs}
    nodes |= {skip.node.node_id: skip.node for skip in book.skips}
    wrong: list[Any] = []
    kinds: Counter[LossCause | None] = Counter()
    for ident, slot in chance.sample(gaps(book), GAPS):
        answer, truth = explain(recall.facts(nodes[ident], slot)), witness.causes(ident, slot)
        kinds[answer.cause] += 1
        if answer.slot != slot or answer.cause not in truth:
            wrong.append((ident, slot, answer, truth))
    assert wrong == []
    assert len(kinds) >= 8 and kinds[LossCause.UNKNOWN] == 0


def gaps(book: Book) -> list[tuple[int, datetime]]:
    """Every slot that was skipped, or whose execution ended without success."""
    failed = [
        name for name, runs in book.runs.items()
        if any(run.status in TERMINAL and run.status is not ExecutionStatus.SUCCESS for run in runs)
    ]  # fmt: skip
    return sorted({*failed, *(name for name, skips in book.skipped.items() if skips)})


def test_every_gap_has_a_true_cause_and_slots_that_are_skipped_for_none_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_cause() -> list[tuple[int, datetime]]:
        machine = lived(5, DAY / 12, Havoc(300, 90, 150, 150, 24), olts=20, pollers=3)
        book = machine.history()
        witness = Witness(machine.state, book)
        return [name for name in gaps(book) if not witness.causes(*name)]

    assert without_cause() == []
    truly = schedule.blocked

    def lying(state: OltState, until: datetime | None, now: datetime) -> SkipReason | None:
        return truly(state, until, now) or (SkipReason.OLT_PAUSED if now.minute % 10 == 7 else None)

    monkeypatch.setattr(schedule, "blocked", lying)
    assert len(without_cause()) > 20
