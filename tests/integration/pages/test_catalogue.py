"""The catalogue's pages over HTTP: finding a row, trying its decoding, editing it with a preview, taking it back."""

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
from testing.databases import Databases
from testing.pages import Visitor, element, form_values, missing, path_of, soup, text_of, texts, title_of
from testing.web import complaints, english, statements, stored

PORT = 4194312448  # frame 0, slot 1, port 1
PASSWORD = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4"


def shipped() -> list[BrandData]:
    """Three of the shipped files; each is read once per test run."""
    return [data for key in ("huawei", "zte", "generic") if (data := catalogue_shipped.shipped(key)) is not None]


def catalogued(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        catalogue.sync(shipped(), clock.now())
        olt = builders.make_olt(model="MA5800")
        seen = {"olt_id": olt.id, "frame": 0, "slot": 1, "last_seen": clock.now()}
        for index, port in ((PORT, 1), (PORT + 256, 2), (PORT + 512, 9)):
            db.session.add(PonPort(index_key=str(index), name=f"GPON 0/1/{port}", port=port, **seen))
        db.session.commit()


@pytest.fixture
def built(app: Flask, databases: Databases) -> Flask:
    """The shipped catalogue; OLT-LIMA, a Huawei whose interface table is stored: one name of three contradicts."""
    return databases.prepare(app, catalogued)


def of(app: Flask, table: type[Oid] | type[IndexFormula] | type[StateMap], name: str) -> Any:
    """Huawei's row of this name."""
    query = select(table).join(Brand, Brand.id == table.brand_id).where(table.name == name, Brand.key == "huawei")
    return stored(app, query)[0]


def oid(app: Flask, name: str = "onu_rx_power") -> str:
    return f"/catalogue/oids/{of(app, Oid, name).id}"


def rx(app: Flask) -> tuple[float, bool]:
    """Scale of the power, and whether its row was edited here."""
    row = of(app, Oid, "onu_rx_power")
    return row.scale, row.edited


def keys(answer: TestResponse) -> list[str]:
    return texts(answer, ".ct-key")


def preview(person: Visitor, path: str) -> str:
    """What the preview shows, as htmx asks for it."""
    part = person.fragment(path, "preview")
    assert (part.status_code, element(part, "*")["id"]) == (200, "preview")
    return text_of(part)


def test_the_catalogue_is_in_the_rail(built: Flask) -> None:
    page = english(built, "viewer").get("/catalogue/")
    assert texts(page, ".fx-rail > nav a[aria-current=page]") == ["Catalogue"]


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
    person, row = english(built, "admin"), oid(built)
    lists = ("?brand=x&model=%27&purpose=%00&edited=7&before=zzz", "formulas/?brand=9", "states/?brand=%00")
    rows = ("?olt=99&index=%00&raw=%00", f"?olt=x&place=1/2/3/4/5&index={'9' * 400}", "/edit?oid=&type=zzz&raw=1")
    for path in (*(f"/catalogue/{query}" for query in lists), *(row + query for query in rows)):
        assert person.get(path).status_code == 200, path


def test_a_row_says_what_is_read_how_and_where_it_comes_from(built: Flask) -> None:
    told = english(built, "viewer").get(oid(built))
    assert missing(told, "huawei.onu_rx_power", "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "raw × 0.01", "2147483647") == []
    assert missing(told, "huawei_gpon", "High", "shipped", "5 min") == []


STEPS = {
    "raw=-2254": ("−22.54",),
    "raw=2147483647": ("no value", "The device says it has no value"),
    "raw=0xZZ": ("two digits for each octet",),
    f"index={PORT}.7": ("slot = 1", "port = 1", "onu = 7", "0/1/1:7"),
    f"index=1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4.{PORT}.7": ("0/1/1:7",),
    "index=5.7": ("Unknown",),
    "index=here": ("the numbers behind the column",),
    "place=0/1/1:7": (f"{PORT}.7",),
    "place=0/99/1": ("is outside",),
    "place=somewhere": ("frame/slot/port",),
    "": ("Type a value",),
}


def test_the_preview_shows_each_step_of_a_decoding_and_a_state_with_its_light(built: Flask) -> None:
    person = english(built, "viewer")
    lacking = {args: missing(preview(person, f"{oid(built)}?{args}"), *shown) for args, shown in STEPS.items()}
    assert lacking == dict.fromkeys(STEPS, [])
    assert missing(preview(person, f"{oid(built, 'onu_state')}?raw=1"), "online", "Online") == []


def test_states_are_told_in_the_readers_language_and_edited_as_they_are_stored(built: Flask) -> None:
    person = english(built, "admin")
    person.post("/language", language="es")
    assert "en línea En línea" in preview(person, f"{oid(built, 'onu_state')}?raw=1")
    dark = preview(person, f"{oid(built, 'onu_state')}?raw=-1")
    assert "no válido" in dark  # a state that says nothing of the light
    path = f"/catalogue/states/{of(built, StateMap, 'run_state').id}"
    assert "1 en línea online En línea" in text_of(person.get(path))
    assert "online" in [tag["value"] for tag in soup(person.get(f"{path}/edit")).select("[name=label]")]


def test_the_decode_proof_checks_every_interface_against_its_name(built: Flask) -> None:
    person = english(built, "viewer")
    assert missing(preview(person, f"{oid(built)}?olt=1"), "2 agree, 1 contradict", "GPON 0/1/9") == []
    (red,) = texts(person.fragment(f"{oid(built)}?olt=1", "preview"), "tr.is-red")
    assert missing(red, f"{PORT + 512}", "GPON 0/1/9", "Contradicts") == []
    assert missing(preview(person, f"{oid(built)}?olt=1&index={PORT}.3"), "0/1/1:3", "Agrees") == []


def test_an_administrator_edits_a_row_and_it_stays_through_a_sync(built: Flask) -> None:
    person = english(built, "admin")
    path = oid(built)
    assert path_of(person.submit(f"{path}/edit", scale="0.1", dead_band="0,5")) == path
    with built.app_context():
        catalogue.sync(shipped(), clock.now())
    assert (rx(built), of(built, Oid, "onu_rx_power").dead_band) == ((0.1, True), 0.5)
    page = person.get(path)
    assert ("Changed here" in text_of(page), "scale" in texts(page, ".ct-differs .c-a")) == (True, True)
    assert keys(person.get("/catalogue/?edited=1")) == ["huawei.onu_rx_power"]
    assert path_of(person.post(f"{path}/reset")) == path
    assert rx(built) == (0.01, False)
    actions = stored(built, select(AuditLog.action).where(AuditLog.actor == "admin"))
    assert [action for action in actions if action.startswith("catalogue.")] == ["catalogue.edit", "catalogue.reset"]


def test_a_form_that_is_saved_as_it_stands_changes_nothing(built: Flask) -> None:
    person = english(built, "admin")
    for name in ("onu_rx_power", "onu_state", "onu_serial"):
        assert person.submit(f"{oid(built, name)}/edit").status_code == 303
        assert not of(built, Oid, name).edited, name


def test_mistakes_stand_beside_their_fields(built: Flask) -> None:
    person = english(built, "admin")
    answer = person.submit(f"{oid(built)}/edit", scale="much", oid=PASSWORD, safe_interval="soon")
    assert (answer.status_code, set(complaints(answer))) == (422, {"scale", "oid", "safe_interval"})
    assert "passwords" in complaints(answer)["oid"]
    assert set(complaints(person.submit(f"{oid(built)}/edit", type="state"))) == {"states"}


def test_the_preview_of_the_form_shows_what_is_not_saved_yet(built: Flask) -> None:
    person = english(built, "admin")
    form = form_values(person.get(f"{oid(built)}/edit"))
    del form["csrf_token"]
    query = "&".join(f"{name}={value}" for name, value in (form | {"scale": "1", "unit": ""}).items() if value)
    assert "−30" in preview(person, f"{oid(built)}/edit?{query}&raw=-30")
    wrong = query.replace("scale=1", "scale=much")
    assert "scale" in preview(person, f"{oid(built)}/edit?{wrong}&raw=-30")
    assert rx(built) == (0.01, False)


def test_a_row_of_ones_own_is_added_tried_and_deleted(built: Flask) -> None:
    person = english(built, "admin")
    (brand,) = stored(built, select(Brand.id).where(Brand.key == "huawei"))
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
        assert person.get(f"{oid(built)}/edit").status_code == code
        assert bool(soup(person.get(oid(built))).select("a[href$='/edit']")) is (code == 200)


def test_a_formula_is_tried_both_ways_and_checked_against_names(built: Flask) -> None:
    person = english(built, "viewer")
    path = f"/catalogue/formulas/{of(built, IndexFormula, 'huawei_gpon').id}"
    assert title_of(person.get(path)) == "huawei_gpon"
    text = preview(person, f"{path}?index={PORT}.7&place=0/1/1:7&olt=1")
    assert missing(text, "0/1/1:7", f"{PORT}.7", "2 agree, 1 contradict", f"{PORT + 512} is named GPON 0/1/9") == []
    assert "huawei.onu_rx_power" in text_of(person.get(path))


def test_a_formula_is_edited_with_its_preview_and_set_back(built: Flask) -> None:
    person = english(built, "admin")
    path = f"/catalogue/formulas/{of(built, IndexFormula, 'huawei_gpon').id}"
    form = form_values(person.get(f"{path}/edit"))
    changed = form | {"definition": form["definition"].replace('"shift": 13,', '"offset": 1, "shift": 13,')}
    answer = person.client.get(f"{path}/edit", query_string=changed | {"index": f"{PORT}.7"},
                               headers={"HX-Request": "true", "HX-Target": "preview"})  # fmt: skip
    assert (answer.status_code, missing(answer, "0/2/1:7")) == (200, [])
    assert person.post(f"{path}/edit", **form | {"definition": "{"}).status_code == 422
    for send, edited in ((f"{path}/edit", True), (f"{path}/reset", False)):
        assert path_of(person.post(send, **changed)) == path
        assert ("Changed here" in text_of(person.get(path))) is edited


def test_a_state_map_is_edited_row_by_row(built: Flask) -> None:
    person = english(built, "admin")
    path = f"/catalogue/states/{of(built, StateMap, 'run_state').id}"
    wrong: dict[str, Any] = {"code": ["1", "x"], "label": ["lit", "dark"], "online": ["yes", "no"]}
    answer = person.post(f"{path}/edit", **wrong)
    assert (answer.status_code, missing(answer, "whole number")) == (422, [])
    assert [tag["value"] for tag in soup(answer).select("[name=label]")] == ["lit", "dark"]
    assert path_of(person.post(f"{path}/edit", **wrong | {"code": ["1", "2"]})) == path
    assert "2 dark Offline offline" in text_of(person.get(path))
    person.post(f"{path}/reset")
    assert "lit" not in text_of(person.get(path)).split()


def test_lists_of_formulas_and_state_maps_say_who_uses_them(built: Flask) -> None:
    person = english(built, "viewer")
    formulas = text_of(person.get("/catalogue/formulas/?brand=huawei"))
    assert "huawei.huawei_gpon bitshift" in formulas.replace("Huawei ", "")
    assert "huawei.run_state" in text_of(person.get("/catalogue/states/"))


BUDGETS = {"": 10, "?brand=zte&model=C320": 11, "oids/1?olt=1&raw=1": 15, "formulas/": 9, "states/": 9}


def test_a_page_costs_few_statements(built: Flask) -> None:
    person = english(built, "admin")
    costs = {path: statements(built, person, f"/catalogue/{path}") for path in BUDGETS}
    assert {path: cost for path, cost in costs.items() if cost > BUDGETS[path]} == {}


def test_the_empty_catalogue_says_how_it_is_filled(people: Flask) -> None:
    assert "flask catalog sync" in text_of(english(people, "viewer").get("/catalogue/"))


def test_every_shape_and_type_of_a_row_has_a_word() -> None:
    assert set(catalogue_pages.SHAPES) == set(catalogue_forms.SHAPE_LABELS) == set(Shape)
    assert set(catalogue_pages.TYPES) == set(ValueType)
