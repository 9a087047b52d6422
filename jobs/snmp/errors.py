"""What can go wrong between us and one OLT, in our own words. No library type and no secret may appear here.

Every message is written for the person who reads a failed execution: it says what happened and what to check.
Communities and passwords are never part of a message.
"""

from typing import ClassVar

from portal.domain.composite import SnmpTarget
from portal.domain.statuses import ErrorKind


class SnmpError(Exception):
    """Base of all faults that belong to the device, the network or the settings of one OLT."""

    kind: ClassVar[ErrorKind] = ErrorKind.DEVICE
    place: int | None = None  # which of the names asked for (from 0) the device blames, where its answer says so


# The names below read as facts and carry no "Error" suffix.
class SnmpTimeout(SnmpError):  # noqa: N818
    """No answer to one request, with all its retries.

    `lives`: whether a cheap question after it was answered; None where none was put, or the OLT has never answered.
    """

    kind = ErrorKind.TIMEOUT
    lives: bool | None = None


class SnmpAuthError(SnmpError):
    """The credential cannot be used, or the device said that it is wrong (SNMPv3 only; v2c stays silent)."""

    kind = ErrorKind.AUTH


class SnmpEngineRestarted(SnmpAuthError):
    """The device's SNMPv3 engine is not the one this session knew, or its clock has gone back: it was restarted.

    What was cached of it has been dropped, so the next request begins with its discovery.
    """


class SnmpUnclear(SnmpError):
    """A fast driver cannot tell what the device said: nothing, an error status, or an answer it cannot hold.

    Never the last word: the same request is to be put once more, to the session's `exact` one.
    """


class SnmpTooBig(SnmpError):  # noqa: N818
    """The answer to the request would not fit into one message of the device."""

    kind = ErrorKind.TOO_BIG


class SnmpNoSuchObject(SnmpError):  # noqa: N818
    """SNMPv1 only: at least one of several names does not exist, and the device does not say which."""

    kind = ErrorKind.NO_SUCH_OBJECT


class SnmpNotIncreasing(SnmpError):  # noqa: N818
    """The device answered GETNEXT with a name that does not come after the one asked for."""

    kind = ErrorKind.NOT_INCREASING


class SnmpUnreachable(SnmpError):  # noqa: N818
    """Nothing could be sent: bad address, unknown name, no route."""

    kind = ErrorKind.UNREACHABLE


class SnmpLocalFault(SnmpError):  # noqa: N818
    """This machine could not open a socket or ask its name server; it says nothing of the OLT."""

    kind = ErrorKind.INTERNAL


NOT_SENT = (SnmpUnreachable, SnmpLocalFault)  # nothing left this machine: no PDU, and no word about the OLT


class SnmpBadAnswer(SnmpError):  # noqa: N818
    """The device's answer cannot be read at all. Asking for less of the same is of no use, and the C library may crash

    on the next one (easysnmp 0.2.6, GETNEXT answered with an empty name).
    """


class SnmpBadOid(SnmpError):  # noqa: N818
    """The text is not an OID that can be sent. Raised before anything goes out."""

    kind = ErrorKind.BAD_OID


class SnmpDeviceError(SnmpError):
    """The device answered with an error status (genErr and its like), or with nonsense."""

    kind = ErrorKind.DEVICE


class SnmpUnreadable(SnmpDeviceError):  # noqa: N818
    """Something came, and nothing of it could be read as the answer: told only when the time-out is over."""


def unreadable(target: SnmpTarget) -> str:
    """What to say of a request whose answer could not be read."""
    return (
        f"{target.address}:{target.port} answered, but what it sent can't be read: a value or a name in it is "
        "malformed, the datagram was cut, or it is not of the SNMP version asked for"
    )


def silence(target: SnmpTarget) -> str:
    """What to say of a request that got no answer to any of its tries."""
    what = "address, port, user or security level" if target.version == "3" else "address, port or community"
    tries = f"{target.retries + 1} tries" if target.retries else "one try"
    return (
        f"no answer from {target.address}:{target.port} to {tries} of {target.timeout:g} s: the OLT is down or "
        f"busy, or the {what} is wrong, or its access list refuses this poller"
    )
