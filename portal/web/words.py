"""The language of state: word, tone and icon of every closed set. Texts only; no rules live here."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from flask_babel import LazyString, gettext
from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext as pgettext  # under the name that pybabel looks for

from portal.domain.feasibility import Verdict as FitVerdict
from portal.domain.messages import Message
from portal.domain.saying import say
from portal.domain.statuses import (
    AlertKind,
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    LossCause,
    NodeKind,
    NotificationStatus,
    OltCondition,
    OltState,
    PollerStatus,
    Presence,
    QuotaStatus,
    Role,
    Severity,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.domain.table_sizes import SizeOutcome
from portal.domain.words import ERRORS, LOSSES, OLT_STATES, SKIPS, skipped
from portal.queries import decision_log


class Face(NamedTuple):
    """How a state looks. Tones: quiet (steady good), muted, blue, amber, red, green (just became good)."""

    label: LazyString
    tone: str
    icon: str


PENDING = Face(_l("Pending"), "muted", "hourglass")
RUNNING = Face(_l("Running"), "blue", "loader-2")
SUCCESS = Face(_l("Succeeded"), "quiet", "check")
FAILED = Face(_l("Failed"), "red", "circle-x")
INTERRUPTED = Face(_l("Interrupted"), "amber", "player-stop")
UP = Face(_l(OLT_STATES[OltState.UP]), "quiet", "circle-check")
UNREACHABLE = Face(_l(OLT_STATES[OltState.UNREACHABLE]), "red", "plug-connected-x")
PAUSED = Face(_l(OLT_STATES[OltState.PAUSED]), "amber", "player-pause")
UNKNOWN = Face(_l(OLT_STATES[OltState.UNKNOWN]), "muted", "circle-dashed")
DISABLED = Face(_l("Disabled"), "muted", "ban")

FACES: Mapping[type[StrEnum], Mapping[str, Face]] = {
    ExecutionStatus: {
        "PENDING": PENDING, "RUNNING": RUNNING, "SUCCESS": SUCCESS, "FAILED": FAILED, "INTERRUPTED": INTERRUPTED,
    },
    AttemptStatus: {
        "RUNNING": RUNNING,
        "SUCCESS": SUCCESS._replace(label=pgettext("try", "Succeeded")),
        "FAILED": FAILED._replace(label=pgettext("try", "Failed")),
        "INTERRUPTED": INTERRUPTED._replace(label=pgettext("try", "Interrupted")),
    },
    StepStatus: {
        "SUCCESS": SUCCESS._replace(label=pgettext("try", "Succeeded")),
        "FAILED": FAILED._replace(label=pgettext("try", "Failed")),
        "SKIPPED": Face(_l("Skipped"), "muted", "player-skip-forward"),
    },
    OltState: {
        "unknown": UNKNOWN,
        "up": UP,
        "unreachable": UNREACHABLE,
        "paused": PAUSED,
    },
    OltCondition: {
        "unreachable": UNREACHABLE,
        "refused": Face(_l("Credential refused"), "red", "key"),
        "other_device": Face(_l("Another device answers"), "red", "alert-triangle"),
        "failing": Face(_l("With failures"), "amber", "alert-triangle"),
        "paused": PAUSED,
        "unknown": UNKNOWN,
        "up": UP,
        "disabled": DISABLED,
    },
    Presence: {
        "ENABLED": Face(_l("Present"), "quiet", "circle-check"),
        "DISABLED": Face(_l("Gone"), "muted", "circle-off"),
    },
    PollerStatus: {
        "FREE": Face(_l("Free"), "quiet", "circle-dashed"),
        "BUSY": Face(_l("Busy"), "blue", "loader-2"),
    },
    Trigger: {
        "schedule": Face(_l("Schedule"), "quiet", "calendar-time"),
        "manual": Face(_l("Manual"), "quiet", "user"),
    },
    NodeKind: {
        "discovery": Face(_l("Discovery"), "quiet", "search"),
        "get": Face(_l("GET"), "quiet", "arrow-down"),
        "walk": Face(_l("Walk"), "quiet", "list"),
        "table": Face(_l("Table"), "quiet", "table"),
        "bulk": Face(_l("Bulk"), "quiet", "stack-2"),
    },
    EventType: {
        "SLOT_SKIPPED": Face(_l("Slot skipped"), "amber", "player-skip-forward"),
        "WORKER_LOST": Face(_l("Poller lost"), "amber", "heartbeat"),
        "REQUEUED": Face(_l("Queued again"), "quiet", "repeat"),
        "EXECUTION_ABORTED": Face(_l("Execution stopped"), "amber", "player-stop"),
        "POISONED": Face(_l("Execution given up"), "red", "circle-x"),
        "OLT_STATE_CHANGED": Face(_l("OLT changed state"), "quiet", "router"),
        "SUSPECT_TABLE": Face(_l("Doubtful table"), "amber", "alert-triangle"),
        "OLT_RESTARTED": Face(_l("OLT restarted"), "amber", "power"),
        "OTHER_DEVICE": Face(_l("Another device answers"), "red", "alert-triangle"),
        "TASK_ADDED": Face(_l("Task added"), "quiet", "plus"),
        "TASK_REMOVED": Face(_l("Task removed"), "quiet", "minus"),
        "TASK_INTERVAL_CHANGED": Face(_l("Interval changed"), "quiet", "clock"),
        "OLT_ENABLED": Face(_l("OLT enabled"), "quiet", "circle-check"),
        "OLT_DISABLED": Face(_l("OLT disabled"), "muted", "ban"),
        "PLAN_ADJUSTED": Face(_l("Plan adjusted"), "quiet", "calendar-time"),
        "QUOTA_ADJUSTED": Face(_l("Quota adjusted"), "quiet", "pencil"),
        "QUOTA_VIOLATION": Face(_l("Quota not met"), "red", "alert-circle"),
        "QUOTA_INTERRUPTED": Face(_l("Quota interrupted"), "amber", "player-stop"),
        "INTERVAL_OVERRIDDEN": Face(_l("Short interval allowed"), "amber", "alert-triangle"),
        "SYSTEM": Face(_l("System"), "quiet", "settings"),
    },
    FitVerdict: {
        "fits": Face(_l("Fits"), "quiet", "circle-check"),
        "tight": Face(_l("Tight"), "amber", "alert-triangle"),
        "impossible": Face(_l("Does not fit"), "red", "circle-x"),
    },
    LossCause: {
        "olt_busy": Face(_l(LOSSES[LossCause.OLT_BUSY]), "amber", "hourglass"),
        "pool_full": Face(_l(LOSSES[LossCause.POOL_FULL]), "amber", "cpu"),
        "overrun": Face(_l(LOSSES[LossCause.OVERRUN]), "amber", "clock-exclamation"),
        "timeout": Face(_l(LOSSES[LossCause.TIMEOUT]), "red", "clock-exclamation"),
        "unreachable": Face(_l(LOSSES[LossCause.UNREACHABLE]), "red", "plug-connected-x"),
        "paused": Face(_l(LOSSES[LossCause.PAUSED]), "amber", "player-pause"),
        "restart": Face(_l(LOSSES[LossCause.RESTART]), "amber", "power"),
        "disabled": DISABLED,
        "cancelled": Face(_l(LOSSES[LossCause.CANCELLED]), "amber", "player-stop"),
        "no_onus": Face(_l(LOSSES[LossCause.NO_ONUS]), "amber", "question-mark"),
        "device": Face(_l(LOSSES[LossCause.DEVICE]), "red", "alert-circle"),
        "worker_lost": Face(_l(LOSSES[LossCause.WORKER_LOST]), "red", "heartbeat"),
        "internal": Face(_l(LOSSES[LossCause.INTERNAL]), "red", "alert-circle"),
        "pending": Face(_l(LOSSES[LossCause.PENDING]), "muted", "hourglass"),
        "unknown": Face(_l(LOSSES[LossCause.UNKNOWN]), "muted", "question-mark"),
    },
    AlertKind: {
        "quota_violation": Face(_l("Quota not met"), "quiet", "trending-down"),
        "olt_unreachable": Face(_l("OLT does not answer"), "quiet", "plug-connected-x"),
        "olt_back": Face(_l("OLT answers again"), "quiet", "plug-connected"),
        "suspect_table": Face(_l("Doubtful table"), "quiet", "table"),
        "other_device": Face(_l("Another device answers"), "quiet", "alert-triangle"),
        "system": Face(_l("This program itself"), "quiet", "settings"),
        "test": Face(pgettext("alert", "Test"), "quiet", "test-pipe"),
    },
    NotificationStatus: {
        "PENDING": PENDING,
        "SENDING": Face(_l("Being sent"), "blue", "loader-2"),
        "SENT": Face(pgettext("alert", "Sent"), "quiet", "check"),
        "GIVEN_UP": Face(pgettext("alert", "Given up"), "red", "circle-x"),
    },
    Severity: {
        "LOW": Face(pgettext("severity", "Low"), "muted", "info-circle"),
        "MEDIUM": Face(pgettext("severity", "Medium"), "quiet", "alert-circle"),
        "HIGH": Face(pgettext("severity", "High"), "amber", "alert-triangle"),
        "CRITICAL": Face(pgettext("severity", "Critical"), "red", "bolt"),
    },
    QuotaStatus: {
        "IN_PROGRESS": Face(_l("In progress"), "quiet", "progress"),
        "COMPLETED": Face(pgettext("quota", "Met"), "quiet", "check"),
        "PARTIAL": Face(pgettext("quota", "Nearly met"), "quiet", "circle-check"),
        "QUOTA_NOT_MET": Face(pgettext("quota", "Not met"), "red", "trending-down"),
        "FAILED": Face(pgettext("quota", "Failed"), "red", "circle-x"),
        "INTERRUPTED": Face(pgettext("quota", "Interrupted"), "muted", "player-stop"),
    },
    Role: {
        "viewer": Face(_l("Viewer"), "quiet", "eye"),
        "operator": Face(_l("Operator"), "quiet", "user"),
        "admin": Face(_l("Administrator"), "quiet", "key"),
    },
}  # fmt: skip

ONLINE = Face(_l("Online"), "quiet", "antenna-bars-5")
OFFLINE = Face(_l("Offline"), "red", "antenna-bars-off")
NO_READING = Face(_l("No reading"), "muted", "minus")
NO_SIGN = Face(_l("No sign"), "red", "heartbeat")
AT_RISK = Face(pgettext("quota", "At risk"), "amber", "alert-triangle")

OUTCOMES: dict[SizeOutcome, LazyString] = {
    SizeOutcome.ANSWERED: _l("answered"),
    SizeOutcome.TOO_BIG: _l("refused: tooBig"),
    SizeOutcome.TIMEOUT: _l("not answered, though fewer were"),
    SizeOutcome.ERROR: _l("an error, though fewer were answered"),
    SizeOutcome.TRUNCATED: _l("answered, the rest was cut off"),
    SizeOutcome.NO_BULK: _l("by GETNEXT: GETBULK is not answered"),
    SizeOutcome.UNORDERED: _l("rows in an order of their own"),
}


LEVELS = {
    "DEBUG": Face(_l("Debug"), "muted", "note"),
    "INFO": Face(_l("Information"), "quiet", "info-circle"),
    "WARNING": Face(_l("Warning"), "amber", "alert-triangle"),
    "ERROR": Face(_l("Error"), "red", "alert-circle"),
    "CRITICAL": Face(_l("Critical"), "red", "alert-triangle"),
}


LANES = {"high": _l("first"), "normal": _l("normal"), "retry": _l("retry")}


def lane_word(lane: str) -> LazyString:
    """Which of its OLT's queues holds a waiting execution."""
    return LANES[lane]


