"""The closed sets of words that tables, rules and pages share. Values are what the database stores."""

from enum import StrEnum


class ExecutionStatus(StrEnum):
    """Life of one slot. A status in TERMINAL is never rewritten."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


ACTIVE = frozenset({ExecutionStatus.PENDING, ExecutionStatus.RUNNING})
TERMINAL = frozenset({ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED})


class AttemptStatus(StrEnum):
    """Life of one try of an execution."""

    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


class StepStatus(StrEnum):
    """Outcome of one node inside one try."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class Trigger(StrEnum):
    """Why an execution exists: its slot came, or a person asked."""

    SCHEDULE = "schedule"
    MANUAL = "manual"


class NodeKind(StrEnum):
    """What a node does with its OID."""

    DISCOVERY = "discovery"  # walk a column keyed by ONU: which ONUs exist, and their state
    GET = "get"  # read a column for the ONUs known to be present
    WALK = "walk"  # walk a column keyed by ONU, without asking which are known
    TABLE = "table"  # walk a table that is not keyed by ONU (PON ports)
    BULK = "bulk"  # walk several columns together


DEFAULT_PRIORITY = {
    NodeKind.DISCOVERY: 90,
    NodeKind.GET: 40,
    NodeKind.WALK: 30,
    NodeKind.TABLE: 20,
    NodeKind.BULK: 10,
}


class OltState(StrEnum):
    """What the system last learned of an OLT. Whether a person enabled it is a separate column."""

    UNKNOWN = "unknown"
    UP = "up"
    UNREACHABLE = "unreachable"
    PAUSED = "paused"


class OltCondition(StrEnum):
    """What is to be said of an OLT: its state, whether a person lets it be read, whether it is what it was. In the

    order in which people are needed.
    """

    UNREACHABLE = "unreachable"
    REFUSED = "refused"  # it answers that the credential is wrong
    OTHER_DEVICE = "other_device"  # another device answers in its place
    FAILING = "failing"  # it answers, but the states of its ONUs have not been read for several intervals
    PAUSED = "paused"
    UNKNOWN = "unknown"
    UP = "up"
    DISABLED = "disabled"


class Presence(StrEnum):
    """Whether the last complete discovery listed the ONU."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


class OnuEventKind(StrEnum):
    """What can happen to an ONU; `before` and `after` of the event in brackets."""

    PRESENCE = "presence"  # the OLT lists it, or no longer (ENABLED, DISABLED)
    STATE = "state"  # (online, offline)
    REPLACED = "replaced"  # another ONU took its place (its serial, the other's)
    MOVED = "moved"  # the same serial elsewhere (old, new place)
    DUPLICATE = "duplicate"  # its serial stands at a second place too (this place, the other)


class ErrorKind(StrEnum):
    """Why an execution, attempt or step did not succeed. `internal` is a fault of our own code."""

    TIMEOUT = "timeout"
    AUTH = "auth"
    NO_SUCH_OBJECT = "no_such_object"
    NOT_INCREASING = "not_increasing"
    TOO_BIG = "too_big"
    BAD_OID = "bad_oid"
    UNREACHABLE = "unreachable"
    INCOMPLETE = "incomplete"
    DEVICE = "device"
    TIME_LIMIT = "time_limit"
    LEASE_LOST = "lease_lost"
    WORKER_LOST = "worker_lost"
    ABORTED = "aborted"
    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    OTHER_DEVICE = "other_device"
    POISON = "poison"
    INTERNAL = "internal"


class SkipReason(StrEnum):
    """Why a slot, or a step of a chain, was not run."""

    STILL_ACTIVE = "still_active"  # … and nothing is known of why
    OVERRUN = "overrun"  # its node's last run took longer than the interval
    OLT_BUSY = "olt_busy"  # its node's last run still waited for the OLT
    POOL_FULL = "pool_full"  # … for a free poller
    SCHEDULER_DOWN = "scheduler_down"
    OLT_PAUSED = "olt_paused"
    OLT_UNREACHABLE = "olt_unreachable"
    OLT_DISABLED = "olt_disabled"
    NODE_DISABLED = "node_disabled"
    TIMED_OUT_EARLIER = "timed_out_earlier"
    STOPPED_ON_FAILURE = "stopped_on_failure"
    LEASE_LOST = "lease_lost"
    ABORTED = "aborted"
    CANCELLED = "cancelled"  # by a person
    NO_ONUS = "no_onus"
    OTHER_DEVICE = "other_device"
    NODE_HELD = "node_held"  # its last slots ended all their workers


class QuotaStatus(StrEnum):
    """How an OLT keeps its promise for one task type and hour."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    PARTIAL = "PARTIAL"
    QUOTA_NOT_MET = "QUOTA_NOT_MET"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


