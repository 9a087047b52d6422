"""Catalogue documents, already loaded to dicts and lists, checked and turned into frozen rows. No files, no YAML."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from portal.domain import oid_text, units
from portal.domain.catalogue_rows import CatalogueError, Row
from portal.domain.formulas import IndexFormula
from portal.domain.readings import StateLabel, ValueSpec, ValueType
from portal.domain.statuses import NodeKind

__all__ = ["BrandData", "CatalogueError", "FormulaData", "ModelData", "OidData", "Shape", "StateMapData", "parse"]

MAX_SAFE_INTERVAL = 86_400  # seconds

# Columns that hold passwords (quirk 57): never to be read, stored or shown.
SECRET_COLUMNS = (
    "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4",  # hwGponDeviceOntPassword
    "1.3.6.1.4.1.3902.1012.3.28.1.1.7",  # zxGponOntDevMgmtPassword
    "1.3.6.1.4.1.17409.2.3.4.1.1.23",  # NSCRTV-EPON, C-Data
    "1.3.6.1.4.1.17409.2.3.4.1.1.24",
)

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,59}", re.ASCII)
_SUFFIX = re.compile(r"(?:\.[0-9]{1,10}){1,4}", re.ASCII)
_CODE = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class Shape(StrEnum):
    """What the index of a column names."""

    ONU = "onu"
    PORT = "port"
    SCALAR = "scalar"
    ROW = "row"  # something else: a card, an ONU that is not authorised yet


class Confidence(StrEnum):
    """high: two independent sources agree; medium: one source; low: contradicted or by analogy."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Access(StrEnum):
    """The only way in which a column may be read, where there is only one."""

    ANY = ""
    WALK = "walk"  # keyed otherwise than the list of ONUs: nothing to put into a GET
    GET = "get"  # its walk never ends or finds nothing (quirks 1 and 8)


_DEFAULT_KIND = {
    Shape.ONU: NodeKind.GET,
    Shape.PORT: NodeKind.TABLE,
    Shape.SCALAR: NodeKind.GET,
    Shape.ROW: NodeKind.WALK,
}


@dataclass(frozen=True)
class ModelData:
    """A model (or family) of OLT and how a probe recognises it."""

    key: str
    name: str
    sysobjectid: tuple[str, ...] = ()  # prefixes, by whole sub-identifiers
    sysdescr: str = ""  # regular expression, searched without regard to case
    subtree: tuple[str, ...] = ()  # only this model among those of its sysObjectID has a row below one of these
    presumed: bool = False  # of those: taken where none of their subtrees answers, or several do
    name_oid: str = ""  # an instance that holds the model's name
    name_text: str = ""  # regular expression for it, searched without regard to case
    bulk: bool = True  # False: its GETBULK returns something other than its GET (quirk 7)

    def match(self) -> dict[str, object]:
        """As stored; keys as in the files, those that say nothing are left out but for the first three."""
        found = {"sysobjectid": list(self.sysobjectid), "sysdescr": self.sysdescr, "subtree": list(self.subtree)}
        more = {"presumed": self.presumed, "name_oid": self.name_oid, "name_text": self.name_text}
        return found | {key: value for key, value in more.items() if value}

    @classmethod
    def stored(cls, key: str, name: str, match: Mapping[str, object] | None) -> "ModelData":
        """Back from what match() gave; rows written before a key existed lack it."""
        known = match or {}

        def texts(key: str) -> tuple[str, ...]:
            return tuple(str(item) for item in _list(known.get(key)))

        def text(key: str) -> str:
            return str(known.get(key) or "")

        return cls(
            key, name, texts("sysobjectid"), text("sysdescr"), texts("subtree"), bool(known.get("presumed")),
            text("name_oid"), text("name_text"),
        )  # fmt: skip

    def id_fit(self, object_id: str) -> int:
        """How many sub-identifiers of sysObjectID a prefix of this model covers; 0 for none."""
        return max((len(p.split(".")) for p in self.sysobjectid if f"{object_id}.".startswith(f"{p}.")), default=0)

    def says(self, descr: str) -> bool:
        """True when the model has a pattern for sysDescr and it is found there."""
        return bool(self.sysdescr) and bool(re.search(self.sysdescr, descr, re.IGNORECASE))

    def is_called(self, name: str) -> bool:
        """True when what the device says at `name_oid` is a name of this model."""
        return bool(self.name_text) and bool(re.search(self.name_text, name, re.IGNORECASE))


