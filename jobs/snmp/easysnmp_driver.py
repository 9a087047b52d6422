"""The session over easysnmp 0.2.6 (Net-SNMP), the only file that may import it. No retry rule, no decoding.

Found in its source and by trying, each of them guarded below:

* a session ends when its capsule `sess_ptr` loses the last reference; there is no close method;
* an empty OID crashes the process, other nonsense is silently read as some OID: only checked OIDs are handed over;
* an empty address means this machine; a colon (IPv6) and a leading "ssh" or "tls" are misread: see `_Session`;
* the socket is not connected, so a closed port is a plain time-out, and so is a wrong community;
* one request blocks timeout * (retries + 1) seconds and neither SIGALRM nor a thread can end it sooner;
* the first request of an SNMPv3 session is preceded by the engine discovery: up to three exchanges, not one;
* octets come as latin-1 text; in GETNEXT and GETBULK they are cut at 4,096 octets;
* Opaque floats arrive without value or type (`SnmpType.UNKNOWN`, empty octets);
* it writes a debug message for each value and each OID, whether anybody listens or not: half of the cost of a value;
* the form of names is a setting of the whole process, changed and put back in each call: it is set for good here;
* its variables cost a third of a value; the C code makes them by the name `easysnmp.SNMPVariable`, see `_Variable`;
* what it cannot read it drops without a word, and waits on: see `_heard`;
* a wrongly signed SNMPv3 answer is counted, complained of on stderr, and handed over all the same (Net-SNMP 5.9.3);
* SNMPv3 engines are remembered for the whole process: one that starts over with lower boots is silent, see `_forget`.
"""

import ctypes
import logging
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

import easysnmp
from easysnmp import Session, interface
from easysnmp.exceptions import (
    EasySNMPConnectionError,
    EasySNMPError,
    EasySNMPNoSuchNameError,
    EasySNMPTimeoutError,
)

from jobs.snmp.datagrams import last_received
from jobs.snmp.errors import (
    SnmpAuthError,
    SnmpBadAnswer,
    SnmpDeviceError,
    SnmpEngineRestarted,
    SnmpError,
    SnmpNoSuchObject,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnreachable,
    SnmpUnreadable,
    silence,
    unreadable,
)
from jobs.snmp.peers import local_fault, resolved, retries_of, seconds_of, usable_community
from jobs.snmp.session import MARKERS, MAX_REPETITIONS, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget

_TYPES = {
    "INTEGER": SnmpType.INTEGER,
    "INTEGER32": SnmpType.INTEGER,
    "UNSIGNED32": SnmpType.GAUGE32,
    "UINTEGER": SnmpType.GAUGE32,
    "GAUGE": SnmpType.GAUGE32,
    "COUNTER": SnmpType.COUNTER32,
    "COUNTER64": SnmpType.COUNTER64,
    "TICKS": SnmpType.TIME_TICKS,
    "OCTETSTR": SnmpType.OCTETS,
    "OBJECTID": SnmpType.OID,
    "IPADDR": SnmpType.IP_ADDRESS,
    "NETADDR": SnmpType.IP_ADDRESS,
    "OPAQUE": SnmpType.OPAQUE,
    "BITS": SnmpType.BITS,
    "NULL": SnmpType.NULL,
    "NOSUCHOBJECT": SnmpType.NO_SUCH_OBJECT,
    "NOSUCHINSTANCE": SnmpType.NO_SUCH_INSTANCE,
    "NOSUCHNAME": SnmpType.NO_SUCH_OBJECT,
    "ENDOFMIBVIEW": SnmpType.END_OF_MIB_VIEW,
}
_NUMBERS = frozenset({SnmpType.INTEGER, SnmpType.GAUGE32, SnmpType.COUNTER32, SnmpType.COUNTER64, SnmpType.TIME_TICKS})
_DOTTED = frozenset({SnmpType.OID, SnmpType.IP_ADDRESS})
_VALUELESS = MARKERS | {SnmpType.NULL}
_BEGINNINGS = frozenset({".0.", ".1.", ".2."})


def _number(text: str) -> int:
    return int(text)


def _octets(text: str) -> bytes:
    return text.encode("latin-1")


def _dotted(text: str) -> str:
    return text.removeprefix(".")


def _nothing(_text: str) -> None:
    return None


def _reader(kind: SnmpType) -> Callable[[str], int | bytes | str | None]:
    if kind in _NUMBERS:
        return _number
    if kind in _VALUELESS:
        return _nothing
    return _dotted if kind in _DOTTED else _octets


