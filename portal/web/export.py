"""Files for spreadsheets: rows as CSV in which no text is ever taken for a formula. Knows no page."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from flask import Response

# A spreadsheet calculates what begins so, also behind blanks; names and descriptions come from devices (design §11).
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "|", "%")

Cell = str | int | float | datetime | None


def harmless(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would calculate it. No NUL."""
    plain = text.replace("\x00", "")
    return f"'{plain}" if plain.lstrip().startswith(_DANGEROUS) or plain.startswith(_DANGEROUS) else plain


def _cell(value: Cell) -> str | int | float:
    """Numbers as they are, times in ISO 8601 (UTC), nothing as nothing."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return harmless(value) if isinstance(value, str) else value


def csv_file(name: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Response:
    """A download. The mark at its beginning tells Excel that it is UTF-8."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    answer = Response("\ufeff" + written.getvalue(), mimetype="text/csv")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
