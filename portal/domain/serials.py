"""What tells ONUs apart: GPON serials and EPON MACs, every form to one canonical form and back. No I/O."""

import re

MAC_OCTETS = 6
OCTETS = 8  # ITU-T G.984.3: 4 vendor letters and 4 vendor-specific octets

_SEPARATORS = re.compile(r"[\s:.\-]+")
_PREFIX = re.compile(r"[0-9]{1,3},", re.ASCII)  # ZTE 1082 column .18 sends "1,ZTEGxxxxxxxx"
_HEX = re.compile(r"(?:0x)?([0-9A-F]{16})", re.IGNORECASE | re.ASCII)
_HYPHEN = re.compile(r"([0-9A-Z]{4})-([0-9A-F]{8})", re.ASCII)
_LETTERED = re.compile(r"[0-9A-Z]{4}[0-9A-F]{8}", re.ASCII)
_MAC = re.compile(r"[0-9A-F]{12}", re.ASCII)


def canonical(raw: bytes | str) -> str | None:
    """16 upper-case hex digits, or None for an empty, blank or unreadable serial.

    Exactly 8 bytes are always the octets themselves, also when they happen to be printable, and when they are padded
    with NULs. Other bytes, and text, are read as "ZTEG030C0914" or "ZTEG-030C0914", as 16 hex digits (with or without
    0x, spaces, colons) or as "1,ZTEG030C0914". Vendor letters in text are taken as upper case: a person may type
    either.
    """
    if isinstance(raw, str):
        return _from_text(raw)
    octets = raw[:OCTETS] if OCTETS < len(raw) and not raw[OCTETS:].strip(b"\x00") and b"\x00" not in raw[:4] else raw
    if len(octets) == OCTETS and (len(raw) == OCTETS or not _is_text(octets)):
        return _filled(octets.hex().upper())
    return _from_text(raw.decode("latin-1"))


def mac(raw: bytes | str) -> str | None:
    """12 upper-case hex digits of a MAC address: six octets, or text with or without separators; None for no such.

    All zero and all ones are "never programmed".
    """
    if isinstance(raw, bytes):
        if len(raw) == MAC_OCTETS:
            return _filled(raw.hex().upper())
        raw = raw.decode("latin-1")
    digits = _SEPARATORS.sub("", raw.replace("\x00", "").strip().strip('"')).upper().removeprefix("0X")
    return _filled(digits) if _MAC.fullmatch(digits) else None


def printed(serial: str) -> str:
    """A canonical serial as it stands on the label: "ZTEG030C0914"; a MAC address as "AA:BB:CC:DD:EE:FF".

    Plain hex where the vendor part is not ASCII letters and digits, or where the label would not read back as the
    same serial (12 hex digits look like a MAC address).
    """
    if len(serial) == 2 * MAC_OCTETS:
        return ":".join(serial[place : place + 2] for place in range(0, len(serial), 2))
    vendor = bytes.fromhex(serial[:8]).decode("latin-1")
    label = vendor + serial[8:]
    return label if _LETTERED.fullmatch(label) and canonical(label) == serial else serial


def _from_text(text: str) -> str | None:
    cleaned = text.replace("\x00", "").strip().strip('"').strip()
    cleaned = _PREFIX.sub("", cleaned, count=1) if _PREFIX.match(cleaned) else cleaned
    lettered = _HYPHEN.sub(r"\1\2", cleaned.strip().upper())
    if _LETTERED.fullmatch(lettered) and not _is_mac(lettered):
        return _filled(lettered[:4].encode("ascii").hex().upper() + lettered[4:])
    found = _HEX.fullmatch(_SEPARATORS.sub("", cleaned))
    return _filled(found[1].upper()) if found else None


def _is_text(octets: bytes) -> bool:
    """Eight printable characters are the beginning of a text, rather than octets that somebody padded."""
    return octets.isascii() and octets.decode("ascii").isprintable()


def _is_mac(text: str) -> bool:
    """12 hex digits with a digit among the first four: no vendor is called so, many MAC addresses are."""
    return bool(_MAC.fullmatch(text)) and not text[:4].isalpha()


def _filled(digits: str) -> str | None:
    """None for the two ways of saying "never programmed": all zero and all ones."""
    return None if set(digits) in ({"0"}, {"F"}) else digits
