"""Agents that are slow, refuse or ignore one kind of request, or list their rows in an order of their own, over UDP.

What a run learned is kept as the database keeps it, and the next run begins with it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from jobs import poller
from jobs.drivers import DRIVERS
from jobs.snmp.simulator.mib import Oid
from jobs.snmp.simulator.wire import PduType, Request
from portal.domain.composite import CompositeResult, CompositeWork, ReadingSpec, SnmpTarget, StepResult, StepWork
from portal.domain.readings import ValueSpec
from portal.domain.statuses import ErrorKind, NodeKind
from portal.domain.table_sizes import GET, RETRY_LARGER_AFTER, WALK, LearnedSize, SizeEvidence, SizeOutcome, learn
from testing.cast import MINUTE, NOW
from testing.raw_agent import Answer, RawAgent, Spoil, integer, number, raw_agent

pytestmark = pytest.mark.integration

TABLE: Oid = (1, 3, 6, 1, 4, 1, 2011, 6, 128, 1, 1, 2, 46, 1)
STATE, RX = (*TABLE, 15), (*TABLE[:-2], 51, 1, 4)
PORTS = (4194312448, 4194312704)
TIMEOUT = 0.2


def rows(onus: int, ports: int = 1) -> dict[Oid, object]:
    places = [(port, onu) for port in PORTS[:ports] for onu in range(onus)]
    columns = {(*column, *place): number(1) for column in (STATE, RX) for place in places}
    return columns | {(1, 3, 6, 1, 2, 1, 1, 3, 0): number(1), (*RX[:-1], 9, 1): number(1)}


def text(oid: Oid) -> str:
    return ".".join(map(str, oid))


@dataclass
class Olt:
    """An OLT that is read run after run, over one driver, and what was learned of it."""

    agent: RawAgent
    driver: str
    settings: dict[str, object] = field(default_factory=dict)
    learned: dict[tuple[str, str], LearnedSize] = field(default_factory=dict)
    now: datetime = NOW

    def run(self, *kinds: NodeKind, keys: tuple[str, ...] = ()) -> CompositeResult:
        """One composite: a discovery of the states, a GET of powers."""
        self.agent.asked.clear()
        self.now += MINUTE
        columns = {NodeKind.DISCOVERY: ("onu_state", STATE), NodeKind.GET: ("onu_rx_power", RX)}
        steps = tuple(
            StepWork(place, kind.value, kind, (ReadingSpec(columns[kind][0], text(columns[kind][1]), ValueSpec()),))
            for place, kind in enumerate(kinds)
        )
        target = SnmpTarget("127.0.0.1", self.agent.port, "2c", community="public", timeout=TIMEOUT, retries=1)
        sizes = {key: learned.known(self.now) for key, learned in self.learned.items()}
        work = CompositeWork(1, 1, 1, replace(target, **self.settings), steps, onu_keys=keys, sizes=sizes)
        result = poller.run(work, DRIVERS[self.driver], lambda: None, lambda: self.now, time.monotonic)
        seen: dict[tuple[str, str], list[SizeEvidence]] = {}
        for step in result.steps:
            for one in step.sizes:
                seen.setdefault((one.operation, one.table), []).append(one)
        for key, evidence in seen.items():
            self.learned[key] = learn(self.learned.get(key), evidence, self.now)
        return result

    def sizes(self, *kinds: PduType) -> list[int]:
        """Values asked for, request by request."""
        return [size_of(one) for one in self.agent.asked if one.pdu in kinds]


def size_of(request: Request) -> int:
    return len(request.oids) * (request.third if request.pdu is PduType.GETBULK else 1)


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    return request.param


def counted(result: CompositeResult) -> tuple[int, int]:
    """Datagrams and silences, over all steps."""
    return sum(step.pdus for step in result.steps), sum(step.timeouts for step in result.steps)


def read(step: StepResult) -> int:
    return sum(reading.value is not None for column in step.columns for reading in column.readings)


@pytest.mark.clock
@pytest.mark.parametrize("share", [0.05, 0.1, 0.25])
def test_a_get_of_slow_optics_converges(driver, share):
    """By the clock: each power costs the agent this share of a time-out, and it serves one request after the other."""

    def cost(request: Request) -> float:
        return TIMEOUT * share * sum(oid[: len(RX)] == RX for oid in request.oids)

    with raw_agent(rows(64), cost=cost) as agent:
        olt = Olt(agent, driver)
        first = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
        assert counted(first)[0] == len(agent.asked)
        second = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
        assert counted(second)[0] == len(agent.asked)
        powers = [sum(oid[: len(RX)] == RX for oid in request.oids) for request in agent.asked]
    assert max(powers) <= 7
    assert read(second.steps[1]) == 64 and second.steps[1].error_kind is None


REFUSALS: dict[str, Callable[[Answer], list[bytes]]] = {
    "tooBig": lambda answer: [answer.but(status=integer(1), binds=()).ber],
    "genErr": lambda answer: [answer.but(status=integer(5), binds=()).ber],
    "resourceUnavailable": lambda answer: [answer.but(status=integer(13), binds=()).ber],
    "an error status nobody knows": lambda answer: [answer.but(status=integer(77), binds=()).ber],
    "a datagram that is cut": lambda answer: [answer.ber[:300]],
    "silence": lambda _answer: [],
}


def above(limit: int, refusal: Spoil) -> Spoil:
    return lambda answer: refusal(answer) if size_of(answer.request) > limit else [answer.ber]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_whatever_comes_instead_of_too_large_an_answer_teaches_the_size(driver, refusal):
    with raw_agent(rows(64), above(9, REFUSALS[refusal])) as agent:
        olt = Olt(agent, driver)
        first = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
        assert counted(first)[0] == len(agent.asked)
        second = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
        assert [read(step) for step in second.steps] == [64, 64] and second.succeeded
        assert max(olt.sizes(*PduType)) <= 9
    assert {key[0] for key in olt.learned} == {GET, WALK}


@pytest.mark.parametrize("failing", ["genErr", "silence"])
def test_one_instance_that_fails_teaches_no_size(driver, failing):
    guilty = (*RX, PORTS[0], 33)

    def spoil(answer: Answer) -> list[bytes]:
        return REFUSALS[failing](answer) if guilty in answer.request.oids else [answer.ber]

    with raw_agent(rows(64), spoil) as agent:
        olt = Olt(agent, driver)
        result = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
    assert read(result.steps[1]) == 63
    assert all(learned.too_big is None for learned in olt.learned.values())


def test_an_olt_that_is_silent_on_getbulk_is_asked_otherwise_before_it_counts_as_down(driver):
    def spoil(answer: Answer) -> list[bytes]:
        return [] if answer.request.pdu is PduType.GETBULK else [answer.ber]

    with raw_agent(rows(12), spoil) as agent:
        olt = Olt(agent, driver)
        first = olt.run(NodeKind.DISCOVERY)
        assert first.succeeded and read(first.steps[0]) == 12
        assert counted(first)[0] == len(agent.asked)
        assert "does not answer GETBULK" in first.steps[0].error_message
        second = olt.run(NodeKind.DISCOVERY)
        assert second.succeeded and counted(second)[1] == 0 and not olt.sizes(PduType.GETBULK)
        assert "does not answer GETBULK" in second.steps[0].error_message
        agent.spoil = lambda answer: [answer.ber]
        olt.now += RETRY_LARGER_AFTER
        olt.run(NodeKind.DISCOVERY)
        assert olt.sizes(PduType.GETBULK), "a day later it is tried again"
        third = olt.run(NodeKind.DISCOVERY)
        assert olt.sizes(PduType.GETBULK) and third.steps[0].error_message == ""


def test_a_dead_olt_costs_no_more_than_a_request_and_its_repeat(driver):
    with raw_agent(rows(12), lambda _answer: []) as agent:
        olt = Olt(agent, driver)
        result = olt.run(NodeKind.DISCOVERY, NodeKind.GET)
        assert [request.pdu for request in agent.asked] == [PduType.GETBULK, PduType.GET]
    assert counted(result) == (2, 2) and result.steps[0].error_kind is ErrorKind.TIMEOUT and olt.learned == {}


def as_text(oid: Oid) -> tuple[object, ...]:
    """ONU numbers as text, behind their port: 0, 1, 10, 11, 2 …"""
    return (oid[: len(STATE)], oid[len(STATE) : -1], str(oid[-1])) if len(oid) > len(STATE) else (oid,)


def test_rows_in_an_order_of_their_own_are_all_seen_from_the_second_run_on(driver):
    with raw_agent(rows(12, 2), order=as_text) as agent:
        olt = Olt(agent, driver)
        first = olt.run(NodeKind.DISCOVERY)
        assert first.steps[0].error_kind is ErrorKind.NOT_INCREASING
        assert "From the next walk on" in first.steps[0].error_message
        second = olt.run(NodeKind.DISCOVERY)
    assert second.succeeded and read(second.steps[0]) == 24
    assert second.steps[0].columns[0].complete and "do not increase" in second.steps[0].error_message


@pytest.mark.parametrize("known", [False, True])
def test_an_agent_that_goes_round_in_a_circle_is_left_also_where_order_does_not_count(driver, known):
    def spoil(answer: Answer) -> list[bytes]:
        binds = [replace(bind, oid=(*STATE, PORTS[0], (bind.oid[-1] * 7) % 40)) for bind in answer.binds]
        return [answer.but(binds=binds).ber]

    with raw_agent(rows(64), spoil) as agent:
        olt = Olt(agent, driver)
        if known:
            olt.learned[WALK, text(TABLE)] = LearnedSize(20, NOW, evidence=[(20, SizeOutcome.UNORDERED, NOW)])
        step = olt.run(NodeKind.DISCOVERY).steps[0]
        assert len(agent.asked) <= 12
    assert step.error_kind is ErrorKind.NOT_INCREASING and not step.columns[0].complete
