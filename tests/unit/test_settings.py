"""docs/settings.md says what config.py reads; what the tempo divides."""

from dataclasses import asdict
from pathlib import Path

import fakeredis
import pytest

from config import load_settings
from portal import queueing
from portal.domain import tempo
from portal.domain.tempo import NORMAL
from scheduler import periodic
from scheduler.process import LeaderScheduler
from testing import settings_page
from testing.cast import TEMPO

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_every_setting_is_documented_with_its_default_and_meaning_and_nothing_else() -> None:
    lines, rows = PAGE.read_text(encoding="utf-8").splitlines(), settings_page.rows()
    remedy = "run: python -m testing.settings_page > docs/settings.md"
    assert [row for row in rows.values() if row not in lines] == [], remedy
    assert {line.split("`")[1] for line in lines if line.startswith("| `")} == rows.keys(), remedy


PACES = {
    "tick": 1, "leader_lease": 5, "reconcile": 60, "clock_waits": 2, "first_run": 5,
    "reap": 5, "revive": 5, "poller_stats": 10, "decision_log": 3, "coordinate": 5, "close_hours": 15,
    "learn": 60, "reckon": 600, "clean_up": 3600, "send_alerts": 5,
    "bell": 2, "quarantine_look": 0.5, "attend": 2, "redis_sign": 5, "sql_sign": 5, "horse_watch": 5,
    "horse_stuck": 60, "horse_pause": 0.5, "longest_horse_pause": 30, "redis_pause": 0.5, "longest_redis_pause": 5,
    "redis_back": 1, "job_sign": 30, "job_lost": 35, "queue": 10, "redis_answer": 15, "queued_grace": 8,
}  # fmt: skip


def test_without_the_setting_every_pace_is_the_products_own() -> None:
    assert load_settings({"INSTANCE": "/tmp/nowhere", "SECRET_KEY": "x"} | KEYS).tempo == 1
    assert asdict(tempo.at(1)) == PACES


KEYS = {"FERNET_KEYS": "c2VjcmV0LWtleS1mb3ItdGVzdHMtb25seS0zMi1ieSE="}


def test_each_pace_is_divided_by_the_factor() -> None:
    assert asdict(tempo.at(TEMPO)) == pytest.approx({pace: seconds / TEMPO for pace, seconds in PACES.items()})


def test_every_periodic_job_has_its_pace_in_whole_seconds() -> None:
    assert [job.interval() for job in periodic.JOBS] == [PACES[job.pace] for job in periodic.JOBS]
    assert all(job.interval(tempo.at(10)) == max(1, round(PACES[job.pace] / 10)) for job in periodic.JOBS)


def test_a_scheduler_at_another_tempo_schedules_its_jobs_so() -> None:
    redis = fakeredis.FakeStrictRedis()
    scheduler = LeaderScheduler(redis, lambda *_: None, paces=tempo.at(TEMPO))
    periodic.reconcile(scheduler, tempo.at(TEMPO))
    reap = queueing.TaskJob.fetch("periodic-reap", connection=redis)
    assert reap.meta["interval"] == NORMAL.reap / TEMPO


def test_a_connection_waits_for_redis_as_long_as_the_tempo_says() -> None:
    made = queueing.connect_as({"REDIS_URL": "unix:///nowhere", "TEMPO": TEMPO})
    assert made.connection_pool.connection_kwargs["socket_timeout"] == NORMAL.redis_answer / TEMPO
    assert queueing.connect("unix:///nowhere").connection_pool.connection_kwargs["socket_timeout"] == 15
