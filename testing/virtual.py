"""Worlds for the time machine: fifty OLTs of eight nodes as they might be, and cron lines without an app."""

from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

from portal.cron import cron_times
from portal.domain.slots import NextCron
from portal.domain.statuses import NodeKind
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World

CRONS = ("*/15 * * * *", "0,25 * * * *", "30 */2 * * *")
SITES = ("", "lima", "cusco")


def cron_in(zone_name: str) -> NextCron:
    """`portal.cron.following` for a zone of the test's own."""
    zone = ZoneInfo(zone_name)

    @lru_cache(100_000)
    def next_cron(line: str, moment: datetime) -> datetime:
        return next(at for at in cron_times(line, moment, zone) if at > moment)

    return next_cron


def many_olts(
    begin: datetime, seed: int, next_cron: NextCron, *, olts: int = 50, nodes: int = 8, pollers: int = 12,
    intervals: tuple[int, ...] = (900, 3600, 3600), sites: bool = True,
) -> World:  # fmt: skip
    """OLTs with a discovery and GETs, at intervals and cron lines, some slow, where wanted on three sites."""
    chance, made = Random(seed), []
    for olt in range(1, olts + 1):
        for number in range(nodes):
            cron = chance.choice(CRONS) if chance.random() < 0.08 else None
            first = next_cron(cron, begin) if cron else begin + timedelta(seconds=chance.randrange(1, 600))
            kind = NodeKind.GET if number else NodeKind.DISCOVERY
            made.append(
                NodeSpec(
                    olt * 100 + number, olt, f"node-{number}" if number else "discovery", kind,
                    None if cron else chance.choice(intervals), cron, first, priority=chance.choice((20, 40, 90)),
                    max_retries=chance.choice((0, 2)), median=chance.choice((0.8, 3.0, 10.0, 40.0)), time_limit=600,
                )
            )  # fmt: skip
    found = tuple(OltSpec(olt, f"OLT-{olt:02}", SITES[olt % 3] if sites else "") for olt in range(1, olts + 1))
    return World(found, tuple(made), Rules({ALL_SITES: pollers} | ({"lima": 2} if sites else {})))
