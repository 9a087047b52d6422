"""The shipped catalogue without the product around it; a file is parsed when a test first asks for it: that is slow."""

from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from portal.domain.catalogue_data import BrandData, OidData, parse
from portal.domain.formulas import IndexFormula
from portal.domain.readings import ValueSpec

CATALOGUE = Path(__file__).resolve().parents[1] / "portal" / "catalogue"
FILES = sorted(CATALOGUE.glob("*.yaml"))


@cache
def brand(key: str) -> BrandData:
    """What is shipped of one brand."""
    return parse(YAML(typ="safe", pure=True).load(CATALOGUE / f"{key}.yaml"), f"{key}.yaml")


def brands() -> list[BrandData]:
    """All of them, by file name."""
    return [brand(path.stem) for path in FILES]


@cache
def formula(key: str) -> IndexFormula:
    """One by brand and name, such as "huawei.huawei_gpon"."""
    name, _, wanted = key.partition(".")
    return next(item.build() for item in brand(name).formulas if item.name == wanted)


def row(key: str, model: str = "") -> OidData:
    """The row for `model`, or the one for all models, such as "zte.onu_state"."""
    name, _, wanted = key.partition(".")
    rows = (one for one in brand(name).oids if one.name == wanted)
    return next(one for one in rows if (model in one.models if model else not one.models))


def column(key: str, model: str = "") -> ValueSpec:
    """How the values of such a row are decoded."""
    return row(key, model).value_spec(brand(key.partition(".")[0]).state_maps_by_name)
