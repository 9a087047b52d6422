"""The session over easysnmp 0.2.6 (Net-SNMP), the only file that may import it. No retry rule, no decoding.

Found in its source and by trying, each of them guarded below:

* a session ends when its capsule `sess_ptr` loses the last reference; there is no close method;
* an empty OID crashes the process, other nonsense is silently read as some OID: only checked OIDs are handed over;
* an empty address means this machine; a colon (IPv6) and a leading "ssh" or "tls" are misread: see `_Session`;
* the socket is not connected, so a closed port is a plain time-out, and so is a wrong community;
* one request blocks timeout * (retries + 1) seconds and neither SIGALRM nor a thread can end it sooner;
* the first request of an SNMPv3 session is preceded by the engine discovery: up to three exchanges, not one;
* octets come as latin-1 text; in GETNEXT and GETBULK they are cut at 4,096 octets;
* Opaque floats arrive without value or type (`SnmpType.UNKNOWN`, empty octets).
"""

import socket
import threading
from collections.abc import Callable, Sequence

from easysnmp import Session, SNMPVariable
from easysnmp.exceptions import (
    EasySNMPConnectionError,
    EasySNMPError,
    EasySNMPNoSuchNameError,
    EasySNMPTimeoutError,
)

from jobs.snmp.errors import (
    SnmpAuthError,
    SnmpBadAnswer,
    SnmpBadOid,
    SnmpDeviceError,
    SnmpError,
    SnmpLocalFault,
    SnmpNoSuchObject,
    SnmpTimeout,
    SnmpTooBig,
    SnmpUnreachable,
    silence,
)
from jobs.snmp.session import MARKERS, MAX_REPETITIONS, SnmpSession, SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget

MIN_TIMEOUT, MAX_TIMEOUT, MAX_RETRIES = 0.01, 60.0, 10

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
_VALUELESS = MARKERS | {SnmpType.NULL}

