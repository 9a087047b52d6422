"""The connection test: a handful of scalars, and what they say about brand and model. No database."""

from collections.abc import Callable
from typing import Any

from jobs.snmp.errors import SnmpError
from jobs.snmp.session import SessionFactory
from portal.domain.composite import SnmpTarget
from portal.domain.readings import ValueSpec, decode
from portal.domain.statuses import ErrorKind

BUSY = ErrorKind.DEVICE

SYSTEM = {
    "sysdescr": "1.3.6.1.2.1.1.1.0",
    "sysobjectid": "1.3.6.1.2.1.1.2.0",
    "uptime": "1.3.6.1.2.1.1.3.0",
    "sysname": "1.3.6.1.2.1.1.5.0",
}


class ProbeFailed(Exception):
    """The device gave no usable answer; the message says what to check."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def ask(target: SnmpTarget, open_session: SessionFactory, monotonic: Callable[[], float]) -> dict[str, Any]:
    """Read the system group in one GET. Keys as in portal.models.Probe.result, without brand and model."""
    began = monotonic()
    try:
        session = open_session(target)
        try:
            answers = session.get(list(SYSTEM.values()))
        finally:
            session.close()
    except SnmpError as error:
        raise ProbeFailed(error.kind, str(error)) from None
    took = monotonic() - began
    values = {bind.oid: bind.value for bind in answers if not bind.missing}
    if not values:
        raise ProbeFailed(
            ErrorKind.NO_SUCH_OBJECT, "the device answers but hides its system group: check its SNMP view"
        )
    texts = {name: decode(ValueSpec(), "0", values.get(oid)).value or "" for name, oid in SYSTEM.items()}
    ticks = values.get(SYSTEM["uptime"])
    return {
        "sysdescr": texts["sysdescr"], "sysobjectid": texts["sysobjectid"], "sysname": texts["sysname"],
        "uptime_s": ticks // 100 if isinstance(ticks, int) else None, "rtt_ms": round(took * 1000, 1),
    }  # fmt: skip
