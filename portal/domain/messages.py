"""Text for people that is made where no language is known: English now, translatable later. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

SAID = "said"  # under which the details of a decision keep its Message, packed


class Message(str):
    """English text that remembers msgid and parameters: `gettext(m.msgid, **m.params)` says it in another language."""

    msgid: str
    params: dict[str, object]

    def __new__(cls, msgid: str, **params: object) -> "Message":
        made = super().__new__(cls, msgid % params if params else msgid)
        made.msgid = msgid
        made.params = params
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        return (self.msgid,), self.params


def N_(msgid: str, **params: object) -> Message:  # noqa: N802  (the keyword under which pybabel finds such texts)
    """A Message: `N_("must be at most %(high)d", high=3)`."""
    return Message(msgid, **params)


def joined(messages: Iterable[Message]) -> Message:
    """One message of several, each still to be said in another language. At least one."""
    first, *others = messages
    return Message("%(first)s; %(rest)s", first=first, rest=joined(others)) if others else first


def packed(text: str) -> dict[str, Any] | None:
    """A Message as JSON, which `unpacked` reads back; None for other text."""
    if not isinstance(text, Message):
        return None
    return {"msgid": text.msgid, "params": {name: _packed_part(part) for name, part in text.params.items()}}


def _packed_part(part: object) -> object:
    if isinstance(part, Message):
        return packed(part)
    return part if part is None or isinstance(part, str | int | float) else str(part)


def unpacked(stored: Mapping[str, Any] | None, text: str) -> str:
    """The Message that was packed, or `text` where there was none."""
    if stored is None:
        return text
    params = {name: unpacked(part, "") if isinstance(part, dict) else part for name, part in stored["params"].items()}
    return Message(stored["msgid"], **params)
