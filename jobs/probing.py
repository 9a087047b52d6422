"""The connection test: who a device is, in at most eight requests of one PDU each. No database."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.identifying import SYSTEM
from jobs.snmp.errors import SnmpAuthError, SnmpError, SnmpTimeout, SnmpUnreachable
from jobs.snmp.session import SessionFactory, SnmpSession, VarBind
from portal.domain.composite import SnmpTarget
from portal.domain.oid_text import index_of, is_under
from portal.domain.readings import ValueSpec, clean_text, decode
from portal.domain.recognising import Families, Knowledge, Shortlist, by_name, by_subtree, families, shortlist
from portal.domain.statuses import ErrorKind

IF_NAME = "1.3.6.1.2.1.31.1.1.1.1"
IF_DESCR = "1.3.6.1.2.1.2.2.1.2"

REQUESTS = 8  # of one test: an OLT in service is not to feel it
PATIENCE = 15.0  # seconds after which no further request starts: the lease of a test must outlast the last one
TOGETHER = 12  # subtrees asked for in one GETNEXT
NAMES = 30  # interfaces looked at: enough to tell families apart
_ENDS = (SnmpTimeout, SnmpAuthError, SnmpUnreachable)


class ProbeFailed(Exception):
    """The device gave no usable answer; the message says what to check."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def ask(
    target: SnmpTarget,
    open_session: SessionFactory,
    monotonic: Callable[[], float],
    knowledge: Knowledge | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Ask the device who it is; keys as in portal.models.Probe.result. Without `knowledge` only its system group.

    `checkpoint` runs before each request. ProbeFailed when the system group cannot be read; what fails after that
    leaves brand, model or family open and says so in `decided`.
    """
    try:
        session = open_session(target)
        try:
            asker = _Asker(session.exact, checkpoint, monotonic, monotonic() + PATIENCE)
            result = _system(asker)
            if knowledge is not None:
                result |= _recognised(asker, knowledge, result["sysobjectid"], result["sysdescr"])
        finally:
            session.close()
    except SnmpError as error:
        raise ProbeFailed(error.kind, str(error)) from None
    return result


@dataclass
class _Asker:
    """A session that counts what it may still ask; a device that fell silent is left alone."""

    session: SnmpSession
    checkpoint: Callable[[], None]
    monotonic: Callable[[], float]
    deadline: float
    left: int = REQUESTS
    silent: bool = False

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        self.left -= 1
        self.checkpoint()
        return self.session.get(oids)

    def next_rows(self, oids: Sequence[str], rows: int = 1) -> list[VarBind] | None:
        """None when nothing more may be asked, or the device refused."""
        return self._more(lambda: self.session.next_rows(oids, rows))

    def more(self, oids: Sequence[str]) -> list[VarBind] | None:
        """A GET that may fail: None as above."""
        return self._more(lambda: self.session.get(oids))

    def _more(self, ask: Callable[[], list[VarBind]]) -> list[VarBind] | None:
        if self.silent or self.left <= 0 or self.monotonic() > self.deadline:
            return None
        self.left -= 1
        self.checkpoint()
        try:
            return ask()
        except _ENDS:
            self.silent = True
        except SnmpError:
            pass
        return None


def _system(asker: _Asker) -> dict[str, Any]:
    began = asker.monotonic()
    answers = asker.get(list(SYSTEM.values()))
    took = asker.monotonic() - began
    values = {bind.oid: bind.value for bind in answers if not bind.missing}
    if not values:
        raise ProbeFailed(
            ErrorKind.NO_SUCH_OBJECT, "the device answers but hides its system group: check its SNMP view"
        )
    texts = {name: decode(ValueSpec(), "0", values.get(oid)).value or "" for name, oid in SYSTEM.items()}
    ticks = values.get(SYSTEM["uptime"])
    return {
        "sysdescr": texts["sysdescr"], "sysobjectid": str(texts["sysobjectid"]).removeprefix("."),
        "sysname": texts["sysname"], "uptime_s": ticks // 100 if isinstance(ticks, int) else None,
        "rtt_ms": round(took * 1000, 1),
    }  # fmt: skip


def _recognised(asker: _Asker, knowledge: Knowledge, object_id: str, descr: str) -> dict[str, Any]:
    found = shortlist(knowledge.models, object_id, descr)
    if found.wants_proof:
        meant = found
        found = by_subtree(meant, _answering(asker, meant))
        if meant.name_oids and not meant.unknown and len(found.models) > 1:
            found = by_name(meant, found, _model_names(asker, meant))
    brand = None if found.unknown else found.brand
    grounds, spaces = list(found.grounds), []
    if brand is not None and knowledge.families[brand].spaces:
        for choice, ground in families(knowledge.families[brand], _names(asker, knowledge.families[brand])):
            grounds.append(ground)
            spaces.append({
                "formula": choice.formula.name if choice.formula else None,
                "tried": [[v.formula, v.agree, v.contradict, v.first] for v in choice.verdicts],
            })  # fmt: skip
    return {
        "brand": brand,
        "fits": [known.key for known in found.models] if brand else [],
        "model": found.decided.model.key if found.decided is not None and brand else None,
        "family": next((space["formula"] for space in spaces if space["formula"]), None),
        "families": spaces,
        "decided": [ground.as_json() for ground in grounds],
        "requests": REQUESTS - asker.left,
    }


def _answering(asker: _Asker, found: Shortlist) -> set[str]:
    """Which of the subtrees hold a row. All in one GETNEXT; where that fails, one by one while requests are left."""
    roots, answered = list(found.subtrees), set()
    for start in range(0, len(roots), TOGETHER):
        batch = roots[start : start + TOGETHER]
        binds = asker.next_rows(batch)
        if binds is None or len(binds) != len(batch):  # SNMPv1 fails the whole PDU for one name without successor
            for root in batch:
                answered |= _rows_below([root], asker.next_rows([root]))
        else:
            answered |= _rows_below(batch, binds)
    return answered


def _model_names(asker: _Asker, found: Shortlist) -> dict[str, str]:
    """Instance → the name of its model that the device gives there."""
    binds = asker.more(found.name_oids) or []
    return {bind.oid: clean_text(bind.value) for bind in binds if isinstance(bind.value, bytes)}


def _rows_below(roots: list[str], binds: list[VarBind] | None) -> set[str]:
    pairs = zip(roots, binds or (), strict=False)
    return {root for root, bind in pairs if not bind.missing and is_under(bind.oid, root)}


def _names(asker: _Asker, known: Families) -> list[tuple[str, str]]:
    """(ifIndex, name) of the first interfaces: ifName, and ifDescr of those that have none (quirk 44).

    Where boards are learned from their port rows, of which the first interfaces hold none (Nokia), one look more.
    """
    found = dict(_column(IF_DESCR, asker.next_rows([IF_DESCR], NAMES)))
    found |= {index: name for index, name in _column(IF_NAME, asker.next_rows([IF_NAME], NAMES)) if name}
    starts = [start for formula in known.learning for index in found if (start := formula.before_ports(index))]
    if starts:
        found |= _column(IF_DESCR, asker.next_rows([f"{IF_DESCR}.{starts[0]}"], NAMES))
    return list(found.items())


def _column(root: str, binds: Iterable[VarBind] | None) -> Iterable[tuple[str, str]]:
    for bind in binds or ():
        if not bind.missing and is_under(bind.oid, root) and isinstance(bind.value, bytes):
            yield index_of(bind.oid, root), clean_text(bind.value)
