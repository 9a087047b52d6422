"""Secrets are written in another way each time, and never into an audit row."""

import secrets

from portal.domain.masking import MASK_BYTES, masked, unmasked
from portal.domain.statuses import NodeKind
from portal.services import audit
from portal.tables import Olt
from testing.cast import NOW

TOKEN = "IjFhMmIzYyI.Z0mXYQ.abcdefghijklmnopqrstuvwxyz0"  # noqa: S105  (the shape of one)


def test_what_was_masked_is_read_back_and_what_is_not_masked_stays_as_it_is() -> None:
    assert unmasked(masked(TOKEN, secrets.token_bytes(MASK_BYTES))) == TOKEN
    texts = [TOKEN, "", "x", "ñandú", "no token", "====", "AAAA" * 40 + "!"]
    assert [unmasked(text) for text in texts] == texts


def test_two_copies_have_nothing_in_common_with_the_secret_or_each_other() -> None:
    first, second = (masked(TOKEN, bytes(range(at, at + MASK_BYTES))) for at in (1, 90))
    assert TOKEN[:8] not in first
    assert all(first[at : at + 8] not in second for at in range(0, len(first) - 8))


def test_any_letters_give_a_text_and_never_an_error() -> None:
    for size in range(60):
        assert isinstance(unmasked("A" * size), str)


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
