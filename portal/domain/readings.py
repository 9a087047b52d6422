"""Decoding of one raw SNMP value into a reading: sentinels, scales, states, text, times. No I/O, no vendor tables."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from portal.domain import serials, units
from portal.domain.units import DBM

RawValue = int | bytes | str | None
"""What a session hands over: int for numeric types, bytes for octet strings, str for OIDs and IP addresses,
None for noSuchInstance and noSuchObject."""

NO_SUCH_INSTANCE = "no such instance"
OUT_OF_RANGE = "out of range"
EMPTY = "empty"
NO_TEXT = "--"  # as C-Data and others write it (quirk 29)
UNSUPPORTED = "unsupported: 0 everywhere"
CUT = "\N{REPLACEMENT CHARACTER}"
NOT_LISTED = "not in the table"  # of a column that was walked to its end without a row for this ONU
ANOTHER_ONU = "another ONU"  # it was read at a place where another ONU was found afterwards

NO_LIGHT = "no light"  # a power of 0 mW: there is no dBm for it
DBM_RANGE = (-50.0, 10.0)  # no optical module reports light outside of this; what does is a disguised "no value"
DECIMALS = 4
COUNTER_OCTETS = 8
MAX_TEXT = 255
MAX_RAW = 512
MAX_REASON = 80
REMEMBERED = 20_000  # raw values of one column whose decoding is kept at hand
SHORT = 1 << 40  # below, a number times its scale keeps more digits than DECIMALS asks for

_NUMBER = re.compile(r"(?<![\w.,])[-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?![.,]?[0-9])", re.ASCII)
_WITH_UNIT = re.compile(r"([-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z°%\u00b5\u03bc]{1,6})")
_BEFORE_DBM = re.compile(r"([-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*dBm", re.IGNORECASE | re.ASCII)
_STATE_CODE = re.compile(r"\s*(-?[0-9]{1,10})\s*", re.ASCII)
_BREAKS = re.compile(r"[\r\n\t]+")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, bidirectional and other invisible characters

SPARSE_FROM = 8  # ONUs: of fewer a share says little
SPARSE_SHARE = 4  # less than a quarter of them


class ValueType(StrEnum):
    """How the raw octets or number of a column are to be read."""

    NUMBER = "number"  # integer (or text holding a number) → raw * scale + offset
    TEXT = "text"
    SERIAL = "serial"  # GPON serial → 16 upper-case hex digits
    STATE = "state"  # integer looked up in `states`
    MAC = "mac"  # 6 octets, or 12 hex digits as text → "AA:BB:CC:DD:EE:FF": what tells EPON ONUs apart
    TIME = "time"  # DateAndTime, 8 or 11 octets → "2021-11-06 13:42:21.6" in the device's own time


@dataclass(frozen=True)
class StateLabel:
    """Meaning of one state number. `online` is None where the number says nothing about the light."""

    label: str
    online: bool | None = None


@dataclass(frozen=True)
class ValueSpec:
    """How to decode a column. Source of each number: the catalogue file that names it."""

    type: ValueType = ValueType.TEXT
    scale: float = 1.0
    offset: float = 0.0
    signed_bits: int = 0  # 16: fold 32768..65535 to negative before scaling
    sentinels: tuple[int, ...] = ()  # raw numbers that mean "no value"
    minimum: float | None = None  # decoded values outside are "no reading"
    maximum: float | None = None
    unit: str = ""  # that readings are kept in; "dBm" without minimum or maximum means -50..+10
    sent_in: str = ""  # unit of raw * scale + offset, where it is another one (portal.domain.units)
    states: Mapping[int, StateLabel] = field(default_factory=dict)
    encoding: str = ""  # of texts that are not UTF-8; a setting of the OLT, since SNMP declares none


class Reading(NamedTuple):
    """One decoded value. `value` None means the device said "no value"; `reason` then says how."""

    index: str  # type: ignore[assignment]  # hides tuple.index: ONU key (or port index) as text, suffix stripped
    value: float | str | None
    raw: str  # what the device sent, printable; octets as hex where not text
    reason: str = ""
    online: bool | None = None  # for states: lit or not


class _Decoded(NamedTuple):
    value: float | str | None = None
    reason: str = ""
    online: bool | None = None


def decode(spec: ValueSpec, index: str, raw: RawValue) -> Reading:
    """The reading of one instance. Never raises: what cannot be read has value None and says why in `reason`."""
    return Reading(index, *_decoded(spec, raw))


def decoder(spec: ValueSpec) -> Callable[[Iterable[tuple[str, RawValue]]], list[Reading]]:
    """`decode` for whole columns: rows of (index, raw) → readings, in their order.

    A table repeats its states, distances and models: each is decoded once. This runs for each value that is read.
    """
    remembered: dict[RawValue, tuple[float | str | None, str, str, bool | None]] = {}
    make = tuple.__new__

    def read(rows: Iterable[tuple[str, RawValue]]) -> list[Reading]:
        if len(remembered) > REMEMBERED:
            remembered.clear()
        readings = []
        for index, raw in rows:
            got = remembered.get(raw)
            if got is None:
                got = remembered[raw] = _decoded(spec, raw)
            readings.append(make(Reading, (index, *got)))
        return readings

    return read


def _decoded(spec: ValueSpec, raw: RawValue) -> tuple[float | str | None, str, str, bool | None]:
    """Value, raw for people, reason, online."""
    if raw is None:
        return None, "", NO_SUCH_INSTANCE, None
    value, reason, online = _DECODERS[spec.type](spec, raw)
    return value, str(raw) if isinstance(raw, int) else printable(raw), reason, online


def is_sparse(with_value: int, expected: int) -> bool:
    """Whether a column that was read to its end holds too few values to be believed (quirk 9).

    Some firmwares answer a table with its first row or two, or with "no value" in every row, and call that complete.
    """
    return expected >= SPARSE_FROM and with_value * SPARSE_SHARE < expected


def constant_zero(readings: Sequence[Reading]) -> bool:
    """True when every row of a column is 0; of a column that is not supported some firmware says so (quirk 45)."""
    return bool(readings) and all(reading.value == 0 for reading in readings)


def printable(raw: RawValue) -> str:
    """The raw value for people: numbers as decimals, printable octets as text, others as hex "0x…". No NUL, ≤ 512.

    Octets that are not UTF-8 stay hex: they are the only evidence of what was sent.
    """
    if isinstance(raw, int):
        return str(raw)
    if raw is None:
        return ""
    shown = _printable_octets(raw) if isinstance(raw, bytes) else _visible(raw)
    return shown if len(shown) <= MAX_RAW else shown[: MAX_RAW - 1] + "…"


def clean_text(raw: bytes | str, encoding: str = "") -> str:
    """Device text fit for a database and a page: cut at NUL, decoded, without invisible characters, ≤ 255 long.

    Octets are UTF-8 where that fits, else `encoding` where that fits, also where the device has cut the last character;
    else Windows-1252. What stands for nothing becomes CUT: no octet goes unseen.
    """
    if isinstance(raw, bytes):
        kept = raw.split(b"\x00", 1)[0]
        text = "" if set(kept) == {0xFF} else _text_of(kept, encoding)
    else:
        text = raw.split("\x00", 1)[0]
    if not (text.isascii() and text.isprintable()):
        text = _visible(_BREAKS.sub(" ", text))
    return text.strip()[:MAX_TEXT].rstrip()


def _text_of(octets: bytes, encoding: str) -> str:
    for name, longest in (("utf-8", 4), (encoding, 2)) if encoding else (("utf-8", 4),):
        for cut in range(longest):
            try:
                text = octets[: len(octets) - cut].decode(name)
            except (UnicodeDecodeError, LookupError):
                continue
            if not cut:
                return text
            if not text.isascii():  # else nothing speaks for this encoding
                return text + CUT
    return octets.decode("cp1252", errors="replace")


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _HIDDEN)


def _printable_octets(octets: bytes) -> str:
    return octets.decode("utf-8") if _printable(octets) else "0x" + octets[:MAX_RAW].hex().upper()


def _printable(octets: bytes) -> bool:
    try:
        return octets.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _number(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    if isinstance(raw, int):
        if -SHORT < raw < SHORT:
            found = _short(spec, raw)
            unsigned = found.reason == OUT_OF_RANGE and 1 << 31 <= raw < 1 << 32
            return _short(spec, raw - (1 << 32)) if unsigned else found  # a negative number, sent as a Gauge32
        number: Decimal | None = Decimal(raw)
    elif isinstance(raw, bytes) and len(raw) == COUNTER_OCTETS and not _printable(raw):
        number = Decimal(int.from_bytes(raw, "big"))  # a Counter64 sent as octets (Nokia 7360, quirk 41)
    else:
        text = clean_text(raw)
        number = _number_in(text)
        stated = _stated(spec, text, number) if number is not None and number not in spec.sentinels else None
        if stated is not None:
            return _converted(spec, *stated)
    if number is None:
        shown = clean_text(raw) if isinstance(raw, bytes | str) else ""
        return _Decoded(reason=f"no number in {shown[:40]!r}"[:MAX_REASON] if shown else EMPTY)
    if number in spec.sentinels:
        return _Decoded(reason=f"sentinel {int(number)}")
    return _scaled(spec, _folded(number, spec.signed_bits))


def _short(spec: ValueSpec, raw: int) -> _Decoded:
    """A number that arithmetic of floats gets right to DECIMALS: -2288 * 0.01 is -22.88 once it is rounded."""
    if raw in spec.sentinels:
        return _Decoded(reason=f"sentinel {raw}")
    bits = spec.signed_bits
    if bits and 1 << (bits - 1) <= raw < 1 << bits:
        raw -= 1 << bits
    return _converted(spec, raw * spec.scale + spec.offset, spec.sent_in)


def _number_in(text: str) -> Decimal | None:
    """The number before "dBm", else the first that stands alone: "Lane0: No-Power" holds none."""
    found = _BEFORE_DBM.search(text)
    if found:
        return Decimal(found[1])
    plain = None if "dbm" in text.lower() else _NUMBER.search(text)  # "0.00 mW (-inf dBm)" is darkness, not 0
    return Decimal(plain[0]) if plain else None


def _stated(spec: ValueSpec, text: str, number: Decimal) -> tuple[float, str] | None:
    """The value of a text that says it itself, and its unit; None for a number that is still to be scaled.

    It has a unit behind it, or a decimal point where the column's numbers are scaled and therefore whole.
    """
    written = _WITH_UNIT.search(text)
    unit = written[2] if written and Decimal(written[1]) == number else ""
    if unit and units.convertible(unit, spec.unit):
        return float(number), unit
    return (float(number), spec.sent_in) if spec.scale != 1 and number != number.to_integral_value() else None


def _folded(number: Decimal, bits: int) -> Decimal:
    """Two's complement of `bits` bits; a number that is negative or too wide already is left alone."""
    if bits and 1 << (bits - 1) <= number < 1 << bits:
        return number - (1 << bits)
    return number


