"""Chaos: everything is killed, frozen, cut off while composites run; do the counts still add up?

The fault goals F1 to F6, F8, F11, F13 and F14 in one run. The judges are the agents' own request log and SQL, not the
code under test. `--no-checkpoints` is the negative control: without the leases' checkpoints overlaps must be found.
`--outage 1800` is F7 in full: Redis is away for half an hour.
Run: `python -m bench.chaos [--postgres] [--composites 400 --kills 10 ...]`.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from jobs import claim, tasks
from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import Execution
from testing.measuring import chaos_figures, chaos_plan, clocks, grounds, judges, stale_writes
from testing.measuring.chaos_plan import Plan, plan_from
from testing.measuring.grounds import Agents, Ground
from testing.measuring.havoc import SCHEDULERS, Havoc

ONUS = 16
REQUEST_MICROSECONDS = 20_000  # with 14 requests a composite, about 0.4 s
LEASE_SECONDS = 3  # longer than the longest request, which is 1 s
SETTLE_SECONDS = 150
OLT_FIELDS = ", timeout: 1, retries: 0, max_repetitions: 3, max_varbinds: 4"

TEMPLATE = """
      - key: discovery
        kind: discovery
        oid: huawei.onu_state
        interval: 60s
        override: chaos
        max_retries: 0
        chain:
          - {key: rx, kind: get, oid: huawei.onu_rx_power}
          - {key: description, kind: get, oid: huawei.onu_description}
      - key: serials
        kind: walk
        oid: huawei.onu_serial
        interval: 60s
        override: chaos
        max_retries: 0
        chain:
          - {key: distance, kind: get, oid: huawei.onu_distance}
          - {key: olt_rx, kind: get, oid: huawei.onu_olt_rx_power}
"""


def run(plan: Plan) -> dict[str, Any]:
    """The whole run; the figures."""
    if not plan.checkpoints:
        _take_checkpoints_away()
    agents = Agents(plan.olts, ONUS, REQUEST_MICROSECONDS)
    settings = {"pollers": plan.pollers, "lease_seconds": LEASE_SECONDS, "auto_pause_after": 0}
    with grounds.folder(plan.keep) as folder:
        with grounds.ground(
            folder, agents, TEMPLATE, postgres=plan.postgres, proxied=True, olt_fields=OLT_FIELDS, **settings
        ) as ground:
            stale_writes.install(db.session())
            stale_writes.prove(db.session())
            outcome = _drive(plan, ground)
            figures, tries = chaos_figures.from_database(outcome, ground.olt_ids())
        figures |= chaos_figures.from_log(list(judges.requests(folder / "requests.log")), tries)
    return figures | {"database": "postgresql" if plan.postgres else "sqlite", "checkpoints": plan.checkpoints}


def _take_checkpoints_away() -> None:
    """In this process, before the product's are forked from it: the product itself has no such switch.

    The heartbeat in the database goes too: it is a second fence, which stops a horse that was frozen for seconds.
    """

    def nothing(*_args: object, **_named: object) -> None:
        return None

    if not callable(getattr(claim.Lease, "checkpoint", None)) or not hasattr(tasks, "_show_alive"):
        raise SystemExit("jobs: there is no Lease.checkpoint() or heartbeat to take away: mend this bench")
    claim.Lease.checkpoint = nothing  # type: ignore[method-assign]
    tasks._show_alive = nothing


def _drive(plan: Plan, ground: Ground) -> chaos_figures.Outcome:
    running = ground.running
    for name in SCHEDULERS:
        running.start(name, "scheduler", "run")
    for name in ("pollers", "maintenance"):
        running.start(name)
    running.wait_until(lambda: grounds.fresh_pollers() == plan.pollers, "all pollers", 60)
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    first = clocks.spread_first_runs(begin, plan.interval)
    havoc = Havoc(running, random.Random(plan.seed), LEASE_SECONDS, plan.outage)
    _do_all(plan, havoc)
    havoc.end()
    until = datetime.now(UTC).replace(microsecond=500_000)  # between two slots
    clocks.stop(until)
    clocks.settle(SETTLE_SECONDS)
    return chaos_figures.Outcome(havoc, first, plan.interval, begin, until, running.proxy.swallow(0.0))


def _do_all(plan: Plan, havoc: Havoc) -> None:
    """Fault after fault, each when its share of the composites is done, until all are done or the time is up."""
    faults = chaos_plan.schedule(plan)
    deadline = time.monotonic() + plan.minutes * 60
    while (done := _done()) < plan.composites and time.monotonic() < deadline:
        havoc.watch()
        while faults and faults[0][0] * plan.composites <= done and havoc.do(faults[0][1]):
            faults.pop(0)
        time.sleep(0.05)


def _done() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).where(Execution.status == ExecutionStatus.SUCCESS)) or 0


def main() -> None:
    """Read the command line, run, print one line of JSON. Ends with 1 when a goal was missed."""
    plan = plan_from(sys.argv[1:], __doc__)
    figures = run(plan)
    figures["missed"] = chaos_figures.missed(figures, plan.composites)
    print(json.dumps(figures))
    sys.exit(bool(figures["missed"]))


if __name__ == "__main__":
    main()
