"""Edits of the catalogue's formulas and state maps by people, as catalogue_edit does for OIDs. One transaction each."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from portal.domain import catalogue_fields
from portal.domain.catalogue_data import FormulaData
from portal.domain.catalogue_fields import FORMULA_READERS
from portal.domain.fields import read_all
from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services.cataloguing import catalogue_shipped
from portal.services.cataloguing.catalogue_edit import (
    NOT_SHIPPED,
    SHIPPED_ROW,
    UNIQUE,
    added,
    delete,
    existing,
    existing_brand,
    set_back,
    write,
)
from portal.services.errors import Invalid
from portal.services.uniqueness import unique_or_invalid
from portal.tables import IndexFormula, Oid, StateMap


def check_formula(given: Mapping[str, object]) -> FormulaData:
    """The formula that the fields of a form mean: name, kind, definition (JSON). Invalid."""
    values, errors = read_all(FORMULA_READERS, given)
    if errors:
        raise Invalid(errors)
    data = FormulaData(values["name"], values["kind"], values["definition"])
    try:
        data.build()
    except ValueError as error:
        reason = str(error).removeprefix(f"formula {data.name}: ")
        raise Invalid({"definition": N_("%(reason)s", reason=reason)}) from None
    return data


def save_formula(formula_id: int, given: Mapping[str, object], actor: str, now: datetime) -> None:
    """Change a formula; its name stays. NotFound, Invalid."""
    with transaction() as session:
        row = existing(session, IndexFormula, formula_id)
        data = check_formula({**given, "name": row.name})
        columns = {"kind": data.kind, "definition": dict(data.definition)}
        write(session, row, _key(session, row), columns, actor, now)


def add_formula(brand_id: int, given: Mapping[str, object], actor: str, now: datetime) -> int:
    """Add a formula of one's own; returns its id. NotFound, Invalid."""
    with unique_or_invalid(UNIQUE), transaction() as session:
        brand = existing_brand(session, brand_id)
        data = check_formula(given)
        row = IndexFormula(brand_id=brand.id, name=data.name, kind=data.kind, edited=True)
        row.definition = dict(data.definition)
        return added(session, row, f"{brand.key}.{data.name}", actor, now)


def reset_formula(formula_id: int, actor: str, now: datetime) -> None:
    """Back to what is shipped. NotFound, Invalid."""
    with transaction() as session:
        row = existing(session, IndexFormula, formula_id)
        data = catalogue_shipped.formula(_brand(session, row), row.name)
        if data is None:
            raise Invalid({"": NOT_SHIPPED})
        columns = {"kind": data.kind, "definition": dict(data.definition)}
        set_back(session, row, _key(session, row), columns, actor, now)


def delete_formula(formula_id: int, actor: str, now: datetime) -> None:
    """Delete a formula of one's own that no OID uses. NotFound, Invalid."""
    with transaction() as session:
        row = existing(session, IndexFormula, formula_id)
        if catalogue_shipped.formula(_brand(session, row), row.name) is not None:
            raise Invalid({"": SHIPPED_ROW})
        candidates = session.scalars(select(Oid.candidates).where(Oid.brand_id == row.brand_id))
        _refuse_used(_users(session, Oid.formula_id == row.id) + sum(row.name in names for names in candidates))
        delete(session, row, _key(session, row), actor, now)


def save_states(map_id: int, states: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Change a state map. `states` as catalogue_fields.states_of gives them. NotFound."""
    with transaction() as session:
        row = existing(session, StateMap, map_id)
        write(session, row, _key(session, row), {"states": dict(states)}, actor, now)


def add_states(brand_id: int, name: object, states: Mapping[str, Any], actor: str, now: datetime) -> int:
    """Add a state map of one's own; returns its id. NotFound, Invalid."""
    values, errors = read_all({"name": catalogue_fields.name}, {"name": name})
    if errors:
        raise Invalid(errors)
    with unique_or_invalid(UNIQUE), transaction() as session:
        brand = existing_brand(session, brand_id)
        row = StateMap(brand_id=brand.id, name=values["name"], states=dict(states), edited=True)
        return added(session, row, f"{brand.key}.{row.name}", actor, now)


def reset_states(map_id: int, actor: str, now: datetime) -> None:
    """Back to what is shipped. NotFound, Invalid."""
    with transaction() as session:
        row = existing(session, StateMap, map_id)
        data = catalogue_shipped.states(_brand(session, row), row.name)
        if data is None:
            raise Invalid({"": NOT_SHIPPED})
        set_back(session, row, _key(session, row), {"states": data.as_json()}, actor, now)


def delete_states(map_id: int, actor: str, now: datetime) -> None:
    """Delete a state map of one's own that no OID uses. NotFound, Invalid."""
    with transaction() as session:
        row = existing(session, StateMap, map_id)
        if catalogue_shipped.states(_brand(session, row), row.name) is not None:
            raise Invalid({"": SHIPPED_ROW})
        _refuse_used(_users(session, Oid.state_map_id == row.id))
        delete(session, row, _key(session, row), actor, now)


def _users(session: Session, condition: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(Oid).where(condition)) or 0


def _refuse_used(oids: int) -> None:
    if oids:
        raise Invalid({"": N_("%(count)d OIDs use it: give them another one first", count=oids)})


def _brand(session: Session, row: IndexFormula | StateMap) -> str:
    return existing_brand(session, row.brand_id).key


def _key(session: Session, row: IndexFormula | StateMap) -> str:
    return f"{_brand(session, row)}.{row.name}"
