"""What is to be said of an OLT, and whether what is known of its ONUs counts as now.

Expressions for statements that name Olt. Their moment is that of the execution, so that statements can be made once.
"""

from typing import Any

from sqlalchemy import ColumnElement, String, and_, bindparam, case, cast, select

from portal import clock
from portal.domain.statuses import OltCondition, OltState
from portal.models.types import UTCDateTime, Word
from portal.tables import Olt, OltDevice, Onu

_now = bindparam("read_now", callable_=clock.now, type_=UTCDateTime())
_words: Any = Word(OltCondition)

fresh: ColumnElement[bool] = Olt.stale_at > _now
online: ColumnElement[bool | None] = case((fresh, Onu.online))
condition: ColumnElement[OltCondition] = cast(
    case(
        (Olt.enabled.is_(False), OltCondition.DISABLED.value),
        (and_(Olt.state == OltState.UNREACHABLE, Olt.refused), OltCondition.REFUSED.value),
        (Olt.state.in_((OltState.PAUSED, OltState.UNREACHABLE)), cast(Olt.state, String)),
        (
            select(OltDevice.olt_id)
            .where(OltDevice.olt_id == Olt.id, OltDevice.other.is_not(None))
            .correlate(Olt)
            .exists(),
            OltCondition.OTHER_DEVICE.value,
        ),
        (and_(Olt.state == OltState.UP, Olt.stale_at <= _now), OltCondition.FAILING.value),
        else_=cast(Olt.state, String),
    ),
    _words,
)
