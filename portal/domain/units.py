"""Units: the one that each known reading is kept in, and how a number in another becomes one in it. Pure."""

from math import log10
from typing import TypedDict

DBM = "dBm"

# Pages, thresholds and the layout of charts count on these. A reading that is not listed keeps the unit of its column.
KEPT_IN: dict[str, str] = {
    "onu_rx_power": DBM, "onu_olt_rx_power": DBM, "onu_tx_power": DBM, "onu_catv_rx_power": DBM,
    "onu_distance": "m", "onu_temperature": "°C", "onu_voltage": "V", "onu_bias_current": "mA", "onu_cpu": "%",
    "onu_uptime": "s", "onu_connected_time": "s", "onu_online_seconds": "s",
    "onu_traffic_down": "octets", "onu_traffic_up": "octets",
    "pon_port_tx_power": DBM, "pon_port_tx_power_sfp": DBM, "pon_port_rx_power": DBM, "pon_port_rx_power_sfp": DBM,
    "pon_port_temperature": "°C", "pon_port_voltage": "V", "pon_port_bias_current": "mA", "pon_port_farthest": "km",
    "pon_port_wavelength": "nm", "if_high_speed": "Mbit/s", "if_last_change": "s", "if_counter_discontinuity": "s",
    "card_cpu": "%", "card_memory": "%", "card_temperature": "°C", "mgmt_card_cpu": "%", "mgmt_card_memory": "%",
    "system_cpu": "%", "system_temperature": "°C", "sys_up_time": "s",
}  # fmt: skip
EPON = "epon_"  # an EPON table beside the GPON one: the same reading of other ONUs

_SIZES: dict[str, tuple[str, float]] = {
    "W": ("power", 1000.0), "mW": ("power", 1.0), "µW": ("power", 1e-3), "nW": ("power", 1e-6),
    "km": ("length", 1000.0), "m": ("length", 1.0),
    "V": ("voltage", 1.0), "mV": ("voltage", 1e-3), "µV": ("voltage", 1e-6),
    "A": ("current", 1.0), "mA": ("current", 1e-3), "µA": ("current", 1e-6),
}  # fmt: skip
"""Unit → what it measures, and how many of the first of its kind it is; of powers, how many mW."""


def _plain(unit: str) -> str:
    """Units are compared without regard to case, and with u for both characters that look like µ."""
    return unit.strip().casefold().replace("\u03bc", "u")


_PLAIN = {_plain(unit): size for unit, size in _SIZES.items()}


def kept_in(metric: str, unit: str) -> str:
    """The unit that readings of `metric` are kept in, of a column whose numbers are in `unit`."""
    return KEPT_IN.get(metric.removeprefix(EPON), unit)


class Units(TypedDict):
    """The fields of a ValueSpec that say in which units numbers come and are kept."""

    unit: str
    sent_in: str


def in_units(metric: str, unit: str) -> Units:
    """Of a column whose numbers are in `unit` and whose readings are kept as `metric`."""
    kept = kept_in(metric, unit)
    return {"unit": kept, "sent_in": "" if unit == kept else unit}


def accepted(unit: str) -> list[str]:
    """Units whose numbers can be kept in `unit`, itself first."""
    return [unit, *(other for other in _SIZES if other != unit and convertible(other, unit))]


def convertible(given: str, unit: str) -> bool:
    """Whether numbers in `given` can be kept in `unit`; "" is the unit that they are kept in."""
    return _same(given, unit) or _PLAIN.get(_plain(given), ("",))[0] == _quantity(unit) != ""


def converted(number: float, given: str, unit: str) -> float | None:
    """`number` in `given` as one in `unit`; None for a power of nothing or less, which no dBm can say.

    ValueError where they are not convertible.
    """
    if _same(given, unit):
        return number
    if not convertible(given, unit):
        raise ValueError(f"no way from {given} to {unit}")
    size = _PLAIN[_plain(given)][1]
    if unit == DBM:
        return 10 * log10(number * size) if number > 0 else None
    return number * size / _PLAIN[_plain(unit)][1]


def _same(given: str, unit: str) -> bool:
    return not given or _plain(given) == _plain(unit)


def _quantity(unit: str) -> str:
    return "power" if unit == DBM else _PLAIN.get(_plain(unit), ("",))[0]
