"""Translations straight from messages.po, for pages and for what is said without one. Nothing compiled can be stale."""

from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations

from portal.domain.messages import Message


def read(directories: Iterable[str | Path], language: str) -> NullTranslations:
    """The catalogue of `language` (two letters); English, the language of the msgids, where there is none."""
    for directory in directories:
        path = Path(directory) / language / "LC_MESSAGES" / "messages.po"
        if path.exists():
            return _parsed(path, path.stat().st_mtime_ns)
    return NullTranslations()


@cache
def _parsed(path: Path, _changed: int) -> Translations:
    """Once per process: parsing takes a tenth of a second."""
    compiled = BytesIO()
    with path.open("rb") as text:
        write_mo(compiled, read_po(text, locale=path.parts[-3]))
    compiled.seek(0)
    return Translations(compiled)


def say(catalogue: NullTranslations, text: str) -> str:
    """A message in the catalogue's language, also those that are a part of it; other text as it is."""
    if not isinstance(text, Message):
        return text
    params = {name: say(catalogue, part) if isinstance(part, str) else part for name, part in text.params.items()}
    told: str = catalogue.gettext(text.msgid) if text.msgid else ""
    return told % params if params else told
