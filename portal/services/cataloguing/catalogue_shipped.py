"""What the shipped catalogue files say of single rows, to compare an edited row with and to go back to. Reads files."""

from functools import cache
from pathlib import Path

from portal.domain.catalogue_data import BrandData, FormulaData, OidData, StateMapData
from portal.services.cataloguing import catalogue


@cache
def _read(path: Path) -> BrandData | None:
    """A shipped file, read once per process: it changes with the program only."""
    return catalogue.load_file(path) if path.exists() else None


def shipped(brand: str) -> BrandData | None:
    """What the shipped files say of a brand, or None."""
    return _read(catalogue.SHIPPED / f"{brand}.yaml")


def oid(brand: str, name: str, variant: str) -> OidData | None:
    """The shipped row, or None."""
    data = shipped(brand)
    return next((one for one in data.oids if (one.name, one.variant) == (name, variant)), None) if data else None


def formula(brand: str, name: str) -> FormulaData | None:
    """The shipped formula, or None."""
    data = shipped(brand)
    return next((one for one in data.formulas if one.name == name), None) if data else None


def states(brand: str, name: str) -> StateMapData | None:
    """The shipped state map, or None."""
    data = shipped(brand)
    return data.state_maps_by_name.get(name) if data else None
