"""Text for people that is made where no language is known: English now, translatable later. No I/O."""

from collections.abc import Iterable


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
