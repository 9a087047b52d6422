"""Index formulas: the SNMP index of a port or ONU to its position, and back. No I/O and no vendor's numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

from portal.domain.layouts import (
    MAX_NUMBER,
    MAX_PARTS,
    NAMES,
    BoardLayout,
    Interface,
    NameLayout,
    NumberField,
    NumberLayout,
    Part,
    Position,
)

__all__ = ["KINDS", "IndexFormula", "Interface", "NameLayout", "Part", "Position"]

MAX_PATTERN = 300

KINDS = ("linear", "bitshift", "string", "boards")
Layout = NumberLayout | NameLayout | BoardLayout
# A repeated group that holds a repetition can take exponential time on a name that does not fit.
_RUNAWAY = re.compile(r"[+*}][?+]?\)[+*{]")


@dataclass(frozen=True)
class IndexFormula:
    """One way, named in the catalogue, in which a device numbers its ports and ONUs."""

    name: str
    kind: str
    layout: Layout = field(repr=False)
    definition: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    scope: re.Pattern[str] | None = field(default=None, repr=False)  # names of the interfaces it speaks of; None: all

    @classmethod
    def from_dict(cls, definition: Mapping[str, object]) -> "IndexFormula":
        """Build from catalogue data: name, kind and the keys of that kind.

        linear: base, fields {name: {stride, count, offset, minimum, part}}, constants. bitshift: checks
        [{shift, bits, value}], ignore [{shift, bits}], fields {name: {shift, bits, offset, minimum, part}}, constants.
        Both: names, a pattern of the interfaces that are numbered so; learn, a field whose offset their names tell.
        string: pattern, template, onu_template, constants. boards: slot {shift, bits, offset}, level {shift, bits,
        port, onu}, onus, names {port, onu}, steps {slot: step}. Raises ValueError that names formula and mistake.
        """
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("formula without a name")
        kind = definition.get("kind")
        body = {key: value for key, value in definition.items() if key not in ("name", "kind")}
        try:
            scope = _pattern(body, "names") if kind in ("linear", "bitshift") and "names" in body else None
            return cls(name=name, kind=str(kind), layout=_layout(kind, body), definition=body, scope=scope)
        except ValueError as error:
            raise ValueError(f"formula {name}: {error}") from error

    def decode(self, index: str) -> Position | None:
        """Position of an index such as "4194312448.2" (ONU) or "4194312448" (port), or of a name for kind string.

        None when it does not fit: other type bits, out of range, no number. A negative 32-bit number is repaired.
        """
        return self.layout.decode(index)

    def encode(self, position: Position) -> str:
        """The index (or name) of a position. ValueError, naming the formula, when it is out of range."""
        try:
            return self.layout.encode(position)
        except ValueError as error:
            raise ValueError(f"formula {self.name}: {error}") from error

    def parts(self, index: str) -> tuple[Part, ...]:
        """The fields of an index with place, bare number and value; () where it cannot be taken apart."""
        return self.layout.show(index)

    @property
    def reads_names(self) -> bool:
        """True for a formula that reads a name instead of an index."""
        return isinstance(self.layout, NameLayout)

    @property
    def learns(self) -> bool:
        """True when the formula is of use only after the interface names of the OLT told it the rest."""
        return isinstance(self.layout, BoardLayout) or (
            isinstance(self.layout, NumberLayout) and bool(self.layout.unlearned)
        )

    def learned(self, interfaces: Iterable[Interface]) -> "IndexFormula | None":
        """The formula completed by what these interfaces show; None when they do not tell, or contradict each other."""
        spoken_of = [interface for interface in interfaces if self.claims(interface)]
        if isinstance(self.layout, BoardLayout):
            steps = self.layout.learned(spoken_of)
            body = {**self.definition, "steps": {str(slot): step for slot, step in (steps or {}).items()}}
            return self._rebuilt(body) if steps else None
        offsets = self.layout.learned(spoken_of) if isinstance(self.layout, NumberLayout) and self.learns else None
        if not offsets:
            return None
        fields = {name: dict(entry) for name, entry in _fields(self.definition)}
        for name, offset in offsets.items():
            fields[name]["offset"] = offset
        return self._rebuilt(
            {key: value for key, value in self.definition.items() if key != "learn"} | {"fields": fields}
        )

    def _rebuilt(self, body: Mapping[str, object]) -> "IndexFormula":
        return IndexFormula.from_dict({**body, "name": self.name, "kind": self.kind})

    def before_ports(self, index: str) -> str | None:
        """Boards: the index just before the first port row of the slot that `index` lies in. None for other kinds."""
        return self.layout.before_ports(index) if isinstance(self.layout, BoardLayout) else None

    def claims(self, interface: Interface) -> bool:
        """True when the formula says something of this interface: it is then a test of the formula."""
        if isinstance(self.layout, BoardLayout):
            return any(pattern.search(interface.name) for pattern in (self.layout.port_name, self.layout.onu_name))
        if interface.position is None:
            return False
        return self.scope is None or bool(self.scope.search(interface.name))

    def agrees(self, interface: Interface) -> bool:
        """True when the index says what the name says. Boards: a name tells only whether it is a port or an ONU."""
        found = self.decode(interface.index)
        if isinstance(self.layout, BoardLayout):
            return found is not None and (found.onu is not None) is bool(self.layout.onu_name.search(interface.name))
        return found == interface.position


def _layout(kind: object, body: Mapping[str, object]) -> Layout:
    if kind == "linear":
        return _linear(body)
    if kind == "bitshift":
        return _bitshift(body)
    if kind == "string":
        return _string(body)
    if kind == "boards":
        return _boards(body)
    raise ValueError(f"kind {kind!r} is unknown, use one of {', '.join(KINDS)}")


_OF_NUMBERS = ("names", "learn")


def _linear(body: Mapping[str, object]) -> NumberLayout:
    _known(body, ("base", "fields", "constants", *_OF_NUMBERS), "definition")
    base = _integer(body, "base", "definition", default=0)
    fields = []
    for name, entry in _fields(body):
        _known(entry, ("stride", "count", "offset", "minimum", "part"), name)
        part = _integer(entry, "part", name, default=1, low=1, high=MAX_PARTS)
        stride = _integer(entry, "stride", name, default=1, low=1)
        room = (MAX_NUMBER + 1 - (base if part == 1 else 0)) // stride
        count = _integer(entry, "count", name, default=room, low=1, high=MAX_NUMBER + 1)
        fields.append(_field(name, entry, stride, count, part))
    return _packed(fields, base, 0, body)


def _bitshift(body: Mapping[str, object]) -> NumberLayout:
    _known(body, ("checks", "ignore", "fields", "constants", *_OF_NUMBERS), "definition")
    base, taken = 0, 0
    for number, entry in enumerate(_entries(body, "checks"), start=1):
        where = f"check {number}"
        _known(entry, ("shift", "bits", "value"), where)
        mask, shift, bits = _bits(entry, where, taken)
        base += _integer(entry, "value", where, high=(1 << bits) - 1) << shift
        taken |= mask
    ignored = 0
    for number, entry in enumerate(_entries(body, "ignore"), start=1):
        _known(entry, ("shift", "bits"), f"ignore {number}")
        mask, _, _ = _bits(entry, f"ignore {number}", taken)
        ignored |= mask
        taken |= mask
    fields = []
    for name, entry in _fields(body):
        _known(entry, ("shift", "bits", "offset", "minimum", "part"), name)
        part = _integer(entry, "part", name, default=1, low=1, high=MAX_PARTS)
        _, shift, bits = _bits(entry, name, taken if part == 1 else 0)
        fields.append(_field(name, entry, 1 << shift, 1 << bits, part))
    return _packed(fields, base, ignored, body)


def _string(body: Mapping[str, object]) -> NameLayout:
    _known(body, ("pattern", "template", "onu_template", "constants"), "definition")
    pattern = _pattern(body, "pattern")
    groups = set(pattern.groupindex)
    if not groups <= set(NAMES) or "port" not in groups:
        raise ValueError("pattern: name the groups frame, slot, port and onu; port is needed")
    constants = _constants(body, groups)
    return NameLayout(pattern, _template(body, "template"), _template(body, "onu_template"), constants)


def _pattern(body: Mapping[str, object], key: str) -> re.Pattern[str]:
    text = _text(body, key)
    if not text or len(text) > MAX_PATTERN:
        raise ValueError(f"{key}: write a regular expression of 1 to {MAX_PATTERN} characters")
    if _RUNAWAY.search(text):
        raise ValueError(f"{key}: a repeated group must not hold a repetition, it can hang on long names")
    try:
        return re.compile(text, re.IGNORECASE | re.ASCII)
    except re.error as error:
        raise ValueError(f"{key}: {error}") from error


def _boards(body: Mapping[str, object]) -> BoardLayout:
    _known(body, ("slot", "level", "onus", "names", "steps"), "definition")
    level = _mapping(body.get("level", {}), "level")
    _known(level, ("shift", "bits", "port", "onu"), "level")
    slot = _mapping(body.get("slot", {}), "slot")
    _known(slot, ("shift", "bits", "offset"), "slot")
    names = _mapping(body.get("names", {}), "names")
    _known(names, ("port", "onu"), "names")
    mask, shift, bits = _bits(level, "level", 0)
    _, slot_shift, slot_bits = _bits(slot, "slot", mask)
    top = (1 << bits) - 1
    layout = BoardLayout(
        slot=_field("slot", slot, 1 << slot_shift, 1 << slot_bits, 1),
        level_shift=shift, level_bits=bits,
        port_level=_integer(level, "port", "level", high=top), onu_level=_integer(level, "onu", "level", high=top),
        onus=_integer(body, "onus", "definition", low=1, high=1 << shift),
        port_name=_pattern(names, "port"), onu_name=_pattern(names, "onu"),
    )  # fmt: skip
    steps = _mapping(body.get("steps", {}), "steps")
    return layout.with_steps({_slot(key): _integer(steps, key, "steps", low=layout.onus) for key in steps})


def _slot(key: str) -> int:
    if not key.isascii() or not key.isdecimal():
        raise ValueError(f"steps: {key!r} is no slot number")
    return int(key)


def _template(body: Mapping[str, object], key: str) -> str:
    text = _text(body, key)
    allowed = set(NAMES) if key == "onu_template" else set(NAMES[:3])
    for _, name, spec, conversion in Formatter().parse(text):
        if name is not None and (name not in allowed or spec or conversion):
            raise ValueError(f"{key}: only {{{'}, {'.join(sorted(allowed))}}} may stand in braces")
    return text


def _packed(fields: list[NumberField], base: int, ignored: int, body: Mapping[str, object]) -> NumberLayout:
    names = {item.name for item in fields}
    if "port" not in names:
        raise ValueError("fields: port is needed")
    parts = max(item.part for item in fields)
    for part in range(1, parts + 1):
        _check_room([item for item in fields if item.part == part], base if part == 1 else 0, part)
    onu_apart = parts > 1 and [item.name for item in fields if item.part == parts] == ["onu"]
    if not onu_apart and any(item.name == "onu" and item.offset for item in fields):
        raise ValueError("onu: an offset needs a dotted part of its own, else zero cannot mean the port")
    learn = _text(body, "learn")
    if learn and learn not in names - {"onu"}:
        raise ValueError(f"learn: {learn!r} must be a field of a port")
    return NumberLayout(tuple(fields), base, ignored, _constants(body, names), parts, onu_apart, learn)


def _check_room(fields: list[NumberField], base: int, part: int) -> None:
    if not fields:
        raise ValueError(f"fields: nothing is in part {part}")
    end = 1
    for item in sorted(fields, key=lambda entry: entry.stride):
        if item.stride < end:
            raise ValueError(f"{item.name}: overlaps the field below it, check count and stride or shift and bits")
        end = item.stride * item.count
    if base + sum((item.count - 1) * item.stride for item in fields) > MAX_NUMBER:
        raise ValueError(f"{item.name}: reaches above 32 bits")


def _field(name: str, entry: Mapping[str, object], stride: int, count: int, part: int) -> NumberField:
    offset = _integer(entry, "offset", name, default=0, low=-MAX_NUMBER)
    minimum = _integer(entry, "minimum", name, default=0)
    if minimum > count - 1 + offset:
        raise ValueError(f"{name}: minimum {minimum} is above the largest value {count - 1 + offset}")
    return NumberField(name=name, stride=stride, count=count, offset=offset, part=part, minimum=minimum)


def _bits(entry: Mapping[str, object], where: str, taken: int) -> tuple[int, int, int]:
    """(mask, shift, bits) of an entry; refuses bits that are taken already."""
    shift = _integer(entry, "shift", where, default=0, high=31)
    bits = _integer(entry, "bits", where, low=1, high=32 - shift)
    mask = ((1 << bits) - 1) << shift
    if mask & taken:
        raise ValueError(f"{where}: bits {shift}..{shift + bits - 1} are used twice")
    return mask, shift, bits


def _constants(body: Mapping[str, object], fields: set[str]) -> tuple[tuple[str, int], ...]:
    given = _mapping(body.get("constants", {}), "constants")
    missing = tuple(name for name in ("frame", "slot") if name not in fields)
    _known(given, missing, "constants")
    return tuple((name, _integer(given, name, "constants", default=0)) for name in missing)


def _fields(body: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    entries = _mapping(body.get("fields", {}), "fields")
    _known(entries, NAMES, "fields")
    if not entries:
        raise ValueError("fields: at least port is needed")
    return [(name, _mapping(entry, name)) for name, entry in entries.items()]


def _entries(body: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    given = body.get(key, [])
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"{key}: must be a list")
    return [_mapping(entry, key) for entry in given]


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{where}: must be a mapping of names")
    return value


def _known(entry: Mapping[str, object], allowed: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in allowed:
            raise ValueError(f"{where}: {key!r} is unknown, use {', '.join(allowed) or 'nothing'}")


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key}: must be text")
    return value


def _integer(
    entry: Mapping[str, object], key: str, where: str, default: int | None = None, low: int = 0, high: int = MAX_NUMBER
) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{where}: {key} must be a whole number")
    if not low <= value <= high:
        raise ValueError(f"{where}: {key} {value} is outside {low}..{high}")
    return value
