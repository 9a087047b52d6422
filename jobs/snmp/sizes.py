"""How much to ask for in one request: begin with one frame's worth, grow while answers come, shrink on trouble."""

import math

from jobs.snmp.session import VarBind
from portal.domain.table_sizes import DOUBTFUL, KnownSize, SizeEvidence, SizeOutcome, Sizes

FIRST_OCTETS = 1_400  # of values in a first answer: one Ethernet frame, with room for the headers of SNMPv3
LARGEST_OCTETS = 3_600  # no answer is asked to hold more: three frames, and gufo-snmp's buffer ends at 4,080 octets
GOOD_RUN = 10  # answers in a row, after a silence, until more is asked for again
OTHER_OCTETS = 6  # of a varbind besides name and value: three tags and three lengths, all short
_GUESSED_INDEX, _GUESSED_VALUE = 7, 8  # an ifIndex above 2^28 and an ONU number; a serial number


class MessageSize:
    """The number of values to ask for in one request to one table of one OLT, and what was learned about it.

    `limit` is the most that the OLT's settings allow. What is known from earlier runs is where it begins.
    """

    def __init__(self, limit: int, octets: int, known: KnownSize | None = None) -> None:
        self.limit = max(1, limit)
        self.too_big = known.too_big if known else None
        self.proven = min(known.size, self.limit) if known else 0
        self.current = self.proven or min(self.limit, max(1, FIRST_OCTETS // octets))
        self._settled = self.too_big is not None  # an earlier run has felt for the limit: no need to do so again
        self._retry = bool(known and known.retry and self.too_big and self.too_big <= self.limit)
        self._silent = False  # the limit above comes from silence: trying it again is dear
        self._good = 0
        self._reached = False  # a whole request of the current size was answered: less says nothing of the device
        self._outcomes: dict[tuple[int, SizeOutcome], None] = {}

    def answered(self, asked: int, octets: int, whole: bool = False) -> None:
        """A full answer to `asked` values, one of which takes `octets`. A request that was small by itself says little;

        `whole`: it was as large as the columns allow, though not quite as large as was possible.
        """
        self._good += 1
        self.proven = max(self.proven, asked)
        if self.too_big is not None and asked >= self.too_big:
            self.too_big, self._settled = None, False
        if whole or asked >= self.current:
            self._reached = True
            self.current = max(1, min(self._next(), self.limit, max(1, LARGEST_OCTETS // octets)))

    def truncated(self, asked: int, got: int) -> None:
        """The device sent `got` of `asked` values: it knows its own limit, so asking for more does no harm."""
        self._outcomes[(got, SizeOutcome.TRUNCATED)] = None
        self.proven = max(self.proven, got)
        self.limit = min(self.limit, max(asked, 1))

    def cut(self, asked: int, got: int) -> None:
        """A GET came back with `got` of `asked` values: never ask for more than that again."""
        self._outcomes[(got, SizeOutcome.TRUNCATED)] = None
        self.proven, self.current, self.too_big = got, got, got + 1

    def refused(self, asked: int, outcome: SizeOutcome = SizeOutcome.TOO_BIG) -> None:
        """TooBig, or another error status. Half of it next, or the largest size that is known to work."""
        self._outcomes[(asked, outcome)] = None
        self._silent = False
        self._fails_from(asked)
        self.current = max(self.proven, -(-asked // 2))

    def silent(self, asked: int, divisor: int) -> None:
        """No answer. It may be the size, so much less is asked for; `innocent` when something else is found guilty."""
        self._good = 0
        if asked > 1:
            self._outcomes[(asked, SizeOutcome.TIMEOUT)] = None
            self._silent = True
            self._fails_from(asked)
            self.current = min(self.current, max(1, asked // divisor))

    def innocent(self) -> None:
        """The silence or the error came from one instance, or from the network, not from the size of the request."""
        if self._silent or any(outcome is SizeOutcome.ERROR for _, outcome in self._outcomes):
            self._outcomes = {key: None for key in self._outcomes if key[1] not in DOUBTFUL}
            self._silent, self._settled, self.too_big = False, False, None
            self.current = max(self.current, self.proven)

    def evidence(self, operation: str, table: str) -> tuple[SizeEvidence, ...]:
        """What this run saw, failures first. A size that never failed and never was reached says nothing."""
        seen = [SizeEvidence(operation, table, size, outcome) for size, outcome in self._outcomes]
        if not self.proven:
            seen = [one for one in seen if one.outcome not in DOUBTFUL]  # dead, not overtaxed
        elif self._reached or seen:
            seen.append(SizeEvidence(operation, table, self.proven, SizeOutcome.ANSWERED))
        return tuple(seen)

    def _fails_from(self, asked: int) -> None:
        self.too_big = min(asked, self.too_big or asked)
        self.proven = self.proven if self.proven < self.too_big else 0

    def _next(self) -> int:
        """Twice as much where nothing has failed; half-way to what failed while the gap is worth a wasted request."""
        if self.too_big is None:
            return self.current * 2
        if self._retry:
            self._retry = False
            return self.too_big
        if self._silent:
            back = self._good >= GOOD_RUN and self.current < self.proven
            self._good = 0 if back else self._good
            return min(self.proven, self.current * 2) if back else self.current
        if self._settled:
            return max(self.current, self.proven)
        gap = self.too_big - self.current
        return (self.current + self.too_big) // 2 if gap > max(1, self.current // 8) else self.current


def first_octets(name: str) -> int:
    """Octets of one varbind of the column `name` before any was seen."""
    return name_octets(name) + _GUESSED_INDEX + _GUESSED_VALUE + OTHER_OCTETS


def name_octets(name: str) -> int:
    """Octets of an OID's content in BER: a number takes one for each seven of its bits, the first two share one."""
    return sum(1 if len(arc) < 3 else max(1, -(-int(arc).bit_length() // 7)) for arc in name.split(".")[1:])


def octets_of(bind: VarBind) -> int:
    """Octets that one varbind takes on the wire."""
    return name_octets(bind.oid) + value_octets(bind.value) + OTHER_OCTETS


def value_octets(value: int | bytes | str | None) -> int:
    """Octets of a value's content: numbers in the least two's complement form, dotted text as an OID."""
    if isinstance(value, int):
        return (value if value >= 0 else ~value).bit_length() // 8 + 1
    if value is None:
        return 0
    return len(value) if isinstance(value, bytes) else name_octets(value)


def average_octets(binds: list[VarBind]) -> int:
    """Octets of a varbind of this answer, from its first, middle and last: each value measured would cost as much again

    as reading it. Rounded up; 1 for none.
    """
    if not binds:
        return 1
    some = (binds[0], binds[len(binds) // 2], binds[-1])
    return math.ceil(sum(map(octets_of, some)) / len(some))


def known_for(sizes: Sizes, operation: str, tables: set[str]) -> KnownSize | None:
    """What is known of requests that name columns of all these tables: the strictest of what is known of each."""
    known = [sizes[operation, table] for table in tables if (operation, table) in sizes]
    if not known:
        return None
    limits = [one.too_big for one in known if one.too_big is not None]
    return KnownSize(min(one.size for one in known), min(limits) if limits else None, any(one.retry for one in known))
