"""People's edits of the catalogue: checked, marked, written down, kept by a sync, and taken back."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.catalogue_fields import OID_READERS
from portal.domain.fields import read_all
from portal.services.cataloguing import catalogue, catalogue_edit, catalogue_parts, catalogue_shipped
from portal.services.errors import Invalid
from portal.tables import AuditLog, Brand, IndexFormula, Oid, StateMap
from portal.web.catalogue_forms import OidForm
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, NOW
from testing.refusals import errors_of

PASSWORD = "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4"
OWN = {
    "name": "onu_own", "models": "", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.99.1.1", "shape": "onu", "kind": "get",
    "type": "number", "scale": "0,5", "offset": "-1", "signed_bits": "0", "sentinels": "65535, 18446744073709551615",
    "minimum": "", "maximum": "100", "unit": "V", "states": "", "formula": "", "formulas": "", "by_name": False,
    "dead_band": "0.1", "access": "", "metric": "", "zero_unsupported": False, "index_suffix": "",
    "safe_interval": "1h", "source": "seen on the bench", "confidence": "medium", "description": "",
}  # fmt: skip


def sync(now: datetime, *brands: str) -> None:
    """As `flask catalog sync`, of one shipped file or some; each is read once per test run."""
    files = (catalogue_shipped.shipped(key) for key in brands or ("huawei",))
    catalogue.sync([data for data in files if data is not None], now)


@pytest.fixture(autouse=True)
def shipped(session: Session) -> None:
    """Huawei as shipped."""
    sync(NOW)


def brand(session: Session, key: str = "huawei") -> Brand:
    return session.scalars(select(Brand).where(Brand.key == key)).one()


def oid(session: Session, name: str, key: str = "huawei") -> Oid:
    return session.scalars(select(Oid).where(Oid.name == name, Oid.brand_id == brand(session, key).id)).first()  # type: ignore[return-value]


def typed(row: Oid, **changes: Any) -> dict[str, Any]:
    """What the form of a row would send."""
    return OidForm.stored(catalogue_edit.data_of(row)) | changes


def actions(session: Session) -> list[tuple[str, str]]:
    rows = session.scalars(select(AuditLog).order_by(AuditLog.id))
    return [(row.action, row.subject_name) for row in rows if row.action != "catalogue.sync"]


@pytest.fixture(scope="module")
def brands() -> tuple[str, ...]:
    return tuple(data.key for data in catalogue.load_shipped())


def test_the_form_of_every_shipped_row_says_what_the_row_says(session: Session, brands: tuple[str, ...]) -> None:
    sync(NOW, *brands)
    for row in session.scalars(select(Oid)):
        values, errors = read_all(OID_READERS, typed(row))
        assert errors == {}, row.name
        data, _around = catalogue_edit.check_oid(session, row.brand, typed(row), row.id)
        assert data == catalogue_edit.data_of(row), row.name
        assert values["name"] == row.name


def test_what_is_stored_of_a_shipped_row_is_what_was_shipped(session: Session, brands: tuple[str, ...]) -> None:
    sync(NOW, *brands)
    for row in session.scalars(select(Oid)):
        assert catalogue_edit.differences(row) == {}, row.name


def test_saving_without_a_change_marks_nothing(session: Session) -> None:
    row = oid(session, "onu_rx_power")
    catalogue_edit.save_oid(row.id, typed(row), ACTOR, NOW)
    assert (row.edited, actions(session)) == (False, [])


def test_an_edit_survives_a_sync_and_is_written_down(session: Session) -> None:
    row = oid(session, "onu_rx_power")
    before = row.safe_interval
    catalogue_edit.save_oid(row.id, typed(row, safe_interval="2h"), ACTOR, NOW)
    sync(NOW)
    session.expire_all()
    assert (row.safe_interval, row.edited) == (7200, True)
    assert actions(session) == [("catalogue.edit", "huawei.onu_rx_power")]
    (audit,) = session.scalars(select(AuditLog).where(AuditLog.action == "catalogue.edit"))
    assert audit.changes == {"safe_interval": [before, 7200]}
    assert catalogue_edit.differences(row) == {"safe_interval": (7200, before)}


def test_back_to_what_is_shipped_takes_the_edit_away(session: Session) -> None:
    row = oid(session, "onu_rx_power")
    before = row.safe_interval
    catalogue_edit.save_oid(row.id, typed(row, safe_interval="2h", scale="7"), ACTOR, NOW)
    catalogue_edit.reset_oid(row.id, ACTOR, NOW)
    session.expire_all()
    assert (row.safe_interval, row.scale, row.edited) == (before, 0.01, False)
    assert actions(session)[-1] == ("catalogue.reset", "huawei.onu_rx_power")


def test_a_shipped_row_keeps_its_name_and_models_whatever_is_sent(session: Session) -> None:
    row = oid(session, "onu_rx_power")
    catalogue_edit.save_oid(row.id, typed(row, name="other", models="MA5600T", unit="mW"), ACTOR, NOW)
    assert (row.name, row.variant, row.unit) == ("onu_rx_power", "", "mW")


BROKEN: dict[str, list[dict[str, str]]] = {
    "oid": [{"oid": PASSWORD}, {"oid": "1.3.6.1.4.1.2011.6.128.1.1.2.43"}, {"oid": "one.two"}],
    "scale": [{"scale": "much"}, {"scale": "0"}],
    "unit": [{"unit": "dB", "metric": "onu_rx_power"}, {"unit": "mW", "metric": "onu_distance"}],
    "minimum": [{"minimum": "5", "maximum": "1"}],
    "states": [{"type": "state"}],
    "formula": [{"formula": "nobody"}],
    "formulas": [{"formulas": "huawei_gpon"}],
    "index_suffix": [{"index_suffix": "1"}],
    "sentinels": [{"sentinels": "none"}],
    "name": [{"name": "Größe"}],
    "source": [{"source": " "}],
    "safe_interval": [{"safe_interval": "soon"}],
    "": [{"models": "C320"}, {"access": "walk"}],
    "models": [{"name": "onu_rx_power", "unit": "dBm"}],
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_row_breaking_a_rule_is_refused_at_its_field(session: Session, field: str) -> None:
    for changes in BROKEN[field]:
        assert set(errors_of(catalogue_edit.add_oid, brand(session).id, OWN | changes, ACTOR, NOW)) == {field}, changes
    assert actions(session) == []


def test_a_row_of_ones_own_is_stored_kept_by_a_sync_and_found_by_its_key(session: Session) -> None:
    ident = catalogue_edit.add_oid(brand(session).id, OWN, ACTOR, NOW)
    sync(NOW)
    row = session.get_one(Oid, ident)
    assert (row.scale, row.offset, row.sentinels, row.safe_interval) == (0.5, -1.0, [65535, 2**64 - 1], 3600)
    assert (row.edited, catalogue_edit.differences(row)) == (True, None)
    olt = make_olt(brand="huawei", model="MA5600T")
    assert catalogue.find_all(session, olt, {"huawei.onu_own"})["huawei.onu_own"] is row


def test_a_row_of_ones_own_is_deleted_unless_a_node_reads_it(session: Session) -> None:
    ident = catalogue_edit.add_oid(brand(session).id, OWN, ACTOR, NOW)
    olt = make_olt(brand="huawei", model="MA5600T")
    node = make_node(olt, "own", kind="bulk", oid="huawei.onu_state,huawei.onu_own", interval="2h")
    with pytest.raises(Invalid, match="1 nodes read it"):
        catalogue_edit.delete_oid(ident, ACTOR, NOW)
    node.oid = "huawei.onu_state"
    session.commit()
    catalogue_edit.delete_oid(ident, ACTOR, NOW)
    assert session.get(Oid, ident) is None
    assert actions(session)[-1] == ("catalogue.delete", "huawei.onu_own")


def test_a_shipped_row_cannot_be_deleted_and_an_own_one_not_set_back(session: Session) -> None:
    ident = catalogue_edit.add_oid(brand(session).id, OWN, ACTOR, NOW)
    with pytest.raises(Invalid, match="your own"):
        catalogue_edit.reset_oid(ident, ACTOR, NOW)
    with pytest.raises(Invalid, match="is shipped"):
        catalogue_edit.delete_oid(oid(session, "onu_rx_power").id, ACTOR, NOW)


def formula(session: Session, name: str = "huawei_gpon") -> IndexFormula:
    return session.scalars(select(IndexFormula).where(IndexFormula.name == name)).one()


def test_a_formula_is_edited_kept_and_set_back(session: Session) -> None:
    row = formula(session)
    before = dict(row.definition)
    text = '{"fields": {"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}}}'
    catalogue_parts.save_formula(row.id, {"kind": "bitshift", "definition": text}, ACTOR, NOW)
    sync(NOW)
    session.expire_all()
    assert (list(row.definition), row.edited) == (["fields"], True)
    catalogue_parts.reset_formula(row.id, ACTOR, NOW)
    assert (row.definition, row.edited) == (before, False)
    assert actions(session) == [("catalogue.edit", "huawei.huawei_gpon"), ("catalogue.reset", "huawei.huawei_gpon")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "JSON object"),
        ("{}", "at least port"),
        ('{"fields": {"port": {"shift": 40, "bits": 5}}}', "outside"),
        ('{"fields": {"port": {"shift": 8, "bits": 5}}, "fun": 1}', "unknown"),
        ("[" * 9000, "is no JSON"),
        ("x" * 10_001, "longer than"),
    ],
)
def test_a_formula_that_cannot_work_is_refused(session: Session, text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        catalogue_parts.save_formula(formula(session).id, {"kind": "bitshift", "definition": text}, ACTOR, NOW)


def test_a_formula_of_ones_own_is_deleted_unless_an_oid_uses_it(session: Session) -> None:
    given = {"name": "mine", "kind": "linear", "definition": '{"fields": {"port": {"stride": 1, "count": 8}}}'}
    ident = catalogue_parts.add_formula(brand(session).id, given, ACTOR, NOW)
    user = catalogue_edit.add_oid(brand(session).id, OWN | {"formulas": "mine, huawei_gpon"}, ACTOR, NOW)
    with pytest.raises(Invalid, match="1 OIDs use it"):
        catalogue_parts.delete_formula(ident, ACTOR, NOW)
    catalogue_edit.delete_oid(user, ACTOR, NOW)
    catalogue_parts.delete_formula(ident, ACTOR, NOW)
    assert session.get(IndexFormula, ident) is None
    with pytest.raises(Invalid, match="is shipped"):
        catalogue_parts.delete_formula(formula(session).id, ACTOR, NOW)


def test_two_rows_of_one_name_are_refused(session: Session) -> None:
    given = {"name": "huawei_gpon", "kind": "linear", "definition": '{"fields": {"port": {"stride": 1, "count": 8}}}'}
    errors = errors_of(catalogue_parts.add_formula, brand(session).id, given, ACTOR, NOW)
    assert errors == {"name": catalogue_edit.NAME_TAKEN}


def test_a_state_map_is_edited_kept_and_set_back(session: Session) -> None:
    row = oid(session, "onu_state").state_map
    before = dict(row.states)
    catalogue_parts.save_states(row.id, {"1": {"label": "lit", "online": True}}, ACTOR, NOW)
    sync(NOW)
    session.expire_all()
    assert (row.states, row.edited) == ({"1": {"label": "lit", "online": True}}, True)
    catalogue_parts.reset_states(row.id, ACTOR, NOW)
    assert (row.states, row.edited) == (before, False)


def test_a_state_map_of_ones_own_serves_an_oid_of_ones_own(session: Session) -> None:
    ident = catalogue_parts.add_states(brand(session).id, "mine", {"3": {"label": "working"}}, ACTOR, NOW)
    given = OWN | {"type": "state", "dead_band": "", "states": "mine"}
    user = catalogue_edit.add_oid(brand(session).id, given, ACTOR, NOW)
    row = session.get_one(Oid, user)
    assert catalogue.reading_spec(row, row.oid, row.name).value.states[3].label == "working"
    with pytest.raises(Invalid, match="1 OIDs use it"):
        catalogue_parts.delete_states(ident, ACTOR, NOW)
    catalogue_edit.delete_oid(user, ACTOR, NOW)
    catalogue_parts.delete_states(ident, ACTOR, NOW)
    assert session.get(StateMap, ident) is None


def test_each_brand_that_is_shipped_is_found_by_its_key(brands: tuple[str, ...]) -> None:
    assert tuple([data.key for key in brands if (data := catalogue_shipped.shipped(key)) is not None]) == brands
    assert catalogue_shipped.shipped("nobody") is None
