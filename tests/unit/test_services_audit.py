"""Audit rows never hold a secret."""

from portal.domain.statuses import NodeKind
from portal.services import audit
from portal.tables import Olt
from testing.cast import NOW


def test_what_is_stored_under_a_secrets_name_is_masked_wherever_it_stands() -> None:
    shown = audit.masked(
        {
            "community": ["planted", None],
            "auth_password": "planted",
            "nested": {"api_token": "planted", "name": "rx"},
            "target": "https://planted",
        }
    )
    assert "planted" not in str(shown)
    assert shown["community"] == ["***", None]
    assert shown["nested"]["name"] == "rx"


def test_changes_are_kept_as_plain_json() -> None:
    shown = audit.masked({"kind": NodeKind.GET, "at": [None, NOW], "keys": ("a", "b")})
    assert shown == {"kind": "get", "at": [None, "2026-11-27T10:00:00+00:00"], "keys": ["a", "b"]}


def test_a_difference_names_only_what_changed() -> None:
    assert audit.difference({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == {"b": [2, 3], "c": [None, 4]}


def test_a_subject_is_a_row_or_something_without_one() -> None:
    assert audit._identify(Olt(id=3, name="OLT-LIMA")) == ("olt", 3, "OLT-LIMA")
    assert audit._identify(audit.Subject("catalogue", "files")) == ("catalogue", None, "files")
