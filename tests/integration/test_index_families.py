"""Index families on both databases: decided by stored names, kept with evidence, decided anew when names change."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.services.cataloguing import catalogue, index_families, recognition
from portal.services.network import credentials, olts
from portal.tables import Credential, IndexFormula, Oid, Olt, OltIndexFamily, PonPort
from testing.cast import ACTOR, NOW


@pytest.fixture
def shipped(session: Session) -> Session:
    catalogue.sync(catalogue.load_shipped(), NOW)
    credentials.save({"name": "lab", "version": "2c", "community": "x", "networks": "10.0.0.0/8"}, ACTOR, NOW)
    return session


def olt(session: Session, brand: str, model: str) -> Olt:
    count = len(session.scalars(select(Olt.id)).all())
    given = {"name": f"OLT-{count}", "address": f"10.1.1.{count + 1}", "brand": brand, "model": model}
    assert session.scalar(select(Credential.id)) is not None
    return session.get_one(Olt, olts.create(given | {"credential": "lab"}, ACTOR, NOW))


def names(session: Session, device: Olt, now: datetime, **given: str) -> None:
    """Replace the stored interface table of an OLT; decide."""
    for port in session.scalars(select(PonPort).where(PonPort.olt_id == device.id)):
        session.delete(port)
    session.flush()
    for index, name in given.items():
        session.add(PonPort(olt_id=device.id, index_key=index.removeprefix("i"), name=name, last_seen=now))
    session.flush()
    index_families.decide(session, device, now)
    session.commit()


def column(session: Session, device: Olt, name: str) -> Oid:
    text = f"{device.brand.key}.{name}"
    found = catalogue.find_all(session, device, {text})[text]
    assert found is not None
    return found


def family(session: Session, device: Olt, space: str) -> OltIndexFamily:
    return next(one for one in index_families.of(session, device.id) if one.space == space)


ZTE = "zte_1082,zte_zero_based,zte_1012"


def test_quirk_20_two_olts_of_one_model_use_the_families_that_their_names_say(shipped: Session) -> None:
    first, second = (olt(shipped, "zte", "C320") for _ in range(2))
    names(shipped, first, NOW, i268435456="gpon_1/1/1", i268500992="gpon_1/2/1")
    names(shipped, second, NOW, i285278465="gpon_1/1/1", i285278721="gpon_1/2/1")
    assert (family(shipped, first, ZTE).formula, family(shipped, second, ZTE).formula) == ("zte_zero_based", "zte_1082")
    for device, index in ((first, "268435456"), (second, "285278465")):
        chosen = index_families.formula_for(shipped, device, column(shipped, device, "pon_port_tx_power"))
        assert str(chosen.decode(index)) == "1/1/1"


def test_the_evidence_says_what_was_tried_and_what_spoke_against_it(shipped: Session) -> None:
    device = olt(shipped, "zte", "C320")
    names(shipped, device, NOW, i268435456="gpon_1/1/1", i654311425="Mng1")
    stored = family(shipped, device, ZTE)
    assert (stored.decided_at, stored.evidence["names"]) == (NOW, 2)
    found = [(tried["formula"], tried["agree"], tried["contradict"]) for tried in stored.evidence["tried"]]
    assert found == [("zte_1082", 0, 1), ("zte_zero_based", 1, 0), ("zte_1012", 0, 1)]
    assert stored.evidence["tried"][0]["first"] == "268435456 is named gpon_1/1/1, zte_1082 does not fit"


def test_names_that_no_family_fits_leave_ports_to_their_names(shipped: Session) -> None:
    device = olt(shipped, "zte", "C320")
    names(shipped, device, NOW, i268435456="gpon_1/1/1", i9="gpon_1/1/2")
    assert family(shipped, device, ZTE).formula == ""
    assert index_families.formula_for(shipped, device, column(shipped, device, "pon_port_tx_power")) is None


def test_without_an_interface_table_no_family_is_guessed(shipped: Session) -> None:
    device = olt(shipped, "zte", "C320")
    assert index_families.formula_for(shipped, device, column(shipped, device, "pon_port_tx_power")) is None
    assert index_families.formula_for(shipped, device, column(shipped, device, "onu_state")) is not None, "fixed by MIB"


def test_the_family_is_decided_anew_when_the_names_change_and_only_then(shipped: Session) -> None:
    device, later = olt(shipped, "zte", "C320"), NOW + timedelta(hours=1)
    names(shipped, device, NOW, i268435456="gpon_1/1/1")
    names(shipped, device, later, i268435456="gpon_1/1/1")
    assert family(shipped, device, ZTE).decided_at == NOW
    names(shipped, device, later, i285278465="gpon_1/1/1")
    assert (family(shipped, device, ZTE).formula, family(shipped, device, ZTE).decided_at) == ("zte_1082", later)


def test_an_edited_formula_is_tried_anew(shipped: Session) -> None:
    device, later = olt(shipped, "zte", "C320"), NOW + timedelta(hours=1)
    names(shipped, device, NOW, i268435456="gpon_1/1/1")
    row = shipped.scalars(select(IndexFormula).where(IndexFormula.name == "zte_zero_based")).one()
    row.definition = {"fields": {"port": {"shift": 8, "bits": 8}, "slot": {"shift": 16, "bits": 8}}}
    shipped.flush()
    index_families.decide(shipped, device, later)
    assert (family(shipped, device, ZTE).formula, family(shipped, device, ZTE).decided_at) == ("", later)


def test_a_formula_that_the_names_contradict_is_not_used(shipped: Session) -> None:
    """Quirk 23 in a GPON table: where the name says something else, arithmetic has nothing to say."""
    device = olt(shipped, "huawei", "MA5608T")
    row = column(shipped, device, "onu_state")
    assert index_families.formula_for(shipped, device, row) is not None, "no name has tested it yet"
    names(shipped, device, NOW, i4194312448="GPON 0/1/1")
    assert index_families.formula_for(shipped, device, row) is not None
    names(shipped, device, NOW, i4194312448="GPON 0/1/2")
    assert index_families.formula_for(shipped, device, row) is None


def test_what_was_learned_of_boards_is_kept_and_used(shipped: Session) -> None:
    device = olt(shipped, "nokia", "ISAM")
    row = column(shipped, device, "onu_serial")
    assert index_families.formula_for(shipped, device, row) is None
    names(shipped, device, NOW, i94380032="FWLT-C PON", i94445568="FWLT-C PON", i127926272="FGLT-B PON",
          i128057344="FGLT-B PON", i96731648="FWLT-C ONT")  # fmt: skip
    assert family(shipped, device, "isam").definition["steps"] == {"1": 65536, "2": 131072}
    learned = index_families.formula_for(shipped, device, row)
    assert (str(learned.decode("96731648")), str(learned.decode("130024448"))) == ("0/1/5:2", "0/2/1:2")


def test_the_first_pon_of_a_c_data_is_what_its_names_say(shipped: Session) -> None:
    device = olt(shipped, "cdata", "FD12XX")
    row = column(shipped, device, "onu_state")
    for first in (7, 13):
        index = (1 << 24) + (first << 8)
        names(shipped, device, NOW, **{f"i{index}": "pon0/0/1", f"i{index + 256}": "pon0/0/2", "i16777472": "ge0/0/1"})
        assert str(index_families.formula_for(shipped, device, row).decode(str(index + 256 + 64))) == "0/0/2:64"


def test_all_rows_of_a_composite_get_their_formulas_at_once(shipped: Session) -> None:
    device = olt(shipped, "zte", "C320")
    names(shipped, device, NOW, i268435456="gpon_1/1/1")
    rows = [column(shipped, device, name) for name in ("pon_port_tx_power", "onu_state", "card_name")]
    found = index_families.formulas_for(shipped, device, rows)
    told = [formula.name if (formula := found[row.id]) else None for row in rows]
    assert told == ["zte_zero_based", "zte_1012", None]


def test_decisions_go_with_their_olt(shipped: Session) -> None:
    device = olt(shipped, "zte", "C320")
    names(shipped, device, NOW, i268435456="gpon_1/1/1")
    shipped.delete(device)
    shipped.commit()
    assert shipped.scalars(select(OltIndexFamily)).all() == []


def test_what_is_known_for_recognising_comes_from_the_tables(shipped: Session) -> None:
    known = recognition.knowledge(shipped)
    assert len(known.models) > 50
    assert [[formula.name for formula in space] for space in known.families["zte"].spaces] == [ZTE.split(",")]
    assert [formula.name for formula in known.families["nokia"].learning] == ["isam"]
    assert recognition.recognise(shipped, "1.3.6.1.4.1.2011.2.123", "") == {"brand": "huawei", "model": "MA5603T"}
    assert recognition.recognise(shipped, "1.3.6.1.4.1.17409", "") == {"brand": "cdata", "model": None}
    assert recognition.recognise(shipped, "1.3.6.1.4.1.9", "") == {"brand": None, "model": None}
