"""GET of many instances over any session: packed, split down to the guilty instance on trouble. No decoding."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.snmp.errors import (
    SnmpAuthError,
    SnmpBadAnswer,
    SnmpBadOid,
    SnmpDeviceError,
    SnmpError,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnreachable,
)
from jobs.snmp.session import SnmpSession, VarBind, checked_oid
from portal.domain.statuses import ErrorKind

PROBE_OID = "1.3.6.1.2.1.1.3.0"  # sysUpTime (RFC 3418): any answer to it, even "no such object", shows a living OLT
SPLIT = 5  # 50 → 10 → 2 → 1: few requests to find one guilty instance, each of which may block for a whole time-out
MAX_TIMEOUTS = 10  # then the rest is left alone: an OLT that answers its probe but stalls on data needs rest


@dataclass(frozen=True)
class GetResult:
    """`values` by OID as asked for (markers included); `failed` says why the others have none. Both cover all OIDs.

    `error_kind` is set when the whole run was stopped; single failed instances do not set it. `message` tells of the
    stop, else of the first failed instance. `dead` means that nothing answers any more. `batch_size` is the packing in
    use at the end. `pdus` counts requests, `timeouts` those without an answer.
    """

    values: dict[str, VarBind] = field(default_factory=dict)
    failed: dict[str, ErrorKind] = field(default_factory=dict)
    pdus: int = 0
    timeouts: int = 0
    batch_size: int = 0
    dead: bool = False
    error_kind: ErrorKind | None = None
    message: str = ""


def get_many(
    session: SnmpSession,
    oids: Sequence[str],
    *,
    max_varbinds: int,
    deadline: float,
    checkpoint: Callable[[], None],
    clock: Callable[[], float],
) -> GetResult:
    """Read all `oids`, at most `max_varbinds` in one request. Never raises SnmpError.

    `deadline` is a reading of `clock` (seconds); no request starts at or after it. `checkpoint` runs before every
    request and may raise to stop everything. After each time-out one cheap probe decides: silence means a dead OLT and
    the end; an answer means that the batch holds a guilty instance, and it is divided.
    """
    getter = _Getter(session, max(1, max_varbinds), deadline, checkpoint, clock)
    getter.run(oids)
    return getter.result()


class _Stop(Exception):  # noqa: N818  # a signal inside this module, not an error of its own
    """The rest of the run is not worth asking."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class _Getter:
    session: SnmpSession
    batch_size: int
    deadline: float
    checkpoint: Callable[[], None]
    clock: Callable[[], float]
    names: dict[str, str] = field(default_factory=dict)  # as asked for → as sent
    fresh: deque[str] = field(default_factory=deque)
    parts: list[list[str]] = field(default_factory=list)  # of divided batches; these go first
    values: dict[str, VarBind] = field(default_factory=dict)
    failed: dict[str, ErrorKind] = field(default_factory=dict)
    pdus: int = 0
    timeouts: int = 0
    dead: bool = False
    error_kind: ErrorKind | None = None
    message: str = ""

    def run(self, oids: Sequence[str]) -> None:
        for oid in oids:
            self._accept(oid)
        self.fresh.extend(dict.fromkeys(name for name in self.names.values() if name not in self.failed))
        try:
            while batch := self._next_batch():
                self._ask(batch)
        except _Stop as stop:
            self.error_kind, self.message = stop.kind, str(stop)
            for name in self.names.values():
                if name not in self.values:
                    self.failed.setdefault(name, stop.kind)

    def result(self) -> GetResult:
        return GetResult(
            values={oid: self.values[name] for oid, name in self.names.items() if name in self.values},
            failed={oid: self.failed[name] for oid, name in self.names.items() if name in self.failed},
            pdus=self.pdus,
            timeouts=self.timeouts,
            batch_size=self.batch_size,
            dead=self.dead,
            error_kind=self.error_kind,
            message=self.message,
        )

    def _accept(self, oid: str) -> None:
        try:
            self.names[oid] = checked_oid(oid)
        except SnmpBadOid as error:
            self.names[oid] = oid
            self._fail(oid, error)

    def _fail(self, name: str, error: SnmpError) -> None:
        self.failed[name] = error.kind
        self.message = self.message or f"{name}: {error}"

    def _next_batch(self) -> list[str]:
        if self.parts:
            part = self.parts.pop()
            if len(part) > self.batch_size:
                self.parts.append(part[self.batch_size :])
            return part[: self.batch_size]
        return [self.fresh.popleft() for _ in range(min(self.batch_size, len(self.fresh)))]

    def _ask(self, batch: list[str]) -> None:
        try:
            answer = self._request(batch)
        except SnmpTimeout as error:
            self._after_silence(batch, error)
        except (SnmpAuthError, SnmpBadAnswer, SnmpUnreachable) as error:
            raise _Stop(error.kind, str(error)) from None
        except SnmpTooBig as error:
            self.batch_size = min(self.batch_size, -(-len(batch) // 2))
            self._divide(batch, 2, error)
        except SnmpError as error:
            self._divide(batch, SPLIT, error)
        else:
            self._keep(batch, answer)

    def _request(self, batch: list[str]) -> list[VarBind]:
        if self.clock() >= self.deadline:
            read, total = len(self.values), len(self.names)
            raise _Stop(ErrorKind.TIME_LIMIT, f"time limit reached with {read} of {total} instances read")
        self.checkpoint()
        self.pdus += 1
        return self.session.get(batch)

    def _keep(self, batch: list[str], answer: list[VarBind]) -> None:
        """Values count by their name, not by their place: some devices cut an answer, or answer something else."""
        asked = set(batch)
        self.values |= {bind.oid: bind for bind in answer if bind.oid in asked}
        rest = [name for name in batch if name not in self.values]
        if len(rest) == len(batch):
            self._divide(batch, SPLIT, SnmpDeviceError("the answer does not hold what was asked for"))
        elif rest:
            self.batch_size = min(self.batch_size, len(batch) - len(rest))
            self.parts.append(rest)

    def _divide(self, batch: list[str], into: int, error: SnmpError) -> None:
        if len(batch) == 1:
            self._fail(batch[0], error)
            return
        size = -(-len(batch) // into)
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        self.parts.extend(reversed(parts))

    def _after_silence(self, batch: list[str], error: SnmpTimeout) -> None:
        """Find out by one cheap request whether the OLT is dead or only this batch is poison for it."""
        self.timeouts += 1
        try:
            self._request([PROBE_OID])
        except SnmpTimeout:
            self.timeouts += 1
            self.dead = True
            raise _Stop(error.kind, str(error)) from None
        except SnmpError:
            pass  # an error status is an answer too
        if self.timeouts >= MAX_TIMEOUTS:
            text = f"{self.timeouts} requests without an answer, though the OLT is alive: the rest is left alone"
            raise _Stop(error.kind, text)
        self.batch_size = min(self.batch_size, -(-len(batch) // SPLIT))
        self._divide(batch, SPLIT, error)
