"""Management addresses of OLTs: normal form, and which networks they may lie in. No I/O, no name look-up."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from portal.domain.fields import FieldError, shown
from portal.domain.messages import N_

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
# The C library reads 2130706433, 0x7f.1 and 127.1 as addresses: as names they would pass the check of networks.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


def normalise(value: object) -> str:
    """An IP address in its shortest form, or a lower-case host name. FieldError when it is neither."""
    text = str(value or "").strip().rstrip(".").lower()
    try:
        found = ip_address(text.strip("[]"))
    except ValueError:
        return _host_name(text, value)
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_multicast or found.is_unspecified or found == IPv4Address("255.255.255.255"):
        raise FieldError(N_("%(given)s is no address of one device", given=str(found)))
    return str(found)


def _host_name(text: str, given: object) -> str:
    labels = text.split(".")
    fits = len(text) <= 253 and all(_LABEL.fullmatch(label) for label in labels)
    if not fits or _NUMERIC.fullmatch(labels[-1]):
        raise FieldError(
            N_("must be an IP address such as 10.0.0.5 or a host name, not %(given)s", given=shown(given or "nothing"))
        )
    return text


def check_networks(address: str, networks: Iterable[str]) -> None:
    """FieldError when `address` is an IP address outside all of `networks`. A name is checked where it is resolved."""
    allowed = list(networks)
    if is_numeric(address) and not is_within(address, allowed):
        raise FieldError(
            N_("%(address)s is outside the networks for OLTs (setting OLT_NETWORKS): %(networks)s", address=address,
               networks=", ".join(allowed))
        )  # fmt: skip


def read_networks(value: object) -> str:
    """Networks separated by commas or blanks → each in its shortest form, separated by commas. FieldError."""
    return ", ".join(dict.fromkeys(_network(part) for part in re.split(r"[\s,;]+", str(value or "")) if part))


def listed(networks: str) -> tuple[str, ...]:
    """The networks that `read_networks` joined."""
    return tuple(networks.split(", ")) if networks else ()


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise FieldError(N_("must be networks such as 10.0.0.0/8, not %(given)s", given=shown(text))) from None


def is_within(address: str, networks: Iterable[str]) -> bool:
    """Whether an IP address lies in one of the networks. One that can only be of this link must be listed as such."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_multicast or found.is_unspecified or found == IPv4Address("255.255.255.255"):
        return False
    within = [one for one in map(ip_network, networks) if one.version == found.version and found in one]
    return any(one.is_link_local for one in within) if found.is_link_local else bool(within)


def is_numeric(address: str) -> bool:
    """Whether it is an IP address and no name."""
    try:
        ip_address(address)
    except ValueError:
        return False
    return True
