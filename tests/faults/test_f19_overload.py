"""F19: more is due than the pollers can do. Nobody starves, the order inside an OLT stays, and soon it is over."""

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from tests.faults.simulated import Node, World

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(240)]

OLTS, NODES_EACH, POLLERS = 20, 5, 5
INTERVAL = 60  # seconds
OVERLOAD_SECONDS = 600
RECOVERY_SECONDS = 300
PRIORITIES = (90, 40, 40, 30, 10)


def fleet(load: float) -> list[Node]:
    """Nodes that ask for `load` times what the pollers can do; their first slots are spread over one interval."""
    dice = random.Random(19)
    mean = load * POLLERS * INTERVAL / (OLTS * NODES_EACH)
    return [
        Node(
            ident=olt * NODES_EACH + place, olt=olt, priority=PRIORITIES[place], interval=INTERVAL,
            service=mean * dice.uniform(0.3, 1.7), first=dice.randrange(INTERVAL),
        )
        for olt in range(1, OLTS + 1) for place in range(NODES_EACH)
    ]  # fmt: skip


def mean_round(nodes: list[Node], pollers: int) -> float:
    """Seconds that the pollers need to run every node once."""
    return sum(node.service for node in nodes) / pollers


def overloaded(redis: Redis) -> tuple[World, list[Node]]:
    nodes = fleet(load=2.0)
    world = World(redis, POLLERS)
    world.add(nodes)
    world.go_on(OVERLOAD_SECONDS)
    return world, nodes


def test_f19_under_twice_the_load_nobody_waits_for_two_rounds(redis: Redis) -> None:
    world, nodes = overloaded(redis)
    assert world.skipped > 0, "it was no overload"
    assert {one.run.node.ident for one in world.started} == {node.ident for node in nodes}
    still = [world.now - run.slot for runs in world.waiting.values() for run in runs.values()]
    assert max([one.waited for one in world.started] + still) < 2 * mean_round(nodes, POLLERS)


def test_f19_under_twice_the_load_every_node_runs_about_as_often_as_any_other(redis: Redis) -> None:
    world, nodes = overloaded(redis)
    ran = Counter(one.run.node.ident for one in world.started)
    fair = OVERLOAD_SECONDS / mean_round(nodes, POLLERS)
    assert min(ran[node.ident] for node in nodes) >= fair / 2


def test_f19_under_twice_the_load_the_order_inside_an_olt_is_kept_and_two_never_meet(redis: Redis) -> None:
    world, _ = overloaded(redis)
    assert [one for one in world.started if not one.in_turn] == []
    assert world.met == 0
    assert any(one.run.overdue_at <= one.at and one.beside for one in world.started), "nothing was ever overdue"


def test_f19_the_pollers_are_never_idle_while_a_free_olt_has_work(redis: Redis) -> None:
    world, nodes = overloaded(redis)
    done = sum(min(one.run.node.service, OVERLOAD_SECONDS - one.at) for one in world.started)
    assert done > 0.97 * POLLERS * OVERLOAD_SECONDS


def test_f19_five_minutes_after_the_overload_nothing_is_late_any_more(redis: Redis) -> None:
    world, nodes = overloaded(redis)
    light = [Node(n.ident, n.olt, n.priority, n.interval, n.service / 4, n.first + OVERLOAD_SECONDS) for n in nodes]
    world.stop_clocks()
    world.add(light)
    world.go_on(OVERLOAD_SECONDS + RECOVERY_SECONDS + 2 * INTERVAL)
    late = [one.waited for one in world.started if one.at > OVERLOAD_SECONDS + RECOVERY_SECONDS]
    assert late and max(late) < INTERVAL / 2
    assert not any(
        one.run.overdue_at <= one.at for one in world.started if one.at > OVERLOAD_SECONDS + RECOVERY_SECONDS
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[Node]:
    """Up to five OLTs of up to four nodes, light and heavy, of equal and of different priority."""
    nodes: list[Node] = []
    for olt in range(1, draw(st.integers(1, 5)) + 1):
        for _ in range(draw(st.integers(1, 4))):
            nodes.append(
                Node(
                    ident=len(nodes) + 1, olt=olt, priority=draw(st.sampled_from((10, 40, 40, 90))),
                    interval=draw(st.sampled_from((30, 60, 90))), service=draw(st.sampled_from((0.5, 3.0, 15.0, 40.0))),
                    first=draw(st.integers(0, 60)),
                )
            )  # fmt: skip
    return nodes


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=fleets(), pollers=st.integers(1, 4), asked=st.lists(st.integers(1, 20), max_size=5))
def test_f19_in_any_fleet_each_run_starts_once_in_its_turn_and_none_starves(
    redis: Redis, nodes: list[Node], pollers: int, asked: list[int]
) -> None:
    redis.flushall()
    world = World(redis, pollers)
    world.add(nodes)
    for moment, number in enumerate(asked, start=1):
        world.go_on(moment * 50)
        world.ask_for(node for node in nodes if node.ident == number)
    world.go_on(300)
    world.drain()
    assert world.met == 0
    assert [one for one in world.started if not one.in_turn] == []
    assert max(Counter(one.run.ident for one in world.started).values()) == 1
    assert not redis.keys("facho:waiting:*") and not redis.keys("lock:snmp:host:*")
    assert all(one.waited <= patience(one.run.node, nodes, pollers, len(asked)) for one in world.started)


def patience(node: Node, nodes: list[Node], pollers: int, asked: int) -> float:
    """Seconds that the rules of order leave a run to wait at most.

    An interval of its own, then all that is older: of its own OLT one after the other, of the others by all pollers.
    Runs that people ask for come on top.
    """
    longest = max(one.service for one in nodes)
    own = sum(one.service for one in nodes if one.olt == node.olt)
    return node.interval + 2 * (mean_round(nodes, pollers) + own) + longest * (1 + asked)
