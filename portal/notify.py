"""The transport of alerts: the only file that knows Apprise. It checks an address, and sends one message to it.

An address is a secret (it holds passwords and tokens): nothing that leaves this file repeats it.
"""

import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import apprise
from apprise.plugins.base import NotifyBase

from portal.domain.messages import N_, Message

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
TOTAL_SECONDS = 15.0  # for one message, whatever its service makes of it

# Services whose host is a server and no secret; of the others (Telegram's host is the token) only the scheme is shown.
WITH_HOST = frozenset(
    ("mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms", "gotify", "gotifys", "mmost", "mmosts",
     "rocket", "rockets", "matrix", "matrixs", "signal", "signals", "hassio", "hassios", "zulip")
)  # fmt: skip
SCHEMES = WITH_HOST | {
    "tgram", "slack", "discord", "gchat", "workflows", "wxteams", "ntfy", "ntfys", "pover", "pbul", "twilio",
    "whatsapp",
}  # fmt: skip
_OWN_NTFY = "private"  # ntfy's mode with a server of one's own
_HOST_IS_TOKEN = ("t2bot",)  # modes (Matrix's) in which the service keeps a token as its host
_NAMED = re.compile(r"[\w:\[\]-]{1,63}(?:\.[\w-]{1,63})*\.?")  # what a server can be called; a longer part is a token
_PASTED = "https"  # as Slack, Discord, Teams … show it: Apprise knows which service it is
_SILENT = ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib", "markdown")

NOT_IN_TIME = N_("The receiver did not answer in time")
NO_NAME = N_("The receiver's name cannot be found (DNS)")
NO_NETWORK = N_("The network of the receiver cannot be reached")
NOBODY_LISTENS = N_("The receiver refuses the connection")
UNTRUSTED = N_("The receiver's certificate is not trusted")
NO_TLS = N_("No secure connection (TLS) to the receiver is possible")
BROKEN_OFF = N_("The connection to the receiver broke")
WHO_ARE_YOU = N_("The receiver refused the user, password or token")
REFUSED = N_("The receiver refused the message")
SEVERAL = N_(
    "leads to several targets; make a channel for each: one that fails would repeat each message to the others"
)

