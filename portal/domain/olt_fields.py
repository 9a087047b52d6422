"""The settings of an OLT and of a credential as a form or a file gives them, and the rules among them. Pure."""

from collections.abc import Mapping
from typing import Any

from portal.domain import addresses, fields
from portal.domain.fields import FieldError, Reader
from portal.domain.messages import N_, Message

LONGEST_REQUEST = 12.0  # seconds; a request must end well before the lease of 15 s does (docs/serialisation.md)

# Of descriptions that are not UTF-8; "" is Windows-1252. Names of Python's codecs; each is a superset of ASCII.
TEXT_ENCODINGS = ("", "gb18030", "gbk", "big5", "cp1250", "cp1251", "koi8-r", "cp1252", "cp850", "iso8859-2", "cp874")


def _encoding(value: object) -> str:
    text = "" if value is None else str(value).strip().lower()
    if text not in TEXT_ENCODINGS:
        listed, given = ", ".join(TEXT_ENCODINGS[1:]), fields.shown(value)
        raise FieldError(N_("must be one of %(accepted)s, not %(given)s", accepted=listed, given=given))
    return text


OLT_SETTINGS: Mapping[str, Reader] = {
    "name": fields.one_line(80, required=True),
    "address": addresses.normalise,
    "port": fields.whole(1, 65535),
    "enabled": fields.flag,
    "site": fields.one_line(60),
    "timeout": fields.number(0.1, LONGEST_REQUEST),
    "retries": fields.whole(0, 10),
    "max_repetitions": fields.whole(1, 50),
    "max_varbinds": fields.whole(1, 500),
    "max_inflight": fields.whole(1, 16),
    "text_encoding": _encoding,
}
OLT_REFERENCES: Mapping[str, Reader] = {
    "brand": fields.one_line(40, required=True),
    "model": fields.one_line(60),
    "credential": fields.one_line(80, required=True),
}
OLT_DEFAULTS: Mapping[str, Any] = {
    "port": 161,
    "enabled": True,
    "site": "",
    "timeout": 2.0,
    "retries": 1,
    "max_repetitions": 20,
    "max_varbinds": 50,
    "max_inflight": 2,
    "text_encoding": "",
}
OLT_REQUIRED = ("name", "address", "brand", "credential")

SECRETS = ("community", "auth_password", "priv_password")
AUTH_PROTOCOLS = ("", "MD5", "SHA")
PRIV_PROTOCOLS = ("", "DES", "AES")
LONGEST_NETWORKS = 1000  # characters
SHORTEST_V3_PASSWORD = 8  # RFC 3414 §11.2


def _version(value: object) -> str:
    text = str(value).strip().lower().removeprefix("v")
    if text not in ("1", "2c", "3"):
        raise FieldError(N_("must be one of 1, 2c, 3, not %(given)s", given=fields.shown(value)))
    return text


def _protocol(accepted: tuple[str, ...]) -> Reader:
    def read(value: object) -> str:
        text = "" if value is None else str(value).strip().upper()
        if text not in accepted:
            listed = ", ".join(accepted[1:])
            given = fields.shown(text)
            raise FieldError(N_("must be one of %(accepted)s, not %(given)s", accepted=listed, given=given))
        return text

    return read


def _networks(value: object) -> str:
    text = addresses.read_networks(value)
    if len(text) > LONGEST_NETWORKS:
        raise FieldError(N_("is longer than %(longest)d characters", longest=LONGEST_NETWORKS))
    return text


CREDENTIAL_FIELDS: Mapping[str, Reader] = {
    "name": fields.one_line(80, required=True),
    "version": _version,
    "community": fields.secret(255),
    "username": fields.one_line(64),
    "auth_protocol": _protocol(AUTH_PROTOCOLS),
    "auth_password": fields.secret(255),
    "priv_protocol": _protocol(PRIV_PROTOCOLS),
    "priv_password": fields.secret(255),
    "networks": _networks,
}
CREDENTIAL_DEFAULTS: Mapping[str, Any] = {
    "version": "2c",
    "community": None,
    "username": "",
    "auth_protocol": "",
    "auth_password": None,
    "priv_protocol": "",
    "priv_password": None,
    "networks": "",
}


_OF_V3 = ("username", "auth_protocol", "auth_password", "priv_protocol", "priv_password")


def check_olt(values: Mapping[str, Any]) -> dict[str, Message]:
    """Errors of a whole OLT: what is missing, and a request that could outlive the lease."""
    errors = {name: N_("is missing") for name in OLT_REQUIRED if not values.get(name)}
    longest = values["timeout"] * (values["retries"] + 1)
    if longest > LONGEST_REQUEST:
        errors["timeout"] = N_(
            "%(timeout)s s with %(retries)d retries is %(longest)s s; timeout times (retries + 1) must be at most"
            " %(limit)s s: lower one of them",
            timeout=f"{values['timeout']:g}",
            retries=values["retries"],
            longest=f"{longest:g}",
            limit=f"{LONGEST_REQUEST:g}",
        )
    return errors


def check_credential(values: Mapping[str, Any]) -> dict[str, Message]:
    """Errors of a whole credential: each version needs its own secrets."""
    if not values.get("name"):
        return {"name": N_("is missing")}
    if values["version"] != "3":
        return {} if values["community"] else {"community": N_("is missing: SNMP 1 and 2c need a community")}
    return _check_v3(values)


def _check_v3(values: Mapping[str, Any]) -> dict[str, Message]:
    errors: dict[str, Message] = {}
    if not values["username"]:
        errors["username"] = N_("is missing: SNMP 3 needs a user name")
    if values["priv_protocol"] and not values["auth_protocol"]:
        errors["auth_protocol"] = N_("is missing: encryption (priv) needs authentication (auth) too")
    for kind in ("auth", "priv"):
        protocol, password = values[f"{kind}_protocol"], values[f"{kind}_password"]
        if protocol and len(password or "") < SHORTEST_V3_PASSWORD:
            errors[f"{kind}_password"] = N_("must have at least %(least)d characters", least=SHORTEST_V3_PASSWORD)
        if password and not protocol:
            errors[f"{kind}_protocol"] = N_("is missing: say which protocol the password is for")
    return errors


def without_unused(values: Mapping[str, Any]) -> dict[str, Any]:
    """The credential without the secrets that its version does not use, so that no forgotten one stays stored."""
    unused = ("community",) if values["version"] == "3" else _OF_V3
    return {name: CREDENTIAL_DEFAULTS[name] if name in unused else value for name, value in values.items()}
