"""Every text that a person sees exists in Spanish, and says the same with the same blanks."""

import ast
import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[2]
SPANISH = ROOT / "portal" / "translations" / "es" / "LC_MESSAGES" / "messages.po"
METHODS = [("**.py", "python"), ("templates/**.html", "jinja2")]
KEYWORDS = {**DEFAULT_KEYWORDS, "_l": None, "lazy_gettext": None}
BLANK = re.compile(r"%\([a-z_]+\)[a-z]|%%|\{\}")

Key = tuple[str, str | None]  # msgid (of a plural, its singular), context


@pytest.fixture(scope="module")
def spanish() -> Catalog:
    with SPANISH.open("rb") as handle:
        return read_po(handle, locale="es")


@pytest.fixture(scope="module")
def used() -> dict[Key, str]:
    """Each msgid in the sources, and where it stands."""
    found: dict[Key, str] = {}
    for room in ("portal", "scheduler"):
        for filename, line, text, _comments, context in extract_from_dir(ROOT / room, METHODS, {}, KEYWORDS):
            msgid = text[0] if isinstance(text, tuple) else text
            found.setdefault((msgid, context), f"{filename}:{line}")
    return found


def translated(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string)


def test_templates_translate_their_own_words_only() -> None:
    """In a template what `_` gives is markup already: a device's or a person's text would not be escaped."""
    calls = re.compile(r"""(?<![\w.])(?:_|gettext|ngettext|pgettext)\(\s*(?!["'])[^)\n]*""")
    found = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in (ROOT / "portal" / "templates").rglob("*.html")
        for call in calls.findall(path.read_text())
    ]
    assert found == []


def test_no_text_stands_inside_an_f_string_where_the_extractor_does_not_see_it() -> None:
    names = {"_", "_l", "N_", "gettext", "ngettext", "pgettext", "lazy_gettext"}
    hidden = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for room in ("portal", "scheduler", "jobs")
        for path in (ROOT / room).rglob("*.py")
        for text in ast.walk(ast.parse(path.read_text()))
        if isinstance(text, ast.JoinedStr)
        for call in ast.walk(text)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names
    ]
    assert hidden == []


def test_every_text_in_the_sources_has_a_spanish_translation(spanish: Catalog, used: dict[Key, str]) -> None:
    missing = [
        f"{place}: {msgid}"
        for (msgid, context), place in used.items()
        if (message := spanish.get(msgid, context)) is None or not all(translated(message)) or message.fuzzy
    ]
    assert missing == []


def test_nothing_is_translated_that_no_source_uses(spanish: Catalog, used: dict[Key, str]) -> None:
    known = {(one.id[0] if isinstance(one.id, tuple) else one.id, one.context) for one in spanish if one.id}
    assert sorted(known - set(used), key=str) == []


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
