"""How a message is said in words: its moments and durations in the reader's zone, its parts in his language. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.domain.messages import Message

THIN = "\u202f"  # narrow no-break space before a unit


@dataclass(frozen=True)
class At:
    """A moment inside a message: said in the reader's zone."""

    moment: datetime

    def __str__(self) -> str:
        return f"{self.moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Took:
    """A duration inside a message, in milliseconds: 340 ms, 12 s, 4 min 10 s, 3 h 5 min. The same in every language."""

    ms: int

    def __str__(self) -> str:
        if self.ms < 1000:
            return f"{max(0, self.ms)}{THIN}ms"
        seconds = round(self.ms / 1000)
        parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "min"), (0 if seconds >= 3600 else seconds % 60, "s"))
        return " ".join(f"{amount}{THIN}{unit}" for amount, unit in parts if amount)


def say(message: str, translate: Callable[[str], str], when: Callable[[datetime], str]) -> str:
    """A message in a language. `translate`: msgid → text; `when`: moment → text. Other text stays as it is."""
    if not isinstance(message, Message):
        return message
    params = {name: _said(part, translate, when) for name, part in message.params.items()}
    told = translate(message.msgid)
    return told % params if params else told


def _said(part: object, translate: Callable[[str], str], when: Callable[[datetime], str]) -> object:
    if isinstance(part, At):
        return when(part.moment)
    return say(part, translate, when) if isinstance(part, str) else part


def paragraph(messages: Iterable[str], translate: Callable[[str], str], when: Callable[[datetime], str]) -> str:
    """The messages as sentences, one after the other."""
    told = (say(message, translate, when).strip() for message in messages)
    return " ".join(text if text.endswith((".", "?", "”")) else f"{text}." for text in told if text)