_READERS = {name: (kind, _reader(kind)) for name, kind in _TYPES.items()}
_UNREADABLE = (SnmpType.UNKNOWN, _octets)

# error-status of the answer (RFC 3416) and, where negative, SNMPERR_* of Net-SNMP's snmp_api.h.
_TOO_BIG = frozenset({1, -5})
_AUTH = frozenset({6, 16, -22, -23, -27, -28, *range(-50, -32)})
_NOT_SENT = frozenset({-3, -6, -12})
_RESTARTED = frozenset({-32, -36, -48, -49})  # unknown engine, not in time window: as a report, and as our own finding
_NOBODY_ASKED, _WRONG_DIGESTS = 2, 7  # STAT_SNMPUNKNOWNPDUHANDLERS and STAT_USMSTATSWRONGDIGESTS of its snmp_api.h
_LIBRARY = ctypes.CDLL(interface.__file__)
# NETSNMP_DS_LIBRARY_ID, NETSNMP_DS_LIB_OID_OUTPUT_FORMAT, NETSNMP_OID_OUTPUT_NUMERIC (default_store.h, mib.h)
_LIBRARY.netsnmp_ds_set_int(0, 4, 4)


class _Transport(ctypes.Structure):
    """How netsnmp_transport of snmp_transport.h begins."""

    _fields_: ClassVar = [
        ("domain", ctypes.c_void_p), ("domain_length", ctypes.c_int),
        ("local", ctypes.c_void_p), ("local_length", ctypes.c_int),
        ("remote", ctypes.c_void_p), ("remote_length", ctypes.c_int),
        ("sock", ctypes.c_int),
    ]  # fmt: skip


_LIBRARY.snmp_sess_transport.argtypes = [ctypes.c_void_p]
_LIBRARY.snmp_sess_transport.restype = ctypes.POINTER(_Transport)
_CONTENT = ctypes.pythonapi.PyCapsule_GetPointer
_CONTENT.argtypes, _CONTENT.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_GET, _GET_NEXT = -1, 0  # in the place of a number of rows
MAX_COLUMNS = 50  # in one GETBULK; names alone would fill a frame with more
_OPENING = threading.Lock()  # Net-SNMP reads its configuration at the first opening, for the whole process
_AUTH_PROTOCOLS = frozenset({"MD5", "SHA", "SHA224", "SHA256", "SHA384", "SHA512"})
_PRIV_PROTOCOLS = frozenset({"DES", "AES"})


class _Variable:
    """One name on its way out, or one value on its way in: what the C code sets, and nothing else.

    The library's own class takes a name apart by a regular expression and runs Python for each attribute that is set:
    a third of the cost of a value.
    """

    __slots__ = ("oid", "oid_index", "snmp_type", "value")

    def __init__(self, oid: str | None = None) -> None:
        self.oid = oid
        self.oid_index: str | None = ""
        self.snmp_type: str | None = None
        self.value: str | None = None


class _Variables(list[_Variable]):
    """A list as the C code wants it: GETBULK's answer replaces its content."""

    @property
    def varbinds(self) -> "_Variables":
        return self


# A builtin in the place of the method: no frame of Python is made, so no other thread gets its turn amid an answer.
logging.getLogger("easysnmp.interface").debug = bool  # type: ignore[method-assign, assignment]
easysnmp.SNMPVariable = _Variable  # looked up by the C code in the package, for each value of a GETBULK


class _Session(Session):  # type: ignore[misc]  # untyped base
    """easysnmp's session, told its peer in Net-SNMP's own form, which it would otherwise take apart at a colon."""

    def __init__(self, peer: str, **settings: object) -> None:
        self.peer = peer
        super().__init__(hostname="olt", **settings)

    @property
    def connect_hostname(self) -> str:
        return self.peer