def _scaled(spec: ValueSpec, number: Decimal) -> _Decoded:
    # Decimal, because -22.88 must not become -22.880000000000003 on its way to a page.
    exact = number * Decimal(str(spec.scale)) + Decimal(str(spec.offset))
    return _converted(spec, float(exact), spec.sent_in)


def _converted(spec: ValueSpec, number: float, sent_in: str) -> _Decoded:
    if sent_in:
        try:
            found = units.converted(number, sent_in, spec.unit)
        except ValueError as error:  # a row of one's own from before units were checked
            return _Decoded(reason=str(error)[:MAX_REASON])
        if found is None:
            return _Decoded(reason=NO_LIGHT)
        number = found
    return _within(spec, round(number, DECIMALS) + 0.0)  # no "-0.0"


def _within(spec: ValueSpec, value: float) -> _Decoded:
    low, high = _limits(spec)
    if (low is not None and value < low) or (high is not None and value > high):
        return _Decoded(reason=OUT_OF_RANGE)
    return _Decoded(value=value)


def _limits(spec: ValueSpec) -> tuple[float | None, float | None]:
    low, high = DBM_RANGE if spec.unit == DBM else (None, None)
    return (low if spec.minimum is None else spec.minimum, high if spec.maximum is None else spec.maximum)


