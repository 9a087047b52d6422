"""The benches' judges find what they must find: a bench that cannot fail proves nothing."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from testing.builders import make_olt
from testing.cast import TEN
from testing.measuring import chaos_plan, stale_writes
from testing.measuring.chaos_figures import missed
from testing.measuring.judges import Try, account, outside_any_try, overlaps, read_twice, runs, usual_length
from testing.measuring.quantiles import quantile

COMPOSITE = [(1.0, 0, 5001), (1.1, 0, 5001), (1.2, 0, 5001)]


def at(seconds: float) -> datetime:
    return TEN + timedelta(seconds=seconds)


def test_composites_one_after_the_other_do_not_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 0, 5001), (2.0, 0, 5002), (2.1, 0, 5002)]) == 0


def test_two_sockets_taking_turns_at_one_olt_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 0, 5002), (1.2, 0, 5001)]) == 1


def test_sockets_at_different_olts_do_not_overlap() -> None:
    assert overlaps([(1.0, 0, 5001), (1.1, 1, 5002), (1.2, 0, 5001)]) == 0


def test_a_source_port_used_again_minutes_later_is_another_composite() -> None:
    assert overlaps([(1.0, 0, 5001), (50.0, 0, 5002), (100.0, 0, 5001)]) == 0


def test_a_source_port_used_again_after_a_complete_composite_is_another_composite() -> None:
    again = [*COMPOSITE, (2.0, 0, 5002), *((seconds + 2, olt, port) for seconds, olt, port in COMPOSITE)]
    assert overlaps(again, complete=3) == 0
    assert len(runs(again, complete=3)) == 3


def test_an_incomplete_composite_that_comes_back_overlaps_however_many_requests_are_usual() -> None:
    assert overlaps([*COMPOSITE[:2], (2.0, 0, 5002), (3.0, 0, 5001)], complete=3) == 1


def test_the_usual_length_is_that_of_most_composites() -> None:
    assert usual_length([*COMPOSITE, (2.0, 0, 5002), (3.0, 1, 5003), (3.1, 1, 5003), (3.2, 1, 5003)]) == 3
    assert usual_length([]) == 0


def test_a_request_while_by_the_database_nobody_reads_is_seen() -> None:
    tries = [Try(0, 0.9, 1.15), Try(1, 0.9, None)]
    assert outside_any_try(COMPOSITE, [Try(0, 0.9, 1.3)]) == 0
    assert outside_any_try(COMPOSITE, tries) == 0, "clocks of two processes agree to 50 ms only"
    assert outside_any_try([*COMPOSITE, (9.0, 0, 5001), (9.0, 1, 5001)], tries) == 1


def test_a_composite_read_twice_in_one_try_is_seen() -> None:
    second = [(seconds + 1, olt, 5002) for seconds, olt, _ in COMPOSITE]
    found = runs([*COMPOSITE, *second], 3)
    assert read_twice(found, [Try(0, 0.9, 2.5)], 3) == 1
    assert read_twice(found, [Try(0, 0.9, 1.3), Try(0, 1.9, 2.3)], 3) == 0
    assert read_twice(found, [Try(0, 0.9, 1.3)], 3) == 1
    assert read_twice(runs(COMPOSITE[:2], 3), [], 3) == 0, "an interrupted one was not read"


def test_slots_that_ran_or_were_skipped_are_accounted_for() -> None:
    first = {1: at(0), 2: at(5)}
    found = account(first, 10, at(30), ran=[(1, at(0)), (1, at(30)), (2, at(5))],
                    skipped=[(1, at(10), at(20)), (2, at(15), at(95))])  # fmt: skip
    assert (found.due, found.ran, found.skipped) == (7, 3, 4)
    assert (found.lost, found.doubled, found.off_grid) == (0, 0, 0)


def test_a_slot_without_a_fate_is_lost_and_one_with_two_is_doubled() -> None:
    found = account({1: at(0)}, 10, at(30), ran=[(1, at(0)), (1, at(10)), (1, at(13))], skipped=[(1, at(10), at(20))])
    assert (found.lost, found.doubled, found.off_grid) == (1, 1, 1)


def test_slots_after_the_end_do_not_count() -> None:
    assert account({1: at(0)}, 10, at(5), ran=[(1, at(0)), (1, at(10))], skipped=[(1, at(20), at(30))]).lost == 0


def test_quantiles_of_nothing_and_of_something() -> None:
    assert (quantile([], 0.5), quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0, 2.0], 0.99)) == (0.0, 2.0, 2.0)


def test_the_triggers_note_every_stale_write_and_no_right_one(session: Session) -> None:
    make_olt()
    stale_writes.install(session)
    stale_writes.prove(session)
    assert stale_writes.counts(session) == {}


def test_the_proof_of_the_triggers_fails_without_them(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    make_olt()
    monkeypatch.setattr(stale_writes, "WATCHES", stale_writes.WATCHES[:1])
    stale_writes.install(session)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="noted nothing"):
        stale_writes.prove(session)


REACHED = {
    "checkpoints": True, "overlaps": 0, "lost": 0, "twice": 0, "stale_writes": 0, "still_active": 0,
    "doubled_slots": 0, "read_twice": 0, "composites": 100, "recovery_p99_s": 3.0, "killed_worker_max_s": 0.4,
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["overlaps", "lost", "twice", "stale_writes", "still_active", "doubled_slots", "read_twice"]
)
def test_a_chaos_run_misses_its_goal_when_a_count_is_not_zero(name: str) -> None:
    assert missed(REACHED, 100) == []
    assert [text.partition(" ")[0] for text in missed(REACHED | {name: 1}, 100)] == [name]


def test_a_chaos_run_misses_its_goal_when_it_is_slow_or_incomplete() -> None:
    assert len(missed(REACHED | {"recovery_p99_s": 21.0, "killed_worker_max_s": 1.2}, 101)) == 3


def test_the_negative_control_must_find_overlaps() -> None:
    blind = REACHED | {"checkpoints": False}
    assert missed(blind, 100) and not missed(blind | {"overlaps": 2}, 100)


def test_the_faults_of_a_chaos_run_are_as_many_as_asked_for_and_in_order() -> None:
    faults = chaos_plan.schedule(chaos_plan.plan_from(["--kills", "100", "--cuts", "4", "--no-swallow"]))
    kinds = [kind for _, kind in faults]
    assert sum(kind.startswith("kill") and kind.endswith(("worker", "horse")) for kind in kinds) == 100
    assert (kinds.count("cut_redis"), kinds.count("flush_redis"), kinds.count("outage")) == (4, 1, 0)
    assert faults == sorted(faults) and 0 < faults[0][0] and faults[-1][0] < 1
