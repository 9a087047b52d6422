"""The page that imports OLTs from a table: preview, confirmation, what is refused as a file, and files too large."""

import csv
import io

import pytest
from flask import Flask
from sqlalchemy import func, select
from werkzeug.test import TestResponse

from portal import clock
from portal.domain.spreadsheets import guard
from portal.extensions import db
from portal.services.importing import csv_olts
from portal.tables import Olt
from testing.pages import Visitor, csv_of, element, path_of, soup, text_of, texts, title_of
from testing.web import english, form_values, written

HEAD = "Nombre;Dirección;Marca;Modelo;Credencial;Sitio;Rack\n"
NEW = "OLT-NUEVA;10.5.0.1;Huawei;MA5800;lab;Ñaña;7\n"
CHANGED = "OLT-LIMA;;;;;Chorrillos;\n"
WRONG = "OLT-MALA;=1+1;Huawei;;lab;;\n"
TABLE = HEAD + NEW + CHANGED + WRONG


def send(person: Visitor, content: bytes, path: str = "/olts/import") -> TestResponse:
    form = {"csrf_token": person.token, "file": (io.BytesIO(content), "olts.csv")}
    return person.client.post(path, data=form, content_type="multipart/form-data")


def confirm(person: Visitor, shown: TestResponse, **changes: str) -> TestResponse:
    values = form_values(shown, "#import")
    values.pop("file", None)
    values |= {"text": values["text"].removeprefix("\n"), **changes}  # HTML takes the first line end away
    return person.client.post("/olts/import/confirm", data=values)


def olts(app: Flask) -> list[str]:
    with app.app_context():
        return list(db.session.scalars(select(Olt.name).order_by(Olt.name)))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_file_is_shown_row_by_row_and_nothing_is_written(built: Flask, encoding: str) -> None:
    person = english(built)
    answer = send(person, TABLE.encode(encoding))
    assert (answer.status_code, title_of(answer)) == (200, "2 OLTs would be written")
    page = soup(answer)
    assert texts(page, "#created td.c-a") == ["OLT-NUEVA"]
    assert "Ñaña" in page.select("#created")[0].get_text()
    assert text_of(page.select("#changed tbody")[0]) == "3 OLT-LIMA Site: – → Chorrillos"
    refused = page.select("#refused tbody")[0].get_text(" ")
    assert "Address: must be an IP address" in " ".join(refused.split())
    assert "1 column is not known and is passed over Rack" in text_of(answer)
    assert olts(built) == ["OLT-LIMA"]


def test_what_was_shown_is_written_when_it_is_confirmed(built: Flask) -> None:
    person = english(built)
    answer = confirm(person, person.post("/olts/import", text=TABLE))
    assert (answer.status_code, path_of(answer)) == (303, "/olts/")
    assert olts(built) == ["OLT-LIMA", "OLT-NUEVA"]
    assert "Imported: 1 new · 1 changed · 1 refused." in text_of(person.get("/olts/"))


def test_a_table_that_was_corrected_is_shown_before_it_is_written(built: Flask) -> None:
    person = english(built)
    shown = person.post("/olts/import", text=TABLE)
    corrected = TABLE.replace("=1+1", "10.5.0.2")
    answer = confirm(person, shown, text=corrected)
    assert (answer.status_code, title_of(answer)) == (409, "3 OLTs would be written")
    assert "nothing was written" in text_of(answer)
    assert olts(built) == ["OLT-LIMA"]
    assert confirm(person, answer).status_code == 303
    assert olts(built) == ["OLT-LIMA", "OLT-MALA", "OLT-NUEVA"]


def test_what_changed_in_the_database_meanwhile_is_shown_again(built: Flask) -> None:
    person = english(built)
    shown = person.post("/olts/import", text=HEAD + NEW)
    with written(built) as session:
        session.get_one(Olt, 1).address = "10.5.0.1"
    answer = confirm(person, shown)
    assert (answer.status_code, title_of(answer)) == (409, "Nothing to import")
    assert "10.5.0.1:161 belongs to OLT OLT-LIMA already" in text_of(answer)
    assert soup(answer).select("button[formaction='/olts/import/confirm']") == []


def test_the_text_survives_as_it_was_typed(built: Flask) -> None:
    person = english(built)
    text = '\n\nname,site\nOLT-LIMA,"<b>&amp;""x"""\n'
    page = soup(person.post("/olts/import", text=text))
    area = element(page, "#f-text")
    assert area.get_text() == "\n" + text  # HTML takes the first line end away


