"""What the API answers about decisions and explanations, as dataclasses. No work is done here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from portal.api.bodies import Next
from portal.domain.explain_facts import LinkKind, Verdict
from portal.domain.statuses import EventType, LossCause, SkipReason


@dataclass(frozen=True)
class Decision:
    """One line of the decision log: what was skipped, stopped, lost or changed."""

    id: int
    timestamp: datetime
    level: Annotated[str, "DEBUG, INFO, WARNING, ERROR or CRITICAL."]
    event_type: EventType
    reason: SkipReason | None
    message: str
    olt_id: int | None
    olt_name: Annotated[str, "Empty when it is about no OLT."]
    node_id: int | None
    node_name: str
    execution_id: int | None
    scheduled_for: Annotated[datetime | None, "The slot; of several skipped ones the last."]
    details: Annotated[dict[str, Any], "Facts, by event type."]


@dataclass(frozen=True)
class DecisionList:
    """One page, newest first."""

    items: list[Decision]
    next: Next
    since: Annotated[datetime | None, "How far back was searched; null: to the beginning of the log."]


@dataclass(frozen=True)
class ExplanationLink:
    """An execution, or a part of the decision log, that the explanation speaks of."""

    kind: LinkKind
    id: Annotated[int, "Of the execution; of the OLT where it is the log."]
    name: str
    url: str


@dataclass(frozen=True)
class Explanation:
    """What became of a slot, and why, from recorded facts only."""

    node_id: int
    node_name: str
    olt_id: int
    olt_name: str
    at: datetime
    slot: Annotated[datetime | None, "The slot that is meant: the latest at or before `at`; null: there was none."]
    verdict: Verdict
    cause: Annotated[LossCause | None, "What the slot was lost to; null when it was not lost."]
    text: Annotated[str, "One paragraph in the language asked for, times in the portal's zone."]
    sentences: list[str]
    links: list[ExplanationLink]