@dataclass(frozen=True)
class FormulaData:
    """A named index formula; `definition` is stored as JSON, without name and kind."""

    name: str
    kind: str
    definition: Mapping[str, object]

    def build(self) -> IndexFormula:
        """The working formula. ValueError when the definition is wrong."""
        return IndexFormula.from_dict({**self.definition, "name": self.name, "kind": self.kind})


@dataclass(frozen=True)
class StateMapData:
    """Meaning of the numbers of a state column."""

    name: str
    states: Mapping[int, StateLabel]

    def as_json(self) -> dict[str, dict[str, object]]:
        """As stored: {"1": {"label": "online", "online": True}}."""
        return {str(code): {"label": item.label, "online": item.online} for code, item in self.states.items()}


@dataclass(frozen=True)
class OidData:
    """One column or scalar worth reading."""

    name: str
    oid: str
    shape: Shape
    type: ValueType
    kind: NodeKind
    models: tuple[str, ...] = ()  # empty: the whole brand
    scale: float = 1.0
    offset: float = 0.0
    signed_bits: int = 0
    sentinels: tuple[int, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""  # of raw * scale + offset; what readings are kept in follows from their name
    states: str = ""  # name of a state map of the brand
    formula: str = ""  # name of a formula of the brand; empty: the position comes from ifName, or there is none
    candidates: tuple[str, ...] = ()  # formulas of which the OLT's interface names choose one (quirk 20)
    by_name: bool = False  # the index is or begins with an ifIndex: its interface's name decides, then the formula
    dead_band: float | None = None  # a smaller change of a number is no history
    access: Access = Access.ANY
    metric: str = ""  # name under which readings are kept; "": the row's own
    zero_unsupported: bool = False  # a column of nothing but zeros means "not supported" (quirk 45)
    index_suffix: str = ""  # sub-identifiers after the ONU key
    safe_interval: int | None = None  # seconds; None: the portal's minimum
    source: str = ""
    confidence: Confidence = Confidence.MEDIUM
    description: str = ""

    @property
    def variant(self) -> str:
        """Tells rows of one name apart: the models, "" for the whole brand."""
        return ",".join(self.models)

    @property
    def kept_as(self) -> str:
        """The name under which its readings are kept."""
        return self.metric or self.name

    def value_spec(self, state_maps: Mapping[str, StateMapData]) -> ValueSpec:
        """How to decode the column; `state_maps` by name. KeyError when its state map is absent."""
        return ValueSpec(
            type=self.type,
            scale=self.scale,
            offset=self.offset,
            signed_bits=self.signed_bits,
            sentinels=self.sentinels,
            minimum=self.minimum,
            maximum=self.maximum,
            **units.in_units(self.kept_as, self.unit),
            states=state_maps[self.states].states if self.states else {},
        )


@dataclass(frozen=True)
class BrandData:
    """Everything the catalogue knows of one maker."""

    key: str
    name: str
    models: tuple[ModelData, ...] = ()
    formulas: tuple[FormulaData, ...] = ()
    state_maps: tuple[StateMapData, ...] = ()
    oids: tuple[OidData, ...] = field(default=(), repr=False)

    @property
    def state_maps_by_name(self) -> dict[str, StateMapData]:
        """For OidData.value_spec."""
        return {item.name: item for item in self.state_maps}


def is_secret(oid: str) -> bool:
    """True for a password column, an instance of it, and a branch whose walk would pass through it."""
    return any(
        oid == column or oid_text.is_under(oid, column) or oid_text.is_under(column, oid) for column in SECRET_COLUMNS
    )


def parse(document: Mapping[str, object], where: str) -> BrandData:
    """One brand from a loaded document; `where` is the file's name. CatalogueError names row and mistake."""
    top = Row(document, where)
    top.known("brand", "models", "formulas", "state_maps", "oids")
    brand = Row(document.get("brand"), f"{where}: brand")
    brand.known("key", "name")
    data = BrandData(
        key=brand.name("key"),
        name=brand.text("name", required=True, longest=80),
        models=tuple(top.rows("models", "key", _model)),
        formulas=tuple(top.rows("formulas", "name", _formula)),
        state_maps=tuple(top.rows("state_maps", "name", _state_map)),
        oids=tuple(top.rows("oids", "name", _oid)),
    )
    _check(data, where)
    return data


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _model(row: Row) -> ModelData:
    row.known("key", "name", "match", "bulk")
    key = row.text("key", required=True)
    if not _MODEL.fullmatch(key):
        raise row.fail(f"key {key!r} must be letters, digits, dot, - and _")
    match = Row(row.entry.get("match", {}), f"{row.where}: match")
    match.known("sysobjectid", "sysdescr", "subtree", "presumed", "name_oid", "name_text")
    if bool(match.text("name_oid")) is not bool(match.text("name_text")):
        raise match.fail("name_oid and name_text need each other")
    return ModelData(
        key=key,
        name=row.text("name", required=True, longest=80),
        sysobjectid=match.oids("sysobjectid"),
        sysdescr=match.pattern("sysdescr"),
        subtree=match.oids("subtree"),
        presumed=match.flag("presumed"),
        name_oid=match.oid(match.entry["name_oid"], "name_oid") if match.text("name_oid") else "",
        name_text=match.pattern("name_text"),
        bulk=row.flag("bulk", True),
    )


def _formula(row: Row) -> FormulaData:
    definition = {key: value for key, value in row.entry.items() if key not in ("name", "kind")}
    data = FormulaData(name=row.name("name"), kind=row.text("kind", required=True), definition=definition)
    try:
        data.build()
    except ValueError as error:
        raise row.fail(str(error)) from error
    return data


def _state_map(row: Row) -> StateMapData:
    row.known("name", "states")
    given = row.entry.get("states")
    if not isinstance(given, Mapping) or not given:
        raise row.fail("states must map numbers to {label, online}")
    states = {}
    for code, entry in given.items():
        if not _CODE.fullmatch(str(code)):
            raise row.fail(f"state {code!r} must be a whole number")
        state = Row(entry, f"{row.where}: state {code}")
        state.known("label", "online")
        online = state.entry.get("online")
        if online is not None and not isinstance(online, bool):
            raise state.fail("online must be true or false, or left out")
        states[int(code)] = StateLabel(label=state.text("label", required=True, longest=60), online=online)
    return StateMapData(name=row.name("name"), states=states)


_OID_KEYS = (
    *("name", "models", "oid", "shape", "kind", "type", "scale", "offset", "signed_bits", "sentinels", "minimum"),
    *("maximum", "unit", "states", "formula", "index_suffix", "safe_interval", "source", "confidence", "description"),
    *("formulas", "by_name", "dead_band", "walk_only", "get_only", "metric", "zero_unsupported"),
)


def _oid(row: Row) -> OidData:
    row.known(*_OID_KEYS)
    shape = row.word("shape", Shape)
    interval = row.entry.get("safe_interval")
    data = OidData(
        name=row.name("name"),
        oid=row.oid(row.entry.get("oid"), "oid"),
        shape=shape,
        type=row.word("type", ValueType),
        kind=row.word("kind", NodeKind, _DEFAULT_KIND[shape]),
        models=row.names("models"),
        scale=row.number("scale", 1.0),
        offset=row.number("offset", 0.0),
        signed_bits=row.whole(row.entry.get("signed_bits", 0), "signed_bits", 0, 64),
        sentinels=tuple(row.whole(item, "sentinels", -(1 << 63), (1 << 64) - 1) for item in row.items("sentinels")),
        minimum=row.limit("minimum"),
        maximum=row.limit("maximum"),
        unit=row.text("unit", longest=20),
        states=row.text("states"),
        formula=row.text("formula"),
        candidates=row.names("formulas"),
        by_name=row.flag("by_name"),
        dead_band=row.limit("dead_band"),
        access=_access(row),
        metric=row.name("metric") if row.entry.get("metric") else "",
        zero_unsupported=row.flag("zero_unsupported"),
        index_suffix=row.text("index_suffix", longest=40),
        safe_interval=None if interval is None else row.whole(interval, "safe_interval", 1, MAX_SAFE_INTERVAL),
        source=row.text("source", required=True),
        confidence=row.word("confidence", Confidence, Confidence.MEDIUM),
        description=row.text("description"),
    )
    _check_oid(row, data)
    return data


def _access(row: Row) -> Access:
    if row.flag("walk_only") and row.flag("get_only"):
        raise row.fail("walk_only and get_only exclude each other")
    return Access.WALK if row.flag("walk_only") else Access.GET if row.flag("get_only") else Access.ANY


def _check_oid(row: Row, data: OidData) -> None:
    if is_secret(data.oid):
        raise row.fail("oid is a password column, which must never be read: remove the row")
    if data.scale == 0:
        raise row.fail("scale must not be 0")
    if data.minimum is not None and data.maximum is not None and data.minimum > data.maximum:
        raise row.fail("minimum is above maximum")
    kept = units.kept_in(data.kept_as, data.unit)
    if data.type is ValueType.NUMBER and not units.convertible(data.unit, kept):
        raise row.fail(f"unit {data.unit!r} cannot become {kept}, which {data.kept_as} is kept in: "
                       f"use {' or '.join(units.accepted(kept))}")  # fmt: skip
    if (data.type is ValueType.STATE) is not bool(data.states):
        raise row.fail("states names a state map; it is needed for type state and for no other")
    _check_index(row, data)
    if data.dead_band is not None and (data.type is not ValueType.NUMBER or data.dead_band < 0):
        raise row.fail("dead_band is for type number and not negative")
    if data.access is Access.WALK and data.kind is NodeKind.GET:
        raise row.fail("walk_only needs kind walk, table or discovery")
    if data.access is Access.GET and data.kind is not NodeKind.GET:
        raise row.fail("get_only needs kind get")


def _check_index(row: Row, data: OidData) -> None:
    if (data.shape is Shape.SCALAR) is not data.oid.endswith(".0"):
        raise row.fail("a scalar's oid ends in .0, a column's does not")
    if data.index_suffix and (data.shape is not Shape.ONU or not _SUFFIX.fullmatch(data.index_suffix)):
        raise row.fail('index_suffix is for shape onu and looks like ".1"')
    if data.shape is Shape.SCALAR and (data.formula or data.candidates or data.by_name):
        raise row.fail("a scalar has no index, so no formula")
    if data.formula and data.candidates:
        raise row.fail("give formula or formulas, not both")
    if data.candidates and len(data.candidates) < 2:
        raise row.fail("formulas are at least two to choose from; one is a formula")


def _check(data: BrandData, where: str) -> None:
    """What only the whole document shows: names are unique, and what rows refer to exists."""
    models = _unique((item.key for item in data.models), f"{where}: models")
    formulas = _unique((item.name for item in data.formulas), f"{where}: formulas")
    maps = _unique((item.name for item in data.state_maps), f"{where}: state_maps")
    for item in data.oids:
        place = f"{where}: oids ({item.name})"
        for name in (item.formula, *item.candidates):
            if name and name not in formulas:
                raise CatalogueError(f"{place}: formula {name!r} is not in this file")
        if item.states and item.states not in maps:
            raise CatalogueError(f"{place}: state map {item.states!r} is not in this file")
        for model in item.models:
            if model not in models:
                raise CatalogueError(f"{place}: model {model!r} is not in this file")
    _unique(
        (f"{item.name} for {model or 'all'}" for item in data.oids for model in item.models or ("",)), f"{where}: oids"
    )


def _unique(names: Iterable[str], where: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise CatalogueError(f"{where}: {name} is there twice, keep one")
        seen.add(name)
    return seen
