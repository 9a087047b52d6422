"""How a position is packed into an index or written in a name; the parsing of definitions is elsewhere."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import NamedTuple

MAX_NUMBER = 0xFFFFFFFF  # one sub-identifier
MAX_PARTS = 8
MAX_NAME = 128  # characters of an interface name; a longer one names no port
MAX_DIGITS = 9  # of one number in a name

NAMES = ("frame", "slot", "port", "onu")
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True)
class Position:
    """Where an ONU (or, with onu None, a port) sits."""

    slot: int
    port: int
    onu: int | None = None
    frame: int = 0

    def __str__(self) -> str:
        place = f"{self.frame}/{self.slot}/{self.port}"
        return place if self.onu is None else f"{place}:{self.onu}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A row of the interface table: its ifIndex as text, its name, and the position that the name says (or None)."""

    index: str
    name: str
    position: Position | None


class Part(NamedTuple):
    """One field of an index as it lies there: `where` in words, `stored` the bare number, `value` what it means."""

    name: str
    where: str
    stored: int
    value: int


@dataclass(frozen=True)
class NumberField:
    """One part of a position inside a number: stored as (value - offset) * stride, stored values 0..count-1."""

    name: str
    stride: int
    count: int
    offset: int = 0
    part: int = 1  # which dotted part of the index holds it, from 1
    minimum: int = 0  # smallest value that is a position

    def stored(self, number: int) -> int:
        """The bare number, before the offset."""
        return number // self.stride % self.count

    def read(self, number: int) -> int:
        """The value, whatever else the number holds."""
        return self.stored(number) + self.offset

    def write(self, value: int) -> int:
        """The share of this field in its number. ValueError when it does not fit."""
        low, top = max(self.minimum, self.offset), self.count - 1 + self.offset
        if not low <= value <= top:
            raise ValueError(f"{self.name} {value} is outside {low}..{top}")
        return (value - self.offset) * self.stride

    @property
    def where(self) -> str:
        """In words: "bits 8..12", or "× 256" where strides are no powers of two."""
        shift, bits = self.stride.bit_length() - 1, self.count.bit_length() - 1
        if self.stride == 1 << shift and self.count == 1 << bits:
            text = f"bits {shift}..{shift + bits - 1}"
        else:
            text = f"× {self.stride}"
        return text if self.part == 1 else f"part {self.part}, {text}"


@dataclass(frozen=True)
class NumberLayout:
    """Fields packed into the dotted numbers of an index; linear and bitshift formulas differ only in their notation."""

    fields: tuple[NumberField, ...]
    base: int = 0  # added to the first part; type bits are part of it
    ignored: int = 0  # bits of the first part that decoding disregards and encoding leaves zero
    constants: tuple[tuple[str, int], ...] = ()
    parts: int = 1  # dotted parts of an ONU's index
    onu_apart: bool = False  # the last part holds the ONU number and nothing else; without it the index is a port's
    unlearned: str = ""  # field whose offset the interface names of the OLT must tell first

    def decode(self, index: str) -> Position | None:
        """The position only if encoding it gives the same index back: wrong type bits and spills never pass."""
        parsed = self._parsed(index)
        if parsed is None or self.unlearned:
            return None
        position = self._position(parsed)
        try:
            return position if self._pack(position) == parsed else None
        except ValueError:
            return None

    def encode(self, position: Position) -> str:
        """The index text. ValueError when the position does not fit."""
        if self.unlearned:
            raise ValueError(f"where {self.unlearned} numbers start is not known yet: read the interface names first")
        return ".".join(map(str, self._pack(position)))

    def show(self, index: str) -> tuple[Part, ...]:
        """The fields as they lie in the index, also where the whole does not decode."""
        given = numbers(index)
        if given is None:
            return ()
        return tuple(
            Part(item.name, item.where, item.stored(number), item.read(number))
            for item in self.fields
            if item.part <= len(given)
            for number in [given[item.part - 1] - (self.base if item.part == 1 else 0)]
            if number >= 0
        )

    def learned(self, interfaces: Iterable[Interface]) -> "dict[str, int] | None":
        """{field: offset} on which all named interfaces agree; None when they do not, or none is named."""
        (item,) = [item for item in self.fields if item.name == self.unlearned]
        offsets = set()
        for interface in interfaces:
            given = self._parsed(interface.index)
            if interface.position is not None and given is not None:
                bare = item.stored(given[item.part - 1] - (self.base if item.part == 1 else 0))
                offsets.add(getattr(interface.position, item.name) - bare)
        return {item.name: offsets.pop()} if len(offsets) == 1 else None

    def _parsed(self, index: str) -> list[int] | None:
        given = numbers(index)
        if given is None or not self.parts - self.onu_apart <= len(given) <= self.parts:
            return None
        given[0] &= ~self.ignored
        return given

    def _position(self, given: list[int]) -> Position:
        values = dict(self.constants)
        for item in self.fields:
            if item.part <= len(given):
                base = self.base if item.part == 1 else 0
                values[item.name] = item.read(given[item.part - 1] - base)
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
        packed = [self.base] + [0] * (self.parts - 1)
        for item in self.fields:
            if item.name in values:
                packed[item.part - 1] += item.write(values[item.name])
        return packed[:-1] if self.onu_apart and position.onu is None else packed

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
        if any(key not in values for key in NAMES[:3]):
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

    def show(self, index: str) -> tuple[Part, ...]:
        """The numbers that the pattern found in the name."""
        found = self.pattern.fullmatch(index.strip()) if len(index) <= MAX_NAME else None
        if found is None or self.decode(index) is None:
            return ()
        return tuple(
            Part(key, f"characters {found.start(key) + 1}..{found.end(key)}", int(text), int(text))
            for key, text in found.groupdict().items()
            if text is not None
        )


