"""Writes docs/settings.md from config.Settings: `python -m testing.settings_page > docs/settings.md`."""

import sys
from dataclasses import Field, fields
from typing import Any

from config import Settings

HEAD = """# Settings

Settings come from the environment or from `.env` beside `app.py` (the environment wins); every one is optional. A
value that cannot be used stops every command with a sentence that names the variable. This page is made from
`config.py` (`python -m testing.settings_page > docs/settings.md`), and a test keeps the two alike.

| variable | default | meaning |
| --- | --- | --- |
"""
TAIL = """
Defaults *made* at the first start (`SECRET_KEY`, `FERNET_KEYS`) are kept in `instance/`, as are the default database
and the socket of the embedded Redis; *found* is the system's. `INSTANCE` names another folder than `instance/`.

**Secrets.** Keep a copy of `instance/fernet_keys` (or of `FERNET_KEYS`): without it no stored SNMP secret can be
read. To change the key: `flask keys new`, put the new key before the old ones in `FERNET_KEYS`, restart, `flask keys
rotate`, remove the old ones.

**Variables of an inventory.** `community_env`, `auth_password_env` and `priv_password_env` in an inventory file name
variables of the environment of `flask import`. In the portal only names that start with `SNMP_` are looked up. `flask
export` writes such names (`SNMP_COMMUNITY_LAB`).
"""


def rows() -> dict[str, str]:
    """Variable → its line of the table."""
    return {item.name.upper(): _row(item) for item in fields(Settings) if item.metadata}


def _row(item: Field[Any]) -> str:
    return f"| `{item.name.upper()}` | {_default(item)} | {item.metadata['doc'].replace('|', chr(92) + '|')} |"


def _default(item: Field[Any]) -> str:
    if item.default in ("", (), None):
        return "made" if item.metadata["secret"] else "found"
    if isinstance(item.default, bool):
        return f"`{int(item.default)}`"
    return f"`{','.join(map(str, item.default)) if isinstance(item.default, tuple) else item.default}`"


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(rows().values()) + "\n" + TAIL


if __name__ == "__main__":
    sys.stdout.write(page())
