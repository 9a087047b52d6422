"""A table of a spreadsheet as text: its encoding, its separator, what its head calls the columns, its rows. Pure."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from portal.domain import spreadsheets
from portal.domain.fields import shown
from portal.domain.messages import N_, Message

DELIMITERS = (",", ";", "\t")
_SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx and .ods, .xls
_WORD = re.compile(r"[^0-9a-z]+")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # with which Excel is told the separator


class SheetError(ValueError):
    """The text is no table that can be read; `message` says why and what to do."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class Record:
    """One row. `number`: as spreadsheets count, the head is 1. `cells`: column's name → text, empty ones left out.

    `raw`: as it came, without what a spreadsheet destroyed; `destroyed`: column's name → which cell that was, and what
    is left there. An apostrophe before a text says that it is meant.
    """

    number: int
    cells: Mapping[str, str]
    raw: tuple[str, ...] = field(repr=False)
    surplus: bool = False  # there is text behind the last column
    destroyed: Mapping[str, Message] = field(default_factory=dict)


@dataclass(frozen=True)
class Sheet:
    """A whole table. `unknown`: heads of columns that mean nothing here, as written."""

    delimiter: str
    head: tuple[str, ...]
    unknown: tuple[str, ...]
    records: tuple[Record, ...]


def decode(content: bytes) -> str:
    """A file as text: UTF-8 with or without its mark, UTF-16 with it, else Windows-1252. SheetError for no text."""
    if content.startswith(_SPREADSHEETS):
        raise SheetError(N_("this is a workbook, not a CSV file: save the sheet as CSV (UTF-8), then upload that"))
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise SheetError(N_("the file is neither UTF-8 nor Windows-1252 text: save it as CSV (UTF-8)"))


def plain(word: str) -> str:
    """A head as it is compared: small letters without accents, one blank between words."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    return _WORD.sub(" ", "".join(char for char in letters if not unicodedata.combining(char))).strip()


def read(text: str, names: Mapping[str, str], most: int) -> Sheet:
    """The table in `text`, of at most `most` rows. `names`: plain head → name of the column, "" to pass it over.

    SheetError: no table, no column that is known, two columns of one name, or more rows.
    """
    given = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    if "\x00" in given:
        raise SheetError(N_("the file is not text: save it as CSV (UTF-8)"))
    told = _SEPARATOR_LINE.match(given)
    body = given[told.end() :] if told else given
    delimiter = told[1] if told and told[1] in DELIMITERS else _delimiter(body, names)
    numbered = _numbered(body, delimiter, 2 if told else 1)
    head = next(((number, cells) for number, cells in numbered if any(map(str.strip, cells))), None)
    if head is None:
        raise SheetError(N_("there is nothing in it: the first row names the columns, each further row is an OLT"))
    columns = _columns(head[1], names)
    records = []
    for number, cells in numbered:
        if any(map(str.strip, cells)):
            records.append(_record(number, cells, columns))
        if len(records) > most:
            raise SheetError(N_("there are more than %(most)d rows: split the file", most=most))
    unknown = tuple(word.strip() for word, name in zip(head[1], columns, strict=True) if name is None and word.strip())
    return Sheet(delimiter, tuple(head[1]), unknown, tuple(records))


def _delimiter(text: str, names: Mapping[str, str]) -> str:
    """The separator with which the head has most columns that are known; of equals the first."""
    head = next((line for line in text.splitlines() if line.strip()), "")

    def known(delimiter: str) -> int:
        return sum(plain(word) in names for word in head.replace('"', "").split(delimiter))

    return max(DELIMITERS, key=known)


def _numbered(text: str, delimiter: str, first: int) -> Iterator[tuple[int, list[str]]]:
    """Rows with their numbers; a row may have several lines inside quotation marks."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = first
    while True:
        try:
            cells = next(rows, None)
        except csv.Error:
            raise SheetError(
                N_("row %(number)d cannot be read: a quotation mark is not closed, or text follows it", number=number)
            ) from None
        if cells is None:
            return
        yield number, cells
        number += 1


def _columns(head: list[str], names: Mapping[str, str]) -> list[str | None]:
    """Name of each column; None = unknown, "" = passed over."""
    found: dict[str, str] = {}
    columns: list[str | None] = []
    for word in head:
        name = names.get(plain(word))
        if name and name in found:
            raise SheetError(N_("columns %(one)s and %(other)s mean the same: keep one of them",
                                one=shown(found[name].strip()), other=shown(word.strip())))  # fmt: skip
        if name:
            found[name] = word
        columns.append(name)
    if not found:
        raise SheetError(N_("the first row must name the columns; none of its names is known: %(names)s",
                            names=shown(", ".join(word.strip() for word in head))))  # fmt: skip
    return columns


def _record(number: int, cells: list[str], columns: list[str | None]) -> Record:
    given: dict[str, str] = {}
    destroyed: dict[str, Message] = {}
    raw = list(cells)
    for place, (name, written) in enumerate(zip(columns, cells, strict=False)):
        text = written.strip()
        if not name or not text:
            continue
        given[name] = spreadsheets.unguard(text)
        if (left := spreadsheets.destroyed(text)) is not None:
            where = spreadsheets.cell(place, number)
            destroyed[name] = N_("cell %(cell)s holds %(what)s (%(given)s): write it again, in a column of text or "
                                 "behind an apostrophe", cell=where, what=left, given=shown(text))  # fmt: skip
            raw[place] = ""
    surplus = any(cell.strip() for cell in cells[len(columns) :])
    return Record(number, given, tuple(raw), surplus, destroyed)
