"""Parts of live lists that are made once: the same words as made anew, for the same rights, language and content."""

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, g, render_template_string
from flask_login import login_user
from sqlalchemy import select

from portal.domain.statuses import Role
from portal.extensions import db
from portal.services.network import olts
from portal.tables import Olt, User
from portal.web import kept
from portal.web.kept import Kept
from tests.support.pages import Visitor, soup
from tests.support.web import Clock, reader, written

LIST = ("/olts/", "olts_live")
PART = (
    '{% call kept("part", name) %}{{ name }}: {{ _("Edit") if can("operator") else _("Workflow") }}'
    "{{ made.append(name) or '' }}{% endcall %}"
)


def says(
    app: Flask, username: str, name: str, language: str = "en", fragment: bool = True
) -> tuple[str, Any, list[str]]:
    """The part as somebody sees it, what it asked of their rights, and whether it was made."""
    with app.test_request_context(headers={"Accept-Language": language}):
        login_user(db.session.scalar(select(User).where(User.username == username)))
        app.preprocess_request()
        g.in_fragment, g.asked = fragment, set()
        made: list[str] = []
        return render_template_string(PART, name=name, made=made), g.asked, made


def test_a_part_is_made_once_for_the_same_rights_language_and_content(seeded: Flask) -> None:
    first = says(seeded, "operator", "OLT-1")
    assert first == ("OLT-1: Edit", {Role.OPERATOR}, ["OLT-1"])
    assert says(seeded, "operator", "OLT-1") == ("OLT-1: Edit", {Role.OPERATOR}, [])
    assert says(seeded, "viewer", "OLT-1")[0] == "OLT-1: Workflow"
    assert says(seeded, "operator", "OLT-1", "es")[0] == "OLT-1: Editar"
    assert says(seeded, "operator", "OLT-2")[0] == "OLT-2: Edit"


def test_what_is_shown_in_it_is_escaped_as_ever(seeded: Flask) -> None:
    for _ in range(2):
        assert says(seeded, "viewer", "<b>")[0] == "&lt;b&gt;: Workflow"


def test_a_whole_page_is_never_served_from_there(seeded: Flask) -> None:
    for _ in range(2):
        assert says(seeded, "viewer", "OLT-1", fragment=False)[2] == ["OLT-1"]


def test_the_parts_never_grow_beyond_their_room(seeded: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 3)
    for number in range(8):
        says(seeded, "viewer", f"OLT-{number}")
    parts: Kept = seeded.jinja_env.globals["kept"]  # type: ignore[assignment]
    assert 0 < len(parts._parts) <= 3


@pytest.fixture
def people(shared: Flask, clock: Clock) -> Iterator[dict[str, Visitor]]:
    yield {name: reader(shared, clock, name) for name in ("viewer", "operator")}


def menus(person: Visitor) -> list[str]:
    return [str(menu) for menu in soup(person.fragment(*LIST)).select(".fx-kebab")]


def test_the_menus_of_olts_are_those_of_a_page_made_anew_for_each_role_and_follow_every_change(
    shared: Flask, clock: Clock, people: dict[str, Visitor]
) -> None:
    def compared() -> list[list[str]]:
        clock.now += 10
        found = [menus(one) for one in people.values()]
        parts: Kept = shared.jinja_env.globals["kept"]  # type: ignore[assignment]
        parts._parts.clear()
        clock.now += 10
        assert found == [menus(one) for one in people.values()]
        return found

    seen = compared()
    assert seen[0] != seen[1]
    with shared.app_context():
        olts.set_enabled(1, False, "rosa", clock.now())
    disabled = compared()
    assert disabled != seen
    with written(shared) as session:
        session.get(Olt, 1).name = "OLT-RENAMED"  # type: ignore[union-attr]
    assert "OLT-RENAMED" in str(compared())
