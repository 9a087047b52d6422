"""How much is asked for in one request, how that is learned, and how long what was learned holds."""

from datetime import timedelta

import pytest

from jobs.snmp.session import SnmpType, VarBind
from jobs.snmp.sizes import FIRST_OCTETS, GOOD_RUN, LARGEST_OCTETS, MessageSize, name_octets, octets_of, value_octets
from portal.domain import table_sizes
from portal.domain.table_sizes import GET, KnownSize, LearnedSize, SizeEvidence, SizeOutcome, learn
from testing.cast import NOW
from testing.tables import differing

TABLE = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1"


def talk(size: MessageSize, fits: int, values: int, octets: int = 30) -> list[int]:
    """What is asked for, request by request, of a device whose answers hold `fits` values."""
    asked = []
    while values > 0:
        asked.append(min(size.current, values))
        if asked[-1] > fits:
            size.refused(asked[-1])
        else:
            size.answered(asked[-1], octets)
            values -= asked[-1]
    return asked


def seen(size: int, outcome: SizeOutcome) -> SizeEvidence:
    return SizeEvidence(GET, TABLE, size, outcome)


def test_the_first_request_aims_at_one_frame_and_the_next_ones_grow():
    assert talk(MessageSize(100, 44), fits=1000, values=300) == [FIRST_OCTETS // 44, 62, 100, 100, 7]


def test_no_answer_is_asked_to_hold_more_than_the_largest_datagram():
    size = MessageSize(500, 44)
    talk(size, fits=1000, values=2000, octets=100)
    assert size.current == LARGEST_OCTETS // 100


@pytest.mark.parametrize("fits", range(1, 50))
def test_a_size_that_fits_is_found_whatever_it_is_and_few_requests_are_wasted(fits):
    size = MessageSize(50, 20)
    asked = talk(size, fits, values=2000)
    assert sum(one > fits for one in asked) <= 7
    assert fits - max(1, fits // 8) <= size.current <= fits
    again = talk(MessageSize(50, 20, learn(None, size.evidence(GET, TABLE), NOW).known(NOW)), fits, values=2000)
    assert max(again) <= fits


def test_a_silence_shrinks_the_request_and_growing_back_takes_a_run_of_answers():
    size = MessageSize(100, 14)
    size.answered(100, 14)
    size.silent(100, 4)
    asked = talk(size, fits=100, values=25 * GOOD_RUN)
    assert asked == [25] * GOOD_RUN
    assert size.current == 25  # 100 itself was silent: nothing above 25 is proven any more


def test_a_silence_that_one_instance_caused_is_forgotten():
    size = MessageSize(50, 20)
    size.answered(50, 20)
    size.silent(50, 5)
    size.answered(10, 20)
    size.innocent()
    assert size.current == 10 and size.too_big is None
    assert [one.outcome for one in size.evidence(GET, TABLE)] == [SizeOutcome.ANSWERED]


def test_a_dead_olt_and_a_small_question_teach_nothing():
    dead, small = MessageSize(50, 20), MessageSize(50, 20)
    dead.silent(50, 5)
    small.answered(3, 20)
    assert dead.evidence(GET, TABLE) == small.evidence(GET, TABLE) == ()


def test_octets_are_counted_as_ber_does():
    assert name_octets("1.3.6.1.4.1.2011.4194304000.0") == 5 + 2 + 5 + 1
    assert [value_octets(value) for value in (0, 127, 128, -128, -129, 2**31 - 1)] == [1, 1, 2, 1, 2, 4]
    assert value_octets(b"abc") == 3 and value_octets(None) == 0 and value_octets("1.3.6") == 2
    assert octets_of(VarBind("1.3.6.1", SnmpType.OCTETS, b"ab")) == 3 + 2 + 6


def test_what_is_known_of_a_size_follows_from_what_was_seen():
    refused = learn(None, [seen(50, SizeOutcome.TOO_BIG), seen(20, SizeOutcome.ANSWERED)], NOW)
    limited, free = LearnedSize(20, NOW, too_big=22, retry_larger_after=NOW), LearnedSize(40, NOW)
    small, shrunk = seen(10, SizeOutcome.ANSWERED), [seen(30, SizeOutcome.TIMEOUT), seen(7, SizeOutcome.ANSWERED)]
    cases = {
        "a refused size is remembered": (refused.known(NOW), KnownSize(20, 50)),
        "for 23 hours": (refused.known(NOW + timedelta(hours=23)), KnownSize(20, 50)),
        "a day later it is tried again": (refused.known(NOW + timedelta(days=1)), KnownSize(20, 50, retry=True)),
        "a larger one that works again lifts the limit": (
            learn(limited, [seen(50, SizeOutcome.ANSWERED)], NOW).known(NOW),
            KnownSize(50),
        ),
        "a smaller answer does not make it smaller": (learn(free, [small], NOW).size, 40),
        "but a failure does": (learn(free, shrunk, NOW).size, 7),
        "and so does a refusal": (learn(free, [seen(30, SizeOutcome.TOO_BIG)], NOW).size, 15),
    }
    assert differing(cases) == {}


def test_evidence_is_kept_with_its_moment_and_only_the_last_of_it():
    known = None
    for size in range(1, 40):
        known = learn(known, [seen(size, SizeOutcome.ANSWERED)], NOW + timedelta(minutes=size))
    assert len(known.evidence) == table_sizes.KEPT_EVIDENCE
    assert known.evidence[-1] == (39, SizeOutcome.ANSWERED, NOW + timedelta(minutes=39))


def test_columns_of_one_entry_belong_to_one_table():
    assert table_sizes.table_of(f"{TABLE}.15") == table_sizes.table_of(f"{TABLE}.20") == TABLE
