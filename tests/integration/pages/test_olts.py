"""Pages of OLTs, credentials and connection tests over HTTP: lists, filters, forms, actions, and what they cost."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.statuses import ErrorKind, OltState
from portal.extensions import db
from portal.queries import olts
from portal.services.cataloguing import catalogue, catalogue_shipped
from portal.tables import AuditLog, Credential, Olt, Probe, ProbeStatus, WorkflowNode
from testing import seed
from testing.cast import COMMUNITY
from testing.pages import Visitor, csv_of, element, missing, path_of, soup, text_of, texts, title_of
from testing.web import (
    add_olts,
    complaints,
    english,
    form_values,
    row_of,
    statements,
    stored,
    update_rows,
    values_of,
    written,
)

NEW = {
    "name": "OLT-PIURA", "device": "huawei/MA5800", "site": "Piura", "enabled": "1", "address": "10.9.8.7",
    "port": "161", "credential": "1", "timeout": "2.0", "retries": "1", "max_repetitions": "20", "max_varbinds": "50",
    "max_inflight": "2",
}  # fmt: skip


def names(person: Visitor, path: str) -> list[str]:
    return texts(person.get(path), "tbody td.c-a > a")


# ---------------------------------------------------------------------------------------------------------------- list


def test_the_title_of_the_list_says_how_many_olts_do_not_answer(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    assert title_of(person.get("/olts/")) == "2 OLTs answer"
    update_rows(seeded, Olt, Olt.id == 1, state=OltState.UNREACHABLE)
    assert title_of(person.get("/olts/")) == "1 OLT does not answer"


def test_an_empty_list_tells_how_to_add_an_olt(app: Flask) -> None:
    seed.seed(app, "empty")
    assert missing(english(app).get("/olts/"), "No OLTs yet", "flask import", "Add OLT") == []


def test_a_row_shows_state_onus_clock_and_what_runs(seeded: Flask) -> None:
    row = soup(english(seeded, "viewer").get("/olts/?q=OLT-LIMA-01")).select("tbody tr")[0].get_text(" ")
    assert missing(row, "OLT-LIMA-01", "10.0.0.2", "ZTE", "Up", "Potencia RX", "21", "23") == []


LIMA, CUSCO = "OLT-LIMA-01", "OLT-CUSCO-02"
FILTERS = {
    (LIMA,): ("q=10.0.0.2", "q=c320", "state=up", "enabled=1", "model=C320", "site=Lima"),
    (CUSCO,): ("q=cusco", "brand=huawei", "state=disabled", "enabled=0"),
    (): ("model=none", "site=-", "template=none", "brand=zte&enabled=0", "q=%25"),
    (CUSCO, LIMA): ("template=-", "sort=brand", "sort=-state", "q=%00&state=x&sort=y&before=zzz"),
    (LIMA, CUSCO): ("sort=-name", "sort=-brand"),
}


def test_the_url_says_which_olts_are_listed(seeded: Flask) -> None:
    update_rows(seeded, Olt, Olt.id == 2, enabled=False)
    person = english(seeded, "viewer")
    wanted = {query: [*listed] for listed, queries in FILTERS.items() for query in queries}
    assert {query: names(person, f"/olts/?{query}") for query in wanted} == wanted


def test_each_filter_is_a_chip_that_takes_itself_off(seeded: Flask) -> None:
    page = soup(english(seeded).get("/olts/?brand=zte&model=C320&site=Lima&template=-&enabled=1"))
    chips = {chip.get_text(): str(chip["href"]) for chip in page.select(".fx-chip")}
    assert list(chips) == ["ZTE", "ZXA10 C320", "Lima", "without a template", "Enabled"]
    assert chips["Lima"] == "/olts/?brand=zte&model=C320&template=-&enabled=1"


def exported(person: Visitor, query: str = "") -> list[list[str]]:
    return csv_of(person.get(str(element(person.get(f"/olts/{query}"), "a[href*='/olts/export.csv']")["href"])))


def test_the_file_holds_what_is_listed_and_nothing_a_spreadsheet_calculates(seeded: Flask) -> None:
    update_rows(seeded, Olt, Olt.id == 2, site="=1+1")
    head, *rows = exported(english(seeded, "viewer"), "?brand=huawei&sort=-name")
    assert [row[head.index("Name")] for row in rows] == ["OLT-CUSCO-02"]
    assert rows[0][head.index("Site")] == "'=1+1"
    assert len(exported(english(seeded))) == 3


def test_the_file_goes_back_through_the_import_and_changes_nothing(seeded: Flask) -> None:
    person = english(seeded)
    content = person.get("/olts/export.csv").get_data().decode("utf-8-sig")
    answer = person.post("/olts/import", text=content)
    assert (title_of(answer), missing(answer, "2 rows change nothing")) == ("Nothing to import", [])


def test_the_list_costs_the_same_number_of_statements_for_2_and_for_300_olts(seeded: Flask) -> None:
    person = english(seeded)
    few = statements(seeded, person, "/olts/")
    add_olts(seeded, 300, state=OltState.UP)
    assert statements(seeded, person, "/olts/") == few <= 12


def walk(person: Visitor, path: str) -> list[list[str]]:
    """Names on each page, page after page; the way back from the last leads to the one before."""
    pages: list[list[str]] = []
    while path:
        page = soup(person.fragment(path, "olts_live"))
        pages.append(texts(page, "tbody td.c-a > a"))
        further = page.select_one("a[rel=next]")
        path = str(further["href"]) if further else ""
    assert names(person, str(element(page, "a[rel=prev]")["href"])) == pages[-2]
    return pages


def test_paging_shows_every_olt_once_in_order_and_leads_back(seeded: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(olts, "page", partial(olts.page, size=10))
    add_olts(seeded, 22)
    person = english(seeded, "viewer")
    for sort in olts.SORTS:
        pages = walk(person, f"/olts/?sort={sort}")
        seen = [name for page in pages for name in page]
        assert ([len(page) for page in pages], len(set(seen))) == ([10, 10, 4], 24)
        if "name" in sort:
            assert sorted(seen, reverse=sort == "-name") == seen


def test_a_viewer_is_offered_no_action(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    for path in ("/olts/", "/olts/1", "/olts/1/workflow"):
        page = soup(person.get(path))
        assert page.select("main form[method=post]") == []
        assert page.select("main a[href$='/edit'], main a[href='/olts/new']") == []


# -------------------------------------------------------------------------------------------------------------- detail


def test_the_page_of_an_olt_says_who_holds_it_and_what_it_did(seeded: Flask) -> None:
    person = english(seeded)
    assert missing(person.get("/olts/1"), "Potencia RX is being read", "By poller 1 on vm1", "Descubrimiento") == []
    assert "21 of 23 ONUs online" in text_of(person.get("/olts/1/sides"))
    assert "All executions of this OLT" in text_of(person.get("/olts/1/past"))


def test_the_page_of_an_olt_loads_the_rest_of_it_after_itself(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    page = soup(person.get("/olts/1"))
    parts = {str(part["id"]): str(part["hx-get"]) for part in page.select(".fx-later")}
    assert set(parts) == {"past_live", "sides_live", "parts_live", "fit_live", "costs_live"}
    for name, path in parts.items():
        assert element(page, f"#{name} a")["href"] == path
        fragment = person.fragment(path, name)
        assert ("<html" in fragment.text, len(soup(fragment).select(f"#{name}"))) == (False, 1)
        assert len(soup(person.get(path)).select(f"main #{name}")) == 1


def test_a_refresh_of_the_olt_leaves_its_other_parts_as_they_are(seeded: Flask) -> None:
    fragment = soup(english(seeded).fragment("/olts/1", "olt_live"))
    kept = [part for part in fragment.select("[data-own]") if not list(part.children)]
    assert {str(part["id"]) for part in kept} == {"timeline_live", "past_live", "sides_live"}
    assert [part for part in kept if part.has_attr("hx-get")] == []


def test_the_catalogues_oids_are_fetched_when_the_field_is_entered(seeded: Flask) -> None:
    with seeded.app_context():
        catalogue.sync([catalogue_shipped.shipped("zte")], clock.now())
    person = english(seeded)
    field = element(person.get("/olts/1"), "#f-oid")
    path = str(field["hx-get"])
    assert field["hx-trigger"] == "focus once"
    assert 'value="zte.onu_state"' in person.fragment(path, "oid_choices").text
    assert person.get(path).headers["Location"] == "/catalogue/?brand=zte"
    assert english(seeded, "viewer").get(path).status_code == 403


def test_the_page_shows_what_was_learned_of_the_olt(seeded: Flask) -> None:
    card = element(english(seeded, "viewer").get("/olts/2/costs"), ".nw-learned")
    state = "State 1.3.6.1.4.1.2011.6.128.1.1.2.46.1 Walk 20 values too large from 40"
    assert missing(card, state, "GET 80 values never", "Received by the ONU", "refused: tooBig", "huawei_gpon") == []


def test_an_olt_that_was_never_read_has_nothing_learned(built: Flask) -> None:
    assert soup(english(built).get("/olts/1/costs")).select_one(".nw-learned") is None


def test_an_unreachable_olt_says_what_to_check(seeded: Flask) -> None:
    update_rows(seeded, Olt, Olt.id == 1, state=OltState.UNREACHABLE, consecutive_failures=4)
    assert "It did not answer 4 times in a row" in text_of(english(seeded).get("/olts/1"))


def test_no_secret_reaches_a_page_nor_is_one_decrypted_for_one(built: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    person = english(built, "admin")
    pages = ("olts/", "olts/1", "olts/1/sides", "olts/1/edit", "olts/1/workflow", "credentials/", "credentials/1")
    for path in (*pages, "olts/new"):
        assert COMMUNITY not in person.get(f"/{path}").text, path
    monkeypatch.setattr("portal.extensions.Keyring.decrypt", lambda _self, token: 1 / 0)
    assert {path: code for path in pages if (code := person.get(f"/{path}").status_code) != 200} == {}


def test_a_late_next_run_says_so(built: Flask) -> None:
    update_rows(built, WorkflowNode, next_run_at=clock.now() - timedelta(minutes=3))
    update_rows(built, Olt, state=OltState.UP)
    person = english(built)
    for path in ("/olts/", "/olts/1", "/olts/1/workflow"):
        assert "due for 3 min" in text_of(person.get(path)), path


# ---------------------------------------------------------------------------------------------------------------- form


def test_an_operator_adds_an_olt(built: Flask) -> None:
    answer = english(built).post("/olts/new", **NEW)
    assert (answer.status_code, path_of(answer)) == (303, "/olts/2/workflow")
    olt = row_of(built, Olt, 2)
    assert (olt.name, olt.address, olt.port, olt.timeout) == ("OLT-PIURA", "10.9.8.7", 161, 2.0)
    assert (olt.enabled, olt.site) == (True, "Piura")
    assert stored(built, select(AuditLog.actor).where(AuditLog.subject_name == "OLT-PIURA")) == ["operator"]


MISTAKES: list[tuple[dict[str, str], str, str]] = [
    ({"name": ""}, "name", "required"),
    ({"name": "OLT-LIMA"}, "name", "name"),
    ({"address": "10.9.8.777"}, "address", "IP address"),
    ({"port": "0"}, "port", "between 1 and 65535"),
    ({"port": "x"}, "port", "Not a valid"),
    ({"timeout": "9", "retries": "2"}, "timeout", "at most 12"),
    ({"device": ""}, "device", "Choose a brand"),
    ({"device": "huawei/nothing"}, "device", "Not a valid choice"),
    ({"credential": "77"}, "credential", "Not a valid choice"),
    ({"max_repetitions": "51"}, "max_repetitions", "between 1 and 50"),
]


def test_what_is_wrong_stands_beside_its_field_and_nothing_is_saved(built: Flask) -> None:
    person = english(built)
    for change, field, words in MISTAKES:
        answer = person.post("/olts/new", **(NEW | change))
        assert (answer.status_code, words in complaints(answer)[field]) == (422, True), change
        assert soup(answer).select(f"#f-{field}[aria-invalid=true]")
    assert stored(built, select(Olt.name)) == ["OLT-LIMA"]


def test_a_form_that_was_refused_keeps_what_was_typed(built: Flask) -> None:
    values = form_values(english(built).post("/olts/new", **(NEW | {"port": "0", "site": "Talara <b>"})))
    assert (values["site"], values["device"], values["address"]) == ("Talara <b>", "huawei/MA5800", "10.9.8.7")


def test_the_form_of_an_olt_saves_what_it_shows_unchanged(built: Flask) -> None:
    before = values_of(built, Olt, 1)
    assert english(built).submit("/olts/1/edit").status_code == 303
    assert values_of(built, Olt, 1) == before


def test_a_new_address_outside_the_networks_of_the_credential_needs_an_administrator(built: Flask) -> None:
    update_rows(built, Credential, networks="10.20.0.0/16")
    refused = english(built).submit("/olts/1/edit", address="10.66.0.1")
    assert "(10.20.0.0/16): an administrator can add it" in complaints(refused)["address"]
    assert row_of(built, Olt, 1).address == "10.20.0.2"
    answer = english(built, "admin").submit("/olts/1/edit", address="10.66.0.1")
    assert (answer.status_code, row_of(built, Olt, 1).address) == (303, "10.66.0.1")


def test_an_olt_is_disabled_and_enabled(built: Flask) -> None:
    person = english(built)
    for word, enabled in (("0", False), ("1", True)):
        assert person.post("/olts/1/enabled", enabled=word).status_code == 303
        assert row_of(built, Olt, 1).enabled is enabled
        assert ("This OLT is disabled" in text_of(person.get("/olts/1"))) is not enabled


def test_deleting_asks_for_a_reason_and_frees_the_name(built: Flask) -> None:
    person = english(built)
    assert "Its history is kept" in text_of(person.get("/olts/1/delete"))
    assert [person.post("/olts/1/delete", reason=text).status_code for text in ("", "replaced")] == [422, 303]
    assert (person.get("/olts/1").status_code, row_of(built, Olt, 1).deleted_reason) == (404, "replaced")


# --------------------------------------------------------------------------------------------------------- credentials


def test_only_an_administrator_writes_credentials(built: Flask) -> None:
    person = english(built)
    assert [person.get(f"/credentials/{part}").status_code for part in ("", "new")] == [200, 403]
    assert person.post("/credentials/1", name="x").status_code == 403


def secret_of(app: Flask, ident: int = 1) -> tuple[str, str, str | None, str | None]:
    with app.app_context():
        row = db.session.get_one(Credential, ident)
        return row.name, row.version, row.community, row.auth_password


def test_an_empty_secret_keeps_the_stored_one(built: Flask) -> None:
    person = english(built, "admin")
    page = person.get("/credentials/1")
    assert element(page, "#f-community")["placeholder"] == "unchanged"
    assert person.post("/credentials/1", **(form_values(page) | {"name": "lab2"})).status_code == 303
    assert secret_of(built) == ("lab2", "2c", COMMUNITY, None)
    person.post("/credentials/1", **(form_values(page) | {"community": "another"}))
    assert secret_of(built) == ("lab", "2c", "another", None)


def test_a_v3_credential_is_created_and_its_rules_are_told(built: Flask) -> None:
    person = english(built, "admin")
    given = {"name": "v3", "version": "3", "username": "noc", "auth_protocol": "SHA", "auth_password": "short"}
    assert "8 characters" in complaints(person.post("/credentials/new", **given))["auth_password"]
    assert person.post("/credentials/new", **(given | {"auth_password": "long enough"})).status_code == 303
    assert secret_of(built, 2) == ("v3", "3", None, "long enough")


def test_a_credential_in_use_cannot_be_deleted(built: Flask) -> None:
    person = english(built, "admin")
    person.post("/credentials/1/delete")
    assert "give them another one first" in text_of(person.get("/credentials/1"))


# ------------------------------------------------------------------------------------------------------ connection test


def test_the_connection_of_an_unsaved_olt_can_be_tested(built: Flask) -> None:
    answer = english(built).post("/probes/", **(NEW | {"name": ""}))
    assert (answer.status_code, path_of(answer)) == (303, "/probes/1")
    (probe,) = stored(built, select(Probe))
    assert (probe.address, probe.port, probe.credential_id, probe.requested_by) == ("10.9.8.7", 161, 1, "operator")


@pytest.fixture
def asked(built: Flask) -> Flask:
    """A test that nobody has answered yet."""
    with written(built) as session:
        session.add(Probe(address="10.9.8.7", port=161, credential_id=1, created_at=clock.now()))
    return built


def answered(app: Flask, **values: Any) -> None:
    update_rows(app, Probe, finished_at=clock.now(), **values)


def test_a_test_asks_again_each_second_until_it_has_an_answer(asked: Flask) -> None:
    person = english(asked)
    root = element(person.fragment("/probes/1", "probe"), "#probe")
    assert (root["hx-trigger"], root["hx-get"]) == ("every 1s", "/probes/1")
    answered(asked, status=ProbeStatus.FAILED, error_kind=ErrorKind.TIMEOUT, error_message="no answer")
    assert not element(person.fragment("/probes/1", "probe"), "#probe").has_attr("hx-trigger")


def test_a_good_answer_shows_who_the_olt_is_and_proposes_its_model(asked: Flask) -> None:
    result = {"sysdescr": "<b>Huawei</b>", "sysobjectid": "1.3.6.1.4.1.2011.2.248", "uptime_s": 7200, "rtt_ms": 12,
              "brand": "huawei", "model": "MA5800"}  # fmt: skip
    answered(asked, status=ProbeStatus.SUCCESS, result=result)
    page = english(asked).get("/probes/1")
    assert missing(page, "The OLT answers", "<b>Huawei</b>", "12 ms", "2 h", "SmartAX MA5800") == []
    assert soup(page).select_one("[data-value='huawei/MA5800']")


def test_a_bad_answer_says_what_to_check(asked: Flask) -> None:
    answered(asked, status=ProbeStatus.FAILED, error_kind=ErrorKind.TIMEOUT, error_message="no answer in 4 s")
    words = ("did not answer in time", "no answer in 4 s", "10.9.8.7", "161", "Credential lab", "Access list")
    assert missing(english(asked).get("/probes/1"), *words) == []


def test_a_test_that_nobody_takes_says_so_after_a_minute(asked: Flask) -> None:
    update_rows(asked, Probe, created_at=clock.now() - timedelta(seconds=90))
    page = english(asked).get("/probes/1")
    assert (missing(page, "Nobody has taken this test"), soup(page).select("#probe[hx-trigger]")) == ([], [])


def test_a_test_without_the_necessary_says_what_is_missing(built: Flask) -> None:
    person = english(built)
    for change in ({"address": ""}, {"address": "10.0.0.0.1"}, {"credential": "9" * 30}, {"port": ""}):
        answer = person.post("/probes/", **(NEW | change))
        assert (answer.status_code, bool(soup(answer).select("#probe li"))) == (422, True), change
    assert stored(built, select(Probe)) == []


def test_a_test_never_leaves_the_allowed_networks(built: Flask) -> None:
    built.config["OLT_NETWORKS"] = ("10.0.0.0/8",)
    person = english(built)
    assert person.post("/probes/", **(NEW | {"address": "169.254.169.254"})).status_code == 422
    assert person.post("/probes/", **NEW).status_code == 303


def test_every_list_and_sort_works_on_postgresql(postgresql: Flask) -> None:
    seed.seed(postgresql, "few")
    add_olts(postgresql, 60)
    person = english(postgresql, "admin")
    for sort in olts.SORTS:
        further = element(person.get(f"/olts/?sort={sort}&q=10."), "a[rel=next]")
        assert len(names(person, str(further["href"]))) == 12
