"""Every word of a closed set that pages show has a face, and what a page says of a node agrees with it in gender."""

from collections.abc import Iterable
from enum import StrEnum

import pytest
from flask import Flask

from portal import clock
from portal.domain.statuses import ErrorKind, SkipReason
from portal.queries.queue import Lane
from portal.web import words
from testing import builders, seed
from testing.pages import Visitor, soup


def test_every_member_of_a_set_with_faces_has_one() -> None:
    missing = [f"{kind.__name__}.{one.name}" for kind in words.FACES for one in kind if one not in words.FACES[kind]]
    assert missing == []


@pytest.mark.parametrize(("known", "told"), [(ErrorKind, words.ERRORS), (SkipReason, words.SKIPS), (Lane, words.LANES)])
def test_every_error_reason_and_lane_has_its_words(known: type[StrEnum], told: Iterable[str]) -> None:
    assert set(known) == set(told)


def test_an_olt_is_habilitada_and_a_node_habilitado(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        node_id = builders.make_node(builders.make_olt()).id
    person = Visitor(app)
    person.login("operator")
    labels = [
        soup(person.get(path)).select_one("label:has(#f-enabled)").get_text().strip()  # type: ignore[union-attr]
        for path in ("/olts/1/edit", f"/workflow-nodes/{node_id}/edit")
    ]
    assert labels == ["Habilitada", "Habilitado"]