def face(value: StrEnum) -> Face:
    """Word, tone and icon of a member of a closed set."""
    return FACES[type(value)][value.value]


def onu_face(online: bool | None) -> Face:
    """Online, offline, or no reading."""
    return NO_READING if online is None else ONLINE if online else OFFLINE


def quota_face(status: QuotaStatus, at_risk: bool) -> Face:
    """How a promise stands."""
    return AT_RISK if at_risk else face(status)


def task_words(task_type: str) -> str:
    """A task type for people: `discovery` → Discovery, `get_rx` → GET rx, `walk_names` → Walk names."""
    kind, _, key = task_type.partition("_")
    known = FACES[NodeKind].get(kind)
    word = "GET" if kind == NodeKind.GET else known.label if known else kind
    return f"{word} {key}".rstrip()


def labels(*kinds: type[StrEnum]) -> dict[StrEnum, str]:
    """The word of each member, for a file: looked up once and not in each of its rows."""
    return {one: str(face(one).label) for kind in kinds for one in kind}


def lost_words(lost: Iterable[tuple[LossCause, int]], words: Mapping[StrEnum, str]) -> str:
    """Slots lost by cause, as a cell of a file: OLT busy: 3; Timed out: 1."""
    return "; ".join(f"{words[cause]}: {slots}" for cause, slots in lost)


