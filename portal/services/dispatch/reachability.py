"""Whether an OLT can be reached: counts its silences, pauses what is dead, notes that it is back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from flask import current_app
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session, joinedload

from portal.domain import reachability
from portal.domain.composite import CompositeResult, SnmpTarget
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, ErrorKind, EventType, ExecutionStatus, OltState, Severity, SkipReason
from portal.domain.words import OLT_STATES
from portal.extensions import db, transaction
from portal.services import decisions
from portal.services.alerting import alerts
from portal.services.dispatch import waiting
from portal.services.dispatch.work import target_of
from portal.tables import Execution, Olt

REFUSED: Final = N_("it refuses its SNMP credential")  # why an OLT that answers is unreachable


def note(
    session: Session, execution: Execution, now: datetime, *, answered: bool, silent: bool, message: str,
    refused: bool = False,
) -> None:  # fmt: skip
    """What a try that has just been settled says of its OLT, which the caller has locked; after the status is written.

    An answer makes it up. After the first silence it is asked each few seconds whether it is there; AUTO_PAUSE_AFTER
    silences in a row, of such questions and of tries, make it unreachable: what waits on it is skipped, and it is
    only probed from then on. One that refused its credential (`refused`) is so at once, until it takes it. An OLT that
    a person paused stays as it is.
    """
    answered = answered and not refused
    dead = (
        (silent or refused) and not answered and execution.status in (ExecutionStatus.FAILED, ExecutionStatus.PENDING)
    )
    olt = execution.olt
    if olt.state is OltState.PAUSED or not (dead or answered and _is_news(olt)):
        return
    if answered:
        back_up(session, olt, now, N_("it answered"))
        return
    if refused:
        _refused(session, olt, now, message)
    else:
        _count(session, olt, now, message)


def note_states(execution: Execution, result: CompositeResult, now: datetime) -> None:
    """The states of all ONUs were read: they count as of now until some of the next readings are missed."""
    columns = (column for step in result.steps for column in step.columns)
    if any(column.spec.metric == "onu_state" and column.whole for column in columns):
        execution.olt.stale_at = reachability.stale_at(now, _interval(execution))


def _interval(execution: Execution) -> timedelta | None:
    node = execution.node and (execution.node.master or execution.node)
    if node is not None and node.interval_seconds:
        return timedelta(seconds=node.interval_seconds)
    return execution.overdue_at - execution.scheduled_for if execution.overdue_at else None


def _count(session: Session, olt: Olt, now: datetime, message: str) -> None:
    """One more silence of an OLT that is locked."""
    olt.consecutive_failures += 1
    limit = current_app.config["AUTO_PAUSE_AFTER"]
    if not limit or olt.state is OltState.UNREACHABLE:
        return
    if olt.consecutive_failures >= limit:
        _give_up(session, olt, now, message)
    else:
        olt.probe_at = now + reachability.LOOK


def _refused(session: Session, olt: Olt, now: datetime, message: str) -> None:
    """What it said to this credential it will say again: it is asked seldom, and people are told."""
    olt.consecutive_failures += 1
    if not current_app.config["AUTO_PAUSE_AFTER"] or olt.refused:
        return
    olt.refused = True
    subject = N_("%(olt)s refuses its SNMP credential", olt=olt.name)
    body = N_(
        "It answered that user, password or protocols are wrong. Its runs are skipped, and it is asked by itself"
        " whether it takes the credential; once the credential is changed it is asked at once."
    )  # fmt: skip
    cause = N_("its OLT refuses the SNMP credential")
    _stop(session, olt, now, message, REFUSED, (subject, body), cause)


def _is_news(olt: Olt) -> bool:
    return olt.consecutive_failures > 0 or olt.state in (OltState.UNKNOWN, OltState.UNREACHABLE)


def _give_up(session: Session, olt: Olt, now: datetime, message: str) -> None:
    failures = olt.consecutive_failures
    cause = N_("silences in a row: %(count)d", count=failures)  # the driver's words are not the reader's
    subject = N_("%(olt)s does not answer", olt=olt.name)
    body = N_(
        "%(count)d times in a row nothing came back from %(address)s. Its runs are skipped; it is asked by itself"
        " whether it is back.", count=failures, address=olt.device_key,
    )  # fmt: skip
    _stop(session, olt, now, message, cause, (subject, body), N_("its OLT does not answer"))


def _stop(
    session: Session, olt: Olt, now: datetime, message: str, cause: str, words: tuple[str, str], end: str
) -> None:  # fmt: skip
    """Unreachable from now on: one alert, what waits ends, and only questions go out."""
    olt.stale_at = olt.stale_at and now
    olt.probe_at, olt.probes_sent = reachability.next_probe(now, now, refused=olt.refused), 0
    facts = {"failures": olt.consecutive_failures, "error": message, "probe_at": olt.probe_at.isoformat()}
    change_state(session, olt, OltState.UNREACHABLE, now, cause, level="ERROR", details=facts)
    subject, body = words
    alerts.raise_alert(session, AlertKind.OLT_UNREACHABLE, subject, body, now, severity=Severity.HIGH, olt_id=olt.id)
    session.flush()
    waiting.end_of_olt(session, olt.id, now, end, ErrorKind.UNREACHABLE, SkipReason.OLT_UNREACHABLE)


def back_up(session: Session, olt: Olt, now: datetime, cause: str) -> None:
    """The OLT has answered. The caller has locked its row and seen that no person paused it."""
    if olt.state is OltState.UNREACHABLE:
        _tell_back(session, olt, now)
    if olt.state is not OltState.UP:
        change_state(session, olt, OltState.UP, now, cause, details=_absence(olt, now))
    forget_silence(olt)


def forget_silence(olt: Olt) -> None:
    """What was counted of an OLT that answers, or that is looked at afresh."""
    olt.consecutive_failures, olt.probe_at, olt.probes_sent, olt.refused = 0, None, 0, False


def _tell_back(session: Session, olt: Olt, now: datetime) -> None:
    """As severe as the alert that it was gone: whoever got that one shall get this one."""
    away = round((now - (olt.state_since or now)).total_seconds())
    subject = N_("%(olt)s answers again", olt=olt.name)
    body = N_("It was away for %(minutes)d min %(seconds)d s.", minutes=away // 60, seconds=away % 60)
    alerts.raise_alert(session, AlertKind.OLT_BACK, subject, body, now, severity=Severity.HIGH, olt_id=olt.id)


def _absence(olt: Olt, now: datetime) -> dict[str, object]:
    if olt.state is not OltState.UNREACHABLE or olt.state_since is None:
        return {}
    return {"away_seconds": round((now - olt.state_since).total_seconds()), "probes": olt.probes_sent}


def change_state(
    session: Session, olt: Olt, state: OltState, now: datetime, cause: str, *,
    level: str = "INFO", details: Mapping[str, object] | None = None,
) -> None:  # fmt: skip
    """Give an OLT another state and log it; the one place that does."""
    before = olt.state
    if before is not state:
        olt.state, olt.state_since = state, now
    decisions.record(
        session, EventType.OLT_STATE_CHANGED,
        N_("%(olt)s: %(before)s → %(after)s: %(cause)s", olt=olt.name, cause=cause,
           before=OLT_STATES[before], after=OLT_STATES[state]),
        now, olt_id=olt.id, level=level,
        details={"before": before, "after": state, "cause": str(cause), **(details or {})},
    )  # fmt: skip


@dataclass(frozen=True)
class Suspect:
    """An OLT that is silent, whose time to be asked has come. `refused`: not silent, it refuses its credential."""

    olt_id: int
    target: SnmpTarget
    refused: bool = False


def suspects(now: datetime, limit: int) -> list[Suspect]:
    """OLTs in service that are or may be unreachable and are to be asked by `now`, who waits longest first. One whose

    time is further away than any gap is asked too: the clock was set back since.
    """
    too_far = now + reachability.LONGEST_GAP
    query = (
        select(Olt)
        .where(
            Olt.state != OltState.PAUSED,
            or_(
                Olt.probe_at <= now, Olt.probe_at > too_far,
                and_(Olt.probe_at.is_(None), Olt.state == OltState.UNREACHABLE),
            ),
            Olt.enabled.is_(True), Olt.deleted_at.is_(None),
        )
        .options(joinedload(Olt.credential))
        .order_by(Olt.probe_at, Olt.id)
        .limit(limit)
    )  # fmt: skip
    found = [Suspect(olt.id, target_of(olt, olt.credential), olt.refused) for olt in db.session.scalars(query)]
    db.session.rollback()
    return found


def record_probes(answers: Mapping[int, bool], now: datetime) -> int:
    """What came of asking (OLT id → it answered). Returns how many are back; their nodes go on at their grid."""
    back = 0
    with transaction() as session:
        for olt in locked(session, answers):
            dead = olt.state is OltState.UNREACHABLE
            if olt.state is OltState.PAUSED or not (dead or olt.probe_at):
                continue  # a person paused it, or a run of its own found it back, meanwhile
            olt.probes_sent += dead
            if answers[olt.id]:
                back += dead
                back_up(session, olt, now, N_("it answered a probe"))
            elif dead:
                olt.probe_at = reachability.next_probe(olt.state_since or now, now, refused=olt.refused)
            else:
                _count(session, olt, now, "no answer to a question for its uptime")
    return back


def end_pauses(now: datetime) -> int:
    """OLTs whose pause was to end by `now` go on. Returns how many."""
    over = (Olt.state == OltState.PAUSED) & (Olt.paused_until <= now)
    ids = list(db.session.scalars(select(Olt.id).where(over)))
    db.session.rollback()
    if not ids:
        return 0
    with transaction() as session:
        due = [olt for olt in locked(session, ids) if olt.state is OltState.PAUSED and _is_over(olt, now)]
        for olt in due:
            unpause(session, olt, now, N_("its pause is over"))
        return len(due)


def _is_over(olt: Olt, now: datetime) -> bool:
    return olt.paused_until is not None and olt.paused_until <= now


def unpause(session: Session, olt: Olt, now: datetime, cause: str, actor: str = "") -> None:
    """A paused OLT goes on; what can be said of it is unknown until it answers. The caller has locked its row."""
    facts = {"reason": olt.paused_reason, "actor": actor}
    change_state(session, olt, OltState.UNKNOWN, now, cause, details=facts)
    olt.paused_reason, olt.paused_until = "", None
    forget_silence(olt)


def locked(session: Session, ids: Mapping[int, object] | list[int]) -> list[Olt]:
    """These OLTs that are in service, locked in one order; inserts that refer to them are not held up."""
    query = select(Olt).where(Olt.id.in_(list(ids)), Olt.deleted_at.is_(None)).order_by(Olt.id)
    fresh = query.with_for_update(of=Olt, key_share=True).execution_options(populate_existing=True)
    return list(session.scalars(fresh))
