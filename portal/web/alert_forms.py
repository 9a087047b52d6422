"""The form of a channel: fields, help and what it hands to the service. Rules live there."""

from collections.abc import Sequence
from typing import Any

from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext as pgettext  # under the name that pybabel looks for
from wtforms import BooleanField, IntegerField, SelectMultipleField, StringField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange

from portal.domain import channel_fields
from portal.domain.statuses import Severity
from portal.tables import Channel
from portal.web.forms import ErrorForm, Select
from portal.web.words import face

CHOSEN = channel_fields.CHANNEL_DEFAULTS["alert_kinds"]


class ChannelForm(ErrorForm):
    """Where alerts go, which, and when. The address is written, never shown."""

    name = StringField(
        _l("Name"), validators=[DataRequired(), Length(max=80)], description=_l("For example: NOC, night.")
    )
    target = StringField(
        _l("Address"),
        validators=[Length(max=channel_fields.LONGEST_TARGET)],
        description=_l(
            "As Apprise writes it, passwords and tokens included. It is stored encrypted and never shown. One chat, "
            "channel or room: several need a channel each."
        ),
    )
    enabled = BooleanField(
        pgettext("channel", "Enabled"), default=True, description=_l("A disabled channel gets nothing.")
    )
    alert_kinds = SelectMultipleField(_l("Tells of"), default=CHOSEN)
    min_severity = Select(_l("From severity"), default=Severity.LOW.value)
    per_hour = IntegerField(
        _l("Messages per hour, at most"),
        default=channel_fields.CHANNEL_DEFAULTS["per_hour"],
        validators=[InputRequired(), NumberRange(1, channel_fields.MOST_PER_HOUR)],
        description=_l(
            "What waits meanwhile leaves together in the next one. The last one is kept for what is critical."
        ),
    )
    quiet_start = StringField(_l("Quiet from"), validators=[Length(max=5)])
    quiet_end = StringField(_l("until"), validators=[Length(max=5)])

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.alert_kinds.choices = [SelectChoice(kind.value, face(kind).label) for kind in channel_fields.CHOOSABLE]
        self.min_severity.choices = [SelectChoice(one.value, face(one).label) for one in Severity]

    @staticmethod
    def stored(row: Channel) -> dict[str, Any]:
        """What the form of a stored channel starts with."""
        names = ("name", "enabled", "alert_kinds", "per_hour")
        return {name: getattr(row, name) for name in names} | {
            "min_severity": row.min_severity.value,
            "quiet_start": channel_fields.clock(row.quiet_start),
            "quiet_end": channel_fields.clock(row.quiet_end),
        }

    @property
    def kinds(self) -> Sequence[tuple[str, Any, bool]]:
        """(value, text, chosen) of each kind of alert."""
        return [(one.value, one.label, one.value in (self.alert_kinds.data or ())) for one in self.alert_kinds.choices]

    def fields(self) -> dict[str, Any]:
        """What services.alerting.channels takes; an empty address means "as it was"."""
        return {name: value for name, value in self.data.items() if name != "csrf_token"}
