"""Texts that go through a spreadsheet: opened, saved, and read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.spreadsheets import cell, destroyed, guard, unguard

# Text → what Excel or LibreOffice, in English, Spanish or German, makes of it where nothing keeps it.
CONVERTED = {
    "1/2/3": "1/2/2003", "1/4": "04-ene", "1/4:17": "1/4:17", "1/2/3:4": "1/2/3:4", "1-2": "01-feb", "0/1/2": "0/1/2",
    "4194312448.10": "4194312448.1", "1.1": "01-ene", "1.2.3": "01.02.2003", "1,2": "1,2", "007": "7", ".5": "0.5",
    "1234567890123456": "1.23457E+15", "12345678000000E1": "1.2345678E+14", "001122334455": "1122334455",
    "192.168.100.200": "192168100200", "1 234": "1234", "(12)": "-12", "$5": "5", "50%": "0.5", "12E5": "1200000",
    "10:20": "10:20:00", "1:2:3 PM": "13:02:03", "2-mar": "02-mar", "MAR1": "01-mar", "Julio 12": "12-jul",
    "sep-2": "02-sep", "2 may 2026": "02-may-26", "true": "TRUE", "Verdadero": "VERDADERO", "1 1/2": "1.5",
    "1" * 61: "1.11111E+60",
}  # fmt: skip
CALCULATED = ("=1", "+1", "-1", "@a", "\t=1", " =1", "\r=1", "\uff1d1", "|a", "%a", "-")
LEFT_ALONE = (
    "", "OLT-1", "OLT 7", "a=b", "10.0.0.11", "192.0.2.10", "ZTEG030C0914", "48575443AB12CD34", "C320", "E7-2", "1/a",
    "12.85.66.78.84.48.53.52.54.57.98.49.101", "Ana Ñahui", "May", "Marta 12", "2001:db8::1", "1+1", "'tis",
    "12 de Octubre",
    "2026-11-29T05:00:00+00:00", "GPON 0/1/2", "Calle 1/2", "3 Marías",
)  # fmt: skip


def test_what_a_spreadsheet_would_change_is_written_behind_an_apostrophe_and_read_back() -> None:
    texts = (*CONVERTED, *CALCULATED)
    assert {text: guard(text) for text in texts} == {text: f"'{text}" for text in texts}
    assert {text: unguard(guard(text)) for text in texts} == {text: text for text in texts}


def test_what_it_leaves_alone_is_written_as_it_is() -> None:
    assert {text: guard(text) for text in LEFT_ALONE} == {text: text for text in LEFT_ALONE}


@given(st.text() | st.text("'0123456789/:.,-E =", max_size=12))
def test_every_text_is_read_back_as_it_was_written(text: str) -> None:
    assert unguard(guard(text)) == text


DESTROYED = {
    "first digits": ["1.2E+15", "1,23457E+15", "1E+15", "-1.2E-07"],
    "date or time": [
        "1/2/2003", "01/02/2003", "01.02.2003", "01/02/03", "2003-02-01", "2003-02-01 00:00:00", "04-ene", "4-Jan",
        "2-may", "ene-03", "Jan-03", "12-sept", "10:20:00", "1:02:03 PM", "2-may-26", "01-feb-2003",
    ],
    "error": ["#NAME?", "#¿NOMBRE?", "#VALUE!", "#¡VALOR!", "#REF!", "#N/A", "#N/D", "#DIV/0!", "########"],
}  # fmt: skip


@pytest.mark.parametrize("what", DESTROYED)
def test_what_a_spreadsheet_left_of_a_cell_is_told(what: str) -> None:
    told = {text: destroyed(text) for text in DESTROYED[what]}
    assert [text for text, left in told.items() if left is None or what not in str(left)] == []


def test_a_text_that_may_be_meant_is_not_taken_for_a_ruin() -> None:
    assert [
        text for text in (*LEFT_ALONE, *CALCULATED, "1/2/3", "1-2", "161", "2.5", "1E5", "#1", "yes") if destroyed(text)
    ] == []


def test_cells_are_named_as_spreadsheets_name_them() -> None:
    assert [cell(*at) for at in ((0, 1), (1, 7), (25, 2), (26, 3), (701, 4), (702, 5))] == [
        "A1", "B7", "Z2", "AA3", "ZZ4", "AAA5",
    ]  # fmt: skip
