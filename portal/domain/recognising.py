"""Which brand, model and index family a device is, from what it answered. Pure: asking is jobs/probing's part."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from portal.domain.catalogue_data import ModelData
from portal.domain.formulas import IndexFormula
from portal.domain.proof import Choice, Verdict, choose, read_interfaces

MAX_NAMED = 6  # models listed in one ground


class By(StrEnum):
    """What decided."""

    OBJECT_ID = "sysobjectid"
    DESCR = "sysdescr"
    SUBTREE = "subtree"
    NAME = "name"
    IF_NAME = "ifname"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Ground:
    """One reason: `seen` on the device, `means` what the catalogue makes of it. `text` is the English sentence."""

    by: By
    seen: str
    means: str

    @property
    def text(self) -> str:
        """For command line and log; pages word it themselves from `by`."""
        seen = {
            By.OBJECT_ID: f"sysObjectID {self.seen}", By.DESCR: f"sysDescr {self.seen!r}",
            By.SUBTREE: f"subtree {self.seen} answered", By.NAME: f"model name {self.seen!r}",
            By.IF_NAME: f"ifName {self.seen}", By.NOTHING: self.seen,
        }[self.by]  # fmt: skip
        return f"{seen}: {self.means}"

    def as_json(self) -> dict[str, str]:
        """As kept in the result of a probe."""
        return {"by": self.by.value, "seen": self.seen, "means": self.means, "text": self.text}


@dataclass(frozen=True)
class KnownModel:
    """A model of the catalogue with the key of its brand."""

    brand: str
    model: ModelData

    @property
    def key(self) -> str:
        """brand.model, such as huawei.MA5603T."""
        return f"{self.brand}.{self.model.key}"


@dataclass(frozen=True)
class Families:
    """Index formulas of one brand: `spaces` holds those to choose from, `readers` those that read names."""

    spaces: tuple[tuple[IndexFormula, ...], ...] = ()
    readers: tuple[IndexFormula, ...] = ()

    @property
    def learning(self) -> list[IndexFormula]:
        """Those that interface names complete."""
        return [formula for space in self.spaces for formula in space if formula.learns]


@dataclass(frozen=True)
class Knowledge:
    """What the catalogue knows for recognising."""

    models: tuple[KnownModel, ...] = ()
    families: Mapping[str, Families] = field(default_factory=dict)  # by brand


@dataclass(frozen=True)
class Shortlist:
    """The models that may be meant. More than one: their `subtrees` decide; none and not decided: nothing is known."""

    models: tuple[KnownModel, ...]
    grounds: tuple[Ground, ...] = ()
    singled_out: bool = False  # sysDescr told it from others of its sysObjectID

    @property
    def decided(self) -> KnownModel | None:
        """The only one left, or the one of them that is presumed."""
        left = self.models if len(self.models) == 1 else _presumed(self.models)
        return left[0] if len(left) == 1 else None

    @property
    def wants_proof(self) -> bool:
        """Whether subtrees are to be asked for: of several models, and of one that nothing but a prefix speaks for."""
        return bool(self.subtrees) and not (self.singled_out and len(self.models) == 1)

    @property
    def subtrees(self) -> tuple[str, ...]:
        """Roots to ask for a first row, each once."""
        return tuple(dict.fromkeys(root for known in self.models for root in known.model.subtree))

    @property
    def name_oids(self) -> tuple[str, ...]:
        """Instances whose text tells these models apart, each once."""
        return tuple(dict.fromkeys(known.model.name_oid for known in self.models if known.model.name_oid))

    @property
    def unknown(self) -> bool:
        """True when neither sysObjectID nor sysDescr nor a subtree speaks for any model."""
        return all(ground.by is By.NOTHING for ground in self.grounds)

    @property
    def brand(self) -> str | None:
        """The brand, when all that are left share it."""
        brands = {known.brand for known in self.models}
        return brands.pop() if len(brands) == 1 else None


def shortlist(models: Sequence[KnownModel], object_id: str, descr: str) -> Shortlist:
    """By sysObjectID, longest prefix first, then by sysDescr.

    Several makers give one sysObjectID to several families (quirk 21), and sysDescr may be a site name (quirk 22): what
    it does not say excludes nothing that a subtree can tell.
    """
    fits = {known: fit for known in models if (fit := known.model.id_fit(object_id))}
    for length in sorted(set(fits.values()), reverse=True):
        group = [known for known, fit in fits.items() if fit == length]
        found = _among(group, object_id, descr)
        if found is not None:
            return found
    by_text = [known for known in models if not known.model.sysobjectid and known.model.says(descr)]
    if by_text:
        return Shortlist(tuple(by_text), (Ground(By.DESCR, descr, _named(by_text)),))
    unknown = Ground(By.NOTHING, f"sysObjectID {object_id or '(empty)'} and sysDescr", "not in the catalogue")
    return Shortlist(tuple(known for known in models if known.model.subtree), (unknown,))


def _among(group: list[KnownModel], object_id: str, descr: str) -> Shortlist | None:
    """Of the models that share the longest prefix; None when none of them can be meant."""
    said = [known for known in group if known.model.says(descr)]
    silent = [known for known in group if not known.model.sysdescr]
    if not said and not silent and len(group) == 1:  # its description is a condition: other Huawei devices share 2011.2
        return None
    left = said or silent or [known for known in group if known.model.subtree] or group
    grounds = [Ground(By.OBJECT_ID, object_id, _named(group))]
    if said:
        grounds.append(Ground(By.DESCR, descr, _named(said)))
    return Shortlist(tuple(left), tuple(grounds), singled_out=0 < len(said) < len(group))


def by_subtree(before: Shortlist, answered: Iterable[str]) -> Shortlist:
    """What is left once it is known which subtrees hold a row.

    Where none does: the model that is presumed then. Else several families of one maker stay as they are, for a view
    may hide their tables; a single model is not taken, for it names a subtree because others have its sysObjectID.
    """
    roots = set(answered)
    left = [known for known in before.models if roots & set(known.model.subtree)]
    if left:
        seen = next(root for known in left for root in known.model.subtree if root in roots)
        return Shortlist(tuple(left), (*before.grounds, Ground(By.SUBTREE, seen, _named(left))))
    nothing = Ground(By.NOTHING, "none of their subtrees", _named(before.models))
    if before.unknown:
        return Shortlist((), before.grounds)
    presumed = _presumed(before.models)
    if presumed:
        told = [ground for ground in before.grounds if ground.by is not By.NOTHING]
        return Shortlist(tuple(presumed), (*told, Ground(told[-1].by, told[-1].seen, _named(presumed))))
    return Shortlist(before.models if len(before.models) > 1 else (), (*before.grounds, nothing))


def by_name(before: Shortlist, found: Shortlist, names: Mapping[str, str]) -> Shortlist:
    """What is left of `found` once the device said its model's name; `before`: all that its identity allowed.

    The name speaks also for a model none of whose subtrees answered: other boxes of it have them.
    """
    for oid, name in names.items():
        named = [known for known in before.models if known.model.name_oid == oid and known.model.is_called(name)]
        if named:
            return Shortlist(tuple(named), (*found.grounds, Ground(By.NAME, name, _named(named))))
    return found


def answers_as(
    models: Sequence[KnownModel], object_id: str, brand: str, model: str, fits: Sequence[str] = ()
) -> tuple[str, str] | None:  # fmt: skip
    """(brand, model) that a device is by its sysObjectID, where it cannot be what it was entered as; else None.

    `fits`: what a connection test left of the models, which says more. `model` "" is any of the brand; what is answered
    is "" where several are left. A lone model that wants proof is no contradiction: others have its sysObjectID.
    """
    if fits:
        meant = tuple(known for known in models if known.key in fits)
        found = Shortlist(meant)
    else:
        found = shortlist(models, object_id, "")
        if found.unknown or (len(found.models) == 1 and found.wants_proof):
            return None
    entered = {known.brand if not model else known.key for known in found.models}
    if not found.models or (f"{brand}.{model}" if model else brand) in entered or found.brand is None:
        return None
    return found.brand, found.decided.model.key if found.decided else ""


def _presumed(models: Iterable[KnownModel]) -> list[KnownModel]:
    return [known for known in models if known.model.presumed]


def _named(models: Sequence[KnownModel]) -> str:
    keys = [known.key for known in models]
    return ", ".join(keys[:MAX_NAMED]) + (f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else "")


def families(known: Families, rows: Iterable[tuple[str, str]]) -> list[tuple[Choice, Ground]]:
    """The choice in each space of a brand that (ifIndex, name) rows speak of, with its ground."""
    interfaces = read_interfaces(rows, known.readers)
    found = []
    for formulas in known.spaces:
        choice = choose(formulas, interfaces)
        spoken = [verdict for verdict in choice.verdicts if verdict.agree or verdict.contradict]
        if not spoken:
            continue
        sample = next(i for i in interfaces.values() if any(formula.claims(i) for formula in formulas))
        found.append((choice, Ground(By.IF_NAME, f"{sample.name.strip()} = {sample.index}", _worded(choice, spoken))))
    return found


def _worded(choice: Choice, spoken: Sequence[Verdict]) -> str:
    if choice.formula is None:
        return "; ".join(verdict.first for verdict in spoken if verdict.first) or "several formulas fit"
    (verdict,) = [verdict for verdict in spoken if verdict.formula == choice.formula.name]
    return f"fits {verdict.formula}, as all {verdict.agree} names do"
