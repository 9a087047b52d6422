"""Which generated OLTs there are: name, models, how many ONUs, who builds it; no tables of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jobs.snmp.simulator import bdcom, cdata, fiberhome, huawei, nokia, ufiber, vsol, zte, zte_c600
from jobs.snmp.simulator.built import BuiltOlt, Plan
from jobs.snmp.simulator.onus import BOX, CHASSIS, Layout


@dataclass(frozen=True, slots=True)
class Vendor:
    """A kind of generated OLT; ``models`` are spelled as a user may give them, the first is the usual one."""

    models: tuple[str, ...]
    layout: Layout
    build: Callable[[Plan], BuiltOlt]
    families: tuple[str, ...] = field(default=())


def _zte(plan: Plan) -> BuiltOlt:
    return zte_c600.build(plan) if plan.model in zte_c600.MODELS else zte.build(plan)


def _names(*models: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for group in models for name in group)


VENDORS: dict[str, Vendor] = {
    "huawei": Vendor(_names(huawei.MODELS), CHASSIS, huawei.build),
    "zte": Vendor(_names(zte.MODELS, zte_c600.MODELS), CHASSIS, _zte, families=("B", "C")),
    "fiberhome": Vendor(_names(fiberhome.MODELS), CHASSIS, fiberhome.build),
    "vsol": Vendor((vsol.GPON, vsol.EPON), BOX, vsol.build),
    "bdcom": Vendor((bdcom.GPON, bdcom.EPON), BOX, bdcom.build),
    "cdata": Vendor(
        (cdata.GPON, cdata.GPON_V3, cdata.EPON), Layout(most=80, spread=16, ports=cdata.MOST_PORTS), cdata.build
    ),
    "nokia": Vendor(_names(nokia.MODELS), CHASSIS, nokia.build),
    "ufiber": Vendor(("UF-OLT",), Layout(most=80, spread=8), ufiber.build),
}


def model_named(source: str, name: str) -> str:
    """The model as the vendor module spells it; ValueError names those there are."""
    models = VENDORS[source].models
    for model in models:
        if model.lower() == name.lower():
            return model
    raise ValueError(f"{source} has no such model; use {', '.join(models)}")


def has_families(source: str, model: str) -> bool:
    """Whether this OLT numbers ifIndex in one of several ways: the 1012 generation of ZTE alone."""
    return bool(VENDORS[source].families) and model not in zte_c600.MODELS
