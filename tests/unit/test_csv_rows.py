"""Tables as spreadsheets write them: encodings, separators, heads, quotation marks, and what is no table."""

import re

import pytest

from portal.domain import csv_rows
from portal.domain.csv_rows import Sheet, SheetError

NAMES = {"name": "name", "nombre": "name", "direccion": "address", "address": "address", "site": "site", "motivo": ""}


def read(text: str, most: int = 10) -> Sheet:
    return csv_rows.read(text, NAMES, most)


def test_a_file_is_read_as_spreadsheets_save_it() -> None:
    saved = ["Dirección;Ñuñoa".encode(encoding) for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16")]
    assert [csv_rows.decode(content) for content in saved] == ["Dirección;Ñuñoa"] * 4


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\x81b", "Windows-1252"),
        (b"PK\x03\x04rest", "save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0rest", "save the sheet as CSV"),
    ],
    ids=["no text", "a workbook", "an old workbook"],
)
def test_what_is_no_text_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(SheetError, match=reason):
        csv_rows.decode(content)


def test_decomposed_letters_are_the_composed_ones() -> None:
    assert read("name\nOLT-PEN\u0303A\n").records[0].cells["name"] == "OLT-PEÑA"


def test_the_separator_is_found_by_the_head_or_in_excels_own_line_which_is_counted() -> None:
    sheets = {delimiter: read(f'Nombre{delimiter}Dirección\n"A;B,C"{delimiter}10.0.0.1\n') for delimiter in ",;\t"}
    for delimiter, sheet in sheets.items():
        assert (sheet.delimiter, dict(sheet.records[0].cells)) == (delimiter, {"name": "A;B,C", "address": "10.0.0.1"})
    record = read("sep=;\r\nname;site\r\nA;Lima\r\n").records[0]
    assert (record.number, dict(record.cells)) == (3, {"name": "A", "site": "Lima"})


def test_columns_come_in_any_order_and_unknown_ones_are_named() -> None:
    sheet = read("Rack, DIRECCION ,nombre,Motivo\n7,10.0.0.1,A,x\n")
    assert dict(sheet.records[0].cells) == {"address": "10.0.0.1", "name": "A"}
    assert sheet.unknown == ("Rack",)


def test_rows_are_numbered_as_the_spreadsheet_does() -> None:
    sheet = read('name,site\nA,"one\ntwo"\n,\n\nB,\n')
    assert [(record.number, record.cells["name"]) for record in sheet.records] == [(2, "A"), (5, "B")]
    assert sheet.records[0].cells["site"] == "one\ntwo"


def test_short_rows_lack_cells_and_long_ones_are_marked() -> None:
    short, long, blank = read("name,site\nA\nB,Lima,Perú\nC,Lima,,\n").records
    assert (dict(short.cells), short.surplus) == ({"name": "A"}, False)
    assert (long.surplus, blank.surplus) == (True, False)


def test_the_apostrophe_of_our_own_exports_is_taken_off_again() -> None:
    records = read("name,site\n'=A,'tis\n'@B,it's\n").records
    assert [(one.cells["name"], one.cells["site"]) for one in records] == [("=A", "'tis"), ("@B", "it's")]


REFUSED = {
    "": "there is nothing in it",
    "\n \n": "there is nothing in it",
    "foo,bar\n1,2\n": "none of its names is known: foo, bar",
    "name,nombre\nA,B\n": "columns name and nombre mean the same",
    'name\nA\n"B\n': "row 3 cannot be read",
    'name\n"A"B\n': "row 2 cannot be read",
    "name\x00\nA": "not text",
    "name\n" + "A\n" * 11: "more than 10 rows",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_table_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(SheetError, match=re.escape(REFUSED[text])):
        read(text)