# What the library says, from its sources, in the order in which it is looked for.
_SIGNS = (
    (NO_NAME, re.compile(r"NameResolutionError|Name or service not known|Temporary failure in name|gaierror")),
    (UNTRUSTED, re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed")),
    (NO_TLS, re.compile(r"SSLError|\[SSL|STARTTLS", re.IGNORECASE)),
    (NOBODY_LISTENS, re.compile(r"Connection refused")),
    (NO_NETWORK, re.compile(r"Network is unreachable|No route to host")),
    (NOT_IN_TIME, re.compile(r"[Tt]imed? ?out|Timeout")),
    (WHO_ARE_YOU, re.compile(r"error=40[13]\b|SMTPAuthenticationError|\b535\b|Unauthorized", re.IGNORECASE)),
    (REFUSED, re.compile(r"error=\d+|SMTP(?:Recipients|Sender|Data)")),
    (BROKEN_OFF, re.compile(r"Connection error|Socket Exception|SMTPServerDisconnected", re.IGNORECASE)),
)  # fmt: skip
_ERRNO = re.compile(r"\[Errno -?\d+\] [A-Za-z ]+")
LONGEST_ANSWER = 255


class BadAddress(ValueError):
    """What was given is no address of a channel; `message` says why, without repeating it."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class DeliveryFailed(Exception):
    """A message was not taken. `message`: why, one of the sentences here; `answer`: what was heard, in any language."""

    def __init__(self, message: Message, answer: str = "") -> None:
        super().__init__(f"{message}: {answer}" if answer else message)
        self.message = message
        self.answer = answer


@dataclass(frozen=True)
class Shown:
    """All that may be shown of an address; `host` is "" where it is a secret."""

    kind: str
    host: str


class _Heard(NamedTuple):
    level: str
    text: str


def look(url: str) -> Shown:
    """What may be shown of an address. Nothing is sent.

    BadAddress when no message could ever be sent to it, or when it leads to several targets: one of them that refuses
    would make the others get each message again and again.
    """
    service, scheme = _service(url)
    if len(service) > 1:
        raise BadAddress(SEVERAL)
    kind = scheme if scheme in SCHEMES else _scheme_of(service)
    return Shown(kind, _host(service, kind))


def send(url: str, title: str, body: str) -> None:
    """Send one message and wait until it is taken, TOTAL_SECONDS at most. BadAddress or DeliveryFailed when it is not.

    DeliveryFailed does not prove that nothing arrived: an answer may have been lost.
    """
    service, _scheme = _service(url)
    outbox = apprise.Apprise(asset=service.asset)
    outbox.add(service)
    result = _in_time(
        partial(
            outbox.notify, body=body, title=title, notify_type=apprise.NotifyType.WARNING,
            body_format=apprise.NotifyFormat.TEXT, log_level=logging.DEBUG,
        )
    )  # fmt: skip
    if not result:
        raise _failure(url, service, [_Heard(entry.level, entry.message) for entry in result.logs()])


def _in_time(notify: Callable[[], apprise.AppriseResult]) -> apprise.AppriseResult:
    """What `notify` returns; DeliveryFailed after TOTAL_SECONDS, when its thread is left behind.

    Apprise has a deadline of its own, on a pool of threads that it keeps: in a process forked after the pool was
    made those threads do not exist, so that nothing is ever sent, and a process that gave up could not end.
    """
    done: Future[apprise.AppriseResult] = Future()

    def work() -> None:
        try:
            done.set_result(notify())
        except BaseException as failure:  # whatever it is, it belongs to the caller
            done.set_exception(failure)

    threading.Thread(target=work, name="alert", daemon=True).start()
    try:
        return done.result(TOTAL_SECONDS)
    except TimeoutError:
        raise DeliveryFailed(NOT_IN_TIME) from None


def _service(url: str) -> tuple[NotifyBase, str]:
    """The service behind an address, with our time-outs instead of its own; its scheme."""
    _hush()
    scheme, mark, _rest = url.strip().partition("://")
    scheme = scheme.lower()
    if not mark:
        raise BadAddress(N_("is no address: it begins with the service, such as mailto:// or tgram://"))
    if scheme not in SCHEMES and scheme != _PASTED:
        known = ", ".join(sorted(SCHEMES))
        raise BadAddress(N_("begins with no service that is known here. Known: %(known)s", known=known))
    service = apprise.Apprise.instantiate(url.strip(), asset=_asset())
    if service is None or _scheme_of(service) not in SCHEMES:
        raise BadAddress(_incomplete(scheme))
    # An address could also ask to be repeated, to be followed elsewhere, or that a failure counts as success.
    service.retry, service.optional, service.redirects = 0, False, False
    service.socket_connect_timeout = CONNECT_SECONDS
    service.socket_read_timeout = READ_SECONDS
    return service, scheme


def _incomplete(scheme: str) -> Message:
    if scheme == _PASTED:
        return N_("is the web address of no service that is known here; for a webhook of your own write jsons://")
    return N_("is no complete address of %(kind)s://; docs/alerts.md has examples", kind=scheme)


def _asset() -> apprise.AppriseAsset:
    """How messages look: ours, and without pictures that a receiver would fetch from elsewhere."""
    return apprise.AppriseAsset(
        app_id="Facho Deluxe", app_desc="Facho Deluxe", app_url="", image_url_mask="", image_url_logo="",
        async_mode=False, interpret_emojis=False, secure_logging=True,
        service_timeout=0,  # the deadline is ours, see _in_time
    )  # fmt: skip


def _hush() -> None:
    """At level DEBUG the libraries below log addresses with their tokens: none of theirs reaches our logs.

    Apprise's own is at DEBUG always, for us: only there it says what kept it from connecting.
    """
    logging.getLogger(_SILENT[0]).setLevel(logging.DEBUG)
    for name in _SILENT:
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def _scheme_of(service: NotifyBase) -> str:
    """A scheme of the service, one of SCHEMES where there is one."""
    own = [*_listed(service.secure_protocol), *_listed(service.protocol)]
    return next((scheme for scheme in own if scheme in SCHEMES), own[0] if own else "")


def _listed(schemes: object) -> list[str]:
    if schemes is None:
        return []
    return [schemes] if isinstance(schemes, str) else [str(scheme) for scheme in schemes]  # type: ignore[attr-defined]


def _host(service: NotifyBase, kind: str) -> str:
    """The server that the service will talk to, "" where what stands in its place is a secret.

    Asked of the service, not of the address: several services take a token or a topic where others have the host.
    """
    mode = getattr(service, "mode", None)
    if kind in ("ntfy", "ntfys"):  # ntfy://topic is the topic at ntfy.sh, and who knows a topic can read it
        shown = mode == _OWN_NTFY
    else:
        shown = kind in WITH_HOST and mode not in _HOST_IS_TOKEN
    host = str(service.host or "") if shown else ""
    return host if _NAMED.fullmatch(host) else ""


def _failure(url: str, service: NotifyBase, heard: list[_Heard]) -> DeliveryFailed:
    """The sentence that fits what the library said, and its words without anything of the address."""
    everything = "\n".join(one.text for one in heard)
    message = next((sentence for sentence, sign in _SIGNS if sign.search(everything)), REFUSED)
    told = [one.text for one in heard if one.level in ("WARNING", "ERROR", "CRITICAL")]
    system = _ERRNO.search(everything)
    answer = system[0] if system else told[-1] if told else ""
    return DeliveryFailed(message, _without_secrets(url, service, " ".join(answer.split()))[:LONGEST_ANSWER])


def _without_secrets(url: str, service: NotifyBase, text: str) -> str:
    """`text` with three stars for each part of the address, its host excepted where that is shown."""
    shown = _host(service, _scheme_of(service))
    parts = re.split(r"[/:@?&=;,+#]+", url.partition("://")[2])
    secrets = {form for part in parts for form in (part, unquote(part)) if len(form) > 3 and form != shown}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
