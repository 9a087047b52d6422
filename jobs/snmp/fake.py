"""A recording session for unit tests, with scripted faults. Same protocol as the drivers; opens no socket."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.snmp.errors import SnmpDeviceError, SnmpError, SnmpNoSuchObject, SnmpTimeout, SnmpTooBig, SnmpUnclear
from jobs.snmp.session import SessionFactory, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget
from portal.domain.oid_text import as_tuple

Value = int | bytes | str | None


@dataclass(frozen=True)
class Request:
    """One request as the OLT would have seen it. `max_repetitions` is 0 for a GET."""

    kind: str  # "get" or "next"
    oids: tuple[str, ...]
    max_repetitions: int = 0


@dataclass(frozen=True)
class Faults:
    """What the fake OLT does wrong. Requests are counted from 1; everything is off by default."""

    dead: bool = False
    time_out_on: frozenset[int] = frozenset()  # these requests get no answer
    dies_after: int | None = None  # so many requests are answered, none later
    guilty: frozenset[str] = frozenset()  # a request that names one of these, or would return it, gets no answer
    generr: frozenset[str] = frozenset()  # the same, with an error status instead of silence
    get_too_big_above: int | None = None  # tooBig for a GET of more instances
    bulk_too_big_above: int | None = None  # tooBig for a walk request of more rows
    bulk_silent_above: int | None = None  # no answer to a walk request of more rows
    cut_answers_to: int | None = None  # an answer holds at most so many values
    names_the_guilty: bool = False  # an SNMPv1 error-index that points at the name it complains of
    stuck_at: str | None = None  # GETNEXT after this name answers this name again


@dataclass
class FakeSession:
    """An OLT with `rows` (dotted OID → value). `columns` are objects it knows although they may hold no row.

    A name outside `rows` is noSuchInstance under one of `columns`, else noSuchObject. `requests` and `closed` record
    what was done to it; `on_request` runs before each answer (tests move their clock there). `vague`: it is like the
    fast driver, asks for one column at a time and hides why there is no value; its `exact` session writes into the same
    `requests`.
    """

    rows: Mapping[str, Value] = field(default_factory=dict)
    columns: Sequence[str] = ()
    faults: Faults = Faults()
    v1: bool = False
    vague: bool = False
    parallel: bool = True
    on_request: Callable[[Request], None] | None = None
    requests: list[Request] = field(default_factory=list)
    closed: bool = False
    repeats: int = 0
    checks: int = 0

    def __post_init__(self) -> None:
        self._order = sorted((as_tuple(oid), oid) for oid in self.rows)
        self._exact: FakeSession | None = None

    @property
    def columns_per_request(self) -> int:
        """See SnmpSession."""
        return 1 if self.vague else 50

    @property
    def exact(self) -> "FakeSession":
        """See SnmpSession."""
        if not self.vague:
            return self
        if self._exact is None:
            self._exact = replace(self, vague=False)
        return self._exact

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession."""
        try:
            answer = self._got(oids)
        except SnmpTimeout:
            raise
        except SnmpError as error:
            return self._hidden(error)
        return [bind for bind in answer if not (self.vague and bind.missing)]

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession. Answers row by row, as GETBULK does; one row in SNMPv1."""
        if self.vague and (len(oids) > 1 or max_repetitions == 1):
            return self.exact.next_rows(oids, max_repetitions)
        try:
            answer = self._came_after(oids, max_repetitions)
        except SnmpTimeout:
            raise
        except SnmpError as error:
            return self._hidden(error)
        told = [bind for bind in answer if not (self.vague and bind.missing)]
        return told if told or not self.vague else self._hidden(SnmpUnclear("nothing"))

    def _hidden(self, error: SnmpError) -> list[VarBind]:
        raise SnmpUnclear("an answer without values") if self.vague else error

    def _got(self, oids: Sequence[str]) -> list[VarBind]:
        names = self._receive(Request("get", tuple(oids)))
        self._fail_if(_above(len(names), self.faults.get_too_big_above), SnmpTooBig("answer would be too big"))
        answer = [self._instance(name) for name in names]
        if self.v1 and len(names) > 1 and any(bind.missing for bind in answer):
            raise self._blamed(SnmpNoSuchObject("one of several names does not exist"), answer)
        return self._sent(answer)

    def _blamed(self, error: SnmpError, answer: list[VarBind]) -> SnmpError:
        if self.faults.names_the_guilty:
            error.place = next(place for place, bind in enumerate(answer) if bind.missing)
        return error

    def _came_after(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        names = list(self._receive(Request("next", tuple(oids), max_repetitions)))
        self._fail_if(_above(max_repetitions, self.faults.bulk_too_big_above), SnmpTooBig("answer would be too big"))
        self._fail_if(_above(max_repetitions, self.faults.bulk_silent_above), SnmpTimeout("no answer"))
        answer: list[VarBind] = []
        for _ in range(1 if self.v1 else max_repetitions):
            row = [self._next(name) for name in names]
            names = [bind.oid for bind in row]
            answer += row
        if self.v1 and len(names) > 1 and any(bind.missing for bind in answer):
            raise SnmpNoSuchObject("one of several names has no successor")
        return self._sent(answer)

    def close(self) -> None:
        """See SnmpSession."""
        self.closed = True

    def _receive(self, request: Request) -> tuple[str, ...]:
        if self.closed:
            raise RuntimeError("this SNMP session is closed")
        names = tuple(checked_oid(oid) for oid in request.oids)
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)
        number, faults = len(self.requests), self.faults
        silent = faults.dead or number in faults.time_out_on or _above(number, faults.dies_after)
        self._fail_if(silent, SnmpTimeout("no answer"))
        return names

    def _sent(self, answer: list[VarBind]) -> list[VarBind]:
        oids = {bind.oid for bind in answer if not bind.missing}
        self._fail_if(bool(oids & self.faults.guilty), SnmpTimeout("no answer"))
        self._fail_if(bool(oids & self.faults.generr), SnmpDeviceError("genErr"))
        return answer[: self.faults.cut_answers_to]

    def _instance(self, oid: str) -> VarBind:
        if oid in self.rows:
            return _bind(oid, self.rows[oid])
        known = any(oid.startswith(f"{column}.") for column in self.columns)
        return VarBind(oid, SnmpType.NO_SUCH_INSTANCE if known and not self.v1 else SnmpType.NO_SUCH_OBJECT)

    def _next(self, oid: str) -> VarBind:
        if oid == self.faults.stuck_at:
            return _bind(oid, self.rows[oid])
        place = bisect_right(self._order, as_tuple(oid), key=lambda pair: pair[0])
        if place == len(self._order):
            return VarBind(oid, SnmpType.END_OF_MIB_VIEW)
        found = self._order[place][1]
        return _bind(found, self.rows[found])

    @staticmethod
    def _fail_if(wrong: bool, error: SnmpError) -> None:
        if wrong:
            raise error


def fake_factory(session: FakeSession | SnmpError, targets: list[SnmpTarget] | None = None) -> SessionFactory:
    """A factory that hands out `session`, or fails with the given error; `targets` collects what it was called with."""

    def open_session(target: SnmpTarget) -> SnmpSession:
        if targets is not None:
            targets.append(target)
        if isinstance(session, SnmpError):
            raise session
        return session

    return open_session


def _above(number: int, limit: int | None) -> bool:
    return limit is not None and number > limit


def _bind(oid: str, value: Value) -> VarBind:
    kinds = {int: SnmpType.INTEGER, bytes: SnmpType.OCTETS, str: SnmpType.OID, type(None): SnmpType.NULL}
    return VarBind(oid, kinds[type(value)], value)
