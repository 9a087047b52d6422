"""Numbers, durations and moments as people read them, in both languages."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask, g, session

from portal.web import formatting, live

NOW = datetime(2026, 3, 12, 15, 41, 20, tzinfo=UTC)  # 10:41:20 in Lima


@pytest.fixture
def spanish(app: Flask) -> Iterator[None]:
    with app.test_request_context("/"):
        session["language"], g.now = "es", NOW
        app.preprocess_request()
        yield


@pytest.fixture
def english(app: Flask) -> Iterator[None]:
    with app.test_request_context("/"):
        session["language"], g.now = "en", NOW
        app.preprocess_request()
        yield


def plain(text: str) -> str:
    """Thin spaces as ordinary ones, to keep the tests readable."""
    return str(text).replace(formatting.THIN, " ")


@pytest.mark.usefixtures("spanish")
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: formatting.number(1240), "1 240"),
        (lambda: formatting.number(1234567.891, 2), "1 234 567,89"),
        (lambda: formatting.number(0), "0"),
        (lambda: formatting.number(None), "–"),
        (lambda: formatting.number(-0.04, 1), "0,0"),
        (lambda: formatting.dbm(-21.44), "−21,4 dBm"),
        (lambda: formatting.dbm(None), "–"),
        (lambda: formatting.percent(61.4), "61 %"),
        (lambda: formatting.duration_ms(340), "340 ms"),
        (lambda: formatting.duration_ms(1234), "1,2 s"),
        (lambda: formatting.duration_ms(9999), "10 s"),
        (lambda: formatting.duration_ms(12_400), "12 s"),
        (lambda: formatting.duration_ms(160_000), "2 min 40 s"),
        (lambda: formatting.duration_ms(120_000), "2 min"),
        (lambda: formatting.duration_s(59.6), "1 min"),
        (lambda: formatting.duration_s(11_100), "3 h 5 min"),
        (lambda: formatting.duration_s(4 * 86400 + 7200), "4 d 2 h"),
        (lambda: formatting.duration_ms(None), "–"),
        (lambda: formatting.interval(60), "1 min"),
        (lambda: formatting.interval(5400), "1 h 30 min"),
        (lambda: formatting.interval(86400), "1 d"),
        (lambda: formatting.interval(None), "–"),
        (lambda: formatting.age_words(NOW - timedelta(seconds=40), NOW), "hace 40 s"),
        (lambda: formatting.age_words(NOW - timedelta(minutes=130), NOW), "hace 2 h 10 min"),
        (lambda: formatting.age_words(NOW - timedelta(days=5), NOW), "hace 5 d"),
        (lambda: formatting.age_words(NOW, NOW), "ahora"),
        (lambda: formatting.age_words(NOW + timedelta(seconds=90), NOW), "en 1 min"),
        (lambda: formatting.clock(NOW), "10:41:20"),
        (lambda: formatting.clock(NOW - timedelta(days=1)), "11 mar 10:41"),
        (lambda: formatting.clock(NOW - timedelta(days=400)), "5 feb 2025 10:41"),
    ],
)
def test_spanish_writes_decimal_commas_thin_spaces_and_ages_in_words(made: Callable[[], str], expected: str) -> None:
    assert plain(made()) == expected


@pytest.mark.usefixtures("english")
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: formatting.number(1240), "1,240"),
        (lambda: formatting.dbm(-21.44), "−21.4 dBm"),
        (lambda: formatting.age_words(NOW - timedelta(seconds=40), NOW), "40 s ago"),
        (lambda: formatting.age_words(NOW + timedelta(seconds=40), NOW), "in 40 s"),
    ],
)
def test_english_writes_decimal_points_and_commas(made: Callable[[], str], expected: str) -> None:
    assert plain(made()) == expected


@pytest.mark.usefixtures("spanish")
def test_a_moment_carries_its_absolute_time_and_zone_on_hover() -> None:
    assert plain(formatting.age(NOW - timedelta(seconds=40))) == (
        '<time datetime="2026-03-12T15:40:40.000Z" title="2026-03-12 10:40:40 America/Lima" data-tick="age">'
        "hace 40 s</time>"
    )


@pytest.mark.usefixtures("spanish")
def test_a_missing_moment_is_a_dash_everywhere() -> None:
    assert [str(show(None)) for show in (formatting.age, formatting.elapsed, formatting.countdown, formatting.at)] == [
        "–"
    ] * 4


@pytest.mark.usefixtures("spanish")
def test_the_next_run_counts_down_only_when_it_is_near() -> None:
    near, far = formatting.countdown(NOW + timedelta(minutes=9)), formatting.countdown(NOW + timedelta(hours=2))
    assert ("data-tick" in near, "data-tick" in far) == (True, False)
    assert plain(far).endswith(">12:41</time>")


@pytest.mark.usefixtures("spanish")
def test_a_fragment_in_which_only_time_passed_keeps_its_digest() -> None:
    moment = NOW - timedelta(seconds=40)
    before = f"<p>{formatting.age(moment)}</p>"
    g.now = NOW + timedelta(seconds=7)
    after = f"<p>{formatting.age(moment)}</p>"
    assert before != after
    assert live.digest(before) == live.digest(after)


@pytest.mark.usefixtures("spanish")
def test_a_fragment_whose_moment_is_another_has_another_digest() -> None:
    assert live.digest(formatting.age(NOW)) != live.digest(formatting.age(NOW - timedelta(seconds=1)))


def test_a_fragment_whose_words_changed_has_another_digest() -> None:
    assert live.digest("<p>Pendiente</p>") != live.digest("<p>En curso</p>")
