"""Every table by its name: whoever imports this has all of them in the metadata. Rules live in services."""

from portal.models.account import ApiToken, AuditLog, Setting, User
from portal.models.alert import Channel, Notification
from portal.models.catalogue import Brand, IndexFormula, Oid, OltIndexFamily, OltModel, StateMap
from portal.models.coordination import (
    CoordinatorHour,
    CoordinatorLog,
    CoordinatorState,
    ExecutionPlan,
    NodePace,
    PhaseAdvice,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
)
from portal.models.credential import Credential
from portal.models.device import OltDevice
from portal.models.execution import Execution, ExecutionAttempt, ExecutionStep, NodeDay
from portal.models.olt import (
    Olt,
    TemplateNode,
    TemplateRollout,
    Workflow,
    WorkflowNode,
    WorkflowRevision,
    WorkflowTemplate,
)
from portal.models.onu import OltRead, Onu, OnuData, OnuEvent, OnuHistory, PonPort
from portal.models.part import OltData, OltHistory
from portal.models.poller import Poller, PollerStats, Pool, SchedulerState
from portal.models.probe import Probe, ProbeStatus
from portal.models.table_size import TableSize
from portal.models.trial import Trial, TrialMode, TrialStatus

__all__ = [
    "ApiToken",
    "AuditLog",
    "Brand",
    "Channel",
    "CoordinatorHour",
    "CoordinatorLog",
    "CoordinatorState",
    "Credential",
    "Execution",
    "ExecutionAttempt",
    "ExecutionPlan",
    "ExecutionStep",
    "IndexFormula",
    "NodeDay",
    "NodePace",
    "Notification",
    "Oid",
    "Olt",
    "OltData",
    "OltDevice",
    "OltHistory",
    "OltIndexFamily",
    "OltModel",
    "OltRead",
    "Onu",
    "OnuData",
    "OnuEvent",
    "OnuHistory",
    "PhaseAdvice",
    "Poller",
    "PollerStats",
    "PonPort",
    "Pool",
    "Probe",
    "ProbeStatus",
    "QuotaLoss",
    "QuotaTracker",
    "QuotaViolation",
    "SchedulerState",
    "Setting",
    "StateMap",
    "TableSize",
    "TemplateNode",
    "TemplateRollout",
    "Trial",
    "TrialMode",
    "TrialStatus",
    "User",
    "Workflow",
    "WorkflowNode",
    "WorkflowRevision",
    "WorkflowTemplate",
]
