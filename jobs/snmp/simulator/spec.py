"""One simulated OLT as text (``huawei@127.0.0.1:20000,onus=64,delay=0.05``) and its MIB; no sockets here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from jobs.snmp.simulator import huawei, zte
from jobs.snmp.simulator.faults import MAX_UDP_BYTES, MIN_MAX_BYTES, Faults, number_between, whole_between
from jobs.snmp.simulator.mib import MibSource, RecordedMib, parse_oid
from jobs.snmp.simulator.onus import MAX_ONUS, Population
from jobs.snmp.simulator.snmprec import SnmprecError, load_snmprec

VENDORS = ("huawei", "zte")
DEFAULT_HOST = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.%\w]+\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})")


class SpecError(ValueError):
    """A specification that cannot be served; the message says which part and what is expected."""


@dataclass(frozen=True, slots=True)
class OltSpec:
    """One simulated OLT: where its data come from, where it listens, how it behaves.

    ``seed`` 0 becomes the OLT's place in the list, so that no two OLTs have the same ONUs unless that is wanted.
    ``source`` is ``huawei``, ``zte`` or the path of a recording; port 0 takes any free port. ``onus``, ``churn`` and
    ``family`` are for generated OLTs. ``at`` sets the OLT's clock (unix seconds; None = now), ``speed`` is its pace.
    """

    source: str
    host: str = DEFAULT_HOST
    port: int = 0
    onus: int = 64
    seed: int = 0
    churn: float = 0.0
    family: str = "C"
    community: str = "public"
    name: str = ""
    at: float | None = None
    speed: float = 1.0
    faults: Faults = field(default_factory=Faults)

    @property
    def generated(self) -> bool:
        """Whether the data are computed, not read from a file."""
        return self.source in VENDORS


def _word(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _family(text: str) -> str:
    if text.upper() not in ("B", "C"):
        raise ValueError("must be B or C")
    return text.upper()


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 0 or 1")
    return text == "1"


_OLT_KEYS: dict[str, Callable[[str], Any]] = {
    "onus": whole_between(1, MAX_ONUS),
    "seed": whole_between(1, 2**31 - 1),
    "churn": number_between(0, 1),
    "family": _family,
    "community": _word,
    "name": _word,
    "at": number_between(0, 4_000_000_000),
    "speed": number_between(0.001, 100_000),
}
_FAULT_KEYS: dict[str, Callable[[str], Any]] = {
    "delay": number_between(0, 3600),
    "jitter": number_between(0, 3600),
    "drop": number_between(0, 1),
    "dead": _switch,
    "deadfile": lambda text: Path(_word(text)),
    "toobig": whole_between(MIN_MAX_BYTES, MAX_UDP_BYTES),
    "maxrep": whole_between(0, 1000),
    "loop": parse_oid,
    "mute": parse_oid,
    "generr": parse_oid,
}
_GENERATED_ONLY = ("onus", "churn", "family")


def parse_spec(text: str) -> OltSpec:
    """Read ``SOURCE@[HOST:]PORT[,KEY=VALUE…]``; SpecError says what is wrong and what would be right."""
    head, *options = text.split(",")
    source, at, address = head.rpartition("@")
    if not at or not source:
        raise SpecError(f"{text!r}: expected SOURCE@[HOST:]PORT, such as huawei@127.0.0.1:20000 or walk.snmprec@20001")
    host, port = _address(text, address)
    olt, faults = _options(text, options)
    spec = OltSpec(source=_source(text, source), host=host, port=port, faults=Faults(**faults), **olt)
    useless = [key for key in _GENERATED_ONLY if key in olt and not spec.generated]
    if useless:
        raise SpecError(f"{text!r}: {useless[0]} has no meaning for a recording; leave it out")
    return spec


def numbered(specs: Sequence[OltSpec], count: int = 1) -> list[OltSpec]:
    """Each specification ``count`` times, ports (but 0) and seeds counting up; SpecError past port 65535."""
    found: list[OltSpec] = []
    for spec in specs:
        if spec.port and spec.port + count - 1 > 65535:
            raise SpecError(f"{count} OLTs from port {spec.port} on would pass port 65535; start lower")
        seed = spec.seed or len(found) + 1
        found += [replace(spec, port=spec.port and spec.port + step, seed=seed + step) for step in range(count)]
    return found


def build_mib(spec: OltSpec, name: str, now: float) -> MibSource:
    """The data of one OLT with its system name; SpecError when its recording is missing or damaged."""
    name = spec.name or name
    if spec.source == "huawei":
        return huawei.build(spec.seed, name, Population(spec.seed, spec.onus, spec.churn))
    if spec.source == "zte":
        return zte.build(spec.seed, name, Population(spec.seed, spec.onus, spec.churn), spec.family)
    try:
        return RecordedMib(load_snmprec(Path(spec.source)), now)
    except SnmprecError as error:
        raise SpecError(str(error)) from error


def option_names() -> tuple[str, ...]:
    """Every KEY a specification may carry."""
    return (*_OLT_KEYS, *(field.name for field in fields(Faults)))


def _address(text: str, address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise SpecError(f"{text!r}: {address!r} is no [HOST:]PORT with a port from 0 to 65535 (0 = any free port)")
    return (match["host"] or DEFAULT_HOST).strip("[]"), int(match["port"])


def _source(text: str, source: str) -> str:
    if source.lower() in VENDORS:
        return source.lower()
    if source.endswith(".snmprec") or Path(source).is_file():
        return source
    raise SpecError(f"{text!r}: unknown vendor {source!r}; use {', '.join(VENDORS)} or the path of a .snmprec file")


def _options(text: str, options: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    olt: dict[str, Any] = {}
    faults: dict[str, Any] = {}
    for option in options:
        key, sign, raw = option.partition("=")
        key = key.strip()
        reader = _OLT_KEYS.get(key) or _FAULT_KEYS.get(key)
        if not sign or reader is None:
            raise SpecError(f"{text!r}: unknown option {option!r}; KEY=VALUE with a KEY of {', '.join(option_names())}")
        try:
            (olt if key in _OLT_KEYS else faults)[key] = reader(raw.strip())
        except ValueError as error:
            raise SpecError(f"{text!r}: {key}={raw}: {error}") from error
    return olt, faults
