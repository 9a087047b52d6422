"""Which ONUs an OLT has: who is new, back or gone, who took whose place, who moved. Pure: facts in, decisions out.

An ONU is told by its serial (GPON) or MAC address (EPON) where one is known, else by its index in the device's table.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SUSPECT_TABLE = 10  # from so many known ONUs on, losing more than half at once needs a second walk that agrees


@dataclass(slots=True)
class Known:
    """What is stored of one ONU of this OLT. `index` None: another one has taken its place."""

    id: int
    index: str | None
    serial: str | None = None
    present: bool = True


@dataclass(frozen=True)
class Presence:
    """What a discovery means. `held`: it would take away too much at once, and waits for a walk that agrees."""

    new: tuple[str, ...] = ()  # indexes
    back: tuple[int, ...] = ()  # ids
    gone: tuple[int, ...] = ()  # ids; where `held`, those that are missing and stay
    held: bool = False


def presence(
    known: Mapping[str, Known], seen: Collection[str], *, complete: bool, suspected: bool,
    mine: Collection[int] | None = None,
) -> Presence:  # fmt: skip
    """Compare the rows of a discovery with the ONUs known by index.

    `mine`: ids of those that this discovery answers for, where the OLT has several (a table of GPON ONUs and one of
    EPON ONUs); None: all.

    Only a complete walk takes one away (quirk 2). One that lacks more than half of SUSPECT_TABLE or more present ONUs
    is held unless the walk before it was held too (`suspected`).
    """
    listed = seen if isinstance(seen, set | frozenset | dict) else set(seen)
    new = tuple(index for index in listed if index not in known)
    back = tuple(onu.id for index, onu in known.items() if not onu.present and index in listed)
    if not complete:
        return Presence(new, back)
    answered_for = [(index, onu) for index, onu in known.items() if onu.present and (mine is None or onu.id in mine)]
    gone = tuple(onu.id for index, onu in answered_for if index not in listed)
    present = len(answered_for)
    held = present >= SUSPECT_TABLE and len(gone) * 2 > present and not suspected
    return Presence(new, back, gone, held)


@dataclass(frozen=True)
class Move:
    """One ONU that is somewhere else now. `absorbed`: a row without identity that stood at its new place meanwhile."""

    id: int
    index: str
    absorbed: int | None = None


@dataclass
class Identities:
    """What the serials of a table mean. No id stands in two of the lists."""

    named: list[tuple[int, str]] = field(default_factory=list)  # (id, serial): the first serial of this ONU
    replaced: list[tuple[int, str]] = field(default_factory=list)  # (id, the other's serial): it lost its place
    moved: list[Move] = field(default_factory=list)
    created: list[tuple[str, str]] = field(default_factory=list)  # (index, serial): a new ONU at a taken place
    duplicates: list[tuple[int, str, str]] = field(default_factory=list)  # (id, serial, index where it stands too)


def identities(
    at: Mapping[str, Known], others: Mapping[str, Known], serials: Mapping[str, str], *, complete: bool
) -> Identities:
    """What it means that the device shows these serials at these indexes.

    `at`: the ONUs of this OLT by index. `others`: by serial, ONUs that stand at no index of this OLT: those whose
    place was taken, and those that are missing from another OLT. `serials`: index → serial as read now.

    * The serial that is known there: nothing. None known yet: it is named, unless the serial is known elsewhere.
    * Another one: the old ONU was *replaced* and loses its place; the new one is created, or moves in.
    * Known elsewhere, and missing or no longer read there (another serial, a complete table without it): it *moved*.
    * Known elsewhere and read there too: two rows of the device share it; each stays what its index says.
    """
    found = Identities()
    by_serial = {onu.serial: onu for onu in at.values() if onu.serial is not None}
    where = {onu.serial: index for index, onu in at.items() if onu.serial is not None}
    # Serials that this table has placed already, with their place: the first row has it.
    taken = {serial: index for index, serial in serials.items() if index in at and at[index].serial == serial}
    for index, serial in serials.items():
        here = at.get(index)
        if here is None or here.serial == serial:
            continue
        mover = by_serial.get(serial) or others.get(serial)
        place = taken.get(serial, where.get(serial))
        free = serial not in taken and (
            mover is None or not mover.present or place is None or _left(place, serial, serials, complete=complete)
        )
        if mover is not None and free:
            _move_in(found, mover, here, index, serial)
        elif here.serial is not None:
            found.replaced.append((here.id, serial))
            found.created.append((index, serial))
        else:
            found.named.append((here.id, serial))
            if not free and place is not None:
                found.duplicates.append((here.id, serial, place))
        taken.setdefault(serial, index)
    return _settled(found, at)


def _left(place: str, serial: str, serials: Mapping[str, str], *, complete: bool) -> bool:
    shown = serials.get(place)
    return complete if shown is None else shown != serial


def _move_in(found: Identities, mover: Known, here: Known, index: str, serial: str) -> None:
    if here.serial is None:
        found.moved.append(Move(mover.id, index, here.id))
    else:
        found.replaced.append((here.id, serial))
        found.moved.append(Move(mover.id, index))


def _settled(found: Identities, at: Mapping[str, Known]) -> Identities:
    """Who lost its place and moved to another in the same table has only moved."""
    movers = {move.id for move in found.moved}
    found.replaced = [(onu_id, serial) for onu_id, serial in found.replaced if onu_id not in movers]
    return found


@dataclass
class Indexes:
    """Indexes under which a table lists ONUs that are known under others."""

    aliases: dict[str, str] = field(default_factory=dict)  # index in this table → the one the ONU is known by
    renumbered: dict[str, str] = field(default_factory=dict)  # the one it was known by → the one that took its place


def same_onus(
    columns: Sequence[Mapping[str, Hashable | None]], at: Mapping[str, Known], places: Mapping[str, Hashable],
    serials: Mapping[str, str], mine: Collection[int], *, complete: bool,
) -> Indexes:  # fmt: skip
    """Which indexes that nobody is known by stand for ONUs of another table or another form of index.

    `columns`: index → place, or None, of each table that is read. `at`, `places`: the ONUs known by index, and their
    places. `serials`: index → serial, as far as they are read at the same time. `mine`: ids of those that no other
    discovery answers for.

    * At the place of an ONU that another table lists: the same ONU. Where one of them has no place the serial says so,
      and the index that tells a place is the one that it is known by.
    * At the place of one of `mine` that no table lists any more: it has a new number, if they were read to their end.
    * Two rows of one table are two ONUs, and so are two serials.
    """
    found = Indexes()
    listed = {index for rows in columns for index in rows}
    by_place = _alone({index: places.get(index) for index, onu in at.items() if onu.present})
    by_serial = {onu.serial: index for index, onu in at.items() if onu.present and onu.serial is not None}
    for rows in columns:
        alone = set(_alone(rows).values())
        for index, place in rows.items():
            if index in at or (place is not None and index not in alone):
                continue
            serial = serials.get(index, "")
            there, called = by_place.get(place), by_serial.get(serial)
            own = there or (called if place is None or called not in places else None)
            if own is None or own in rows or _told_apart(at.get(own), serial):
                _remember(by_place, by_serial, place, serial, index)
            elif own in listed or own not in at:
                found.aliases[index] = own
            elif at[own].id in mine and not (there and complete):
                continue  # whether it moved is for its serial to say
            elif at[own].id in mine or not (there or place is None):
                found.renumbered[own] = index
            else:
                found.aliases[index] = own
    return found


def _remember(
    by_place: dict[Hashable, str], by_serial: dict[str, str], place: Hashable | None, serial: str, index: str
) -> None:
    """A new ONU, which a further table may list too."""
    if place is not None:
        by_place.setdefault(place, index)
    if serial:
        by_serial.setdefault(serial, index)


def _alone(places: Mapping[str, Hashable | None]) -> dict[Hashable, str]:
    """Place → index, of the places at which one index stands."""
    taken = Counter(places.values())
    return {place: index for index, place in places.items() if place is not None and taken[place] == 1}


def _told_apart(onu: Known | None, serial: str) -> bool:
    return onu is not None and bool(onu.serial and serial) and onu.serial != serial


def by_index(onus: Iterable[Known]) -> dict[str, Known]:
    """Those that have a place."""
    return {onu.index: onu for onu in onus if onu.index is not None}
