"""Nothing that was read is booked to another ONU than stood at that index, whatever changes place meanwhile."""

import pytest
from sqlalchemy.orm import Session

from testing.measuring.swaps import Histories

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whoever_changes_place_between_and_inside_composites_nothing_is_booked_to_another_serial(
    session: Session, seed: int
) -> None:
    histories = Histories(session, seed, groups=60)
    assert histories.run(composites=12) == {}
    assert min(histories.world.changes[kind] for kind in ("swap", "move", "replace", "go", "come")) > 5
