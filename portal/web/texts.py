"""Texts of the portal in the reader's language: where they come from, and `_` as templates call it."""

from typing import Any

from babel.support import NullTranslations
from flask import Flask
from flask_babel import Domain
from markupsafe import Markup

from portal import translating
from portal.web.formatting import language


class PoDomain(Domain):  # type: ignore[misc]  # Flask-Babel ships no types
    """Translations straight from messages.po, read once per process: nothing compiled can be stale or missing."""

    def get_translations(self) -> NullTranslations:
        """The catalogue of this request's language; English, the language of the msgids, where there is none."""
        name = language()
        if name not in self.cache:
            self.cache[name] = translating.read(self.translation_directories, name)
        found: NullTranslations = self.cache[name]
        return found


class Texts:
    """`_` and `ngettext` of templates. A list says the same few words hundreds of times: each is looked up once."""

    def __init__(self, domain: PoDomain) -> None:
        self._domain = domain
        self._said: dict[tuple[str, str], Markup] = {}
        self._bare: dict[tuple[str, str], Markup] = {}

    def gettext(self, text: str, /, **variables: Any) -> Markup:
        """The text with its variables, which are escaped; a % of its own is written %%."""
        key = (language(), text)
        if not variables:
            found = self._bare.get(key)
            if found is None:
                found = self._bare[key] = self._translated(key) % {}
            return found
        return self._translated(key) % variables

    def ngettext(self, one: str, many: str, num: int, /, **variables: Any) -> Markup:
        """The text for so many, known to it as `num`."""
        found = Markup(self._domain.get_translations().ungettext(one, many, num))  # noqa: S704  (our own texts)
        return found % {"num": num, **variables}

    def _translated(self, key: tuple[str, str]) -> Markup:
        found = self._said.get(key)
        if found is None:
            text = self._domain.get_translations().ugettext(key[1])
            found = self._said[key] = Markup(text)  # noqa: S704  (our own texts)
        return found


def init_texts(app: Flask) -> None:
    """After Flask-Babel: its functions for templates give way to these."""
    domain = PoDomain()
    texts = Texts(domain)
    app.before_request_funcs.setdefault(None, []).insert(0, domain.as_default)
    app.jinja_env.globals.update(_=texts.gettext, gettext=texts.gettext, ngettext=texts.ngettext)
