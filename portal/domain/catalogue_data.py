"""Catalogue documents, already loaded to dicts and lists, checked and turned into frozen rows. No files, no YAML."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import TypeVar

from portal.domain import oid_text
from portal.domain.formulas import IndexFormula
from portal.domain.readings import StateLabel, ValueSpec, ValueType
from portal.domain.statuses import NodeKind

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

MAX_SAFE_INTERVAL = 86_400  # seconds

# Columns that hold passwords (olt/oids.csv rows marked SECRET, quirk 57): never to be read, stored or shown.
SECRET_COLUMNS = (
    "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4",  # hwGponDeviceOntPassword
    "1.3.6.1.4.1.3902.1012.3.28.1.1.7",  # zxGponOntDevMgmtPassword
    "1.3.6.1.4.1.17409.2.3.4.1.1.23",  # NSCRTV-EPON, C-Data
    "1.3.6.1.4.1.17409.2.3.4.1.1.24",
)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,59}", re.ASCII)
_SUFFIX = re.compile(r"(?:\.[0-9]{1,10}){1,4}", re.ASCII)
_CODE = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class CatalogueError(ValueError):
    """A catalogue document is wrong; the text names the file, the row and what to change."""


class Shape(StrEnum):
    """What the index of a column names."""

    ONU = "onu"
    PORT = "port"
    SCALAR = "scalar"


class Confidence(StrEnum):
    """high: two independent sources agree; medium: one source; low: contradicted or by analogy."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


_DEFAULT_KIND = {Shape.ONU: NodeKind.GET, Shape.PORT: NodeKind.TABLE, Shape.SCALAR: NodeKind.GET}


@dataclass(frozen=True)
class ModelData:
    """A model (or family) of OLT and how a probe recognises it."""

    key: str
    name: str
    sysobjectid: tuple[str, ...] = ()  # prefixes, by whole sub-identifiers
    sysdescr: str = ""  # regular expression, searched without regard to case

    def match(self) -> dict[str, object]:
        """As stored: {"sysobjectid": [...], "sysdescr": "..."}."""
        return {"sysobjectid": list(self.sysobjectid), "sysdescr": self.sysdescr}

    def fit(self, object_id: str, descr: str) -> int:
        """How well a probe's answers fit: 0 not at all, else the number of sub-identifiers that agree (at least 1)."""
        if self.sysdescr and not re.search(self.sysdescr, descr, re.IGNORECASE):
            return 0
        if not self.sysobjectid:
            return 1 if self.sysdescr else 0
        return max((len(p.split(".")) for p in self.sysobjectid if f"{object_id}.".startswith(f"{p}.")), default=0)


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
    unit: str = ""
    states: str = ""  # name of a state map of the brand
    formula: str = ""  # name of a formula of the brand; empty: the position comes from ifName, or there is none
    index_suffix: str = ""  # sub-identifiers after the ONU key
    safe_interval: int | None = None  # seconds; None: the portal's minimum
    source: str = ""
    confidence: Confidence = Confidence.MEDIUM
    description: str = ""

    @property
    def variant(self) -> str:
        """Tells rows of one name apart: the models, "" for the whole brand."""
        return ",".join(self.models)

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
            unit=self.unit,
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
    top = _Row(document, where)
    top.known("brand", "models", "formulas", "state_maps", "oids")
    brand = _Row(document.get("brand"), f"{where}: brand")
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