def _text(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    text = str(raw) if isinstance(raw, int) else clean_text(raw, spec.encoding)
    return _Decoded(value=text) if text and text != NO_TEXT else _Decoded(reason=EMPTY)


def _serial(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    serial = None if isinstance(raw, int) else serials.canonical(raw)
    return _Decoded(value=serial) if serial else _Decoded(reason="no serial" if raw else EMPTY)


def _mac(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    digits = None if isinstance(raw, int) else serials.mac(raw)
    if digits is None:
        return _Decoded(reason="no MAC address" if raw else EMPTY)
    return _Decoded(value=":".join(digits[place : place + 2] for place in range(0, 12, 2)))


def _state(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    code = raw if isinstance(raw, int) else _code_in(clean_text(raw))
    if code is None:
        return _Decoded(reason="no state number" if raw else EMPTY)
    if code in spec.sentinels:
        return _Decoded(reason=f"sentinel {code}")
    known = spec.states.get(code)
    return _Decoded(known.label, online=known.online) if known else _Decoded(f"unknown({code})")


def _code_in(text: str) -> int | None:
    found = _STATE_CODE.fullmatch(text)
    return int(found[1]) if found else None


def _time(spec: ValueSpec, raw: int | bytes | str) -> _Decoded:
    """DateAndTime of RFC 2579; all zero, year 0 and empty mean "never"."""
    if not isinstance(raw, bytes) or len(raw) not in (0, 8, 11):
        return _Decoded(reason="no date and time")
    if not any(raw[:2]):
        return _Decoded(reason="never")
    try:  # The device's own clock: its zone is unknown here, so nothing aware can be made of it.
        moment = datetime(int.from_bytes(raw[:2], "big"), raw[2], raw[3], raw[4], raw[5], min(raw[6], 59))  # noqa: DTZ001
    except ValueError:
        return _Decoded(reason="no date and time")
    zone = f" {chr(raw[8])}{raw[9]:02d}:{raw[10]:02d}" if len(raw) == 11 and raw[8] in b"+-" else ""
    return _Decoded(value=f"{moment:%Y-%m-%d %H:%M:%S}.{min(raw[7], 9)}{zone}")


_DECODERS = {
    ValueType.NUMBER: _number,
    ValueType.TEXT: _text,
    ValueType.SERIAL: _serial,
    ValueType.STATE: _state,
    ValueType.MAC: _mac,
    ValueType.TIME: _time,
}