@dataclass(frozen=True)
class BoardLayout:
    """Slot and level at fixed places, below them a step that depends on the board in the slot (Nokia ISAM).

    A board's PON step shows in the spacing of its own port rows (128 ONT steps make one PON step on FWLT-C and on
    FGLT-B, though the steps differ by two). Without those rows nothing below the slot can be told.
    """

    slot: NumberField
    level_shift: int
    level_bits: int
    port_level: int
    onu_level: int
    onus: int  # ONU steps in one port step
    port_name: re.Pattern[str] = field(repr=False)
    onu_name: re.Pattern[str] = field(repr=False)
    steps: tuple[tuple[int, int], ...] = ()  # (slot, port step), learned

    def decode(self, index: str) -> Position | None:
        """A port's or ONU's position; None for other levels, for a slot of unknown step, and beside the steps."""
        given = numbers(index)
        if given is None or not 1 <= len(given) <= 2:
            return None
        level, rest, slot = self._taken(given[0])
        step = dict(self.steps).get(slot)
        if step is None or level not in (self.port_level, self.onu_level):
            return None
        port, below = rest // step + 1, rest % step
        if level == self.port_level:  # FWLT-C adds 0x2000 to its PON rows: what is below the step says nothing
            return Position(slot=slot, port=port, onu=given[1] if len(given) == 2 else None)
        onu, odd = divmod(below, step // self.onus)
        return Position(slot=slot, port=port, onu=onu + 1) if not odd and len(given) == 1 else None

    def encode(self, position: Position) -> str:
        """The index of an ONU. ValueError for a port (boards add bits of their own) and for an unknown slot."""
        step = dict(self.steps).get(position.slot)
        if step is None:
            raise ValueError(
                f"the step of the board in slot {position.slot} is not known: read the interface names first"
            )
        if position.onu is None:
            raise ValueError("a port's index holds bits that only the board knows: take it from the interface table")
        if not 1 <= position.onu <= self.onus or not 1 <= position.port <= (1 << self.level_shift) // step:
            raise ValueError(f"{position} does not fit a step of {step}")
        rest = (position.port - 1) * step + (position.onu - 1) * (step // self.onus)
        return str(self.slot.write(position.slot) + (self.onu_level << self.level_shift) + rest)

    def show(self, index: str) -> tuple[Part, ...]:
        """Slot, level and the rest, whose meaning depends on the board."""
        given = numbers(index)
        if given is None:
            return ()
        level, rest, slot = self._taken(given[0])
        top = self.level_shift - 1
        return (
            Part("slot", self.slot.where, self.slot.stored(given[0]), slot),
            Part("level", f"bits {self.level_shift}..{top + self.level_bits}", level, level),
            Part("rest", f"bits 0..{top}", rest, rest),
        )

    def learned(self, interfaces: Iterable[Interface]) -> dict[int, int] | None:
        """{slot: port step} from the spacing of each slot's port rows; None when no slot has two of them."""
        rows: dict[int, set[int]] = {}
        for interface in interfaces:
            given = numbers(interface.index)
            if given is not None and len(given) == 1 and self.port_name.search(interface.name):
                level, rest, slot = self._taken(given[0])
                if level == self.port_level:
                    rows.setdefault(slot, set()).add(rest)
        steps = {slot: _spacing(sorted(found)) for slot, found in rows.items()}
        kept = {slot: step for slot, step in steps.items() if step >= self.onus and step & (step - 1) == 0}
        return kept or None

    def before_ports(self, index: str) -> str | None:
        """The index just before the first port row of the slot that `index` lies in: where a short look begins."""
        given = numbers(index)
        if given is None or self.slot.read(given[0]) < 1:  # the rows before are the shelf's own
            return None
        slot = self.slot.write(self.slot.read(given[0]))
        return str(slot + (self.port_level << self.level_shift) - 1)

    def with_steps(self, steps: Mapping[int, int]) -> "BoardLayout":
        """The same layout, knowing these boards."""
        return replace(self, steps=tuple(sorted(steps.items())))

    def _taken(self, number: int) -> tuple[int, int, int]:
        """(level, rest, slot)."""
        level = (number >> self.level_shift) & ((1 << self.level_bits) - 1)
        return level, number & ((1 << self.level_shift) - 1), self.slot.read(number)


def _spacing(rows: list[int]) -> int:
    """The greatest step that all rows share; 0 for fewer than two rows."""
    return gcd(*(later - earlier for earlier, later in zip(rows, rows[1:], strict=False)))


def numbers(index: str) -> list[int] | None:
    """The dotted numbers of an index, unsigned; None when it is none."""
    parts = index.strip().split(".")
    if len(parts) > MAX_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    given = [int(part) for part in parts]
    if any(not -(1 << 31) <= number <= MAX_NUMBER for number in given):
        return None
    return [number & MAX_NUMBER for number in given]  # clients print indexes above 2^31 as negative
