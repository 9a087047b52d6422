"""Who answers: what a composite asks before anything else, in one request, so that it reads the right device."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from jobs.snmp.errors import SnmpError
from jobs.snmp.patient import PatientSession
from jobs.snmp.session import VarBind
from portal.domain.composite import SnmpTarget
from portal.domain.device import DECISIVE, WITNESSES, Answer, Device
from portal.domain.readings import ValueSpec, decode, printable
from portal.domain.statuses import ErrorKind

SYSTEM = {
    "sysdescr": "1.3.6.1.2.1.1.1.0",
    "sysobjectid": "1.3.6.1.2.1.1.2.0",
    "uptime": "1.3.6.1.2.1.1.3.0",
    "sysname": "1.3.6.1.2.1.1.5.0",
}
_ASKED = tuple(SYSTEM[name] for name in ("uptime", "sysobjectid", "sysname"))
# After these nothing more is to be asked. Whatever else a device answers to these names is an answer.
SILENCE = frozenset({ErrorKind.TIMEOUT, ErrorKind.UNREACHABLE, ErrorKind.AUTH, ErrorKind.INTERNAL})


def identify(
    session: PatientSession, target: SnmpTarget, device: Device, checkpoint: Callable[[], None],
    now: Callable[[], datetime],
) -> tuple[Answer, int]:  # fmt: skip
    """The answer and the number of requests it took. SnmpError where there is none.

    A few of the ONUs that are known to stand there are asked for too; all of them only where none of the few is there.
    SNMPv1 refuses a request for one name that is not there: there the names of the device have to do.
    """
    room = target.max_varbinds - len(_ASKED)
    witnesses = list(device.witnesses.items()) if target.version != "1" else []
    few = dict(witnesses[: max(0, min(WITNESSES, room))])
    values = _ask(session, (*_ASKED, *few))
    if not values and few:
        checkpoint()
        values = _ask(session, _ASKED)
        answer, requests = _answer(values, {}, now()), 2
    else:
        answer, requests = _answer(values, few, now()), 1
    rest = dict(witnesses[len(few) : len(few) + target.max_varbinds])
    if answer.other >= DECISIVE and not answer.same and rest:
        checkpoint()
        more, requests = _answer(_ask(session, tuple(rest)), rest, now()), requests + 1
        answer = replace(answer, same=more.same, other=answer.other + more.other)
    return answer, requests


def uptime(session: PatientSession) -> int | None:
    """Ticks; None where the device hides it. SnmpError where it does not answer."""
    return _number(_ask(session, (SYSTEM["uptime"],)).get(SYSTEM["uptime"]))


def _ask(session: PatientSession, oids: tuple[str, ...]) -> dict[str, VarBind]:
    try:
        return {bind.oid: bind for bind in session.told(oids) if not bind.missing}
    except SnmpError as error:
        if error.kind in SILENCE:
            raise
        return {}


def _answer(values: Mapping[str, VarBind], witnesses: Mapping[str, str], at: datetime) -> Answer:
    told = [printable(values[oid].value) == raw for oid, raw in witnesses.items() if oid in values]
    object_id = values.get(SYSTEM["sysobjectid"])
    name = values.get(SYSTEM["sysname"])
    return Answer(
        object_id=str(object_id.value).removeprefix(".") if object_id is not None else "",
        name=str(decode(ValueSpec(), "0", name.value).value or "") if name is not None else "",
        uptime=_number(values.get(SYSTEM["uptime"])), at=at, same=sum(told), other=len(told) - sum(told),
    )  # fmt: skip


def _number(bind: VarBind | None) -> int | None:
    return bind.value if bind is not None and isinstance(bind.value, int) else None
