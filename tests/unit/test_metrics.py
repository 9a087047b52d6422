"""Every reading that the shipped catalogue offers has a name on pages; the chart shows what was read and no more."""

from portal.domain.series import Step
from portal.services.cataloguing.catalogue import load_shipped
from portal.web.metrics import EPON, METRICS, chart, meaning
from portal.web.state_words import STATE_WORDS
from testing.cast import DAY, NOW

TERMS = {"Ethernet", "GPON", "LCDG", "LOAMi", "LOAi", "LOBi", "LOFi", "LOKi", "LOS", "LOSi", "LOSi/LOBi", "PON LOS",
         "SFi", "SUFi", "TIWi", "loopback"}  # fmt: skip


def test_every_reading_of_the_catalogue_has_a_name() -> None:
    names = {oid.name.removeprefix(EPON) for brand in load_shipped() for oid in brand.oids}
    assert names - set(METRICS) == set()


def test_every_state_of_the_catalogue_has_words_or_is_a_term() -> None:
    labels = {state.label for brand in load_shipped() for one in brand.state_maps for state in one.states.values()}
    assert labels == set(STATE_WORDS) | TERMS


def test_the_readings_whose_texts_are_states_are_those_with_a_state_map() -> None:
    coded = {oid.name.removeprefix(EPON) for brand in load_shipped() for oid in brand.oids if oid.states}
    assert coded == {name for name, known in METRICS.items() if known.coded}


def test_a_key_that_nobody_knows_has_no_meaning() -> None:
    assert meaning("huawei.nonsense") == ""


def drawn(*samples: tuple[float, float | None]) -> list[list[float]]:
    """Of (days ago, dBm): for each line the x of its first and its last point, in a box of 600 for 7 days."""
    found = chart([Step(NOW - ago * DAY, dbm) for ago, dbm in samples], NOW - 7 * DAY, NOW)
    if found is None:
        return []
    xs = [[float(point.split(",")[0]) for point in line.split()] for line in found.lines]
    return [[line[0], line[-1]] for line in xs]


def test_a_value_holds_until_the_next_change_and_the_last_one_until_now() -> None:
    assert drawn((9, -20.0), (3.5, -21.0)) == [[0.0, 600.0]]


def test_where_there_was_no_reading_the_line_has_a_gap() -> None:
    assert drawn((7, -20.0), (3.5, None), (1.75, -21.0)) == [[0.0, 300.0], [450.0, 600.0]]


def test_the_line_ends_where_readings_ended() -> None:
    assert drawn((7, -20.0), (5.25, -22.0), (3.5, None)) == [[0.0, 300.0]]


def test_one_value_that_never_changed_is_a_line_too() -> None:
    assert drawn((30, -20.0)) == [[0.0, 600.0]]
    assert drawn((3.5, -20.0), (1.75, None)) == [[300.0, 450.0]]


def test_a_value_holds_no_longer_than_it_was_read() -> None:
    samples = [Step(NOW - 30 * DAY, -20.0)]
    found = chart(samples, NOW - 7 * DAY, NOW, until=NOW - 3.5 * DAY)
    assert found is not None
    assert found.lines[0].split()[-1].startswith("300.0,")
    assert chart(samples, NOW - 7 * DAY, NOW, until=NOW - 8 * DAY) is None