class EasySnmpSession:
    """One Net-SNMP session. Opening sends nothing; SnmpUnreachable or SnmpAuthError where it cannot be opened."""

    columns_per_request: ClassVar[int] = MAX_COLUMNS
    repeats: ClassVar[int] = 0
    checks: ClassVar[int] = 0

    def __init__(self, target: SnmpTarget) -> None:
        self.parallel = target.version != "3"  # Net-SNMP's lists of users and engines have no lock
        self._where = f"{target.address}:{target.port}"
        self._target = target
        self._bulk = target.version != "1"
        self._thread = threading.get_ident()
        self._stale = False  # SNMPv3: what is known of the engine is in doubt
        self._session: Session | None = _opened(target)
        self._socket = _socket_of(self._session)

    @property
    def exact(self) -> "EasySnmpSession":
        """See SnmpSession: itself."""
        return self

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession. In SNMPv1 a missing name among several raises SnmpNoSuchObject; alone it is a marker."""
        return self._request(_Variables(map(_Variable, map(checked_oid, oids))), _GET)

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession. GETNEXT in SNMPv1, and for one row: some devices answer that where their GETBULK fails."""
        names = _Variables(map(_Variable, map(checked_oid, oids)))
        rows = min(max(max_repetitions, 1), MAX_REPETITIONS)
        return self._request(names, rows if self._bulk and rows > 1 else _GET_NEXT)

    def close(self) -> None:
        """See SnmpSession. Dropping the capsule runs Net-SNMP's own close at once."""
        if self._session is not None:
            self._session.sess_ptr = None
            self._session = None

    def _request(self, names: _Variables, rows: int) -> list[VarBind]:
        """One request: GET, GETNEXT, or GETBULK of so many rows."""
        session = self._usable()
        if not names:
            return []
        asked = len(names)
        first = names[0].oid or ""
        forged = _LIBRARY.snmp_get_statistic(_WRONG_DIGESTS)
        before = (last_received(self._socket), _LIBRARY.snmp_get_statistic(_NOBODY_ASKED))
        try:
            if rows == _GET:
                interface.get(session, names)
            elif rows == _GET_NEXT:
                interface.getnext(session, names)
            else:
                interface.getbulk(session, 0, rows, names)
        except EasySNMPNoSuchNameError:
            if asked == 1:
                return [VarBind(first, SnmpType.NO_SUCH_OBJECT if rows == _GET else SnmpType.END_OF_MIB_VIEW)]
            text = f"{self._where} does not have all of the {asked} names asked for"
            raise SnmpNoSuchObject(text) from None  # the library does not say which, though the device did
        except (EasySNMPError, SystemError) as error:
            raise _blaming(self._translated(error, session, before), session, asked) from None
        if _LIBRARY.snmp_get_statistic(_WRONG_DIGESTS) != forged and self._target.version == "3":
            raise SnmpAuthError(f"an answer in the name of {self._where} was not signed with this credential's key")
        return [_var_bind(variable) for variable in names if variable.snmp_type is not None]

    def _usable(self) -> Session:
        if self._session is None:
            raise RuntimeError("this SNMP session is closed")
        if threading.get_ident() != self._thread:
            raise RuntimeError("an SNMP session may be used only in the thread that opened it")
        if self._stale:
            self._stale = False
            self._session.sess_ptr = None
            _forget()
            self._session = _opened(self._target)
            self._socket = _socket_of(self._session)
        return self._session

    def _heard(self, before: tuple[bytes, int]) -> bool:
        """Whether something came since that was not an answer to an earlier request, which the library counts."""
        return last_received(self._socket) != before[0] and _LIBRARY.snmp_get_statistic(_NOBODY_ASKED) == before[1]

    def _translated(self, error: Exception, session: Session, before: tuple[bytes, int]) -> SnmpError:
        """Our own error for one of the library's. SystemError is how its C code reports an answer it cannot take."""
        if isinstance(error, EasySNMPTimeoutError):
            if self._target.version != "3" and self._heard(before):
                return SnmpUnreadable(unreadable(self._target))
            # Net-SNMP drops what an engine says whose boots or time went down (net-snmp #385, #827): silence, for ever.
            self._stale = self._target.version == "3"
            return SnmpTimeout(silence(self._target))
        status, code = int(session.error_number), int(session.error_index)
        text = f"{self._where} answered: {_without_secrets(str(error), self._target)}"
        number = code if code < 0 else status
        if number in _TOO_BIG:
            return SnmpTooBig(text)
        if number in _RESTARTED:
            self._stale = True
            return SnmpEngineRestarted(
                f"{text}. The clock of its SNMPv3 engine is not where it was: it has restarted twice, "
                "or another device has the same engine ID."
            )
        if number in _AUTH:
            return SnmpAuthError(f"{text}. Check user, passwords, protocols and security level of the credential.")
        if number in _NOT_SENT:
            return SnmpUnreachable(f"nothing could be sent to {self._where}: check the address and the route")
        return SnmpDeviceError(text)


