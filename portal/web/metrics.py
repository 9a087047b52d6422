"""How the readings of an ONU are named and written on pages. Texts and formats only."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.readings import (
    ANOTHER_ONU,
    EMPTY,
    NO_LIGHT,
    NO_SUCH_INSTANCE,
    NOT_LISTED,
    OUT_OF_RANGE,
    UNSUPPORTED,
)
from portal.domain.series import Step
from portal.domain.units import EPON, kept_in
from portal.web.state_words import state_word


class Metric(NamedTuple):
    """Name and decimals of a reading, None as many as it has. `coded`: a number to which a state map gives a label.

    `unit`: what it is kept in.
    """

    label: LazyString | str
    digits: int | None = 0
    coded: bool = False
    unit: LazyString | str = ""


METRICS: dict[str, Metric] = {
    "onu_rx_power": Metric(_l("Received by the ONU"), 1),
    "onu_olt_rx_power": Metric(_l("Received by the OLT"), 1),
    "onu_tx_power": Metric(_l("Sent by the ONU"), 1),
    "onu_catv_rx_power": Metric(_l("CATV received"), 1),
    "onu_distance": Metric(_l("Distance")),
    "onu_temperature": Metric(_l("Temperature"), 1),
    "onu_voltage": Metric(_l("Voltage"), 2),
    "onu_bias_current": Metric(_l("Bias current"), 1),
    "onu_state": Metric(_l("State"), coded=True),
    "onu_admin_state": Metric(_l("Administrative state"), coded=True),
    "onu_config_state": Metric(_l("Configuration state"), coded=True),
    "onu_match_state": Metric(_l("Match state"), coded=True),
    "onu_serial": Metric(_l("Serial number")),
    "onu_serial_actual": Metric(_l("Serial number of the device")),
    "onu_description": Metric(_l("Description")),
    "onu_name": Metric(_l("Name")),
    "onu_model": Metric(_l("Model")),
    "onu_type": Metric(_l("Type")),
    "onu_vendor": Metric(_l("Maker")),
    "onu_mac": Metric(_l("MAC address")),
    "onu_firmware": Metric(_l("Firmware")),
    "onu_hw_version": Metric(_l("Hardware version")),
    "onu_line_profile": Metric(_l("Line profile")),
    "onu_service_profile": Metric(_l("Service profile")),
    "onu_profile": Metric(_l("Profile")),
    "onu_uptime": Metric(_l("Up for")),
    "last_online": Metric(_l("Last online")),
    "last_offline": Metric(_l("Last offline")),
    "last_down_cause": Metric(_l("Cause of the last outage"), coded=True),
    "onu_eth_state": Metric(_l("Ethernet port")),
    "if_name": Metric(_l("Name of the port")),
    "if_descr": Metric(_l("Description of the port")),
    "if_alias": Metric(_l("Alias of the port")),
    "if_oper_status": Metric(_l("State of the port"), coded=True),
    "if_admin_status": Metric(_l("Administrative state of the port"), coded=True),
    "pon_port_name": Metric(_l("Name of the port")),
    "pon_port_description": Metric(_l("Description of the port")),
    "pon_port_state": Metric(_l("State of the port"), coded=True),
    "pon_port_onu_count": Metric(_l("ONUs of the port")),
    "pon_port_tx_power": Metric(_l("Sent by the port"), 1),
    "pon_port_temperature": Metric(_l("Temperature of the port"), 1),
    "pon_port_admin_state": Metric(_l("Administrative state of the port"), coded=True),
    "pon_port_last_down_cause": Metric(_l("Cause of the port's last outage"), coded=True),
    "pon_port_voltage": Metric(_l("Voltage of the port"), 2),
    "pon_port_bias_current": Metric(_l("Bias current of the port"), 1),
    "if_high_speed": Metric(_l("Speed of the port")),
    "onu_serial_text": Metric(_l("Serial number")),
    "sys_descr": Metric(_l("What the device says it is")),
    "sys_object_id": Metric(_l("Identifier of the device's kind")),
    "sys_name": Metric(_l("Name of the device")),
    "sys_location": Metric(_l("Place of the device")),
    "sys_up_time": Metric(_l("Up for")),
    "onu_slot": Metric(_l("Slot of the ONU")),
    "onu_pon": Metric(_l("PON port of the ONU")),
    "onu_id": Metric(_l("Number of the ONU")),
    "onu_active_flag": Metric(_l("Active")),
    "onu_alarms": Metric(_l("Alarms")),
    "onu_auth_mode": Metric(_l("Way of authentication")),
    "onu_boot_version": Metric(_l("Version of the boot loader")),
    "onu_connected_time": Metric(_l("Connected for")),
    "onu_count": Metric(_l("ONUs of the OLT")),
    "onu_cpu": Metric(_l("Processor")),
    "onu_equipment_id": Metric(_l("Equipment identifier")),
    "onu_eth_port_count": Metric(_l("Ethernet ports")),
    "onu_firmware_active": Metric(_l("Firmware in use"), coded=True),
    "onu_firmware_standby": Metric(_l("Firmware in reserve")),
    "onu_index_link": Metric(_l("Index in another table")),
    "onu_last_dying_gasp": Metric(_l("Last power failure")),
    "onu_loid": Metric(_l("Logical identifier (LOID)")),
    "onu_o_state": Metric(_l("Activation state (O1 to O7)"), coded=True),
    "onu_omcc_state": Metric(_l("Management channel (OMCC)"), coded=True),
    "onu_online_flag": Metric(_l("Online")),
    "onu_online_seconds": Metric(_l("Online for")),
    "onu_row_status": Metric(_l("State of the row"), coded=True),
    "onu_state_if": Metric(_l("State of the interface"), coded=True),
    "onu_traffic_down": Metric(_l("Traffic to the ONU")),
    "onu_traffic_up": Metric(_l("Traffic from the ONU")),
    "onu_unauth_loid": Metric(_l("LOID of an ONU that is not provisioned")),
    "onu_unauth_model": Metric(_l("Model of an ONU that is not provisioned")),
    "onu_unauth_pon": Metric(_l("PON port of an ONU that is not provisioned")),
    "onu_unauth_serial": Metric(_l("Serial number of an ONU that is not provisioned")),
    "onu_unauth_slot": Metric(_l("Slot of an ONU that is not provisioned")),
    "onu_unauth_time": Metric(_l("When an ONU that is not provisioned was found")),
    "onu_unauth_type": Metric(_l("Type of an ONU that is not provisioned")),
    "card_cpu": Metric(_l("Processor of the card")),
    "card_memory": Metric(_l("Memory of the card")),
    "card_name": Metric(_l("Name of the card")),
    "card_port_count": Metric(_l("Ports of the card")),
    "card_serial": Metric(_l("Serial number of the card")),
    "card_state": Metric(_l("State of the card"), coded=True),
    "card_temperature": Metric(_l("Temperature of the card")),
    "card_type": Metric(_l("Type of the card")),
    "mgmt_card_cpu": Metric(_l("Processor of the control card")),
    "mgmt_card_memory": Metric(_l("Memory of the control card")),
    "if_counter_discontinuity": Metric(_l("Counters began anew")),
    "if_in_octets": Metric(_l("Octets received by the port")),
    "if_last_change": Metric(_l("Last change of the port's state")),
    "if_out_octets": Metric(_l("Octets sent by the port")),
    "if_type": Metric(_l("Type of the port"), coded=True),
    "interface_admin_state": Metric(_l("Administrative state of the interface")),
    "interface_rx_level": Metric(_l("Received by the interface"), 1),
    "interface_state": Metric(_l("State of the interface")),
    "interface_tx_level": Metric(_l("Sent by the interface"), 1),
    "pon_port_farthest": Metric(_l("Farthest ONU of the port"), 1),
    "pon_port_laser": Metric(_l("Laser of the port"), coded=True),
    "pon_port_onu_illegal_count": Metric(_l("ONUs of the port that are not provisioned")),
    "pon_port_onu_inactive_count": Metric(_l("ONUs of the port that are offline")),
    "pon_port_onu_online_count": Metric(_l("ONUs of the port that are online")),
    "pon_port_rx_power": Metric(_l("Received by the port"), 1),
    "pon_port_rx_power_sfp": Metric(_l("Received by the port's module"), 1),
    "pon_port_sfp_class": Metric(_l("Class of the port's module")),
    "pon_port_sfp_model": Metric(_l("Model of the port's module")),
    "pon_port_sfp_serial": Metric(_l("Serial number of the port's module")),
    "pon_port_sfp_state": Metric(_l("State of the port's module"), coded=True),
    "pon_port_sfp_vendor": Metric(_l("Maker of the port's module")),
    "pon_port_tx_power_sfp": Metric(_l("Sent by the port's module"), 1),
    "pon_port_wavelength": Metric(_l("Wavelength of the port")),
    "sys_contact": Metric(_l("Contact")),
    "system_cpu": Metric(_l("Processor of the OLT")),
    "system_temperature": Metric(_l("Temperature of the OLT")),
    "system_version": Metric(_l("Software of the OLT")),
}
_UNIT_WORDS = {"octets": _l("octets")}

NO_NUMBER = "no number in "  # and then what the device sent
_REASONS: dict[str, LazyString] = {
    "sentinel": _l("The device says it has no value"),
    NO_SUCH_INSTANCE: _l("The device does not have this value"),
    OUT_OF_RANGE: _l("Not a possible value"),
    EMPTY: _l("Empty"),
    NO_LIGHT: _l("No light"),
    "never": _l("Never"),
    NOT_LISTED: _l("The device's table has no row for this ONU"),
    "no serial": _l("No serial number in it"),
    "no MAC address": _l("No MAC address in it"),
    "no state number": _l("No number of a state in it"),
    "no date and time": _l("No date and time in it"),
    ANOTHER_ONU: _l("Read where another ONU was found afterwards"),
    UNSUPPORTED: _l("The device does not support this value: it is 0 everywhere"),
}


def reason(text: str) -> LazyString | str:
    """Why there is no value: in words where the reason is one of the usual, else as the decoder wrote it."""
    if text.startswith(NO_NUMBER):
        return _("No number in %(text)s", text=text.removeprefix(NO_NUMBER))
    return _REASONS.get("sentinel" if text.startswith("sentinel ") else text, text)


def metric(name: str, unit: str = "") -> Metric:
    """The metric's face; one that is not known is called by its key. `unit`: of its column in the catalogue."""
    found = METRICS.get(name) or METRICS.get(name.removeprefix(EPON)) or Metric(name, None)
    kept = kept_in(name, unit)
    return found._replace(unit=_UNIT_WORDS.get(kept, kept))


