"""One decision as a line of the log file: the documents' format, and text that cannot leave its line. Pure."""

import unicodedata
from datetime import datetime

LONGEST = 1000  # characters of one line's text
SOURCE = "coordinator.coordinator_loop"  # as the documents have it

# No emoji in a log that terminals, mails and grep read; signs such as ° and µ stay.
_PICTURES = ((0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF))


def clean(text: str) -> str:
    """`text` as one line: control characters, line and paragraph ends and pictures out, blanks single, cut to LONGEST.

    What comes from a device or a person may hold any of them: a line end would forge a line.
    """
    kept = "".join(char if _harmless(char) else " " for char in text[: 4 * LONGEST])
    return " ".join(kept.split())[:LONGEST]


def _harmless(char: str) -> bool:
    if char.isascii():
        return char.isprintable()
    picture = any(low <= ord(char) <= high for low, high in _PICTURES)
    return not picture and unicodedata.category(char)[0] not in ("C", "Z")


def line(local: datetime, level: str, text: str, facts: str) -> str:
    """`2025-10-21 08:30:15 [INFO] coordinator.coordinator_loop: text (facts)`; `local` is in the portal's zone."""
    return f"{local:%Y-%m-%d %H:%M:%S} [{level}] {SOURCE}: {clean(text)} ({clean(facts)})\n"
