"""A secret that must stand in compressed pages: each copy is written another way, so that lengths tell nothing of it.

The attack is BREACH: whoever can make a page repeat a guess beside the secret sees by its length when the guess fits.
"""

import base64
import binascii

MASK_BYTES = 16


def masked(secret: str, mask: bytes) -> str:
    """`secret` (ASCII) under a mask of MASK_BYTES random bytes, in letters, digits, - and _."""
    return base64.urlsafe_b64encode(mask + _mixed(secret.encode("ascii"), mask)).decode().rstrip("=")


def unmasked(text: str) -> str:
    """What was masked; `text` itself when it is no such thing, as a signed token, which has a dot."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return _mixed(raw[MASK_BYTES:], raw[:MASK_BYTES]).decode("ascii")
    except (binascii.Error, UnicodeError, ValueError):
        return text


def _mixed(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[place % MASK_BYTES] for place, byte in enumerate(data))
