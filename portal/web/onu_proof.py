"""How a raw value becomes a reading, as a line of arithmetic or of words. No queries."""

from flask_babel import gettext as _

from portal.domain.readings import Reading, ValueSpec, ValueType
from portal.web import metrics
from portal.web.formatting import THIN, exact
from portal.web.state_words import state_word


def way(spec: ValueSpec, reading: Reading | None) -> str:
    """−2150 × 0.01 = −21.5 dBm; 1 means online; or why there is no value. `reading` as decoded by `spec`."""
    if reading is None:
        return ""
    if reading.value is None:
        return str(metrics.reason(reading.reason))
    if spec.type is ValueType.NUMBER:
        return _arithmetic(spec, reading)
    if spec.type is ValueType.STATE:
        return _("%(raw)s means %(state)s", raw=reading.raw, state=state_word(str(reading.value)))
    return {
        ValueType.SERIAL: _("the octets of a serial number, in hexadecimal"),
        ValueType.MAC: _("the octets of a MAC address"),
        ValueType.TIME: _("date and time, in the clock of the device"),
    }.get(spec.type, _("text as it was sent"))


def _arithmetic(spec: ValueSpec, reading: Reading) -> str:
    assert isinstance(reading.value, int | float)  # noqa: S101  (a number's value is one)
    text = _number(reading.raw)
    if spec.signed_bits:
        text += " " + _("(signed, %(bits)s bits)", bits=spec.signed_bits)
    if spec.scale != 1:
        text += f" × {exact(spec.scale)}"
    if spec.offset:
        text += f" {'+' if spec.offset > 0 else '−'} {exact(abs(spec.offset))}"  # noqa: RUF001  (a minus is meant)
    if spec.sent_in:
        text += f"{THIN}{spec.sent_in}"
    return f"{text} = {exact(reading.value)}{THIN}{spec.unit}".rstrip()


def _number(raw: str) -> str:
    """A whole number with a minus and no mark between thousands; any other text as it came."""
    digits = raw.removeprefix("-")
    return raw.replace("-", "\u2212", 1) if digits.isascii() and digits.isdecimal() else raw
