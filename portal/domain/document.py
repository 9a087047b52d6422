"""A file's content as a tree that knows line and column of each part, and the list of what is wrong with it. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from portal.domain import fields
from portal.domain.messages import N_, Message


@dataclass(frozen=True)
class Item:
    """One part of a file: `text` (a scalar as written), `items` or `entries` is set, or none of them for null."""

    line: int  # both from 1
    column: int
    text: str | None = None
    items: tuple["Item", ...] | None = None
    entries: tuple[tuple["Item", "Item"], ...] | None = None

    @property
    def is_null(self) -> bool:
        """True for `~`, `null` and nothing at all."""
        return self.text is None and self.items is None and self.entries is None

    @property
    def kind(self) -> Message:
        """What it is, in a person's words."""
        if self.items is not None:
            return N_("a list")
        if self.entries is not None:
            return N_("a mapping")
        return N_("empty") if self.text is None else N_("a single value")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where. Line 0 = the file as a whole."""

    line: int
    column: int
    message: Message

    @property
    def place(self) -> str:
        """ "line 3, column 5", or "" for the whole file."""
        return f"line {self.line}, column {self.column}" if self.line else ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.line else str(self.message)


@dataclass
class Problems:
    """What was found so far; reading goes on after a mistake, so that all are told at once."""

    found: list[Problem] = field(default_factory=list)

    def add(self, at: Item, message: Message) -> None:
        """Note one mistake."""
        self.found.append(Problem(at.line, at.column, message))

    def sorted(self) -> list[Problem]:
        """By place in the file, each once."""
        unique = dict.fromkeys(self.found)
        return sorted(unique, key=lambda problem: (problem.line, problem.column))

    def mapping(self, at: Item, what: str, known: Iterable[str]) -> dict[str, Item]:
        """The entries of a mapping by key; null values are left out. Unknown and doubled keys are problems."""
        if at.entries is None:
            self.add(at, N_("%(what)s must be a mapping (key: value), not %(kind)s", what=what, kind=at.kind))
            return {}
        accepted = list(known)
        seen: dict[str, Item] = {}
        for key, value in at.entries:
            name = key.text
            if name is None or name not in accepted:
                self.add(key, N_("%(what)s: %(reason)s", what=what, reason=fields.unknown(name or "?", accepted)))
            elif name in seen:
                self.add(key, N_("%(what)s: %(key)s is given twice", what=what, key=name))
            else:
                seen[name] = value
        return {name: value for name, value in seen.items() if not value.is_null}

    def list(self, at: Item, what: str) -> Iterator[Item]:
        """The items of a list; something else is a problem."""
        if at.items is None:
            self.add(at, N_("%(what)s must be a list (lines that start with -), not %(kind)s", what=what, kind=at.kind))
        yield from at.items or ()

    def values(
        self, given: Mapping[str, Item], readers: Mapping[str, fields.Reader], what: str
    ) -> dict[str, object]:  # fmt: skip
        """The given fields that `readers` know, read; each that cannot be read is a problem at its place."""
        found: dict[str, object] = {}
        for name, reader in readers.items():
            if name not in given:
                continue
            at = given[name]
            if at.text is None:
                self.add(at, N_("%(what)s: %(field)s must be a single value, not %(kind)s", what=what, field=name,
                                kind=at.kind))  # fmt: skip
                continue
            try:
                found[name] = reader(at.text)
            except fields.FieldError as error:
                self.add(at, N_("%(what)s: %(field)s %(reason)s", what=what, field=name, reason=error.message))
        return found
