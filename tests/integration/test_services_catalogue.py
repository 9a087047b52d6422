"""The catalogue: sync keeps what people edited and what is used; look-ups cascade from model to brand to generic."""

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.catalogue_data import Access, Confidence
from portal.domain.readings import ValueType
from portal.domain.statuses import NodeKind
from portal.services.cataloguing import catalogue
from portal.services.dispatch import work
from portal.tables import AuditLog, IndexFormula, Oid, Olt, OltModel, StateMap
from testing.builders import CATALOGUE, GENERIC, HUAWEI, ZTE, make_catalogue, make_node, make_olt, make_zte
from testing.cast import NOW

NO_OIDS = replace(HUAWEI, oids=(), formulas=(), state_maps=(), models=())


def oid(session: Session, name: str) -> Oid:
    return session.scalars(select(Oid).where(Oid.name == name).order_by(Oid.id)).first()  # type: ignore[return-value]


def resolve(session: Session, olt: Olt, text: str) -> Oid | None:
    return catalogue.find_all(session, olt, {text})[text]


def test_a_second_sync_changes_nothing_and_leaves_no_audit_row(session: Session) -> None:
    first, second = catalogue.sync(CATALOGUE, NOW), catalogue.sync(CATALOGUE, NOW)
    assert first["created"] == second["unchanged"] > 0
    assert second["created"] == second["updated"] == second["deleted"] == 0
    assert len(session.scalars(select(AuditLog)).all()) == 1


def test_a_changed_row_of_the_files_is_updated_in_place(session: Session) -> None:
    make_catalogue()
    before = oid(session, "onu_rx_power").id
    changed = replace(HUAWEI, oids=tuple(replace(o, safe_interval=600) for o in HUAWEI.oids))
    counts = catalogue.sync([changed, ZTE, GENERIC], NOW)
    after = oid(session, "onu_rx_power")
    assert (after.id, after.safe_interval, counts["updated"]) == (before, 600, 4)


def test_an_edited_row_survives_a_sync_with_what_it_refers_to(session: Session) -> None:
    make_catalogue()
    row = oid(session, "onu_state")
    row.description, row.edited = "ours", True
    session.commit()
    assert catalogue.sync(CATALOGUE, NOW)["kept"] == 1
    assert oid(session, "onu_state").description == "ours"
    catalogue.sync([NO_OIDS, ZTE, GENERIC], NOW)
    assert oid(session, "onu_state").description == "ours"
    assert session.scalars(select(Oid.name).where(Oid.brand_id == row.brand_id)).all() == ["onu_state"]
    assert [f.name for f in session.scalars(select(IndexFormula))] == ["huawei_gpon"]
    assert {m.name for m in session.scalars(select(StateMap))} == {"run_status", "phase"}


def test_a_row_that_vanished_is_deleted_unless_a_node_or_an_olt_uses_it(session: Session) -> None:
    make_node(make_olt(), oid="huawei.onu_state")
    assert catalogue.sync([NO_OIDS, ZTE, GENERIC], NOW)["deleted"] > 0
    assert {o.name for o in session.scalars(select(Oid)) if o.brand.key == "huawei"} == {"onu_state"}
    assert [m.key for m in session.scalars(select(OltModel)) if m.brand.key == "huawei"] == ["MA5800"]


def test_a_brand_that_vanished_stays_without_its_rows(session: Session) -> None:
    olt = make_olt()
    catalogue.sync([ZTE, GENERIC], NOW)
    assert session.get(Olt, olt.id) is not None
    assert not [o for o in session.scalars(select(Oid)) if o.brand.key == "huawei"]


def test_a_key_is_looked_up_by_model_then_brand_then_generic(session: Session) -> None:
    c320, c600 = make_zte(), make_zte("OLT-PUNO", model="C600")
    found = {olt.name: resolve(session, olt, "zte.onu_state") for olt in (c320, c600)}
    assert found["OLT-CUSCO"].models == ["C320"]  # type: ignore[union-attr]
    assert found["OLT-PUNO"].models == ["C600"]  # type: ignore[union-attr]
    assert resolve(session, c320, "zte.onu_rx_power").oid.startswith("1.3.6.1.4.1.3902.1012")  # type: ignore[union-attr]
    assert resolve(session, c320, "zte.sysuptime").key == "generic.sysuptime"  # type: ignore[union-attr]
    assert resolve(session, c320, "generic.sysuptime") is not None
    assert resolve(session, c320, "huawei.onu_state") is None
    assert resolve(session, c320, "zte.nothing") is None


