"""What the catalogue demands of one composite: OIDs that exist for the device, intervals that it can bear."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from portal.domain import intervals, node_fields, schedule
from portal.domain.catalogue_data import Shape
from portal.domain.fields import FieldError
from portal.domain.messages import N_, Message
from portal.domain.statuses import EventType, NodeKind
from portal.services import decisions
from portal.services.cataloguing.catalogue import Lookup
from portal.services.dispatch import clock
from portal.tables import WorkflowNode

Columns = Mapping[str, Any]
Errors = dict[str, dict[str, Message]]


@dataclass(frozen=True)
class Device:
    """What decides which OIDs there are: brand and model keys; model "" = unknown."""

    brand: str
    model: str = ""


@dataclass(frozen=True)
class Override:
    """A node that runs more often than is safe, on somebody's word."""

    key: str
    oid: str
    seconds: int
    limit: int
    reason: str

    @property
    def message(self) -> Message:
        """For the decision log."""
        told = {"key": self.key, "oid": self.oid, "pace": intervals.show(self.seconds),
                "limit": intervals.show(self.limit)}  # fmt: skip
        if self.reason:
            return N_("%(key)s (%(oid)s) runs every %(pace)s though %(limit)s is safe: %(reason)s", **told,
                      reason=self.reason)  # fmt: skip
        return N_(
            "%(key)s (%(oid)s) runs every %(pace)s though %(limit)s is safe (dotted OID, no reason given)", **told
        )


@dataclass(frozen=True)
class Verdict:
    """`errors`: node key → field → message. `overrides`: what may run, but has to be logged."""

    errors: Errors
    overrides: tuple[Override, ...]


class NodeRules:
    """Checks composites against the catalogue. `device` None = of a template, which has no device yet."""

    def __init__(self, lookup: Lookup, now: datetime, zone: ZoneInfo) -> None:
        self.lookup = lookup
        self.now = now
        self.zone = zone

    def check(self, device: Device | None, master: Columns, chain: Sequence[Columns] = ()) -> Verdict:
        """All that is wrong with a master and its chain; both as complete columns."""
        errors: Errors = {}
        overrides: list[Override] = []
        for columns in (master, *chain):
            if wrong := self.check_oid(device, columns["oid"]):
                errors.setdefault(columns["key"], {})["oid"] = wrong
            elif wrong := self._check_kind(device, columns):
                errors.setdefault(columns["key"], {})["kind"] = wrong
        try:
            pace = self._pace(master)
        except FieldError as error:
            errors.setdefault(master["key"], {})["cron"] = error.message
            return Verdict(errors, ())
        for columns in (master, *chain):
            if columns["key"] not in errors:
                self._check_pace(device, master, columns, pace, errors, overrides)
        return Verdict(errors, tuple(overrides))

    def check_oid(self, device: Device | None, oid: str) -> Message | None:
        """None when each catalogue key in `oid` exists for the device (without one: for its brand)."""
        for text in node_fields.parts_of(oid):
            if node_fields.is_dotted(text):
                continue
            if device is None and not self.lookup.has_key(text):
                return self.lookup.unknown_key(text)
            if device is not None and self.lookup.find(device.brand, device.model, text) is None:
                return self.lookup.explain(device.brand, device.model, text)
        return None

    def _check_kind(self, device: Device | None, columns: Columns) -> Message | None:
        """A table node keeps what it reads with ports, cards and the OLT: nothing of an ONU would ever be shown."""
        if columns["kind"] != NodeKind.TABLE:
            return None
        brand, model = (device.brand, device.model) if device is not None else ("", "")
        for text in node_fields.parts_of(columns["oid"]):
            row = self.lookup.find(brand or text.partition(".")[0], model, text)
            if row is not None and row.shape == Shape.ONU:
                return N_("%(oid)s is a column of ONUs: read it by walk, GET or discovery, a table is not about ONUs",
                          oid=text)  # fmt: skip
        return None

    def _pace(self, master: Columns) -> int:
        if master["cron"]:
            return clock.shortest_gap(master["cron"], self.now, self.zone)
        return int(master["interval_seconds"])

    def _check_pace(
        self, device: Device | None, master: Columns, columns: Columns, pace: int, errors: Errors,
        overrides: list[Override],
    ) -> None:  # fmt: skip
        safe, strict = self._safe(device, columns["oid"])
        chained = columns is not master
        limit = safe if chained else max(safe, schedule.MINIMUM_INTERVAL)
        if pace >= limit:
            return
        reason = columns["override_reason"] or master["override_reason"]
        if not reason and (strict or pace < schedule.MINIMUM_INTERVAL):
            field = "oid" if chained else "override_reason"
            errors.setdefault(columns["key"], {})[field] = _too_often(columns["oid"], pace, limit, chained=chained)
            return
        overrides.append(Override(columns["key"], columns["oid"], pace, limit, reason))

    def _safe(self, device: Device | None, oid: str) -> tuple[int, bool]:
        """(safe interval in s or 0, whether it must be obeyed).

        Who writes a dotted OID steps out of the catalogue: there its safe interval is advice, which is logged.
        """
        found = [(self._safe_of(device, text), not node_fields.is_dotted(text)) for text in node_fields.parts_of(oid)]
        return max(found, default=(0, False))

    def _safe_of(self, device: Device | None, text: str) -> int:
        if device is None:
            return (0 if node_fields.is_dotted(text) else self.lookup.safe_interval(text)) or 0
        row = self.lookup.find(device.brand, device.model, text)
        return (row.safe_interval or 0) if row else 0


def _too_often(oid: str, pace: int, limit: int, *, chained: bool) -> Message:
    if chained:
        return N_(
            "%(oid)s would be read every %(pace)s with its master, and less than %(limit)s is not safe: give the master"
            " a longer interval, or a reason (override)",
            oid=oid, pace=intervals.show(pace), limit=intervals.show(limit),
        )  # fmt: skip
    return N_(
        "every %(pace)s is more often than is safe for %(oid)s (%(limit)s): choose a longer interval, or give a reason"
        " (override)",
        oid=oid, pace=intervals.show(pace), limit=intervals.show(limit),
    )  # fmt: skip


def log_override(session: Session, olt_id: int, node: WorkflowNode, item: Override, actor: str, now: datetime) -> None:
    """Put into the decision log who let a node run more often than is safe, and why."""
    details = {"actor": actor, "reason": item.reason, "interval": item.seconds, "limit": item.limit, "oid": item.oid}
    decisions.record(
        session, EventType.INTERVAL_OVERRIDDEN, item.message, now, olt_id=olt_id, node_id=node.id, level="WARNING",
        details=details,
    )  # fmt: skip
