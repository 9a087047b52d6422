"""Periodic upkeep on the maintenance queue: the pool's history, and deleting what is past its time."""

import logging
from datetime import UTC, datetime

from flask import current_app

from portal.services import retention
from portal.services.dispatch import pool

log = logging.getLogger(__name__)


def record_poller_stats() -> None:
    """Entry function: one row of the pool's history (each 10 s)."""
    pool.record_stats(datetime.now(UTC))


def clean_up() -> None:
    """Entry function: retention (each hour)."""
    config = current_app.config
    gone = retention.clean_up(datetime.now(UTC), config["RETENTION_DAYS"], config["RETENTION_FAILED_DAYS"])
    log.info("event=cleaned rows=%d", gone)
