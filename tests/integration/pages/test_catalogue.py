"""The catalogue's pages over HTTP: finding a row, trying its decoding, editing it with a preview, taking it back."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal import clock
from portal.domain.catalogue_data import BrandData, Shape
from portal.domain.readings import ValueType
from portal.extensions import db
from portal.services.cataloguing import catalogue, catalogue_shipped
from portal.tables import AuditLog, Brand, IndexFormula, Oid, PonPort, StateMap
from portal.web import catalogue as catalogue_pages
from portal.web import catalogue_forms
from testing import builders, seed
from testing.pages import Visitor, missing, path_of, soup, text_of, texts, title_of
from testing.web import complaints, english, form_values, statements

PORT = 4194312448  # frame 0, slot 1, port 1
PASSWORD = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4"


def shipped() -> list[BrandData]:
    """Three of the shipped files; each is read once per test run."""
    return [data for key in ("huawei", "zte", "generic") if (data := catalogue_shipped.shipped(key)) is not None]


@pytest.fixture
def built(app: Flask) -> Iterator[Flask]:
    """The shipped catalogue; OLT-LIMA, a Huawei whose interface table is stored: one name of three contradicts."""
    with app.app_context():
        seed.add_users(clock.now())
        catalogue.sync(shipped(), clock.now())
        olt = builders.make_olt(model="MA5800")
        for index, name in ((PORT, "GPON 0/1/1"), (PORT + 256, "GPON 0/1/2"), (PORT + 512, "GPON 0/1/9")):
            place = int(name.rpartition("/")[2])
            db.session.add(PonPort(olt_id=olt.id, index_key=str(index), name=name, frame=0, slot=1, port=place,
                                   last_seen=clock.now()))  # fmt: skip
        db.session.commit()
    yield app


def ident(app: Flask, table: type[Oid] | type[IndexFormula] | type[StateMap], name: str, brand: str = "huawei") -> int:
    with app.app_context():
        query = select(table.id).join(Brand, Brand.id == table.brand_id).where(table.name == name, Brand.key == brand)
        found = db.session.scalars(query).first()
        assert found is not None
        return found


def rx(app: Flask) -> str:
    return f"/catalogue/oids/{ident(app, Oid, 'onu_rx_power')}"


def row(app: Flask, name: str = "onu_rx_power") -> Oid:
    with app.app_context():
        return db.session.get_one(Oid, ident(app, Oid, name))


def keys(answer: TestResponse) -> list[str]:
    return texts(answer, ".ct-key")


def preview(person: Visitor, path: str) -> str:
    """What the preview shows, as htmx asks for it."""
    part = person.fragment(path, "preview")
    assert part.status_code == 200
    root = soup(part).find(True)
    assert root is not None
    assert root.get("id") == "preview"
    return text_of(part)


def test_the_catalogue_is_in_the_rail(built: Flask) -> None:
    links = soup(english(built, "viewer").get("/catalogue/")).select(".fx-rail > nav a[aria-current=page]")
    assert [link.get_text() for link in links] == ["Catalogue"]


def test_the_list_is_narrowed_by_what_the_url_says(built: Flask) -> None:
    person = english(built, "viewer")
    assert all(key.startswith("zte.") for key in keys(person.get("/catalogue/?brand=zte")))
    assert {"huawei.onu_rx_power", "zte.onu_rx_power"} <= set(keys(person.get("/catalogue/?purpose=onu_rx_power")))
    assert "huawei.onu_state" not in keys(person.get("/catalogue/?purpose=onu_rx_power"))
    assert keys(person.get("/catalogue/?q=huawei.onu_rx_pow")) == ["huawei.onu_rx_power"]
    assert "zte.onu_state" in keys(person.get("/catalogue/?brand=zte&model=C320"))
    assert keys(person.get("/catalogue/?edited=1")) == []
    assert "No OID matches" in text_of(person.get("/catalogue/?q=%00nothing%25"))


def test_nonsense_in_the_url_is_no_error(built: Flask) -> None:
    person = english(built, "admin")
    row = rx(built)
    for path in (
        "/catalogue/?brand=x&model=%27&purpose=%00&edited=7&before=zzz",
        f"{row}?olt=99&index=%00&raw=%00",
        f"{row}?olt=x&place=1/2/3/4/5&index={'9' * 400}",
        f"{row}/edit?oid=&type=zzz&raw=1",
        "/catalogue/formulas/?brand=9",
        "/catalogue/states/?brand=%00",
    ):
        assert person.get(path).status_code == 200, path


def test_a_row_says_what_is_read_how_and_where_it_comes_from(built: Flask) -> None:
    assert (
        missing(
            english(built, "viewer").get(rx(built)),
            "huawei.onu_rx_power",
            "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4",
            "raw × 0.01",
            "2147483647",
            "huawei_gpon",
            "High",
            "shipped",
            "5 min",
        )
        == []
    )


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ("raw=-2254", ["−22.54"]),
        ("raw=2147483647", ["no value", "The device says it has no value"]),
        ("raw=0xZZ", ["two digits for each octet"]),
        (f"index={PORT}.7", ["slot = 1", "port = 1", "onu = 7", "0/1/1:7"]),
        (f"index=1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4.{PORT}.7", ["0/1/1:7"]),
        ("index=5.7", ["Unknown"]),
        ("index=here", ["the numbers behind the column"]),
        ("place=0/1/1:7", [f"{PORT}.7"]),
        ("place=0/99/1", ["is outside"]),
        ("place=somewhere", ["frame/slot/port"]),
        ("", ["Type a value"]),
    ],
)
def test_the_preview_shows_each_step_of_a_decoding(built: Flask, args: str, shown: list[str]) -> None:
    text = preview(english(built, "viewer"), f"{rx(built)}?{args}")
    assert [part for part in shown if part not in text] == []


def test_a_state_is_shown_with_its_light(built: Flask) -> None:
    path = f"/catalogue/oids/{ident(built, Oid, 'onu_state')}"
    text = preview(english(built, "viewer"), f"{path}?raw=1")
    assert missing(text, "online", "Online") == []


def test_states_are_told_in_the_readers_language_and_edited_as_they_are_stored(built: Flask) -> None:
    person = english(built, "admin")
    person.post("/language", language="es")
    assert "en línea En línea" in preview(person, f"/catalogue/oids/{ident(built, Oid, 'onu_state')}?raw=1")
    dark = preview(person, f"/catalogue/oids/{ident(built, Oid, 'onu_state')}?raw=-1")
    assert "no válido" in dark  # a state that says nothing of the light
    path = f"/catalogue/states/{ident(built, StateMap, 'run_state')}"
    assert "1 en línea online En línea" in text_of(person.get(path))
    assert "online" in [tag["value"] for tag in soup(person.get(f"{path}/edit")).select("[name=label]")]


def test_the_decode_proof_checks_every_interface_against_its_name(built: Flask) -> None:
    person = english(built, "viewer")
    text = preview(person, f"{rx(built)}?olt=1")
    assert missing(text, "2 agree, 1 contradict", "GPON 0/1/9") == []
    red = soup(person.fragment(f"{rx(built)}?olt=1", "preview")).select("tr.is-red")
    assert [text_of(tag) for tag in red] == [
        f"{PORT + 512} frame 0 · slot 1 · port 3 · onu 0 0/1/3 GPON 0/1/9 Contradicts"
    ] or "Contradicts" in red[0].get_text()
    text = preview(person, f"{rx(built)}?olt=1&index={PORT}.3")
    assert missing(text, "0/1/1:3", "Agrees") == []


def test_an_administrator_edits_a_row_and_it_stays_through_a_sync(built: Flask) -> None:
    person = english(built, "admin")
    path = rx(built)
    form = form_values(person.get(f"{path}/edit"))
    answer = person.post(f"{path}/edit", **form | {"scale": "0.1", "dead_band": "0,5"})
    assert path_of(answer) == path
    with built.app_context():
        catalogue.sync(shipped(), clock.now())
    assert (row(built).scale, row(built).dead_band, row(built).edited) == (0.1, 0.5, True)
    page = person.get(path)
    assert "Changed here" in text_of(page)
    differing = {tag.get_text() for tag in soup(page).select(".ct-differs .c-a")}
    assert "scale" in differing
    assert keys(person.get("/catalogue/?edited=1")) == ["huawei.onu_rx_power"]
    assert path_of(person.post(f"{path}/reset")) == path
    assert (row(built).scale, row(built).edited) == (0.01, False)
    with built.app_context():
        actions = [one.action for one in db.session.scalars(select(AuditLog)) if one.actor == "admin"]
    assert [action for action in actions if action.startswith("catalogue.")] == ["catalogue.edit", "catalogue.reset"]


def test_a_form_that_is_saved_as_it_stands_changes_nothing(built: Flask) -> None:
    person = english(built, "admin")
    for name in ("onu_rx_power", "onu_state", "onu_serial"):
        path = f"/catalogue/oids/{ident(built, Oid, name)}"
        assert person.post(f"{path}/edit", **form_values(person.get(f"{path}/edit"))).status_code == 303
        assert not row(built, name).edited, name


def test_mistakes_stand_beside_their_fields(built: Flask) -> None:
    person = english(built, "admin")
    form = form_values(person.get(f"{rx(built)}/edit"))
    answer = person.post(f"{rx(built)}/edit", **form | {"scale": "much", "oid": PASSWORD, "safe_interval": "soon"})
    assert answer.status_code == 422
    assert set(complaints(answer)) == {"scale", "oid", "safe_interval"}
    assert "passwords" in complaints(answer)["oid"]
    answer = person.post(f"{rx(built)}/edit", **form | {"type": "state"})
    assert set(complaints(answer)) == {"states"}


def test_the_preview_of_the_form_shows_what_is_not_saved_yet(built: Flask) -> None:
    person = english(built, "admin")
    form = form_values(person.get(f"{rx(built)}/edit"))
    del form["csrf_token"]
    query = "&".join(f"{name}={value}" for name, value in (form | {"scale": "1", "unit": ""}).items() if value)
    assert "−30" in preview(person, f"{rx(built)}/edit?{query}&raw=-30")
    wrong = query.replace("scale=1", "scale=much")
    assert "scale" in preview(person, f"{rx(built)}/edit?{wrong}&raw=-30")
    assert not row(built).edited


def test_a_row_of_ones_own_is_added_tried_and_deleted(built: Flask) -> None:
    person = english(built, "admin")
    with built.app_context():
        brand = db.session.scalars(select(Brand.id).where(Brand.key == "huawei")).one()
    path = f"/catalogue/brands/{brand}/oids/new"
    form = form_values(person.get(path)) | {"name": "onu_own", "oid": "1.3.6.1.4.1.2011.99.1", "source": "bench"}
    answer = person.post(path, **form)
    assert answer.status_code == 303, complaints(answer)
    where = path_of(answer)
    assert "Added here" in text_of(person.get(where))
    assert person.post(path, **form).status_code == 422
    assert complaints(person.post(path, **form | {"name": "other", "oid": PASSWORD})).keys() == {"oid"}
    assert path_of(person.post(f"{where}/delete")) == "/catalogue/"
    assert person.get(where).status_code == 404


def test_viewers_and_operators_look_and_administrators_edit(built: Flask) -> None:
    for name, code in (("viewer", 403), ("operator", 403), ("admin", 200)):
        person = english(built, name)
        assert person.get(f"{rx(built)}/edit").status_code == code
        assert bool(soup(person.get(rx(built))).select("a[href$='/edit']")) is (code == 200)


def test_a_formula_is_tried_both_ways_and_checked_against_names(built: Flask) -> None:
    person = english(built, "viewer")
    path = f"/catalogue/formulas/{ident(built, IndexFormula, 'huawei_gpon')}"
    assert title_of(person.get(path)) == "huawei_gpon"
    text = preview(person, f"{path}?index={PORT}.7&place=0/1/1:7&olt=1")
    assert missing(text, "0/1/1:7", f"{PORT}.7", "2 agree, 1 contradict", f"{PORT + 512} is named GPON 0/1/9") == []
    assert "huawei.onu_rx_power" in text_of(person.get(path))


def test_a_formula_is_edited_with_its_preview_and_set_back(built: Flask) -> None:
    person = english(built, "admin")
    path = f"/catalogue/formulas/{ident(built, IndexFormula, 'huawei_gpon')}"
    form = form_values(person.get(f"{path}/edit"))
    changed = form | {"definition": form["definition"].replace('"shift": 13,', '"offset": 1, "shift": 13,')}
    answer = person.client.get(f"{path}/edit", query_string=changed | {"index": f"{PORT}.7"},
                               headers={"HX-Request": "true", "HX-Target": "preview"})  # fmt: skip
    assert answer.status_code == 200
    assert "0/2/1:7" in text_of(answer)
    assert person.post(f"{path}/edit", **form | {"definition": "{"}).status_code == 422
    assert path_of(person.post(f"{path}/edit", **changed)) == path
    assert "Changed here" in text_of(person.get(path))
    assert path_of(person.post(f"{path}/reset")) == path
    assert "Changed here" not in text_of(person.get(path))


def test_a_state_map_is_edited_row_by_row(built: Flask) -> None:
    person = english(built, "admin")
    path = f"/catalogue/states/{ident(built, StateMap, 'run_state')}"
    wrong: dict[str, Any] = {"code": ["1", "x"], "label": ["lit", "dark"], "online": ["yes", "no"]}
    answer = person.post(f"{path}/edit", **wrong)
    assert answer.status_code == 422
    assert "whole number" in text_of(answer)
    assert [tag["value"] for tag in soup(answer).select("[name=label]")] == ["lit", "dark"]
    right = wrong | {"code": ["1", "2"]}
    assert path_of(person.post(f"{path}/edit", **right)) == path
    assert re.search(r"2 dark Offline offline", text_of(person.get(path)))
    person.post(f"{path}/reset")
    assert "lit" not in text_of(person.get(path)).split()


def test_lists_of_formulas_and_state_maps_say_who_uses_them(built: Flask) -> None:
    person = english(built, "viewer")
    assert "huawei.huawei_gpon bitshift" in text_of(person.get("/catalogue/formulas/?brand=huawei")).replace(
        "Huawei ", ""
    )
    assert "huawei.run_state" in text_of(person.get("/catalogue/states/"))


@pytest.mark.parametrize(
    ("path", "budget"),
    [("/catalogue/", 10), ("/catalogue/?brand=zte&model=C320", 11), ("/catalogue/oids/1?olt=1&raw=1", 15),
     ("/catalogue/formulas/", 9), ("/catalogue/states/", 9)],
)  # fmt: skip
def test_a_page_costs_few_statements(built: Flask, path: str, budget: int) -> None:
    assert statements(built, english(built, "admin"), path) <= budget


def test_the_empty_catalogue_says_how_it_is_filled(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
    assert "flask catalog sync" in text_of(english(app, "viewer").get("/catalogue/"))


def test_every_shape_and_type_of_a_row_has_a_word() -> None:
    assert set(catalogue_pages.SHAPES) == set(catalogue_forms.SHAPE_LABELS) == set(Shape)
    assert set(catalogue_pages.TYPES) == set(ValueType)