# error-status of the answer (RFC 3416) and, where negative, SNMPERR_* of Net-SNMP's snmp_api.h.
_TOO_BIG = frozenset({1, -5})
_AUTH = frozenset({6, 16, -22, -23, -27, -28, *range(-50, -32)})
_NOT_SENT = frozenset({-3, -6, -12})
_NAME_UNKNOWN = frozenset({socket.EAI_NONAME, socket.EAI_FAMILY, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_AUTH_PROTOCOLS = frozenset({"MD5", "SHA", "SHA224", "SHA256", "SHA384", "SHA512"})
_PRIV_PROTOCOLS = frozenset({"DES", "AES"})


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

    def __init__(self, target: SnmpTarget) -> None:
        self._where = f"{target.address}:{target.port}"
        self._target = target
        self._bulk = target.version != "1"
        self._thread = threading.get_ident()
        self._session: Session | None = _opened(target)

    def get(self, oids: Sequence[str]) -> list[VarBind]:
        """See SnmpSession. In SNMPv1 a missing name among several raises SnmpNoSuchObject; alone it is a marker."""
        names = [checked_oid(oid) for oid in oids]
        return self._request(names, lambda s: s.get(names), SnmpType.NO_SUCH_OBJECT)

    def next_rows(self, oids: Sequence[str], max_repetitions: int) -> list[VarBind]:
        """See SnmpSession. GETNEXT in SNMPv1, and for one row: some devices answer that where their GETBULK fails."""
        names = [checked_oid(oid) for oid in oids]
        rows = min(max(max_repetitions, 1), MAX_REPETITIONS)
        if self._bulk and rows > 1:
            return self._request(names, lambda s: s.get_bulk(names, 0, rows), SnmpType.END_OF_MIB_VIEW)
        return self._request(names, lambda s: s.get_next(names), SnmpType.END_OF_MIB_VIEW)

    def close(self) -> None:
        """See SnmpSession. Dropping the capsule runs Net-SNMP's own close at once."""
        if self._session is not None:
            self._session.sess_ptr = None
            self._session = None

    def _request(
        self, names: list[str], send: Callable[[Session], list[SNMPVariable]], absent: SnmpType
    ) -> list[VarBind]:
        if self._session is None:
            raise RuntimeError("this SNMP session is closed")
        if threading.get_ident() != self._thread:
            raise RuntimeError("an SNMP session may be used only in the thread that opened it")
        if not names:
            return []
        try:
            answer = send(self._session)
        except EasySNMPNoSuchNameError:
            if len(names) == 1:
                return [VarBind(names[0], absent)]
            raise SnmpNoSuchObject(f"{self._where} does not have all of the {len(names)} names asked for") from None
        except (EasySNMPError, SystemError) as error:
            raise self._translated(error, self._session) from None
        return [_var_bind(variable) for variable in answer if variable.snmp_type is not None]

    def _translated(self, error: Exception, session: Session) -> SnmpError:
        """Our own error for one of the library's. SystemError is how its C code reports an answer it cannot take."""
        if isinstance(error, EasySNMPTimeoutError):
            return SnmpTimeout(silence(self._target))
        status, code = int(session.error_number), int(session.error_index)
        text = f"{self._where} answered: {_without_secrets(str(error), self._target)}"
        number = code if code < 0 else status
        if number in _TOO_BIG:
            return SnmpTooBig(text)
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
        "timeout": min(max(float(target.timeout), MIN_TIMEOUT), MAX_TIMEOUT),
        "retries": min(max(int(target.retries), 0), MAX_RETRIES),
        "use_numeric": True,
        "use_long_names": True,
        "use_sprint_value": False,
        "use_enums": False,
        "best_guess": 0,
        "retry_no_such": False,  # True would send several requests for one, past the lease checkpoint
        "abort_on_nonexistent": False,
        **_credential(target),
    }
    try:
        return _Session(_peer(target), **settings)
    except EasySNMPConnectionError as error:
        if target.version == "3" and "Ku" in str(error):
            raise SnmpAuthError("an SNMPv3 password must have at least 8 characters") from None
        raise SnmpLocalFault(
            f"this poller could not open a socket to {target.address}:{target.port}: check its open files and memory"
        ) from None


def _peer(target: SnmpTarget) -> str:
    """Net-SNMP's name of the peer. The name is resolved here, once, so that it cannot change between two requests."""
    where = f"{target.address}:{target.port}"
    if not target.address.strip() or not 0 < target.port < 65536:
        raise SnmpUnreachable(f"{where} is not an address and a port")
    try:
        found = socket.getaddrinfo(target.address, target.port, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        if error.errno in _NAME_UNKNOWN:
            raise SnmpUnreachable(
                f"{target.address} is not an address or a known name: check spelling and DNS"
            ) from None
        raise SnmpLocalFault(f"this poller cannot look up {target.address}: {error.strerror}") from None
    except UnicodeError:
        raise SnmpUnreachable(f"{target.address} is not an address or a known name: check spelling and DNS") from None
    except OSError as error:
        raise SnmpLocalFault(f"this poller cannot open a socket: {error.strerror}") from None
    family, *_, address = found[0]
    return f"udp6:[{address[0]}]:{target.port}" if family == socket.AF_INET6 else f"udp:{address[0]}:{target.port}"


def _credential(target: SnmpTarget) -> dict[str, object]:
    if target.version in ("1", "2c"):
        if not target.community or "\0" in target.community:
            raise SnmpAuthError("the credential has no usable community")
        return {"version": 1 if target.version == "1" else 2, "community": target.community}
    if target.version == "3":
        return {"version": 3, "community": "", **_user(target)}
    raise SnmpAuthError(f"SNMP version {target.version!r} is not supported: use 1, 2c or 3")


def _user(target: SnmpTarget) -> dict[str, object]:
    """SNMPv3: the security level follows from which protocols are set."""
    if not target.username or "\0" in target.username + target.auth_password + target.priv_password:
        raise SnmpAuthError("the SNMPv3 credential has no usable user name or password")
    if target.priv_protocol and not target.auth_protocol:
        raise SnmpAuthError("SNMPv3 privacy needs an authentication protocol too")
    user: dict[str, object] = {"security_username": target.username, "security_level": "noAuthNoPriv"}
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


def _var_bind(variable: SNMPVariable) -> VarBind:
    """The library cuts an OID in two at a place of its own choosing: joined again before anyone looks at it."""
    oid = f"{variable.oid}.{variable.oid_index}" if variable.oid_index else str(variable.oid)
    kind = _TYPES.get(variable.snmp_type, SnmpType.UNKNOWN)
    try:
        return VarBind(checked_oid(oid.removeprefix(".")), kind, _value(kind, variable.value or ""))
    except SnmpBadOid:
        raise SnmpBadAnswer("the OLT answered with a name that is no OID: its answer cannot be read") from None


def _value(kind: SnmpType, text: str) -> int | bytes | str | None:
    if kind in _NUMBERS:
        return int(text)
    if kind in _VALUELESS:
        return None
    if kind in (SnmpType.OID, SnmpType.IP_ADDRESS):
        return text.removeprefix(".")
    return text.encode("latin-1")


def _without_secrets(text: str, target: SnmpTarget) -> str:
    for secret in (target.community, target.auth_password, target.priv_password):
        text = text.replace(secret, "***") if secret else text
    return text
