"""Where an OLT is, and whether its credential can be used at all: asked before any library is. Sends nothing."""

import socket
from collections.abc import Sequence

from jobs.snmp.errors import SnmpAuthError, SnmpLocalFault, SnmpUnreachable
from portal.domain import addresses
from portal.domain.composite import SnmpTarget

MIN_TIMEOUT, MAX_TIMEOUT, MAX_RETRIES = 0.01, 60.0, 10
_NAME_UNKNOWN = frozenset({socket.EAI_NONAME, socket.EAI_FAMILY, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def resolved(target: SnmpTarget) -> tuple[str, bool]:
    """The numeric address, and whether it is of IPv6.

    Looked up once: it cannot change between two requests, nor between the check of its network and the first of them.
    Raises SnmpUnreachable where there is no such address or it lies outside the target's networks or those of its
    credential, SnmpLocalFault where this machine could not find out.
    """
    where = f"{target.address}:{target.port}"
    if not target.address.strip() or not 0 < target.port < 65536:
        raise SnmpUnreachable(f"{where} is not an address and a port")
    unknown = f"{target.address} is not an address or a known name: check spelling and DNS"
    try:
        found = socket.getaddrinfo(target.address, target.port, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        if error.errno in _NAME_UNKNOWN:
            raise SnmpUnreachable(unknown) from None
        raise SnmpLocalFault(f"this poller cannot look up {target.address}: {error.strerror}") from None
    except UnicodeError:
        raise SnmpUnreachable(unknown) from None
    except OSError as error:
        raise SnmpLocalFault(f"this poller cannot open a socket: {error.strerror}") from None
    family, *_, address = found[0]
    numeric = str(address[0])
    _check_within(target, numeric, target.networks, "the networks for OLTs (setting OLT_NETWORKS)")
    if target.secret_networks is not None:
        _check_within(target, numeric, target.secret_networks, "the networks that its credential may be sent to")
    return numeric, family == socket.AF_INET6


def _check_within(target: SnmpTarget, numeric: str, networks: Sequence[str], what: str) -> None:
    if not addresses.is_within(numeric, networks):
        known = numeric if numeric == target.address else f"{target.address} stands for {numeric}, which"
        raise SnmpUnreachable(f"{known} is outside {what}: {', '.join(networks) or 'none'}")


def usable_community(target: SnmpTarget) -> str:
    """The community of a version 1 or 2c target. Raises SnmpAuthError where none can be sent."""
    if not target.community or "\0" in target.community:
        raise SnmpAuthError("the credential has no usable community")
    return target.community


def seconds_of(target: SnmpTarget) -> float:
    """How long one try may take, within what a socket can be told."""
    return min(max(float(target.timeout), MIN_TIMEOUT), MAX_TIMEOUT)


def retries_of(target: SnmpTarget) -> int:
    """Further tries after the first."""
    return min(max(int(target.retries), 0), MAX_RETRIES)


def local_fault(target: SnmpTarget) -> SnmpLocalFault:
    """What to say when no socket could be had."""
    return SnmpLocalFault(
        f"this poller could not open a socket to {target.address}:{target.port}: check its open files and memory"
    )