def test_without_a_model_a_family_is_not_guessed(session: Session) -> None:
    assert resolve(session, make_zte(model=""), "zte.onu_state") is None
    text = catalogue.load_lookup(session, ["zte"]).explain("zte", "", "zte.onu_state")
    assert "set the OLT's model to one of C320, C600" in text


def test_a_dotted_oid_is_recognised_in_its_own_brand_only(session: Session) -> None:
    huawei, zte = make_olt(), make_zte()
    dotted = "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4"
    assert resolve(session, huawei, dotted).name == "onu_rx_power"  # type: ignore[union-attr]
    assert resolve(session, zte, dotted) is None


def test_a_reading_spec_holds_all_that_decoding_needs(session: Session) -> None:
    huawei, zte = make_olt(), make_zte()
    row = resolve(session, huawei, "huawei.onu_state")
    state = catalogue.reading_spec(row, "huawei.onu_state", "onu_state")
    assert state.value.type is ValueType.STATE
    assert (state.value.states[1].label, state.value.states[2].online) == ("online", False)
    assert state.formula.decode("4194312448.2") is not None
    row = resolve(session, zte, "zte.onu_rx_power")
    power = catalogue.reading_spec(row, "zte.onu_rx_power", "onu_rx_power")
    assert (power.value.scale, power.value.offset, power.index_suffix, power.scalar) == (0.002, -30.0, ".1", False)


def test_an_unknown_dotted_oid_is_read_as_text() -> None:
    column = catalogue.reading_spec(None, "1.3.6.1.4.1.99999.1", "odd")
    scalar = catalogue.reading_spec(None, "1.3.6.1.4.1.99999.2.0", "odd")
    assert (column.metric, column.value.type, column.scalar, scalar.scalar) == ("odd", ValueType.TEXT, False, True)


def test_what_a_file_says_of_reading_reaches_the_spec_and_survives_an_edit(session: Session) -> None:
    make_catalogue()
    rows = tuple(
        replace(row, by_name=True, dead_band=0.3, access=Access.WALK, kind=NodeKind.WALK, metric="onu_light",
                zero_unsupported=True, confidence=Confidence.HIGH)
        if row.name == "onu_rx_power" else row
        for row in HUAWEI.oids
    )  # fmt: skip
    catalogue.sync([replace(HUAWEI, oids=rows), ZTE, GENERIC], NOW)
    row = resolve(session, make_olt(), "huawei.onu_rx_power")
    spec = catalogue.reading_spec(row, "huawei.onu_rx_power", row.name)
    found = (spec.by_name, spec.dead_band, spec.access, spec.metric, spec.zero_unsupported, row.confidence)
    assert found == (True, 0.3, "walk", "onu_light", True, "high")
    row.dead_band, row.edited = 1.5, True
    session.commit()
    catalogue.sync([HUAWEI, ZTE, GENERIC], NOW)
    session.expire_all()
    assert (oid(session, "onu_rx_power").dead_band, oid(session, "onu_rx_power").by_name) == (1.5, True)


def test_quirk_07_a_model_whose_getbulk_lies_is_walked_row_by_row(session: Session) -> None:
    make_catalogue()
    huawei = make_olt()
    assert work.target_of(huawei, huawei.credential).max_repetitions == huawei.max_repetitions > 1
    models = tuple(replace(model, bulk=model.key != "MA5800") for model in HUAWEI.models)
    catalogue.sync([replace(HUAWEI, models=models), ZTE, GENERIC], NOW)
    session.expire_all()
    assert work.target_of(huawei, huawei.credential).max_repetitions == 1


def test_the_shipped_files_load_and_sync(session: Session) -> None:
    documents = catalogue.load_shipped()
    assert {"huawei", "zte", "generic"} <= {document.key for document in documents}
    counts = catalogue.sync(documents, NOW)
    assert counts["created"] == sum(counts.values())
    assert catalogue.sync(documents, NOW)["unchanged"] == counts["created"]
