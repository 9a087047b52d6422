"""Values as generated OLTs send them: SMI types, times and the codings several vendors share; no tables, no rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from jobs.snmp.simulator.mib import Kind, Value

# Reads one cell: the row's number (an ONU, an interface, 0 for a scalar) and the device's time in unix seconds.
Reader: TypeAlias = Callable[[int, float], Value]

# Text times of Fiberhome, C-Data and VSOL.
_TIME = "%Y-%m-%d %H:%M:%S"


def constant(value: Value) -> Reader:
    """A reader that always gives this value."""
    return lambda _row, _now: value


def when(asks: Callable[[int, float], bool], read: Reader, otherwise: Value) -> Reader:
    """A reader that gives ``otherwise`` wherever ``asks`` says no: the vendor's way of having no value."""
    return lambda row, now: read(row, now) if asks(row, now) else otherwise


def integer(number: int) -> Value:
    """An Integer32."""
    return Value(Kind.INTEGER, number)


def scaled(number: float, scale: int) -> Value:
    """An Integer32 in steps of 1/``scale``: 100 for hundredths of a dBm, 256 for the temperatures of SFP modules."""
    return Value(Kind.INTEGER, round(number * scale))


def counter64(number: float) -> Value:
    """A Counter64, wrapped."""
    return Value(Kind.COUNTER64, int(number) % 2**64)


def ticks(seconds: float) -> Value:
    """TimeTicks, wrapped at 497 days."""
    return Value(Kind.TIMETICKS, int(seconds * 100) % 2**32)


def text(words: str) -> Value:
    """An OCTET STRING in UTF-8."""
    return Value(Kind.OCTETS, words.encode())


def octets(data: bytes) -> Value:
    """An OCTET STRING."""
    return Value(Kind.OCTETS, data)


def date_and_time(moment: float | None) -> Value:
    """DateAndTime of 8 octets in UTC (SNMPv2-TC); all zero = never."""
    if moment is None:
        return octets(bytes(8))
    at = datetime.fromtimestamp(moment, UTC)
    return octets(at.year.to_bytes(2, "big") + bytes((at.month, at.day, at.hour, at.minute, at.second, 0)))


def text_time(moment: float | None, never: str = "") -> Value:
    """A time as ``2026-09-21 12:53:20`` in UTC; ``never`` for None."""
    return text(never if moment is None else datetime.fromtimestamp(moment, UTC).strftime(_TIME))


def label(serial: bytes) -> str:
    """A GPON serial of 8 octets as printed on the ONU: vendor letters and upper-case hex, ``ZTEG030C0914``."""
    return serial[:4].decode("ascii") + serial[4:].hex().upper()


def colons(mac: bytes) -> str:
    """A MAC address as ``e0:67:b3:00:0a:ff``."""
    return mac.hex(":")


def decimal(number: float) -> str:
    """Two decimals, rounded as the integer encodings round."""
    return f"{round(number * 100) / 100:.2f}"


def sixteen_bit_power(dbm: float) -> int:
    """Power in the 16-bit coding of ZTE: steps of 0.002 dB above -30 dBm, below that as a negative 16-bit number."""
    return (round(dbm * 500) + 15000) % 65536
