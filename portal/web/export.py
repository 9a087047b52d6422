"""Files for spreadsheets: rows as CSV whose texts are what they were once they were opened and saved. Knows no page."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, TypeAlias

from flask import Response
from flask_babel import LazyString
from flask_babel import gettext as _

from portal.domain.spreadsheets import guard
from portal.web.formatting import number

MOST = 50_000  # rows of one file; the pages say so beside their link, and a file that is cut in its last line

_IN_MEMORY = 1 << 20  # octets; a longer file waits on the disk until it is sent
_PART = 1 << 16

Cell: TypeAlias = str | LazyString | int | float | datetime | None


def _cell(value: Cell) -> str | int | float:
    """Numbers as they are, times in ISO 8601 (UTC), nothing as nothing."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return value if isinstance(value, int | float) else guard(str(value).replace("\x00", ""))


def csv_file(
    name: str, head: Sequence[str | LazyString], rows: Iterable[Sequence[Cell]], most: int | None = None
) -> Response:
    """A download, written before its first octet is sent: no transaction waits for a slow reader.

    The mark at its beginning tells Excel that it is UTF-8. Of more than `most` rows the rest is left out, and a last
    line says so. However many there are, about a megabyte of them is in memory.
    """
    file = SpooledTemporaryFile(max_size=_IN_MEMORY, mode="w+b")  # noqa: SIM115  (closed when it was sent)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    text.write("\ufeff")
    writer = csv.writer(text)
    writer.writerow([str(word) for word in head])
    left = iter(rows)
    writer.writerows([_cell(value) for value in row] for row in islice(left, most))
    if most is not None and next(left, None) is not None:
        writer.writerow([_("Cut after %(n)s rows: narrow the filters for the rest.", n=number(most))])
    text.detach()
    file.seek(0)
    answer = Response(_parts(file), mimetype="text/csv")
    answer.call_on_close(file.close)
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while part := file.read(_PART):
        yield part
