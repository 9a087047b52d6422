"""The pollers page and the command of the same name: pools, their size, restarts, saturation, and the history."""

import json
import socket
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import insert, select

from portal import clock
from portal.queries import pollers
from portal.queries.pollers import PoolRow, StatsPoint
from portal.tables import AuditLog, Poller, PollerStats, Pool
from portal.web import charts
from testing import seed
from testing.builders import make_poller, make_pool
from testing.cast import at
from testing.commands import Run, commands
from testing.pages import Visitor, element, missing, path_of, soup, text_of, texts, title_of
from testing.web import delete_rows, english, statements, stored, update_rows, written


def second_pool(app: Flask, **values: Any) -> int:
    """Pool vm2/lima with two idle pollers; its id."""
    now = clock.now()
    given = {"name": "vm2/lima", "host": "vm2", "site": "lima", "pid": 7, "size": 2} | values
    with app.app_context():
        pool = make_pool(now, **given)
        for number in (1, 2):
            make_poller(pool, number, worker=f"w{pool.id}-{number}")
        return pool.id


def sizes(app: Flask) -> list[int]:
    return stored(app, select(Pool.size).order_by(Pool.id))


def requested(app: Flask) -> list[int]:
    """Numbers of the pollers that were asked to restart."""
    return stored(app, select(Poller.poller_id).where(Poller.restart_requested.is_(True)).order_by(Poller.poller_id))


# ----------------------------------------------------------------------------------------------------------------- page


def test_each_pool_is_a_card_with_its_own_pollers(seeded: Flask) -> None:
    second_pool(seeded)
    page = soup(english(seeded, "viewer").get("/pollers/"))
    for number, count, words in ((1, 3, "1 of 3 busy"), (2, 2, "site lima")):
        card = element(page, f"#pool-{number}")
        assert (len(card.select("tbody tr")), missing(card, words)) == (count, [])


def test_a_pool_that_shows_no_sign_says_so_and_offers_no_size(seeded: Flask) -> None:
    update_rows(seeded, Pool, seen_at=clock.now() - timedelta(minutes=3))
    card = element(english(seeded, "admin").get("/pollers/"), "#pool-1 .card-header")
    assert (missing(card, "No sign"), card.select("form")) == ([], [])


def test_a_pool_that_went_away_with_its_pollers_is_not_shown(seeded: Flask) -> None:
    pool_id = second_pool(seeded)
    with written(seeded) as session:
        session.query(Poller).filter_by(pool_id=pool_id).delete()
    update_rows(seeded, Pool, Pool.id == pool_id, seen_at=clock.now() - timedelta(minutes=3))
    assert "vm2/lima" not in text_of(english(seeded).get("/pollers/"))


def test_only_an_administrator_is_offered_sizes_and_restarts(seeded: Flask) -> None:
    pages = [english(seeded, name).get("/pollers/") for name in ("operator", "admin")]
    assert [len(soup(page).select("#pollers_live form")) for page in pages] == [0, 4]  # one size, three restarts


def test_an_administrator_changes_the_size_of_a_running_pool(seeded: Flask) -> None:
    person = english(seeded, "admin")
    answer = person.post("/pollers/pools/1/size", size="12")
    assert (answer.status_code, path_of(answer), sizes(seeded)) == (303, "/pollers/", [12])
    assert missing(person.get("/pollers/"), "Pool vm1: 12 pollers from now on.", "becomes 12 pollers") == []
    (log,) = stored(seeded, select(AuditLog).where(AuditLog.action == "pool.scale"))
    assert (log.actor, log.changes) == ("admin", {"size": [3, 12]})


def test_a_size_that_cannot_be_is_refused_with_what_can(seeded: Flask) -> None:
    person = english(seeded, "admin")
    for size in ("0", "-3", "201", "many", ""):
        assert person.post("/pollers/pools/1/size", size=size).status_code == 303
        assert (sizes(seeded), missing(person.get("/pollers/"), "Must be from 1 to 200")) == ([3], []), size


def test_a_poller_is_asked_to_restart_and_shows_it(seeded: Flask) -> None:
    person = english(seeded, "admin")
    assert "Restart poller 2" in str(element(person.get("/pollers/"), "#p-2 form")["data-confirm"])
    assert person.post("/pollers/2/restart").status_code == 303
    assert len(requested(seeded)) == 1
    row = element(person.get("/pollers/"), "#p-2")
    assert (missing(row, "Restart requested"), row.select("form")) == ([], [])


def test_a_pool_or_poller_that_is_gone_is_told(seeded: Flask) -> None:
    person = english(seeded, "admin")
    assert person.post("/pollers/pools/99/size", size="3").status_code == 404
    person.post("/pollers/99/restart")
    assert "The poller does not exist any more" in text_of(person.get("/pollers/"))


def saturate(app: Flask, pool_id: int, seconds: float) -> None:
    update_rows(app, Poller, Poller.pool_id == pool_id, busy_last_minute=seconds)


