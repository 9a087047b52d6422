"""A secret that is written in another way each time, and read back."""

import secrets

import pytest

from portal.domain.masking import MASK_BYTES, masked, unmasked

TOKEN = "IjFhMmIzYyI.Z0mXYQ.abcdefghijklmnopqrstuvwxyz0"  # noqa: S105  (the shape of one)


def test_what_was_masked_is_read_back() -> None:
    assert unmasked(masked(TOKEN, secrets.token_bytes(MASK_BYTES))) == TOKEN


def test_two_copies_have_nothing_in_common_with_the_secret_or_each_other() -> None:
    first, second = (masked(TOKEN, bytes(range(at, at + MASK_BYTES))) for at in (1, 90))
    assert TOKEN[:8] not in first
    assert all(first[at : at + 8] not in second for at in range(0, len(first) - 8))


@pytest.mark.parametrize("text", [TOKEN, "", "x", "ñandú", "no token", "====", "AAAA" * 40 + "!"])
def test_what_is_not_masked_stays_as_it_is(text: str) -> None:
    assert unmasked(text) == text


def test_any_letters_give_a_text_and_never_an_error() -> None:
    for size in range(60):
        assert isinstance(unmasked("A" * size), str)