class Severity(StrEnum):
    """How bad a quota violation is."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class AlertKind(StrEnum):
    """What an alert is about; a channel chooses among these."""

    QUOTA_VIOLATION = "quota_violation"
    OLT_UNREACHABLE = "olt_unreachable"
    OLT_BACK = "olt_back"
    SUSPECT_TABLE = "suspect_table"
    OTHER_DEVICE = "other_device"
    SYSTEM = "system"  # this program itself is not well
    TEST = "test"  # a person tries a channel; goes to that one whatever it chooses


class NotificationStatus(StrEnum):
    """Life of an alert on its way through one channel."""

    PENDING = "PENDING"
    SENDING = "SENDING"  # claimed until its deadline; who vanished meanwhile leaves it to the next
    SENT = "SENT"
    GIVEN_UP = "GIVEN_UP"


class PlanStatus(StrEnum):
    """Life of an execution plan."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    SUPERSEDED = "SUPERSEDED"
    ABORTED = "ABORTED"


class RolloutStatus(StrEnum):
    """A template on its way to many OLTs: it is tried on one; then the rest got it, or it was taken back."""

    CANARY = "CANARY"
    DONE = "DONE"
    TAKEN_BACK = "TAKEN_BACK"


class LossCause(StrEnum):
    """To what a promised slot was lost. A report counts each lost slot under exactly one."""

    OLT_BUSY = "olt_busy"
    POOL_FULL = "pool_full"
    OVERRUN = "overrun"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    PAUSED = "paused"
    RESTART = "restart"
    DISABLED = "disabled"
    CANCELLED = "cancelled"
    NO_ONUS = "no_onus"
    DEVICE = "device"  # it answered, with an error
    WORKER_LOST = "worker_lost"
    INTERNAL = "internal"
    PENDING = "pending"  # not ended when the hour was judged
    UNKNOWN = "unknown"


class PollerStatus(StrEnum):
    """Whether a poller holds a composite at the moment."""

    FREE = "FREE"
    BUSY = "BUSY"


class Role(StrEnum):
    """viewer < operator < admin; see portal.domain.roles."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class EventType(StrEnum):
    """Closed set of decision-log events."""

    SLOT_SKIPPED = "SLOT_SKIPPED"
    WORKER_LOST = "WORKER_LOST"
    REQUEUED = "REQUEUED"
    EXECUTION_ABORTED = "EXECUTION_ABORTED"
    POISONED = "POISONED"
    OLT_STATE_CHANGED = "OLT_STATE_CHANGED"
    SUSPECT_TABLE = "SUSPECT_TABLE"
    OLT_RESTARTED = "OLT_RESTARTED"
    OTHER_DEVICE = "OTHER_DEVICE"
    TASK_ADDED = "TASK_ADDED"
    TASK_REMOVED = "TASK_REMOVED"
    TASK_INTERVAL_CHANGED = "TASK_INTERVAL_CHANGED"
    OLT_ENABLED = "OLT_ENABLED"
    OLT_DISABLED = "OLT_DISABLED"
    PLAN_ADJUSTED = "PLAN_ADJUSTED"
    QUOTA_ADJUSTED = "QUOTA_ADJUSTED"
    QUOTA_VIOLATION = "QUOTA_VIOLATION"
    QUOTA_INTERRUPTED = "QUOTA_INTERRUPTED"
    INTERVAL_OVERRIDDEN = "INTERVAL_OVERRIDDEN"
    SYSTEM = "SYSTEM"
