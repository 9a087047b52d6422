"""Forms of OLTs, credentials and workflow nodes: fields, help and what they hand to the services. Rules live there."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from flask_babel import gettext
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_wtf import FlaskForm
from wtforms import (
    BooleanField,
    DateTimeLocalField,
    FloatField,
    HiddenField,
    IntegerField,
    PasswordField,
    SelectField,
    StringField,
    TextAreaField,
)
from wtforms.fields.choices import SelectChoice
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange, Optional, ValidationError

from portal.domain import addresses, intervals
from portal.domain.fields import FieldError
from portal.domain.messages import Message
from portal.domain.olt_fields import LONGEST_NETWORKS, TEXT_ENCODINGS
from portal.domain.statuses import NodeKind
from portal.queries.catalogue import CredentialRow
from portal.services.errors import Invalid, ServiceError
from portal.tables import Brand, Olt, TemplateNode, WorkflowNode
from portal.web.args import LARGEST
from portal.web.formatting import interval, now, zone

KIND_LABELS = {
    NodeKind.DISCOVERY: _l("Discovery: which ONUs exist, and their state"),
    NodeKind.GET: _l("GET: one value of each known ONU"),
    NodeKind.WALK: _l("Walk: a column of ONUs, without asking which are known"),
    NodeKind.TABLE: _l("Table: a table that is not about ONUs, such as PON ports"),
    NodeKind.BULK: _l("Bulk: several columns together"),
}


def said(message: str) -> str:
    """What a service or rule says, in the reader's language and as a sentence's beginning."""
    text = translated(message)
    return text[:1].upper() + text[1:]


def translated(value: object) -> str:
    """A message in the reader's language, also those that are a part of it."""
    if not isinstance(value, Message):
        return str(value)
    params = {name: translated(part) if isinstance(part, str) else part for name, part in value.params.items()}
    return str(gettext(value.msgid, **params))


def refusal(error: ServiceError) -> str:
    """Why a service refused, as a sentence for a message above a page."""
    messages = error.errors.values() if isinstance(error, Invalid) else error.args[:1]
    return " ".join(said(message) for message in messages)


class ErrorForm(FlaskForm):  # type: ignore[misc]  # Flask-WTF ships no types
    """A form that can also show what a service refused."""

    aliases: Mapping[str, str] = {}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Put each message of a service beside its field; what has no field goes above the form."""
        for name, message in errors.items():
            field = self._fields.get(self.aliases.get(name, name))
            if field is None or isinstance(field, HiddenField):
                self.form_errors.append(said(message))
            else:
                field.errors = [*field.errors, said(message)]

    @property
    def problems(self) -> list[str]:
        """Messages that belong to no single field."""
        return [str(message) for message in self.form_errors]


class ActionForm(FlaskForm):  # type: ignore[misc]
    """A button: nothing but the CSRF token."""


def _choices(*pairs: tuple[str, Any]) -> list[SelectChoice]:
    return [SelectChoice(value, label) for value, label in pairs]


class Select(SelectField):  # type: ignore[misc]
    """A select whose choices the macros of ui can show: groups as lists, texts in the reader's language."""

    @property
    def options(self) -> list[tuple[str, Any]]:
        """[(value, text)], and for each group (group, [(value, text)])."""
        made: list[tuple[str, Any]] = []
        for group, members in groupby(self.choices or (), key=lambda choice: choice.optgroup):
            options = [(choice.value, str(choice.label)) for choice in members]
            made += [(group, options)] if group else options
        return made