def test_the_saturated_pool_is_named_where_there_are_several(seeded: Flask) -> None:
    pool_id = second_pool(seeded)
    saturate(seeded, pool_id, 60.0)
    answer = english(seeded, "admin").get("/pollers/")
    assert title_of(answer) == "The pool vm2/lima is saturated"
    assert missing(answer, "flask pollers scale 4 --pool vm2/lima", "When the machine vm2 has no CPU left") == []


def test_the_number_of_pollers_that_is_proposed_is_set_by_one_click(seeded: Flask) -> None:
    saturate(seeded, 1, 60.0)
    person = english(seeded, "admin")
    form = element(person.get("/pollers/"), ".fx-notice form")
    size = str(element(form, "[name=size]")["value"])
    person.post(str(form["action"]), size=size)
    assert (sizes(seeded), size) == ([6], "6")


@pytest.mark.parametrize(
    ("percent", "alive", "enough"), [(76.0, 10, 13), (100.0, 10, 17), (60.0, 10, 11), (59.0, 10, 10), (0.0, 3, 1)]
)
def test_so_many_pollers_would_be_less_than_60_percent_busy(percent: float, alive: int, enough: int) -> None:
    now = clock.now()
    row = PoolRow(1, "a", "a", None, alive, alive, 0, percent, True, True, 1, now, now)
    assert row.enough == enough
    assert percent * alive / row.enough < 60 <= (percent * alive / (row.enough - 1) if row.enough > 1 else 60)


def test_the_live_part_does_not_read_the_history_nor_the_history_the_pollers(seeded: Flask) -> None:
    person = english(seeded)
    live, past = (person.fragment("/pollers/?span=24h", name).text for name in ("pollers_live", "history_live"))
    assert ("fx-history" in live, "pool-1" in live) == (False, True)
    assert ("fx-history" in past, "pool-1" in past) == (True, False)


# -------------------------------------------------------------------------------------------------------------- history


def filled(app: Flask, now: datetime, seconds: int, every: int = 10) -> None:
    """A row of the history every ten seconds up to `now`: the busy share counts 0 to 99, waiting 0 to 6."""
    moments = [now - timedelta(seconds=ago) for ago in range(seconds, -1, -every)]
    rows = [{"timestamp": at, "busy_percentage": n % 100, "queue_size": n % 7} for n, at in enumerate(moments)]
    delete_rows(app, PollerStats)
    with written(app) as session:
        session.execute(insert(PollerStats), rows)


def thinned_day(app: Flask, now: datetime) -> list[StatsPoint]:
    """The history of a filled day, which keeps each stretch's peak of what waits."""
    with app.app_context():
        points = pollers.history(now - timedelta(days=1))
    assert 150 <= len(points) <= 200
    assert points[-1].at == now
    assert all(point.waiting == 6 for point in points[1:-1])
    return points


def test_a_day_of_history_is_thinned_to_200_points_that_keep_mean_and_peak(app: Flask, now: datetime) -> None:
    filled(app, now, 86_400)
    points = thinned_day(app, now)
    assert sum(point.busy_percent for point in points) / len(points) == pytest.approx(49.5, abs=3)


def test_a_short_history_is_not_thinned_and_none_is_none(app: Flask, now: datetime) -> None:
    filled(app, now, 100)
    with app.app_context():
        assert [point.busy_percent for point in pollers.history(now - timedelta(hours=1))] == list(range(11))
        assert pollers.history(now) == []


def test_the_history_costs_the_same_however_long_it_is(app: Flask) -> None:
    seed.seed(app, "few")
    person = english(app)
    few = statements(app, person, "/pollers/?span=1h")
    filled(app, clock.now(), 86_400, every=30)
    assert statements(app, person, "/pollers/?span=7d") == few <= 14


def test_the_chart_is_a_picture_with_words_and_a_table(seeded: Flask) -> None:
    for span in ("1h", "24h", "7d", "nonsense"):
        page = soup(english(seeded).get(f"/pollers/?span={span}"))
        pictures = page.select(".fx-history svg")
        assert [str(one["aria-label"]).partition(":")[0] for one in pictures] == ["Busy", "Waiting"]
        assert 1 <= len(page.select(".fx-details tbody tr")) <= charts.TABLE_ROWS
        assert texts(page, ".fx-spans [aria-current]") in (["1 hour"], ["24 hours"], ["7 days"])


def test_without_history_the_page_says_when_it_comes(seeded: Flask) -> None:
    delete_rows(seeded, PollerStats)
    assert "No history yet" in text_of(english(seeded).get("/pollers/"))


def test_pools_and_a_thinned_history_on_postgresql(postgresql: Flask, now: datetime) -> None:
    seed.seed(postgresql, "few")
    second_pool(postgresql)
    answer = english(postgresql, "admin").get("/pollers/?span=24h")
    assert (title_of(answer), len(soup(answer).select(".fx-history svg"))) == ("1 of 5 pollers busy", 2)
    filled(postgresql, now, 86_400)
    thinned_day(postgresql, now)