def test_the_refused_rows_come_back_as_a_file_with_the_reason(built: Flask) -> None:
    person = english(built)
    answer = person.post("/olts/import/refused.csv", text=TABLE)
    assert answer.mimetype == "text/csv"
    head, row = csv.reader(io.StringIO(answer.get_data().decode("utf-8-sig")))
    assert head == [*HEAD.strip().split(";"), "Reason"]
    assert row[:2] == ["OLT-MALA", "'=1+1"]  # no spreadsheet calculates it
    assert row[-1].startswith("Address: must be an IP address")
    again = person.post("/olts/import", text=answer.get_data().decode("utf-8-sig"))
    assert "must be an IP address such as 10.0.0.5 or a host name, not =1+1" in text_of(again)


NAMES = ("1/2", "007", "1.2.3", "MAR1", "12E5", "1234567890123456", "true", "=1+1", "OLT-LIMA-2")


def saved(content: bytes) -> bytes:
    """What a spreadsheet saves after it opened this: texts that nothing keeps from it are dates by then."""
    text = io.StringIO()
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig")))
    csv.writer(text, delimiter=";").writerows([[_opened(cell) for cell in row] for row in rows])
    return text.getvalue().encode("utf-8-sig")


def _opened(cell: str) -> str:
    a_number = cell.isdecimal() and len(cell) < 16 and str(int(cell)) == cell
    return cell if a_number or cell.startswith("'") or guard(cell) == cell else "04-ene"


def test_the_export_of_olts_is_unchanged_by_a_spreadsheet_whatever_they_are_called(built: Flask) -> None:
    with written(built) as session:
        for place, name in enumerate(NAMES):
            own = {"name": name, "address": f"10.7.{place}.1", "created_at": clock.now()}
            session.add(Olt(site="1-2", brand_id=1, credential_id=1, **own))
    person = english(built)
    exported = person.get("/olts/export.csv").get_data()
    shown = send(person, saved(exported))
    assert texts(shown, "#refused td.c-a") == []
    assert title_of(shown) == "Nothing to import"


def test_what_a_spreadsheet_destroyed_is_refused_with_the_cell_and_one_behind_an_apostrophe_is_meant(
    built: Flask,
) -> None:
    person = english(built)
    table = HEAD + "02-ene;10.5.0.1;Huawei;;lab;1.2E+15;\n'02-feb;10.5.0.2;Huawei;MA5800;lab;;\n"
    shown = send(person, table.encode())
    told = text_of(element(shown, "#refused tbody"))
    assert "cell A2 holds a date or time that a spreadsheet made of something else (02-ene): write it again" in told
    assert "cell F2 holds a long number of which only the first digits are left (1.2E+15)" in told
    confirm(person, shown)
    assert "02-feb" in olts(built)
    again = csv_of(person.post("/olts/import/refused.csv", text=table))
    assert [again[1][0], again[1][5]] == ["", ""], "a ruin comes not back as if it were meant"


def test_the_empty_table_is_one_that_the_import_understands(built: Flask) -> None:
    for language in ("en", "es"):
        person = english(built)
        person.post("/language", language=language)
        person.get("/olts/import")
        content = person.get("/olts/import/template.csv").get_data()
        answer = send(person, content)
        page = soup(answer)
        assert page.select(".fx-amber") == [], language
        assert texts(page, "#refused td.c-a") == ["OLT-EXAMPLE-01"], language


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\xff\xfe\x00", b"a,b\n1,2\n", b"name\n", b'name\n"', b"\x81"]
)
def test_what_is_no_table_is_told_and_never_a_fault(built: Flask, content: bytes) -> None:
    person = english(built)
    answer = send(person, content)
    assert answer.status_code == 422
    assert soup(answer).select_one("[role=alert]") is not None


def test_too_many_rows_and_too_large_a_file_say_the_limit(built: Flask) -> None:
    person = english(built)
    rows = "name\n" + "".join(f"O{n}\n" for n in range(csv_olts.MOST_ROWS + 1))
    assert "more than 2000 rows: split the file" in text_of(person.post("/olts/import", text=rows))
    assert "larger than 512 KB" in text_of(send(person, b"name\n" + b"x" * csv_olts.LARGEST))
    beyond = send(person, b"name\n" + b"x" * 5_000_000)
    assert (beyond.status_code, "larger than 512 KB" in text_of(beyond)) == (413, True)


def test_a_viewer_may_not_import(built: Flask) -> None:
    person = english(built, "viewer")
    assert person.get("/olts/import").status_code == 403
    assert person.post("/olts/import/confirm", text=TABLE).status_code == 403
    assert soup(person.get("/olts/")).select("a[href='/olts/import']") == []


def test_a_form_without_its_token_writes_nothing(built: Flask) -> None:
    person = english(built)
    answer = person.client.post("/olts/import/confirm", data={"text": TABLE, "mark": "x"})
    assert answer.status_code == 400
    with built.app_context():
        assert db.session.scalar(select(func.count()).select_from(Olt)) == 1
