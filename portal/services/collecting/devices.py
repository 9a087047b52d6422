"""Which device answers at an OLT's address: what is known of it, and what it means that another one does.

In the caller's transaction.
"""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.orm import Session

from portal.domain import device
from portal.domain.composite import ColumnReadings, StepResult
from portal.domain.device import Answer, Device
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, NodeKind, Severity
from portal.services import decisions
from portal.services.alerting import alerts
from portal.services.collecting import onus
from portal.tables import Execution, Olt, OltDevice


def known(row: OltDevice | None) -> Device:
    """What is known of an OLT's own device; nothing of one that was never read."""
    if row is None:
        return Device()
    return Device(row.object_id, row.name, row.uptime, row.read_at, row.restarted_at, row.witnesses)


def note(session: Session, execution: Execution, answer: Answer, now: datetime, *, other: bool) -> None:
    """Keep what a device said at the begin of a composite. `other`: it is not the OLT's own.

    A restart and a new name of the OLT's own are events; another device is one, and an alert, when it is first seen.
    """
    olt, row = execution.olt, session.get(OltDevice, execution.olt_id)
    if row is None:
        row = OltDevice(olt_id=olt.id, object_id="", name="", witnesses={})
        session.add(row)
    if other:
        _note_other(session, execution, row, answer, now)
        return
    before = known(row)
    restarted_at = device.restart(before, answer)
    if restarted_at is not None:
        row.restarted_at = restarted_at
        text = N_("%(olt)s restarted", olt=olt.name)
        facts = {"restarted_at": restarted_at.isoformat(), "uptime": answer.uptime, "before": before.uptime}
        decisions.about(session, execution, EventType.OLT_RESTARTED, text, now, level="WARNING", details=facts)
    if row.other is not None:
        row.other = None
        text = N_("%(olt)s: its own device answers again", olt=olt.name)
        decisions.about(session, execution, EventType.OTHER_DEVICE, text, now)
    elif before.name and device.names_differ(before, answer):
        text = N_("%(olt)s: its device is called %(name)s now, and was %(before)s", olt=olt.name, name=answer.name,
                  before=before.name)  # fmt: skip
        decisions.about(session, execution, EventType.OTHER_DEVICE, text, now)
    row.object_id, row.name = answer.object_id or row.object_id, answer.name or row.name
    row.uptime, row.read_at = answer.uptime, answer.at


def _note_other(session: Session, execution: Execution, row: OltDevice, answer: Answer, now: datetime) -> None:
    if row.other is not None:
        return
    olt = execution.olt
    olt.stale_at = olt.stale_at and now
    row.other = {"object_id": answer.object_id, "name": answer.name, "since": now.isoformat(), "onus": answer.other}
    subject = N_("%(olt)s: another device answers at %(address)s", olt=olt.name, address=olt.device_key)
    body = N_(
        "It calls itself %(name)s; the OLT is %(before)s. Nothing is read until its own device answers again, or a "
        "person says on its page that this one is the OLT.", name=answer.name or "?", before=row.name or "?",
    )  # fmt: skip
    facts = {"object_id": answer.object_id, "name": answer.name, "onus": answer.other}
    decisions.about(session, execution, EventType.OTHER_DEVICE, subject, now, level="ERROR", details=facts)
    alerts.raise_alert(session, AlertKind.OTHER_DEVICE, subject, body, now, severity=Severity.HIGH, olt_id=olt.id)


def remember(session: Session, olt_id: int, column: ColumnReadings) -> None:
    """A whole table of serials was read: some of its instances will witness that it is this device that answers."""
    spec = column.spec
    row = session.get(OltDevice, olt_id)
    if row is None or not column.whole or spec.access == "walk" or spec.scalar:
        return
    suffix = spec.suffix
    read = {f"{spec.oid}.{one.index}{suffix}": one.raw for one in column.readings if one.value is not None}
    witnesses = device.refreshed(row.witnesses, read)
    if witnesses != row.witnesses:
        row.witnesses = witnesses


def accept(session: Session, olt: Olt) -> OltDevice | None:
    """What answers is the OLT's own device from now on. None when no other one does. The caller has locked the OLT."""
    row = session.get(OltDevice, olt.id, with_for_update=True)
    if row is None or row.other is None:
        return None
    row.object_id, row.name = row.other["object_id"], row.other["name"]
    row.uptime = row.read_at = row.restarted_at = row.other = None
    row.witnesses = {}
    return row


def settled(
    session: Session, olt_id: int, step: StepResult, kind: NodeKind | None, onus_by_id: Mapping[int, onus.Row]
) -> bool:  # fmt: skip
    """Whether a row that is missing in what `step` read is gone. `onus_by_id`: the ONUs that are known.

    A device that restarted fills its tables for minutes: nobody is gone before a discovery has listed no more ONUs than
    those that were listed since.
    """
    began, at = step.restarted_at, step.finished_at
    if began is None or at is None or not device.may_grow(began, at):
        return True
    if device.unsettled(began, at):
        return False
    if kind is not NodeKind.DISCOVERY:
        return True
    of_onus = (column for column in step.columns if not column.spec.of_part)
    listed = {reading.index for column in of_onus for reading in column.readings}
    there = {row.id for row in onus_by_id.values() if row.present and row.index in listed}
    return there <= onus.seen_since(session, olt_id, began)