MOMENT = at("10:00:07")
BOX = charts.window(MOMENT, timedelta(hours=1), timedelta(seconds=10), timedelta(minutes=1))


def test_the_right_edge_of_a_chart_moves_in_steps() -> None:
    assert BOX.until == MOMENT.replace(second=0)
    assert BOX.until - BOX.since == timedelta(hours=1)


def test_a_gap_in_the_history_stays_a_gap() -> None:
    minutes = (50, 49, 48, 20, 19, 5)  # the last stands alone and is not drawn
    points = [StatsPoint(BOX.until - timedelta(minutes=ago), 50.0, 3) for ago in minutes]
    curve = charts.busy(points, BOX)
    assert [line.points.split(" ")[0] for line in curve.lines] == ["60.0,50.0", "240.0,50.0"]
    assert curve.lines[1].area == "240.0,100 240.0,50.0 246.0,50.0 246.0,100"
    assert (curve.last, curve.highest) == (50.0, 50.0)


@pytest.mark.parametrize(("value", "top"), [(0, 4), (4, 4), (5, 10), (21, 40), (99, 100), (140, 200), (4001, 10_000)])
def test_the_scale_of_what_waits_ends_at_a_round_number(value: int, top: float) -> None:
    assert charts.round_above(value) == top


def test_the_table_puts_neighbours_together_and_leaves_out_nothing() -> None:
    points = [StatsPoint(BOX.until - timedelta(minutes=200 - n), float(n), n) for n in range(200)]
    lines = charts.table(points)
    assert len(lines) <= charts.TABLE_ROWS
    assert (lines[0].at, lines[0].waiting) == (points[-1].at, 199)
    assert lines[-1].busy_percent <= 4


# -------------------------------------------------------------------------------------------------------------- command


@pytest.fixture
def run(app: Flask) -> Run:
    """Runs `flask pollers <words>`; expects exit code `code`."""
    return commands(app, "pollers")


@pytest.fixture
def ours(seeded: Flask) -> Flask:
    """The pool runs on the host of this test."""
    update_rows(seeded, Pool, host=socket.gethostname())
    return seeded


def test_the_command_lists_when_it_is_called_alone(seeded: Flask, run: Run) -> None:
    assert missing(run().stdout, "OLT-LIMA-01", "pool vm1: 3 pollers for every OLT, 3 alive, 1 busy") == []
    shown = json.loads(run("--json").stdout)
    assert ([pool["name"] for pool in shown["pools"]], len(shown["pollers"])) == (["vm1"], 3)


def test_the_command_says_that_a_pool_is_saturated_and_what_to_type(seeded: Flask, run: Run) -> None:
    saturate(seeded, 1, 60.0)
    assert "saturated (100 %): `flask pollers scale 6 --pool vm1`" in run().stdout


def test_scale_takes_the_only_pool_of_this_host(ours: Flask, run: Run) -> None:
    second_pool(ours)  # on another host
    assert "pool vm1: from 3 to 7 pollers" in run("scale", "7").stdout
    assert sizes(ours) == [7, 2]


def test_several_pools_on_this_host_must_be_told_apart(ours: Flask, run: Run) -> None:
    second_pool(ours, host=socket.gethostname())
    error = run("scale", "7", code=1).stderr
    assert "several pools run on this host: choose one with --pool NAME; running: vm1, vm2/lima" in error
    run("scale", "7", "--pool", "vm2/lima")
    assert sizes(ours) == [3, 7]


def test_a_host_without_a_pool_is_told_which_run(seeded: Flask, run: Run) -> None:
    assert "no pool runs on this host" in run("scale", "7", code=1).stderr
    assert "there is no running pool vm9; running: vm1" in run("scale", "7", "--pool", "vm9", code=1).stderr


@pytest.mark.parametrize("size", ["0", "201", "x"])
def test_scale_refuses_a_size_that_cannot_be(ours: Flask, run: Run, size: str) -> None:
    run("scale", size, code=2)
    assert sizes(ours) == [3]


def test_restart_takes_one_poller_or_all_of_the_pool(ours: Flask, run: Run) -> None:
    assert "restart of poller 2 requested" in run("restart", "2").stdout
    assert requested(ours) == [2]
    assert "2, restarting" not in run().stdout
    assert "FREE, restarting" in run().stdout
    assert "restart of 3 pollers requested" in run("restart").stdout
    assert requested(ours) == [1, 2, 3]
    assert "pool vm1 has no poller 9; there are: 1, 2, 3" in run("restart", "9", code=1).stderr


def test_what_the_pages_offer_is_done_by_a_person_who_is_logged_in(seeded: Flask) -> None:
    stranger = Visitor(seeded)
    stranger.get("/login")
    assert path_of(stranger.post("/pollers/pools/1/size", size="9")).startswith("/login")
    assert sizes(seeded) == [3]