def meaning(key: str) -> str:
    """What a catalogue key such as huawei.onu_rx_power stands for, in the reader's language; "" without a word."""
    name = key.rpartition(".")[2]
    known = METRICS.get(name.removeprefix(EPON))
    if known is None:
        return ""
    return f"{known.label} (EPON)" if name.startswith(EPON) else str(known.label)


def value_word(text: str, name: str) -> LazyString | str:
    """A text of this metric for people: the label of a state in words, anything else as the device sent it."""
    return state_word(text) if metric(name).coded else text


class Chart(NamedTuple):
    """Step lines in a box of WIDTH × HEIGHT: a value holds until the next change, and no reading leaves a gap.

    `lines`: the stretches with a reading, each as points for SVG. Powers in dBm.
    """

    lines: tuple[str, ...]
    low: float
    high: float


WIDTH, HEIGHT = 600.0, 100.0
TOP, BOTTOM = -8.0, -32.0  # dBm at the upper and lower edge


def y_of(dbm: float) -> float:
    """Height of a power in the chart's box, kept inside it."""
    return round((TOP - min(max(dbm, BOTTOM), TOP)) / (TOP - BOTTOM) * HEIGHT, 1)


def chart(samples: Sequence[Step], since: datetime, now: datetime, until: datetime | None = None) -> Chart | None:
    """The line of `samples` (oldest first) between `since` and `now`; None without a value there.

    `until`: when it was read last (`now` without): so far the last value holds.
    """
    end = min(until or now, now)
    if end <= since:
        return None
    ranges = [step.range for step in samples if step.range is not None]
    lines = tuple(" ".join(points) for points in _stretches(samples, since, now, end))
    if not lines or not ranges:
        return None
    return Chart(lines, min(least for least, _ in ranges), max(most for _, most in ranges))


def _stretches(
    samples: Sequence[Step], since: datetime, now: datetime, end: datetime
) -> Iterator[list[str]]:  # fmt: skip
    span = (now - since).total_seconds()
    points: list[str] = []
    held: float | None = None
    for sample in samples:
        x = round(max((sample.at - since).total_seconds(), 0) / span * WIDTH, 1)
        if held is not None:
            points.append(f"{x},{y_of(held)}")
        held = sample.value
        if held is not None:
            points.append(f"{x},{y_of(held)}")
        elif points:
            yield points
            points = []
    if held is not None:
        x = round(max((end - since).total_seconds(), 0) / span * WIDTH, 1)
        yield [*points, f"{x},{y_of(held)}"]


FILTERS = {"meaning": meaning, "reason_words": reason, "state_words": state_word, "value_words": value_word}
