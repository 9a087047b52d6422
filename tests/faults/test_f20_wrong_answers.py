"""F20: OLTs whose answers are garbage, cut, late, doubled, huge, of a wrong type or without end; a good one beside."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from jobs.drivers import open_session
from jobs.snmp.errors import SnmpError
from portal.domain.composite import SnmpTarget
from portal.domain.statuses import TERMINAL, AttemptStatus, ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import run_requests
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, OnuData
from testing.cast import ACTOR
from testing.live import Live
from tests.faults.conftest import Polled
from tests.faults.rogue_olt import DESCRIPTION, LATE_SECONDS, MANNERS, ONUS, STATE, rogue_olts

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(360)]

TIMEOUT = 1.0
STEP_SECONDS = 2  # time limit of a step
SLACK = 8.0  # seconds that a loaded machine may take on top, forks and commits included
GOOD = 1  # id of the OLT that answers well
MUTATIONS = 300
POLLERS = 3
AT_ONCE = 5  # rogues that wait or are read at a time

SUCCESS, FAILED = ExecutionStatus.SUCCESS, ExecutionStatus.FAILED
DISCARDED = (FAILED, ErrorKind.TIMEOUT)  # what answers another request counts as no answer
NONSENSE = (FAILED, ErrorKind.DEVICE)
UNREADABLE = (FAILED, ErrorKind.DEVICE)  # what the library cannot read is an answer all the same
READ = (SUCCESS, None)
EXPECTED = {
    "report": (FAILED, ErrorKind.AUTH),
    "other_names": (FAILED, ErrorKind.NOT_INCREASING),
    "the_same_name_for_ever": (FAILED, ErrorKind.NOT_INCREASING),
    "names_in_a_circle": (FAILED, ErrorKind.NOT_INCREASING),
    "names_without_end": (FAILED, ErrorKind.TIME_LIMIT),
    # Its probe is answered, so the guilty instance is looked for, as long as the step may take.
    "garbage_after_a_good_discovery": (FAILED, ErrorKind.TIME_LIMIT),
    **dict.fromkeys(
        ("request_sent_back", "trap", "error_status_99", "error_status_negative", "no_varbinds",
         "name_without_numbers"),
        NONSENSE,
    ),
    **dict.fromkeys(
        ("garbage", "empty_datagram", "truncated", "other_version", "nested_without_end", "length_of_4_gigabytes",
         "value_longer_than_the_message", "unknown_type", "opaque_cut_short", "integer_of_no_octets",
         "integer_of_9_octets", "counter_of_20_octets", "address_of_3_octets", "address_of_60_octets",
         "name_of_200_numbers", "name_of_2000_numbers", "name_that_never_ends", "value_that_is_a_name_of_200_numbers"),
        UNREADABLE,
    ),
    **dict.fromkeys(
        ("other_community", "late_with_other_values", "duplicated", "junk_up_to_64_kib", "octets_of_60_kb",
         "far_more_rows_than_asked", "text_for_a_number", "number_for_a_text", "null", "opaque", "hostile_text"),
        READ,
    ),
}  # fmt: skip
# A late answer is not taken for that to the repeat, one that comes three times counts once, what came first is kept.
WHOLE = ("late_with_other_values", "duplicated", "garbage_after_a_good_discovery")


@dataclass(frozen=True)
class Ended:
    """What the database says of one OLT's composite."""

    status: ExecutionStatus
    kind: ErrorKind | None
    message: str
    attempts: tuple[AttemptStatus, ...]
    step_seconds: tuple[float, ...]
    onus: int
    texts: tuple[str | None, ...]  # descriptions as stored


@dataclass(frozen=True)
class Outcome:
    """One run with all manners side by side."""

    rogues: dict[str, Ended]
    good: tuple[ExecutionStatus, ...]
    workers_before: tuple[int, ...]
    workers_after: tuple[int, ...]


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    with rogue_olts() as running:
        yield running


@pytest.fixture
def outcome(site: Polled, ports: dict[str, int]) -> Outcome:
    """Each rogue OLT is read once by the real pollers, and the good one over and over meanwhile."""
    with site(microseconds=1_000, pollers=POLLERS, lease_seconds=15) as live:
        ids = {manner: rogue(live, manner, port) for manner, port in ports.items()}
        live.start("pollers")
        live.stack.wait_until(lambda: len(live.workers()) == POLLERS, "all pollers")
        before = tuple(sorted(live.workers()))
        to_do = list(ids.values())
        live.stack.wait_until(lambda: all_read(live, to_do), "every composite's end", 250)
        good = tuple(execution.status for execution in live.executions(GOOD) if execution.status in TERMINAL)
        ended = {manner: what_came_of(master) for manner, master in ids.items()}
        return Outcome(ended, good, before, tuple(sorted(live.workers())))


def rogue(live: Live, manner: str, port: int) -> int:
    """An OLT of that manner with a discovery and a chained GET; id of the master."""
    retries = 1 if manner == "late_with_other_values" else 0
    olt = live.olt(manner, port, max_repetitions=2, timeout=TIMEOUT, retries=retries)
    limits = {"max_retries": 0, "time_limit": f"{STEP_SECONDS}s"}
    master = live.node(olt, "state", "huawei.onu_state", "discovery", **limits)
    live.node(olt, "text", "huawei.onu_description", master_id=master, **limits)
    return master


