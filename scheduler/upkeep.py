"""Periodic upkeep: the pool's history, the log's file, sending alerts, deleting what is past its time."""

import logging
import time
from pathlib import Path

from flask import current_app

from portal import clock, notify
from portal.services import decision_file, retention
from portal.services.alerting import delivery
from portal.services.coordinating import forecasts, paces, phases
from portal.services.dispatch import pool
from portal.services.dispatch.clock import portal_zone

log = logging.getLogger(__name__)


def record_poller_stats() -> None:
    """Entry function: one row of the pool's history (each 10 s)."""
    pool.record_stats(clock.now())


def write_decision_log() -> None:
    """Entry function: new decisions go to logs/coordinator/main.log (each 3 s)."""
    decision_file.follow(Path(current_app.config["COORDINATOR_LOG"]), portal_zone())


def send_alerts() -> None:
    """Entry function: what waits in the outbox of alerts leaves (each 5 s, on a queue of its own)."""
    delivery.deliver(clock.now(), notify.send)


def learn() -> None:
    """Entry function: paces from what has run, and from them how the present hour will end (each minute)."""
    now = clock.now()
    runs, told = paces.learn(now), forecasts.forecast_hour(now)
    if runs or told:
        log.info("event=learned runs=%d forecasts=%d", runs, told)


def reckon() -> None:
    """Entry function: where clocks should strike (each 10 minutes; a second or two for a thousand OLTs)."""
    began = time.monotonic()
    moves = phases.reckon(clock.now())
    log.info("event=reckoned moves=%d seconds=%.1f", moves, time.monotonic() - began)


def clean_up() -> None:
    """Entry function: retention (each hour)."""
    config = current_app.config
    kept = (
        "RETENTION_DAYS", "RETENTION_FAILED_DAYS", "LEDGER_RETENTION_DAYS", "PLAN_RETENTION_DAYS",
        "QUOTA_RETENTION_DAYS", "GONE_ONU_DAYS",
    )  # fmt: skip
    gone = retention.clean_up(clock.now(), *(config[name] for name in kept))
    log.info("event=cleaned rows=%d", gone)