class DeleteForm(ErrorForm):
    """Confirmation of a deletion, with its reason."""

    reason = StringField(
        _l("Reason"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("Kept with the record of the deletion. For example: replaced, out of service."),
    )


LONGEST_PAUSE = timedelta(days=36_525)
ONE_DAY = timedelta(days=1)  # what passed since then is for the service to refuse


class PauseForm(ErrorForm):
    """Why and until when nothing scheduled starts on some OLTs."""

    reason = StringField(
        _l("Reason"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("Shown wherever the OLT is. For example: work on the power supply."),
    )
    until = DateTimeLocalField(
        _l("Until"),
        validators=[Optional()],
        description=_l("Then it goes on by itself. Empty: until somebody resumes it."),
    )

    def validate_until(self, field: DateTimeLocalField) -> None:
        """WTForms calls this by its name: near enough to be meant, and to be a moment in every zone."""
        here = now().astimezone(zone()).replace(tzinfo=None)
        if field.data and not here - ONE_DAY < field.data < here + LONGEST_PAUSE:
            raise ValidationError(
                _("Must be in the future, less than 100 years away. Empty: until somebody resumes it.")
            )

    def end(self) -> datetime | None:
        """The end as a moment; what is typed is meant in the portal's zone."""
        typed: datetime | None = self.until.data
        return typed.replace(tzinfo=zone()).astimezone(UTC) if typed else None


def pause_ends() -> list[tuple[str, str]]:
    """Ends that are often wanted: (what the button says, what it fills in)."""
    here = now().astimezone(zone())
    morning = (here + timedelta(days=1)).replace(hour=6, minute=0)
    spans = [(interval(hours * 3600), here + timedelta(hours=hours)) for hours in (1, 4)]
    return [(text, f"{at:%Y-%m-%dT%H:%M}") for text, at in [*spans, (_("Tomorrow 06:00"), morning)]]


class OltForm(ErrorForm):
    """An OLT's identity, how to reach it, and how hard it may be asked."""

    aliases = {"brand": "device", "model": "device"}

    name = StringField(
        _l("Name"),
        validators=[DataRequired(), Length(max=80)],
        description=_l("How people call it."),
    )
    device = Select(
        _l("Brand and model"),
        validators=[DataRequired(_l("Choose a brand."))],
        description=_l("Decides which OIDs are offered. The connection test proposes it."),
    )
    site = StringField(
        _l("Site"), validators=[Length(max=60)], description=_l("Optional: place or node of the network.")
    )
    enabled = BooleanField(_l("Enabled"), default=True, description=_l("A disabled OLT is never asked anything."))
    address = StringField(
        _l("Address"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("IP address or host name of the management interface."),
    )
    port = IntegerField(
        _l("UDP port"),
        default=161,
        validators=[InputRequired(), NumberRange(1, 65535)],
        description=_l("161 as a rule."),
    )
    credential = Select(
        _l("SNMP credential"),
        coerce=int,
        validators=[InputRequired(_l("Choose a credential."))],
        description=_l("Community or SNMPv3 user with which the OLT is read."),
    )
    community = PasswordField(
        _l("Or a community of its own"), validators=[Length(max=255)],
        description=_l("Makes a v2c credential for this OLT alone. Leave it empty to use the one chosen."),
    )  # fmt: skip
    timeout = FloatField(
        _l("Timeout (s)"), default=2.0, validators=[InputRequired(), NumberRange(0.1, 12)],
        description=_l("Wait for one answer."),
    )  # fmt: skip
    retries = IntegerField(
        _l("Retries"), default=1, validators=[InputRequired(), NumberRange(0, 10)],
        description=_l("Further tries of one request. Timeout × tries must stay within 12 s."),
    )  # fmt: skip
    max_repetitions = IntegerField(
        _l("Rows per GETBULK"), default=20, validators=[InputRequired(), NumberRange(1, 50)],
        description=_l("1 to 50. Lower it when walks are cut short."),
    )  # fmt: skip
    max_varbinds = IntegerField(
        _l("Values per GET"), default=50, validators=[InputRequired(), NumberRange(1, 500)],
        description=_l("1 to 500. Split by itself when the OLT answers tooBig."),
    )  # fmt: skip
    max_inflight = IntegerField(
        _l("Requests at once"), default=2, validators=[InputRequired(), NumberRange(1, 16)],
        description=_l("1 to 16, inside one GET. 2 is kind to old line cards."),
    )  # fmt: skip
    text_encoding = Select(
        _l("Encoding of texts"), default="",
        choices=[SelectChoice(name, name or "Windows-1252") for name in TEXT_ENCODINGS],
        description=_l("Of descriptions that are not UTF-8: gbk or gb18030 for Chinese, cp1251 for Cyrillic."),
    )  # fmt: skip

    def offer(self, brands: Sequence[Brand], credentials: Sequence[CredentialRow]) -> None:
        """Fill the two selects. A brand's group starts with "model unknown", so one choice is always consistent."""
        self.device.choices = [SelectChoice("", _("Choose…"))] + [
            SelectChoice(f"{brand.key}/{key}", text, optgroup=brand.name)
            for brand in brands
            for key, text in (
                ("", _("%(brand)s, model unknown", brand=brand.name)),
                *((model.key, f"{brand.name} {model.name}") for model in brand.models),
            )
        ]
        choices = [SelectChoice(str(row.id), f"{row.name} (SNMP v{row.version})") for row in credentials]
        self.credential.choices = choices
        if self.community.data:
            self.credential.validators, self.credential.validate_choice = [Optional()], False

    @staticmethod
    def stored(olt: Olt) -> dict[str, Any]:
        """What the form of a stored OLT starts with."""
        names = (
            "name", "site", "enabled", "address", "port", "timeout", "retries",
            "max_repetitions", "max_varbinds", "max_inflight", "text_encoding",
        )  # fmt: skip
        device = f"{olt.brand.key}/{olt.model.key if olt.model else ''}"
        return {name: getattr(olt, name) for name in names} | {"device": device, "credential": olt.credential_id}

    def fields(self, credentials: Sequence[CredentialRow]) -> dict[str, Any]:
        """What services.network.olts takes: columns, and brand, model, credential by their keys."""
        values = {k: v for k, v in self.data.items() if k not in ("csrf_token", "device", "credential")}
        brand, _slash, model = (self.device.data or "").partition("/")
        names = {row.id: row.name for row in credentials}
        return values | {"brand": brand, "model": model, "credential": names.get(self.credential.data, "")}


class ProbeForm(ErrorForm):
    """The part of OltForm that a connection test needs; it may come from an OLT that is not saved yet."""

    address = StringField(_l("Address"), validators=[DataRequired(_l("Fill in the address.")), Length(max=255)])
    port = IntegerField(_l("UDP port"), default=161, validators=[InputRequired(), NumberRange(1, 65535)])
    credential = IntegerField(
        _l("SNMP credential"), validators=[InputRequired(_l("Choose a credential.")), NumberRange(1, LARGEST)]
    )
    timeout = FloatField(_l("Timeout (s)"), default=2.0, validators=[Optional(), NumberRange(0.1, 12)])
    retries = IntegerField(_l("Retries"), default=1, validators=[Optional(), NumberRange(0, 10)])

    def validate_address(self, field: StringField) -> None:
        """WTForms calls this by its name: the address in its normal form, or why it is none."""
        try:
            field.data = addresses.normalise(field.data)
        except FieldError as error:
            raise ValidationError(said(error.message)) from None

    def errors_in_words(self) -> list[str]:
        """Every message with the name of its field."""
        return [f"{field.label.text}: {error}" for field in self for error in field.errors]

    def fields(self) -> dict[str, Any]:
        """Keyword arguments of services.trying.probes.request."""
        values = {name: self[name].data for name in ("address", "port", "timeout", "retries")}
        return {k: v for k, v in values.items() if v is not None} | {"credential_id": self.credential.data}


class CredentialForm(ErrorForm):
    """A named SNMP profile. Secrets are written, never shown."""

    name = StringField(_l("Name"), validators=[DataRequired(), Length(max=80)])
    version = Select(
        _l("SNMP version"),
        choices=_choices(("2c", "v2c"), ("3", "v3"), ("1", "v1")),
        default="2c",
        description=_l("v2c where the OLT has it; v3 where the network between is not yours."),
    )
    community = PasswordField(
        _l("Community"), validators=[Length(max=255)], description=_l("Read-only community. v1 and v2c.")
    )
    username = StringField(_l("User"), validators=[Length(max=64)], description=_l("v3 security name."))
    auth_protocol = Select(
        _l("Authentication"),
        choices=_choices(("", _l("None")), ("SHA", "SHA"), ("MD5", "MD5")),
        validators=[Optional()],
    )
    auth_password = PasswordField(_l("Authentication password"), validators=[Length(max=255)])
    priv_protocol = Select(
        _l("Encryption"), choices=_choices(("", _l("None")), ("AES", "AES"), ("DES", "DES")), validators=[Optional()]
    )
    priv_password = PasswordField(_l("Encryption password"), validators=[Length(max=255)])
    networks = StringField(
        _l("Networks it may be sent to"), validators=[Length(max=LONGEST_NETWORKS)],
        description=_l("Such as 10.0.0.0/8, 192.168.4.0/24. Outside them only administrators give it to OLTs."),
    )  # fmt: skip

    def fields(self) -> dict[str, Any]:
        """What services.credentials takes; an empty secret means "as it was"."""
        return {name: value or "" for name, value in self.data.items() if name != "csrf_token"}


def secrets_unchanged(form: CredentialForm, credential: CredentialRow) -> None:
    """Say in the empty secret fields that leaving them empty keeps what is stored."""
    unchanged = {"placeholder": _("unchanged"), "autocomplete": "new-password"}
    kept = {"community": credential.version != "3", "auth_password": bool(credential.auth_protocol)}
    kept["priv_password"] = bool(credential.priv_protocol)
    for name, stored in kept.items():
        if stored:
            form[name].render_kw = unchanged


class NodeForm(ErrorForm):
    """A master of a workflow: what it reads, when, and how it is retried."""

    name = StringField(_l("Name"), validators=[DataRequired(), Length(max=120)])
    key = StringField(
        _l("Key"),
        validators=[Length(max=60)],
        description=_l("Short name in files and the API, unique in this workflow. Empty: made from the name."),
    )
    kind = Select(_l("Kind"), choices=_choices(*KIND_LABELS.items()), default=NodeKind.GET.value)
    oid = StringField(
        _l("OID"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("From the catalogue, such as huawei.onu_rx_power, or a dotted OID."),
    )
    enabled = BooleanField(_l("Node enabled"), default=True)
    interval = StringField(
        _l("Every"), validators=[Length(max=20)], description=_l("For example 90s, 5m, 1h. Leave empty to use cron.")
    )
    cron = StringField(
        _l("or by cron"), validators=[Length(max=120)], description=_l("Five fields, such as 0 */6 * * *.")
    )
    override_reason = TextAreaField(
        _l("Reason for a short interval"),
        validators=[Length(max=255)],
        description=_l("Needed under 30 s or under the OID's safe interval. Stored and logged with your name."),
    )
    priority = IntegerField(
        _l("Priority"),
        validators=[Optional(), NumberRange(1, 100)],
        description=_l("1 to 100, higher first. Empty: discovery 90, GET 40, walk 30, table 20, bulk 10."),
    )
    max_retries = IntegerField(
        _l("Retries"), default=2, validators=[InputRequired(), NumberRange(0, 10)],
        description=_l("Further attempts when the OLT does not do it."),
    )  # fmt: skip
    retry_delay = IntegerField(
        _l("Retry after (s)"), default=120, validators=[InputRequired(), NumberRange(0, 3600)],
        description=_l("The OLT is free meanwhile."),
    )  # fmt: skip
    time_limit = IntegerField(
        _l("Time limit (s)"), default=120, validators=[InputRequired(), NumberRange(1, 3600)],
        description=_l("The step is given up after this."),
    )  # fmt: skip
    stop_on_failure = BooleanField(
        _l("Stop the chain if this fails"), description=_l("Otherwise the next nodes still run if the OLT answers.")
    )

    @classmethod
    def stored(cls, node: WorkflowNode | TemplateNode) -> dict[str, Any]:
        """What the form of a stored node starts with."""
        names = (
            "name", "key", "oid", "enabled", "cron", "override_reason", "priority",
            "max_retries", "retry_delay", "time_limit", "stop_on_failure",
        )  # fmt: skip
        interval = intervals.show(node.interval_seconds) if node.interval_seconds else ""
        return {name: getattr(node, name) for name in names} | {"kind": node.kind.value, "interval": interval}

    def fields(self, master_id: int | None = None) -> dict[str, Any]:
        """What services.network.workflows takes: a master, or with `master_id` a node chained to it."""
        values = {name: value for name, value in self.data.items() if name != "csrf_token"}
        return values | {"master_id": master_id}


class ChainedNodeForm(NodeForm):
    """A node that runs after its master: no clock and no retries of its own."""

    interval = None
    cron = None
    priority = None
    max_retries = None
    retry_delay = None
