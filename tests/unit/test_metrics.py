"""Every reading that the shipped catalogue offers has a name on pages; the chart shows what was read and no more."""

from portal.domain.series import Step
from portal.services.cataloguing.catalogue import load_shipped
from portal.web.metrics import EPON, METRICS, chart, meaning
from portal.web.state_words import STATE_WORDS
from testing.cast import DAY, NOW
from testing.tables import differing

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


def test_a_line_is_drawn_where_there_were_readings() -> None:
    cases = {
        "a value holds until the next change, the last one until now": (drawn((9, -20.0), (3.5, -21.0)), [[0, 600]]),
        "where there was no reading the line has a gap": (
            drawn((7, -20.0), (3.5, None), (1.75, -21.0)),
            [[0, 300], [450, 600]],
        ),
        "it ends where readings ended": (drawn((7, -20.0), (5.25, -22.0), (3.5, None)), [[0, 300]]),
        "one value that never changed is a line too": (drawn((30, -20.0)), [[0, 600]]),
        "even a short one": (drawn((3.5, -20.0), (1.75, None)), [[300, 450]]),
    }
    assert differing(cases) == {}


def test_a_value_holds_no_longer_than_it_was_read() -> None:
    samples = [Step(NOW - 30 * DAY, -20.0)]
    found = chart(samples, NOW - 7 * DAY, NOW, until=NOW - 3.5 * DAY)
    assert found is not None
    assert found.lines[0].split()[-1].startswith("300.0,")
    assert chart(samples, NOW - 7 * DAY, NOW, until=NOW - 8 * DAY) is None
