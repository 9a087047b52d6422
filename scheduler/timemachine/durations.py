"""How a try ends and how long it takes: recorded runs lived again, or seeded distributions that drift. Pure."""

import math
from datetime import datetime
from random import Random

from portal.domain.statuses import ErrorKind
from scheduler.timemachine.world import Node, Outcome, Rules

NOISE_SIZE = 8191  # a prime, so that the nodes' strides walk through all of it
STRIDE = 37
DAY = 86_400


class Fortune:
    """Luck by seed. The nth try of a node meets the same in every machine of the same seed, whatever came between:

    what is compared is the settings, not the luck. A node that has recorded runs lives them again, from a place of its
    own. The others draw from a log-normal distribution of width `sigma` round their median; `drift` is by which share
    it swings in the course of a day.
    """

    def __init__(self, seed: int, *, sigma: float = 0.25, drift: float = 0.0) -> None:
        chance = Random(seed)  # noqa: S311  (repeatable, no secret)
        self.drift = drift
        self._noise = [math.exp(sigma * chance.gauss(0, 1)) for _ in range(NOISE_SIZE)]
        self._dice = [chance.random() for _ in range(NOISE_SIZE)]
        self._offset = chance.randrange(NOISE_SIZE)

    def seconds(self, node: Node, now: datetime) -> float:
        """What the node's next try takes on a healthy OLT."""
        if node.durations:
            return node.durations[(node.draws + self._offset + node.node_id) % len(node.durations)]
        took = node.median * self._noise[self._place(node)]
        if self.drift:
            took *= 1 + self.drift * math.sin(2 * math.pi * (now.timestamp() % DAY) / DAY)
        return took

    def dice(self, node: Node) -> float:
        """A number from 0 to 1 for the node's next try."""
        return self._dice[self._place(node)]

    def _place(self, node: Node) -> int:
        return (self._offset + node.node_id * STRIDE * STRIDE + node.draws * STRIDE) % NOISE_SIZE


def outcome(rules: Rules, fortune: Fortune, node: Node, now: datetime) -> Outcome:
    """How a try of this node that begins now will end, as its OLT is at this moment. Counts as one draw."""
    olt = node.olt
    seconds, failed = fortune.seconds(node, now) * olt.slow, fortune.dice(node) < olt.errors
    node.draws += 1
    if olt.silent:
        return Outcome(rules.give_up, ErrorKind.TIMEOUT, answered=False)
    if seconds > node.time_limit:
        return Outcome(node.time_limit, ErrorKind.TIME_LIMIT)
    return Outcome(max(0.001, round(seconds, 3)), ErrorKind.DEVICE if failed else None)
