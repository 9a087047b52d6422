"""What the palette finds: OLTs and ONUs by whatever is known of them. Reads only, two or three statements."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, select

from portal.domain.statuses import OltCondition
from portal.extensions import db
from portal.queries import onus as onu_list
from portal.queries.freshness import condition
from portal.queries.matching import contains
from portal.tables import Olt

OLTS, ONUS = 6, 8
SHORTEST_FOR_ONUS = 3  # of fewer letters nearly every ONU has them


@dataclass(frozen=True)
class OltHit:
    """An OLT with what its state is told from."""

    id: int
    name: str
    address: str
    enabled: bool
    condition: OltCondition
    paused_until: datetime | None


@dataclass(frozen=True)
class Found:
    """The hits. `wide`: there are so many ONUs that none is shown: more has to be written."""

    olts: tuple[OltHit, ...] = ()
    onus: tuple[onu_list.OnuRow, ...] = ()
    wide: bool = False


def find(q: str) -> Found:
    """OLTs whose name or address holds `q`, those first whose name begins with it; ONUs as their page finds them."""
    if not q:
        return Found()
    begins = case((func.lower(Olt.name).startswith(q.lower(), autoescape=True), 0), else_=1)
    query = (
        select(Olt.id, Olt.name, Olt.address, Olt.enabled, condition, Olt.paused_until)
        .where(Olt.deleted_at.is_(None), contains(Olt.name, q) | contains(Olt.address, q))
        .order_by(begins, func.lower(Olt.name))
        .limit(OLTS)
    )
    olts = tuple(OltHit(*row) for row in db.session.execute(query))
    if len(q) < SHORTEST_FOR_ONUS:
        return Found(olts)
    wanted = onu_list.find(onu_list.OnuFilter(q=q))
    if wanted is None:
        return Found(olts, wide=True)
    rows = onu_list.page(wanted, size=ONUS).rows if wanted.found else ()
    return Found(olts, tuple(rows))