def all_read(live: Live, to_do: list[int]) -> bool:
    """Asks for the next of the rogues, and for the good one once more as soon as it was read."""
    active = [execution.olt_id for execution in live.executions() if execution.status not in TERMINAL]
    if GOOD not in active:
        run_requests.run_now(GOOD, ACTOR, datetime.now(UTC))
    rogues = len([olt for olt in active if olt != GOOD])
    done = not to_do and not rogues
    for _ in range(min(len(to_do), AT_ONCE - rogues)):
        run_requests.run_now(to_do.pop(0), ACTOR, datetime.now(UTC))
    return done


def what_came_of(master: int) -> Ended:
    execution = db.session.scalars(select(Execution).where(Execution.node_id == master)).one()
    attempts = select(ExecutionAttempt).where(ExecutionAttempt.execution_id == execution.id)
    of_it = ExecutionStep.attempt_id == ExecutionAttempt.id
    took = select(ExecutionStep.duration_ms).join(ExecutionAttempt, of_it)
    took = took.where(ExecutionAttempt.execution_id == execution.id, ExecutionStep.duration_ms.is_not(None))
    texts = select(OnuData.text).where(OnuData.execution_id == execution.id, OnuData.metric == "onu_description")
    return Ended(
        execution.status, execution.error_kind, execution.error_message,
        tuple(attempt.status for attempt in db.session.scalars(attempts)),
        tuple(milliseconds / 1000 for milliseconds in db.session.scalars(took)),
        (execution.result or {}).get("onus_seen", 0),
        tuple(db.session.scalars(texts)),
    )  # fmt: skip


def wrongly_ended(outcome: Outcome) -> dict[str, object]:
    """The rogues whose composite did not end within its bound, with the reason."""
    return {manner: ended for manner, ended in outcome.rogues.items() if not ended_rightly(manner, ended)}


def ended_rightly(manner: str, ended: Ended) -> bool:
    told = bool(ended.message) is (ended.status is FAILED) and ended.kind is not ErrorKind.INTERNAL
    unreadable = EXPECTED.get(manner) is UNREADABLE
    as_expected = manner == "mutated" or (ended.status, ended.kind) == EXPECTED.get(manner, DISCARDED)
    no_horse_lost = len(ended.attempts) == 1 and AttemptStatus.INTERRUPTED not in ended.attempts
    in_time = all(seconds <= STEP_SECONDS + 2 * TIMEOUT + SLACK for seconds in ended.step_seconds)
    return told and as_expected and no_horse_lost and in_time and (not unreadable or "can't be read" in ended.message)


def stored(texts: tuple[str | None, ...], right: Callable[[str], bool]) -> bool:
    """A text for each ONU, and each as it should be."""
    return len(texts) == len(ONUS) and all(text is not None and right(text) for text in texts)


def test_f20_wrong_answers_end_their_composites_with_the_reason_and_harm_neither_poller_nor_the_good_olt(
    outcome: Outcome,
) -> None:
    """One case for each database: a parallel run reads the rogues once, not once in each worker."""
    rogues = outcome.rogues
    assert rogues.keys() == MANNERS.keys() and wrongly_ended(outcome) == {}
    assert outcome.workers_after == outcome.workers_before, "no poller was lost"
    assert len(outcome.good) >= 3 and set(outcome.good) == {SUCCESS}, "the good OLT was read all the while"
    found = {manner: rogues[manner].onus for manner in WHOLE}
    assert found == dict.fromkeys(WHOLE, len(ONUS))
    hostile, long = rogues["hostile_text"].texts, rogues["octets_of_60_kb"].texts
    assert stored(hostile, lambda text: text.startswith("caf") and text.isprintable()), "what pages and databases take"
    assert stored(long, lambda text: 0 < len(text) <= 255), "no more than a column holds"


def test_f20_hundreds_of_mutated_answers_never_crash_the_driver(ports: dict[str, int]) -> None:
    child = multiprocessing.get_context("fork").Process(target=read_mutated, args=(ports["mutated"],))
    child.start()
    child.join(200)
    assert child.exitcode == 0


def read_mutated(port: int) -> None:
    """In a child, which a crash of the library would end. Only errors of our own may come out of a session."""
    names = [".".join(map(str, column + onu)) for column in (STATE, DESCRIPTION) for onu in ONUS]
    columns = [".".join(map(str, column)) for column in (STATE, DESCRIPTION)]
    for number in range(MUTATIONS):
        session = open_session(SnmpTarget("127.0.0.1", port, "2c", "public", timeout=0.03, retries=0))
        try:
            session.get(names) if number % 2 else session.next_rows(columns, 10)
        except SnmpError:
            pass
        finally:
            session.close()
    os._exit(0)


def test_f20_the_late_olt_is_later_than_anybody_waits() -> None:
    assert LATE_SECONDS > TIMEOUT
