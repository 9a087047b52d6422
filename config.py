"""Typed settings from the environment; refuses nonsense and names the variable. Read by app.py and tests only."""

import hashlib
import os
import re
import secrets
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cryptography.fernet import Fernet
from dotenv import dotenv_values

PROJECT_ROOT = Path(__file__).resolve().parent
COORDINATOR_LOG = "logs/coordinator/main.log"
UNIX_PATH_LIMIT = 100  # sockaddr_un holds 107 bytes; redis and supervisord add a temporary suffix
# In a URL other characters need quoting, and redis-py cannot read CLIENT INFO when a space is in the path.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")


class SettingsError(ValueError):
    """A setting cannot be used; the message names it and says what is accepted."""


def redis_socket(root: Path) -> Path:
    """Path of the embedded Redis' socket for the checkout at `root`; ops/env.sh follows the same rule."""
    path = root / "instance" / "redis.sock"
    if len(os.fsencode(path)) <= UNIX_PATH_LIMIT and PLAIN_PATH.fullmatch(str(path)):
        return path
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"facho-{digest}" / "redis.sock"


def default_redis_url(root: Path) -> str:
    """URL of the embedded Redis server that the Procfile starts."""
    return f"unix://{redis_socket(root)}?db=0"


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"must be a whole number from {low} to {high}, not {text!r}") from None
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}, not {value}")
        return value

    return parse


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {text!r}")
        return text

    return parse


def _descending(text: str) -> tuple[int, ...]:
    parts = tuple(int(part) for part in text.split(",") if part.strip().isdecimal())
    if len(parts) != 3 or text.count(",") != 2 or not 80 >= parts[0] > parts[1] > parts[2] >= 0:
        raise ValueError(f"must be three falling percentages, at most 80, such as 70,50,20; not {text!r}")
    return parts