def open_session(target: SnmpTarget) -> SnmpSession:
    """A session to `target`; the default SessionFactory of the product."""
    return EasySnmpSession(target)


def _opened(target: SnmpTarget) -> Session:
    settings = {
        "timeout": seconds_of(target),
        "retries": retries_of(target),
        "use_numeric": True,
        "use_long_names": True,
        "use_sprint_value": False,
        "use_enums": False,
        "best_guess": 0,
        "retry_no_such": False,  # True would send several requests for one, past the lease checkpoint
        "abort_on_nonexistent": False,
        **_credential(target),
    }
    peer = _peer(target)
    try:
        with _OPENING:
            return _Session(peer, **settings)
    except EasySNMPConnectionError as error:
        if target.version == "3" and "Ku" in str(error):
            raise SnmpAuthError("an SNMPv3 password must have at least 8 characters") from None
        raise local_fault(target) from None


def _socket_of(session: Session) -> int:
    """The descriptor of the socket, which the library does not tell."""
    capsule = ctypes.c_void_p.from_address(_CONTENT(session.sess_ptr, None))  # it begins with Net-SNMP's session
    return int(_LIBRARY.snmp_sess_transport(capsule).contents.sock)


def _forget() -> None:
    """Drop what Net-SNMP remembers of the clocks of all engines, which a session does not take with it when it ends.

    The next request then begins with the engine's discovery. No other SNMPv3 session is in use: see `parallel`.
    """
    _LIBRARY.free_etimelist()


def _blaming(error: SnmpError, session: Session, asked: int) -> SnmpError:
    """The error with the place of the name that the device's error-index points at, if it points at one of them."""
    blamed = int(session.error_index)
    error.place = blamed - 1 if int(session.error_number) > 0 and 0 < blamed <= asked else None
    return error


def _peer(target: SnmpTarget) -> str:
    """Net-SNMP's name of the peer."""
    address, six = resolved(target)
    return f"udp6:[{address}]:{target.port}" if six else f"udp:{address}:{target.port}"


def _credential(target: SnmpTarget) -> dict[str, object]:
    if target.version in ("1", "2c"):
        return {"version": 1 if target.version == "1" else 2, "community": usable_community(target)}
    if target.version == "3":
        return {"version": 3, "community": "", **_user(target)}
    raise SnmpAuthError(f"SNMP version {target.version!r} is not supported: use 1, 2c or 3")


def _user(target: SnmpTarget) -> dict[str, object]:
    """SNMPv3: the security level follows from which protocols are set."""
    if not target.username or "\0" in target.username + target.auth_password + target.priv_password:
        raise SnmpAuthError("the SNMPv3 credential has no usable user name or password")
    if target.priv_protocol and not target.auth_protocol:
        raise SnmpAuthError("SNMPv3 privacy needs an authentication protocol too")
    user: dict[str, object] = {
        "security_username": target.username,
        "security_level": "noAuthNoPriv",
        "context": target.context,
    }
    if target.auth_protocol:
        _require(target.auth_protocol in _AUTH_PROTOCOLS, "authentication", target.auth_protocol)
        user |= {"auth_protocol": target.auth_protocol, "auth_password": target.auth_password}
        user["security_level"] = "authPriv" if target.priv_protocol else "authNoPriv"
    if target.priv_protocol:
        _require(target.priv_protocol in _PRIV_PROTOCOLS, "privacy", target.priv_protocol)
        user |= {"privacy_protocol": target.priv_protocol, "privacy_password": target.priv_password}
    return user


def _require(known: bool, what: str, protocol: str) -> None:
    if not known:
        raise SnmpAuthError(f"the {what} protocol {protocol!r} is not supported")


def _var_bind(variable: _Variable) -> VarBind:
    """The library cuts an OID in two at a place of its own choosing: joined again before anyone looks at it.

    Here it is only made sure that there is a name at all; walker and getter compare it with what they asked for.
    """
    oid = f"{variable.oid}.{variable.oid_index}" if variable.oid_index else str(variable.oid)
    if oid[:3] not in _BEGINNINGS:
        raise SnmpBadAnswer("the OLT answered with a name that is no OID: its answer cannot be read")
    kind, read = _READERS.get(variable.snmp_type or "", _UNREADABLE)
    return VarBind(oid[1:], kind, read(variable.value or ""))


def _without_secrets(text: str, target: SnmpTarget) -> str:
    for secret in (target.community, target.auth_password, target.priv_password):
        text = text.replace(secret, "***") if secret else text
    return text
