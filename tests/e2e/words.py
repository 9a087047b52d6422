"""Words of the wrong language on a page: each text of the translation that is not the same in both."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po
from playwright.sync_api import Page
from sqlalchemy import select

from portal.extensions import db
from portal.tables import Notification, Onu, TemplateNode, WorkflowNode
from tests.e2e.conftest import Portal

MESSAGES = Path("portal/translations/es/LC_MESSAGES/messages.po")
BLANK = re.compile(r"%\([a-z_]+\)[a-z]|\{\}")
LETTERS = 5  # a text of fewer could be of either language
SEEN = """() => {
    const found = [document.title];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        if (!walker.currentNode.parentElement.closest("script, style, pre")) found.push(walker.currentNode.data);
    }
    for (const tag of document.body.querySelectorAll("[title], [aria-label], [placeholder], [alt]")) {
        for (const name of ["title", "aria-label", "placeholder", "alt"]) found.push(tag.getAttribute(name) || "");
    }
    return found;
}"""


def _plain(text: str) -> str:
    return " ".join(text.replace("%%", "%").split())


def _messages() -> Iterator[tuple[set[str], set[str]]]:
    """(English, Spanish) of each text that is not the same in both."""
    with MESSAGES.open("rb") as file:
        for message in read_po(file, locale="es"):
            english = {message.id} if isinstance(message.id, str) else set(message.id)
            spanish = {message.string} if isinstance(message.string, str) else set(message.string)
            if not english & spanish and message.id:
                yield {_plain(text) for text in english}, {_plain(text) for text in spanish}


@cache
def foreign(language: str) -> re.Pattern[str]:
    """What a page of `language` may not say: each text of the other, with anything in its blanks."""
    pairs = list(_messages())
    own, other = zip(*pairs, strict=True) if language == "en" else zip(*((es, en) for en, es in pairs), strict=True)
    texts = set[str]().union(*other) - set[str]().union(*own)
    told = [text for text in texts if len(re.findall(r"[^\W\d_]", BLANK.sub("", text))) >= LETTERS]
    return re.compile("|".join(".+".join(map(re.escape, BLANK.split(text))) for text in sorted(told)))


def given_names(portal: Portal) -> set[str]:
    """What people and devices called things, in whatever language: nodes, states of ONUs, alerts that were sent."""
    columns = (WorkflowNode.name, TemplateNode.name, Onu.state_label, Notification.subject)
    with portal.app.app_context():
        found = {str(name) for column in columns for name in db.session.scalars(select(column).distinct())}
        db.session.remove()
    return found


def wrong_words(page: Page, language: str) -> set[str]:
    """Texts, titles and labels of the page that only the other language has."""
    texts = {_plain(text) for text in page.evaluate(SEEN)}
    return {text for text in texts if foreign(language).fullmatch(text.removesuffix(" · Facho Deluxe"))}