def _boolean(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(f"must be 1 or 0, not {text!r}")
    return words[text.lower()]


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        raise ValueError(f"is not a time zone such as America/Lima: {text!r}") from None
    return text


PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
LOOPBACK = ("127.0.0.0/8", "::1/128")


def _networks(text: str) -> tuple[str, ...]:
    return tuple(str(ip_network(part.strip())) for part in text.split(",") if part.strip())


def _database(text: str) -> str:
    scheme = urlsplit(text).scheme
    if scheme in ("postgresql", "postgres"):
        return "postgresql+psycopg" + text[len(scheme) :]
    if scheme not in ("sqlite", "postgresql+psycopg"):
        raise ValueError("must start with sqlite:/// or postgresql://")
    return text


def _redis(text: str) -> str:
    if urlsplit(text).scheme not in ("redis", "rediss", "unix"):
        raise ValueError("must start with redis://, rediss:// or unix://")
    return text


def _fernet_keys(text: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    for key in keys:
        try:
            Fernet(key)
        except ValueError:
            raise ValueError("must be Fernet keys separated by commas (`flask keys new` makes one)") from None
    return keys


def _system_zone() -> str:
    name = os.environ.get("TZ") or ""
    link = Path("/etc/localtime")
    if not name and link.is_symlink():
        name = str(link.resolve()).partition("zoneinfo/")[2]
    try:
        return _zone(name or "UTC")
    except ValueError:
        return "UTC"


def setting(parse: Callable[[str], Any], doc: str, default: Any = None, *, secret: bool = False) -> Any:
    """A field of Settings: how its text is read, and the sentence that docs/settings.md repeats."""
    return field(default=default, metadata={"parse": parse, "doc": doc, "secret": secret})


@dataclass(frozen=True)
class Settings:
    """All settings. The variable is the field's name in capitals."""

    database_url: str = setting(_database, "Database. Default: SQLite under instance/.", "")
    redis_url: str = setting(_redis, "Redis. Default: the embedded server's socket under instance/.", "")
    secret_key: str = setting(str, "Signs sessions. Default: made at first start in instance/.", "", secret=True)
    fernet_keys: tuple[str, ...] = setting(
        _fernet_keys, "Keys that encrypt SNMP secrets, newest first, separated by commas.", (), secret=True
    )
    pollers: int = setting(_integer(1, 200), "Number of pollers (worker processes that execute composites).", 10)
    timezone: str = setting(_zone, "Zone in which times are shown and cron lines are read.", "")
    # Not LANGUAGE nor HOST: shells and desktops export those for purposes of their own.
    portal_language: str = setting(_choice("es", "en"), "Language where neither user nor browser chose one.", "es")
    bind: str = setting(str, "Address the portal listens on.", "127.0.0.1")
    port: int = setting(_integer(1, 65535), "Port the portal listens on.", 8000)
    cookie_secure: bool = setting(_boolean, "1 when the portal is served over HTTPS (as it should be).", False)
    proxies: int = setting(
        _integer(0, 3),
        "Proxies in front of the portal (TLS): so many of X-Forwarded-For, -Proto and -Host are believed.",
        0,
    )  # fmt: skip
    request_seconds: int = setting(
        _integer(1, 300), "Within so many seconds a request must have arrived whole; else its connection is closed.", 10
    )  # fmt: skip
    demo: bool = setting(_boolean, "1: `make run` also starts two simulated OLTs.", True)
    olt_networks: tuple[str, ...] = setting(
        _networks, "Networks an OLT's address must lie in, separated by commas. Loopback, for simulated OLTs, only "
        "with DEMO=1 or where it is listed; link-local addresses only where they are listed.",
        PRIVATE_NETWORKS + LOOPBACK,
    )  # fmt: skip
    nextcheck_mode: str = setting(
        _choice("grid", "from_end"),
        "A node's next run: `grid` = its next slot, whenever it ran; `from_end` = its interval after the run's end.",
        "grid",
    )  # fmt: skip
    lease_seconds: int = setting(_integer(3, 300), "How long a claim on an OLT lives without a renewal.", 15)
    quarantine_seconds: int = setting(
        _integer(0, 300), "No claims for so long after Redis started or lost its data.", 5
    )  # fmt: skip
    stop_seconds: int = setting(
        _integer(0, 3600), "A poller told to stop lets its composite go on for so long, then it runs elsewhere.", 30
    )  # fmt: skip
    snmp_driver: str = setting(
        _choice("easysnmp", "gufo"),
        "What reads OLTs: `easysnmp` (Net-SNMP), or `gufo` (gufo-snmp, faster with v2c; easysnmp answers its doubts).",
        "easysnmp",
    )  # fmt: skip
    quota_severity: tuple[int, int, int] = setting(
        _descending,
        "Percent of an hour's promised runs from which a violation is LOW, and above which it is MEDIUM and HIGH; "
        "CRITICAL below. From 80 on an hour is no violation.",
        (70, 50, 20),
    )
    auto_pause_after: int = setting(
        _integer(0, 100),
        "So many silences in a row, of tries and of questions each 15 s, make an OLT unreachable; 0 = never.", 3,
    )  # fmt: skip
    alert_language: str = setting(_choice("es", "en"), "Language in which alerts are written.", "es")
    log_level: str = setting(_choice("DEBUG", "INFO", "WARNING", "ERROR"), "Threshold of what is logged.", "INFO")
    coordinator_log: str = setting(
        str, "File of the decision log. Default: logs/coordinator/main.log beside instance/.", ""
    )  # fmt: skip
    retention_days: int = setting(_integer(1, 3650), "Days that executions, steps and attempts are kept.", 14)
    retention_failed_days: int = setting(_integer(1, 3650), "Days that executions that failed are kept.", 30)
    ledger_retention_days: int = setting(
        _integer(1, 3650), "Days that the ledger is kept: per node and day its runs, OLT time and changed values.", 730
    )
    plan_retention_days: int = setting(_integer(1, 365), "Days that execution plans are kept.", 3)
    gone_onu_days: int = setting(
        _integer(0, 3650), "Days after which an ONU that no discovery lists is forgotten, with its history; 0 = never.",
        365,
    )  # fmt: skip
    quota_retention_days: int = setting(
        _integer(8, 3650), "Days that quotas and their losses are kept; violations a year.", 60
    )
    tempo: int = setting(
        _integer(1, 10), "For tests only: every pace of the processes (portal/domain/tempo.py) is divided by so much.",
        1,
    )  # fmt: skip
    instance: Path = field(default=PROJECT_ROOT / "instance", metadata={})


def _kept_secret(path: Path, make: Callable[[], str]) -> str:
    """Content of `path`; made with mode 0600 when absent. Two processes that start at once agree on one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    temporary = make()
    with os.fdopen(descriptor, "w") as handle:
        handle.write(temporary)
    return temporary


def _found(instance: Path, root: Path) -> dict[str, str]:
    """The defaults that depend on the machine."""
    database = f"sqlite:///{instance / 'facho.db'}"
    return {"database_url": database, "redis_url": default_redis_url(root), "timezone": _system_zone()}


def _completed(given: dict[str, Any], instance: Path, root: Path) -> dict[str, Any]:
    """Fill in the defaults that depend on the machine or are generated at first start."""
    for name, value in _found(instance, root).items():
        given.setdefault(name, value)
    if "secret_key" not in given:
        given["secret_key"] = _kept_secret(instance / "secret_key", lambda: secrets.token_urlsafe(48))
    if "fernet_keys" not in given:
        text = _kept_secret(instance / "fernet_keys", lambda: Fernet.generate_key().decode())
        given["fernet_keys"] = _fernet_keys(text)
    return given


def load_settings(environ: Mapping[str, str] | None = None, root: Path = PROJECT_ROOT) -> Settings:
    """Settings from `environ` (default: .env under the root, overridden by the process' environment).

    Raises SettingsError naming the first variable that cannot be used.
    """
    if environ is None:
        environ = {**{k: v for k, v in dotenv_values(root / ".env").items() if v is not None}, **os.environ}
    given: dict[str, Any] = {}
    for item in fields(Settings):
        text = environ.get(item.name.upper(), "").strip()
        if not item.metadata or not text:
            continue
        try:
            given[item.name] = item.metadata["parse"](text)
        except ValueError as error:
            raise SettingsError(f"setting {item.name.upper()} {error}") from None
    if "olt_networks" not in given and not given.get("demo", True):
        given["olt_networks"] = PRIVATE_NETWORKS
    instance = Path(environ.get("INSTANCE", "") or root / "instance")
    return Settings(**_completed(given, instance, root), instance=instance)


class Shown(NamedTuple):
    """A setting as people may see it: texts as they would stand in .env; of a secret only that there is one."""

    value: str
    default: str
    differs: bool
    secret: bool


def described(settings: Settings) -> dict[str, Shown]:
    """Variable → what is in force and what would be without it. Nothing secret is in it."""
    found = _found(settings.instance, PROJECT_ROOT)
    found |= {"coordinator_log": str(settings.instance.parent / COORDINATOR_LOG)}
    shown = {}
    for item in (one for one in fields(Settings) if one.metadata):
        value, default = getattr(settings, item.name), found.get(item.name, item.default)
        if item.metadata["secret"]:
            differs = _kept(settings.instance / item.name) != _plain(value)
            shown[item.name.upper()] = Shown("", "", differs, secret=True)
        else:
            value = default if value == "" else value
            told, without = _without_password(_plain(value)), _without_password(_plain(default))
            shown[item.name.upper()] = Shown(told, without, value != default, secret=False)
    return shown


def _kept(path: Path) -> str:
    """What was made at the first start; "" where nothing was, or it may not be read: then the secret was given."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _without_password(text: str) -> str:
    """A URL with its password masked, wherever SQLAlchemy or redis-py would read one; also one with @ or / in it."""
    text = re.sub(r"([?&][^=&]*pass[^=&]*=)[^&]*", r"\1***", text, flags=re.IGNORECASE)
    return re.sub(r"^([a-z0-9+]+://[^:@]*):.*@", r"\1:***@", text)  # after the other: that one may hold an @


@cache
def version() -> str:
    """Of the product, as pyproject.toml says."""
    return str(tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["version"])


def flask_config(settings: Settings) -> dict[str, Any]:
    """The settings as Flask and its extensions read them."""
    upper = {item.name.upper(): getattr(settings, item.name) for item in fields(Settings)}
    return upper | {
        "VERSION": version(),
        "SETTINGS_SHOWN": described(settings),
        "SQLALCHEMY_DATABASE_URI": settings.database_url,
        "COORDINATOR_LOG": settings.coordinator_log or str(settings.instance.parent / COORDINATOR_LOG),
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SESSION_COOKIE_SECURE": settings.cookie_secure,
        "REMEMBER_COOKIE_HTTPONLY": True,
        "REMEMBER_COOKIE_SECURE": settings.cookie_secure,
        "BABEL_DEFAULT_LOCALE": settings.portal_language,
        "BABEL_DEFAULT_TIMEZONE": settings.timezone,
        "BABEL_TRANSLATION_DIRECTORIES": str(PROJECT_ROOT / "portal" / "translations"),
        "MAX_CONTENT_LENGTH": 4 * 1024 * 1024,
        "MAX_FORM_MEMORY_SIZE": 1024 * 1024,
        "RATELIMIT_STORAGE_URI": "memory://",
        "WTF_CSRF_TIME_LIMIT": None,
    }
