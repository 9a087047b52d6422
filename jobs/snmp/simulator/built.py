"""What a vendor module gets and gives: the plan of an OLT, the built OLT and the truth about its ONUs; no tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.snmp.simulator.generated import GeneratedMib
from jobs.snmp.simulator.onus import Population


class Plan(NamedTuple):
    """One OLT to build: its sysName, its ONUs, the model ("" = as the vendor module likes) and ZTE's index family."""

    name: str
    population: Population
    model: str = ""
    family: str = "C"


@dataclass(frozen=True, slots=True)
class ExpectedOnu:
    """One ONU as a reader that decodes well sees it.

    ``index``: dotted index of its row in the vendor's table of states. ``slot``, ``port``, ``number``: as the vendor
    counts them. ``serial``: 16 upper-case hex digits; ``mac``: 12. ``rx_power``: dBm at the ONU after the vendor's
    rounding. None stands for what the device does not tell, or does not tell now.
    """

    index: str
    slot: int | None
    port: int | None
    number: int | None
    serial: str | None
    mac: str | None
    description: str | None
    model: str | None
    online: bool
    rx_power: float | None


class Place(NamedTuple):
    """Where an ONU stands: the dotted index of its row, and slot, port and number as the vendor counts them."""

    row: str
    slot: int | None
    port: int | None
    number: int | None


class BuiltOlt(NamedTuple):
    """The tree an agent serves, and who is on it at a time."""

    mib: GeneratedMib
    onus: Callable[[float], list[ExpectedOnu]]


class Truth:
    """The truth about ONUs, from a vendor's own choices; ``steps``: how many steps of its power encoding make 1 dB."""

    def __init__(
        self,
        population: Population,
        place: Callable[[int, float], Place],
        *,
        steps: int,
        serial: Callable[[int], bytes] | None = None,
        mac: Callable[[int], bytes] | None = None,
        model: Callable[[int], str] | None = None,
        described: bool = True,
    ) -> None:
        self._onus = population
        self._place = place
        self._steps = steps
        self._serial = serial
        self._mac = mac
        self._model = model
        self._described = described

    def __call__(self, now: float) -> list[ExpectedOnu]:
        """All ONUs present at ``now``, in the order of their positions."""
        return [self._one(onu, now) for onu in self._onus.members(now)]

    def _one(self, onu: int, now: float) -> ExpectedOnu:
        readable = self._onus.measured(onu, now)
        return ExpectedOnu(
            *self._place(onu, now),
            serial=self._serial(onu).hex().upper() if self._serial else None,
            mac=self._mac(onu).hex().upper() if self._mac else None,
            description=_decoded(self._onus.description(onu)) if self._described else None,
            model=self._model(onu) if self._model else None,
            online=self._onus.online(onu, now),
            rx_power=round(self._onus.rx_power(onu, now) * self._steps) / self._steps if readable else None,
        )


def _decoded(octets: bytes) -> str:
    """SNMP names no encoding: UTF-8 where it is that, else Latin-1 from old consoles."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")
