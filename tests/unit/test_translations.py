"""Every text that a person sees exists in Spanish, and says the same with the same blanks."""

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[2]
SPANISH = ROOT / "portal" / "translations" / "es" / "LC_MESSAGES" / "messages.po"
METHODS = [("portal/**.py", "python"), ("portal/templates/**.html", "jinja2")]
KEYWORDS = {**DEFAULT_KEYWORDS, "_l": None, "lazy_gettext": None}
BLANK = re.compile(r"%\([a-z_]+\)[a-z]|%%|\{\}")

Key = str | tuple[str, ...]


@pytest.fixture(scope="module")
def spanish() -> Catalog:
    with SPANISH.open("rb") as handle:
        return read_po(handle, locale="es")


@pytest.fixture(scope="module")
def used() -> dict[Key, str]:
    """Each msgid in the sources, and where it stands."""
    found: dict[Key, str] = {}
    for filename, line, text, _comments, _context in extract_from_dir(ROOT / "portal", METHODS_BELOW, {}, KEYWORDS):
        found.setdefault(tuple(text) if isinstance(text, tuple) else text, f"{filename}:{line}")
    return found


METHODS_BELOW = [(pattern.removeprefix("portal/"), method) for pattern, method in METHODS]


def translated(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string)


def test_every_text_in_the_sources_has_a_spanish_translation(spanish: Catalog, used: dict[Key, str]) -> None:
    singular = {key: key[0] if isinstance(key, tuple) else key for key in used}
    missing = [
        f"{used[key]}: {msgid}"
        for key, msgid in singular.items()
        if (message := spanish.get(msgid)) is None or not all(translated(message)) or message.fuzzy
    ]
    assert missing == []


def test_nothing_is_translated_that_no_source_uses(spanish: Catalog, used: dict[Key, str]) -> None:
    known = {key[0] if isinstance(key, tuple) else key for key in used}
    ids = {message.id[0] if isinstance(message.id, tuple) else message.id for message in spanish if message.id}
    assert sorted(ids - known) == []


def test_a_translation_has_the_same_blanks_as_its_text(spanish: Catalog) -> None:
    wrong = []
    for message in (one for one in spanish if one.id):
        ids = message.id if isinstance(message.id, tuple) else (message.id,)
        wanted = {blank for text in ids for blank in BLANK.findall(text)}
        wrong += [text for text in translated(message) if not set(BLANK.findall(text)) <= wanted]
        if not isinstance(message.id, tuple):
            wrong += [text for text in translated(message) if set(BLANK.findall(text)) != wanted]
    assert wrong == []


def test_spanish_does_not_shout_and_does_not_call_the_reader_tu(spanish: Catalog) -> None:
    texts = [text for message in spanish if message.id for text in translated(message)]
    assert [text for text in texts if "!" in text or re.search(r"\b(tú|tu|tus|vos|usted)\b", text, re.IGNORECASE)] == []
