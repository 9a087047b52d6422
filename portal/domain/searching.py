"""Texts as they are searched: without case and accents, so that "perez" finds PÉREZ. Pure."""

import unicodedata

from portal.domain import serials

LONGEST = 400  # of what is stored of an ONU


def folded(text: str) -> str:
    """Lower case, letters without their accents, one blank for several."""
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return " ".join(text.casefold().split())


def of_onu(description: str, serial: str | None) -> str:
    """What an ONU is found by: its description, its serial in hexadecimal and as it stands on the label."""
    words = [description, serial or "", serials.printed(serial) if serial else ""]
    return folded(" ".join(words))[:LONGEST]
