"""Index formulas: the SNMP index of a port or ONU to its position, and back. No I/O and no vendor's numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

MAX_NUMBER = 0xFFFFFFFF  # one sub-identifier
MAX_PARTS = 8
MAX_PATTERN = 300
MAX_NAME = 128  # characters of an interface name; a longer one names no port
MAX_DIGITS = 9  # of one number in a name

KINDS = ("linear", "bitshift", "string")
_NAMES = ("frame", "slot", "port", "onu")
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
# A repeated group that holds a repetition can take exponential time on a name that does not fit.
_RUNAWAY = re.compile(r"[+*}][?+]?\)[+*{]")


@dataclass(frozen=True)
class Position:
    """Where an ONU (or, with onu None, a port) sits."""

    slot: int
    port: int
    onu: int | None = None
    frame: int = 0


@dataclass(frozen=True)
class NumberField:
    """One part of a position inside a number: stored as (value - offset) * stride, stored values 0..count-1."""

    name: str
    stride: int
    count: int
    offset: int = 0
    part: int = 1  # which dotted part of the index holds it, from 1
    minimum: int = 0  # smallest value that is a position

    def read(self, number: int) -> int:
        """The value, whatever else the number holds."""
        return number // self.stride % self.count + self.offset

    def write(self, value: int) -> int:
        """The share of this field in its number. ValueError when it does not fit."""
        low, top = max(self.minimum, self.offset), self.count - 1 + self.offset
        if not low <= value <= top:
            raise ValueError(f"{self.name} {value} is outside {low}..{top}")
        return (value - self.offset) * self.stride


@dataclass(frozen=True)
class NumberLayout:
    """Fields packed into the dotted numbers of an index; linear and bitshift formulas differ only in their notation."""

    fields: tuple[NumberField, ...]
    base: int = 0  # added to the first part; type bits are part of it
    ignored: int = 0  # bits of the first part that decoding disregards and encoding leaves zero
    constants: tuple[tuple[str, int], ...] = ()
    parts: int = 1  # dotted parts of an ONU's index
    onu_apart: bool = False  # the last part holds the ONU number and nothing else; without it the index is a port's

    def decode(self, index: str) -> Position | None:
        """The position only if encoding it gives the same index back: wrong type bits and spills never pass."""
        numbers = _numbers(index)
        if numbers is None or not self.parts - self.onu_apart <= len(numbers) <= self.parts:
            return None
        numbers[0] &= ~self.ignored
        position = self._position(numbers)
        try:
            return position if self._pack(position) == numbers else None
        except ValueError:
            return None

    def encode(self, position: Position) -> str:
        """The index text. ValueError when the position does not fit."""
        return ".".join(map(str, self._pack(position)))

    def _position(self, numbers: list[int]) -> Position:
        values = dict(self.constants)
        for item in self.fields:
            if item.part <= len(numbers):
                base = self.base if item.part == 1 else 0
                values[item.name] = item.read(numbers[item.part - 1] - base)
        onu = values.get("onu")
        if onu == 0 and not self.onu_apart:  # packed beside the port, zero means the port itself
            onu = None
        return Position(slot=values["slot"], port=values["port"], onu=onu, frame=values["frame"])

    def _pack(self, position: Position) -> list[int]:
        values = {"frame": position.frame, "slot": position.slot, "port": position.port}
        for name, value in self.constants:
            if values[name] != value:
                raise ValueError(f"{name} {values[name]} cannot be written, only {value}")
        if position.onu is not None:
            self._check_onu(position.onu)
            values["onu"] = position.onu
        numbers = [self.base] + [0] * (self.parts - 1)
        for item in self.fields:
            if item.name in values:
                numbers[item.part - 1] += item.write(values[item.name])
        return numbers[:-1] if self.onu_apart and position.onu is None else numbers

    def _check_onu(self, onu: int) -> None:
        if all(item.name != "onu" for item in self.fields):
            raise ValueError("this formula is for ports and has no place for an ONU number")
        if onu == 0 and not self.onu_apart:
            raise ValueError("onu 0 cannot be told from the port")


@dataclass(frozen=True)
class NameLayout:
    """Position read from an interface name by a regular expression, written through a template."""

    pattern: re.Pattern[str]
    template: str = ""  # for a port: "gpon_{frame}/{slot}/{port}"
    onu_template: str = ""  # for an ONU
    constants: tuple[tuple[str, int], ...] = ()

    def decode(self, index: str) -> Position | None:
        """The position named by the whole text, or None."""
        name = index.strip()
        found = self.pattern.fullmatch(name) if len(name) <= MAX_NAME else None
        if found is None:
            return None
        texts = {key: text for key, text in found.groupdict().items() if text is not None}
        if not all(text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS for text in texts.values()):
            return None
        values = dict(self.constants) | {key: int(text) for key, text in texts.items()}
        if any(key not in values for key in _NAMES[:3]):
            return None
        return Position(slot=values["slot"], port=values["port"], onu=values.get("onu"), frame=values["frame"])

    def encode(self, position: Position) -> str:
        """The name. ValueError without a template, or when the name would not read back as the same position."""
        template = self.template if position.onu is None else self.onu_template
        if not template:
            raise ValueError(f"no {'template' if position.onu is None else 'onu_template'} to write a name with")
        text = template.format(frame=position.frame, slot=position.slot, port=position.port, onu=position.onu)
        if self.decode(text) != position:
            raise ValueError(f"{text!r} would not be read back as the same position")
        return text


@dataclass(frozen=True)
class IndexFormula:
    """One way, named in the catalogue, in which a device numbers its ports and ONUs."""

    name: str
    kind: str
    layout: NumberLayout | NameLayout = field(repr=False)

    @classmethod
    def from_dict(cls, definition: Mapping[str, object]) -> "IndexFormula":
        """Build from catalogue data: name, kind and the keys of that kind.

        linear: base, fields {name: {stride, count, offset, minimum, part}}, constants. bitshift: checks
        [{shift, bits, value}], ignore [{shift, bits}], fields {name: {shift, bits, offset, minimum, part}}, constants.
        string: pattern, template, onu_template, constants. Raises ValueError that names the formula and the mistake.
        """
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("formula without a name")
        kind = definition.get("kind")
        body = {key: value for key, value in definition.items() if key not in ("name", "kind")}
        try:
            return cls(name=name, kind=str(kind), layout=_layout(kind, body))
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


def _numbers(index: str) -> list[int] | None:
    parts = index.strip().split(".")
    if len(parts) > MAX_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if any(not -(1 << 31) <= number <= MAX_NUMBER for number in numbers):
        return None
    return [number & MAX_NUMBER for number in numbers]  # clients print indexes above 2^31 as negative


def _layout(kind: object, body: Mapping[str, object]) -> NumberLayout | NameLayout:
    if kind == "linear":
        return _linear(body)
    if kind == "bitshift":
        return _bitshift(body)
    if kind == "string":
        return _string(body)
    raise ValueError(f"kind {kind!r} is unknown, use one of {', '.join(KINDS)}")


def _linear(body: Mapping[str, object]) -> NumberLayout:
    _known(body, ("base", "fields", "constants"), "definition")
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
    _known(body, ("checks", "ignore", "fields", "constants"), "definition")
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
    text = _text(body, "pattern")
    if not text or len(text) > MAX_PATTERN:
        raise ValueError(f"pattern: write a regular expression of 1 to {MAX_PATTERN} characters")
    if _RUNAWAY.search(text):
        raise ValueError("pattern: a repeated group must not hold a repetition, it can hang on long names")
    try:
        pattern = re.compile(text, re.IGNORECASE | re.ASCII)
    except re.error as error:
        raise ValueError(f"pattern: {error}") from error
    groups = set(pattern.groupindex)
    if not groups <= set(_NAMES) or "port" not in groups:
        raise ValueError("pattern: name the groups frame, slot, port and onu; port is needed")
    constants = _constants(body, groups)
    return NameLayout(pattern, _template(body, "template"), _template(body, "onu_template"), constants)


def _template(body: Mapping[str, object], key: str) -> str:
    text = _text(body, key)
    allowed = set(_NAMES) if key == "onu_template" else set(_NAMES[:3])
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
    return NumberLayout(tuple(fields), base, ignored, _constants(body, names), parts, onu_apart)


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
    _known(entries, _NAMES, "fields")
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