def error_words(kind: ErrorKind | None) -> str:
    """The error in words; empty when there is none."""
    return gettext(ERRORS[kind]) if kind else ""


def skip_words(reason: SkipReason | None) -> str:
    """Why a step or slot was skipped; empty when it was not."""
    return gettext(SKIPS[reason]) if reason else ""


def level_face(level: str) -> Face:
    """How a level of the decision log looks."""
    return LEVELS[level]


def told(text: str) -> str:
    """What a job or a decision stored as its reason, in the reader's language where it is one of our sentences."""
    if isinstance(text, Message):
        return say(text, gettext, str)
    return gettext(text) if text else ""  # of "" gettext would give the catalogue's header


def decided(row: decision_log.Row) -> str:
    """A decision as a sentence. Of skipped slots there are very many: their words are not stored, but made here."""
    if row.event is not EventType.SLOT_SKIPPED or row.reason is None:
        return told(row.message)
    count = row.details.get("slots", 1)
    slots = count if isinstance(count, int) else 1
    return told(skipped(row.node_name or gettext("a node"), slots, row.reason))


def outcome_words(outcome: SizeOutcome) -> LazyString:
    """What became of a message that asked for so many values."""
    return OUTCOMES[outcome]


FILTERS = {
    "face": face,
    "error_words": error_words,
    "skip_words": skip_words,
    "level_face": level_face,
    "outcome_words": outcome_words,
    "told": told,
    "decided": decided,
    "task_words": task_words,
}
