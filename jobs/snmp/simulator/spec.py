"""One simulated OLT as text (``huawei@127.0.0.1:20000,onus=64,delay=0.05``) and its MIB; no sockets here."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from jobs.snmp.simulator.built import BuiltOlt, ExpectedOnu, Plan
from jobs.snmp.simulator.faults import MAX_UDP_BYTES, MIN_MAX_BYTES, Faults, number_between, whole_between
from jobs.snmp.simulator.mib import MibSource, RecordedMib, parse_oid
from jobs.snmp.simulator.onus import MAX_ONUS, Population
from jobs.snmp.simulator.snmprec import SnmprecError, load_snmprec
from jobs.snmp.simulator.vendors import VENDORS, has_families, model_named

DEFAULT_HOST = "127.0.0.1"
_LONG = 1e9
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.%\w]+\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})")


class SpecError(ValueError):
    """A specification that cannot be served; the message says which part and what is expected."""


@dataclass(frozen=True, slots=True)
class OltSpec:
    """One simulated OLT: where its data come from, where it listens, how it behaves.

    ``seed`` 0 becomes the OLT's place in the list, so that no two OLTs have the same ONUs unless that is wanted.
    ``source`` is a vendor's name or the path of a recording; port 0 takes any free port. ``onus``, ``churn``,
    ``sentinels``, ``model`` ("" = the usual one) and ``family`` are for generated OLTs. ``at`` sets the OLT's clock
    (unix seconds; None = now), ``speed`` is its pace.
    """

    source: str
    host: str = DEFAULT_HOST
    port: int = 0
    onus: int = 64
    seed: int = 0
    churn: float = 0.0
    sentinels: float = 0.0
    model: str = ""
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
    "sentinels": number_between(0, 1),
    "model": _word,
    "family": _family,
    "community": _word,
    "name": _word,
    "at": number_between(0, 4_000_000_000),
    "speed": number_between(0.001, 100_000),
}
_FAULT_KEYS: dict[str, Callable[[str], Any]] = {
    "delay": number_between(0, 3600),
    "jitter": number_between(0, 3600),
    "rowdelay": number_between(0, 60),
    "sag": number_between(0, 60),
    "drop": number_between(0, 1),
    "dead": _switch,
    "deadfile": lambda text: Path(_word(text)),
    "toobig": whole_between(MIN_MAX_BYTES, MAX_UDP_BYTES),
    "maxvars": whole_between(0, 1000),
    "maxrep": whole_between(0, 1000),
    "truncate": whole_between(0, 1000),
    "reboot": number_between(0.1, _LONG),
    "rebootfor": number_between(0, _LONG),
    "frozenboots": _switch,
    "vanish": parse_oid,
    "vanishat": number_between(0, _LONG),
    "vanishfor": number_between(0, _LONG),
    "loop": parse_oid,
    "mute": parse_oid,
    "generr": parse_oid,
    "die": parse_oid,
}
_GENERATED_ONLY = ("onus", "churn", "sentinels", "model", "family")
_MEANINGLESS_WITHOUT = {"rebootfor": "reboot", "frozenboots": "reboot", "vanishat": "vanish", "vanishfor": "vanish"}


def parse_spec(text: str) -> OltSpec:
    """Read ``SOURCE@[HOST:]PORT[,KEY=VALUE…]``; SpecError says what is wrong and what would be right."""
    head, *options = text.split(",")
    source, at, address = head.rpartition("@")
    if not at or not source:
        raise SpecError(f"{text!r}: expected SOURCE@[HOST:]PORT, such as huawei@127.0.0.1:20000 or walk.snmprec@20001")
    host, port = _address(text, address)
    olt, faults = _options(text, options)
    source = _source(text, source)
    try:
        _check_together(source, olt, faults)
        return OltSpec(source=source, host=host, port=port, faults=Faults(**faults), **olt)
    except ValueError as error:
        raise SpecError(f"{text!r}: {error}") from error


def _check_together(source: str, olt: dict[str, Any], faults: dict[str, Any]) -> None:
    """What each option alone cannot know; the model is spelled as its vendor does."""
    for key, other in _MEANINGLESS_WITHOUT.items():
        if key in faults and other not in faults:
            raise ValueError(f"{key} has no meaning without {other}")
    if source not in VENDORS:
        useless = [key for key in _GENERATED_ONLY if key in olt]
        if useless:
            raise ValueError(f"{useless[0]} has no meaning for a recording; leave it out")
        return
    if "model" in olt:
        olt["model"] = model_named(source, olt["model"])
    if "family" in olt and not has_families(source, olt.get("model", "")):
        raise ValueError("family is how a ZTE C300 or C320 numbers ifIndex; leave it out")
    capacity = VENDORS[source].layout.capacity
    if olt.get("onus", 0) > capacity:
        raise ValueError(f"onus={olt['onus']}: {source} numbers at most {capacity} ONUs")


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
    if spec.generated:
        return build_olt(spec, name).mib
    try:
        return RecordedMib(load_snmprec(Path(spec.source)), now)
    except SnmprecError as error:
        raise SpecError(str(error)) from error


def build_olt(spec: OltSpec, name: str = "OLT") -> BuiltOlt:
    """A generated OLT: its tree, and the truth about its ONUs; KeyError for a recording."""
    vendor = VENDORS[spec.source]
    # A specification that is not in a list has its place all the same: the first.
    seed = spec.seed or 1
    population = Population(seed, spec.onus, spec.churn, layout=vendor.layout, sentinels=spec.sentinels)
    return vendor.build(Plan(spec.name or name, population, spec.model, spec.family))


def expected(spec: OltSpec | str, now: float | None = None) -> list[ExpectedOnu]:
    """Who is on a generated OLT: what a good reader of it ends up with, row by row, in the order of the positions.

    ``spec`` as for ``--olt``; give its seed, or it is taken to stand first in its list. ``now`` is the device's time in
    unix seconds: the spec's ``at`` unless given, else this moment. SpecError for a bad one and for a recording.
    """
    found = parse_spec(spec) if isinstance(spec, str) else spec
    if not found.generated:
        raise SpecError(f"{found.source!r}: nobody knows the truth about a recording")
    if now is None:
        now = time.time() if found.at is None else found.at
    return build_olt(found).onus(now)


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