class _Row:
    """A mapping of the document with typed access; every error starts with the place."""

    def __init__(self, entry: object, where: str) -> None:
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise CatalogueError(f"{where}: must be a mapping of names to values")
        self.entry: Mapping[str, object] = entry
        self.where = where

    def fail(self, text: str) -> CatalogueError:
        return CatalogueError(f"{self.where}: {text}")

    def known(self, *allowed: str) -> None:
        for key in self.entry:
            if key not in allowed:
                raise self.fail(f"{key!r} is unknown, use {', '.join(allowed)}")

    def rows(self, key: str, label: str, build: Callable[["_Row"], T]) -> Iterable[T]:
        for number, entry in enumerate(self.items(key), start=1):
            shown = entry.get(label) if isinstance(entry, Mapping) else None
            yield build(_Row(entry, f"{self.where}: {key} {number}" + (f" ({shown})" if shown else "")))

    def items(self, key: str) -> Sequence[object]:
        value = self.entry.get(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise self.fail(f"{key} must be a list")
        return value

    def text(self, key: str, required: bool = False, longest: int = 255) -> str:
        value = self.entry.get(key, "")
        if not isinstance(value, str):
            raise self.fail(f"{key} must be text, write it in quotes")
        if required and not value.strip():
            raise self.fail(f"{key} is missing")
        if len(value) > longest:
            raise self.fail(f"{key} is longer than {longest} characters")
        return value.strip()

    def name(self, key: str) -> str:
        value = self.text(key, required=True)
        if not _NAME.fullmatch(value):
            raise self.fail(f"{key} {value!r} must be lower-case letters, digits and _")
        return value

    def word(self, key: str, words: type[Word], default: Word | None = None) -> Word:
        value = self.entry.get(key, default)
        try:
            return words(str(value))
        except ValueError:
            listed = ", ".join(item.value for item in words)
            raise self.fail(f"{key} is {value!r}, use one of {listed}") from None

    def number(self, key: str, default: float) -> float:
        value = self.entry.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise self.fail(f"{key} must be a number")
        return float(value)

    def limit(self, key: str) -> float | None:
        return None if self.entry.get(key) is None else self.number(key, 0.0)

    def whole(self, value: object, what: str, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fail(f"{what} must be a whole number from {low} to {high}")
        return value

    def oid(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise self.fail(f"{what} must be text, write it in quotes")
        try:
            return oid_text.normalise(value)
        except ValueError as error:
            raise self.fail(str(error)) from error


def _model(row: _Row) -> ModelData:
    row.known("key", "name", "match")
    key = row.text("key", required=True)
    if not _MODEL.fullmatch(key):
        raise row.fail(f"key {key!r} must be letters, digits, dot, - and _")
    match = _Row(row.entry.get("match", {}), f"{row.where}: match")
    match.known("sysobjectid", "sysdescr")
    prefixes = tuple(match.oid(item, "sysobjectid") for item in match.items("sysobjectid"))
    pattern = match.text("sysdescr")
    try:
        re.compile(pattern)
    except re.error as error:
        raise match.fail(f"sysdescr is no regular expression: {error}") from error
    return ModelData(key=key, name=row.text("name", required=True, longest=80), sysobjectid=prefixes, sysdescr=pattern)


def _formula(row: _Row) -> FormulaData:
    definition = {key: value for key, value in row.entry.items() if key not in ("name", "kind")}
    data = FormulaData(name=row.name("name"), kind=row.text("kind", required=True), definition=definition)
    try:
        data.build()
    except ValueError as error:
        raise row.fail(str(error)) from error
    return data


def _state_map(row: _Row) -> StateMapData:
    row.known("name", "states")
    given = row.entry.get("states")
    if not isinstance(given, Mapping) or not given:
        raise row.fail("states must map numbers to {label, online}")
    states = {}
    for code, entry in given.items():
        if not _CODE.fullmatch(str(code)):
            raise row.fail(f"state {code!r} must be a whole number")
        state = _Row(entry, f"{row.where}: state {code}")
        state.known("label", "online")
        online = state.entry.get("online")
        if online is not None and not isinstance(online, bool):
            raise state.fail("online must be true or false, or left out")
        states[int(code)] = StateLabel(label=state.text("label", required=True, longest=60), online=online)
    return StateMapData(name=row.name("name"), states=states)


_OID_KEYS = (
    *("name", "models", "oid", "shape", "kind", "type", "scale", "offset", "signed_bits", "sentinels", "minimum"),
    *("maximum", "unit", "states", "formula", "index_suffix", "safe_interval", "source", "confidence", "description"),
)


def _oid(row: _Row) -> OidData:
    row.known(*_OID_KEYS)
    shape = row.word("shape", Shape)
    interval = row.entry.get("safe_interval")
    data = OidData(
        name=row.name("name"),
        oid=row.oid(row.entry.get("oid"), "oid"),
        shape=shape,
        type=row.word("type", ValueType),
        kind=row.word("kind", NodeKind, _DEFAULT_KIND[shape]),
        models=tuple(str(item) for item in row.items("models")),
        scale=row.number("scale", 1.0),
        offset=row.number("offset", 0.0),
        signed_bits=row.whole(row.entry.get("signed_bits", 0), "signed_bits", 0, 64),
        sentinels=tuple(row.whole(item, "sentinels", -(1 << 63), (1 << 64) - 1) for item in row.items("sentinels")),
        minimum=row.limit("minimum"),
        maximum=row.limit("maximum"),
        unit=row.text("unit", longest=20),
        states=row.text("states"),
        formula=row.text("formula"),
        index_suffix=row.text("index_suffix", longest=40),
        safe_interval=None if interval is None else row.whole(interval, "safe_interval", 1, MAX_SAFE_INTERVAL),
        source=row.text("source", required=True),
        confidence=row.word("confidence", Confidence, Confidence.MEDIUM),
        description=row.text("description"),
    )
    _check_oid(row, data)
    return data


def _check_oid(row: _Row, data: OidData) -> None:
    if is_secret(data.oid):
        raise row.fail("oid is a password column, which must never be read: remove the row")
    if data.scale == 0:
        raise row.fail("scale must not be 0")
    if data.minimum is not None and data.maximum is not None and data.minimum > data.maximum:
        raise row.fail("minimum is above maximum")
    if data.index_suffix and (data.shape is not Shape.ONU or not _SUFFIX.fullmatch(data.index_suffix)):
        raise row.fail('index_suffix is for shape onu and looks like ".1"')
    if (data.type is ValueType.STATE) is not bool(data.states):
        raise row.fail("states names a state map; it is needed for type state and for no other")
    if (data.shape is Shape.SCALAR) is not data.oid.endswith(".0"):
        raise row.fail("a scalar's oid ends in .0, a column's does not")
    if data.shape is Shape.SCALAR and data.formula:
        raise row.fail("a scalar has no index, so no formula")


def _check(data: BrandData, where: str) -> None:
    """What only the whole document shows: names are unique, and what rows refer to exists."""
    models = _unique((item.key for item in data.models), f"{where}: models")
    formulas = _unique((item.name for item in data.formulas), f"{where}: formulas")
    maps = _unique((item.name for item in data.state_maps), f"{where}: state_maps")
    for item in data.oids:
        place = f"{where}: oids ({item.name})"
        if item.formula and item.formula not in formulas:
            raise CatalogueError(f"{place}: formula {item.formula!r} is not in this file")
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
