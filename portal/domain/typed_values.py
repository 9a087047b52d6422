"""What a person types to try a decoding: a raw value as a device would send it, and a position. Pure."""

import re

from portal.domain.fields import FieldError, shown
from portal.domain.formulas import Position
from portal.domain.messages import N_
from portal.domain.readings import RawValue, ValueType

LONGEST = 1100  # characters: 512 octets in hex, and a little

_NUMBER = re.compile(r"\s*-?[0-9]{1,20}\s*", re.ASCII)
_HEX = re.compile(r"0x((?:[0-9a-f]{2}[ :-]?)*)", re.IGNORECASE | re.ASCII)
_PLACE = re.compile(r"\s*(?:([0-9]{1,9})/)?([0-9]{1,9})/([0-9]{1,9})(?::([0-9]{1,9}))?\s*", re.ASCII)
_AS_NUMBER = (ValueType.NUMBER, ValueType.STATE)


def raw_value(text: str, kind: ValueType) -> RawValue:
    """-2254 → int where the column holds numbers; 0x48575443… → octets; anything else is the text itself, as octets.

    FieldError for hex digits that make no octets.
    """
    if kind in _AS_NUMBER and _NUMBER.fullmatch(text):
        return int(text)
    if text[:2].lower() == "0x":
        found = _HEX.fullmatch(text.strip())
        if found is None:
            raise FieldError(N_("%(given)s is no hex text: 0x and two digits for each octet", given=shown(text)))
        return bytes.fromhex(re.sub("[ :-]", "", found[1]))
    return text[:LONGEST].encode()


def position(text: str) -> Position:
    """1/3 or 0/1/3 (frame/slot/port), with :5 behind it for an ONU. FieldError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise FieldError(N_("must be frame/slot/port such as 0/1/3, with :5 behind it for an ONU, not %(given)s",
                            given=shown(text)))  # fmt: skip
    frame, slot, port, onu = (int(part) if part else None for part in found.groups())
    return Position(slot=slot or 0, port=port or 0, onu=onu, frame=frame or 0)
