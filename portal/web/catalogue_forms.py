"""Forms of the catalogue: an OID, a formula. Texts only: what they mean is read by portal.domain.catalogue_fields."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flask_babel import lazy_gettext as _l
from wtforms import BooleanField, StringField, TextAreaField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import DataRequired, Length

from portal.domain import intervals
from portal.domain.catalogue_data import Access, BrandData, Confidence, OidData, Shape
from portal.domain.formulas import KINDS
from portal.domain.readings import ValueType
from portal.web.forms import KIND_LABELS, ErrorForm, Select

SHAPE_LABELS = {
    Shape.ONU: _l("ONU: a row for each ONU"),
    Shape.PORT: _l("Port: a row for each port"),
    Shape.SCALAR: _l("Scalar: one value of the whole OLT"),
    Shape.ROW: _l("Other: a row for each card, or for what is not provisioned yet"),
}
TYPE_LABELS = {
    ValueType.NUMBER: _l("Number: raw × scale + offset"),
    ValueType.TEXT: _l("Text"),
    ValueType.SERIAL: _l("GPON serial"),
    ValueType.MAC: _l("MAC address"),
    ValueType.STATE: _l("State: a number with a meaning"),
    ValueType.TIME: _l("Date and time"),
}
CONFIDENCE_LABELS = {
    Confidence.HIGH: _l("High: two independent sources agree"),
    Confidence.MEDIUM: _l("Medium: one source"),
    Confidence.LOW: _l("Low: contradicted, or by analogy"),
}
ACCESS_LABELS = {
    Access.ANY: _l("Walk or GET"),
    Access.WALK: _l("Walk only"),
    Access.GET: _l("GET only"),
}
_TEXTS = ("name", "oid", "unit", "states", "formula", "metric", "index_suffix", "source", "description")
_FLAGS = ("by_name", "zero_unsupported")


def _options(labels: Mapping[Any, Any]) -> list[SelectChoice]:
    return [SelectChoice(word.value, label) for word, label in labels.items()]


class OidForm(ErrorForm):
    """One row of the catalogue."""

    name = StringField(
        _l("Name"),
        validators=[Length(max=60)],
        description=_l("Unique in its brand, for a model. For example onu_rx_power."),
    )
    models = StringField(
        _l("Models"),
        validators=[Length(max=200)],
        description=_l("Keys of models with commas between. Empty: the whole brand."),
    )
    oid = StringField(
        _l("OID"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("The column in dotted numbers, without an index; a scalar with its .0."),
    )
    shape = Select(_l("What a row is"), choices=_options(SHAPE_LABELS))
    kind = Select(_l("Read by"), choices=_options(KIND_LABELS), description=_l("What a new node of it starts with."))
    access = Select(
        _l("May be read by"),
        choices=_options(ACCESS_LABELS),
        description=_l("Some columns never end when walked, others cannot be asked one by one."),
    )
    metric = StringField(
        _l("Kept as"),
        validators=[Length(max=60)],
        description=_l("Name under which its readings are kept. Empty: its own name."),
    )
    type = Select(_l("Type"), choices=_options(TYPE_LABELS))
    scale = StringField(_l("Scale"), default="1", validators=[Length(max=30)])
    offset = StringField(_l("Offset"), default="0", validators=[Length(max=30)])
    unit = StringField(
        _l("Unit"),
        validators=[Length(max=20)],
        description=_l("Of raw × scale + offset. Light in mW or µW is kept in dBm."),
    )
    signed_bits = StringField(
        _l("Signed bits"),
        default="0",
        validators=[Length(max=3)],
        description=_l("16 turns 65535 into −1 before scaling. 0: as sent."),
    )
    sentinels = StringField(
        _l("Means no value"),
        validators=[Length(max=255)],
        description=_l("Raw numbers with commas between, such as 2147483647, -1."),
    )
    minimum = StringField(
        _l("Lowest possible"), validators=[Length(max=30)], description=_l("Decoded values outside are no reading.")
    )
    maximum = StringField(_l("Highest possible"), validators=[Length(max=30)])
    dead_band = StringField(
        _l("Dead band"),
        validators=[Length(max=30)],
        description=_l("A smaller change is no history. Empty: no history is kept."),
    )
    zero_unsupported = BooleanField(
        _l("All zero means not supported"),
        description=_l("Some firmware answers 0 in every row of a column that it does not fill."),
    )
    states = Select(_l("State map"), description=_l("For type State."))
    formula = Select(
        _l("Formula"),
        description=_l("How the index becomes a position. None: the name tells, or there is no position."),
    )
    formulas = StringField(
        _l("or one of these formulas"),
        validators=[Length(max=255)],
        description=_l("Two or more with commas between: the interface names of each OLT choose."),
    )
    by_name = BooleanField(
        _l("The interface's name decides"),
        description=_l("The index is or begins with an ifIndex: its name tells the position, then the formula."),
    )
    index_suffix = StringField(
        _l("After the ONU's index"),
        validators=[Length(max=40)],
        description=_l("Further numbers of the index, such as .1."),
    )
    safe_interval = StringField(
        _l("Safe interval"),
        validators=[Length(max=20)],
        description=_l("Shortest interval that a line card bears, such as 1h. Empty: the portal's own."),
    )
    source = StringField(
        _l("Source"),
        validators=[DataRequired(), Length(max=255)],
        description=_l("The MIB object, or the device that answered."),
    )
    confidence = Select(_l("Confidence"), choices=_options(CONFIDENCE_LABELS))
    description = StringField(_l("Description"), validators=[Length(max=255)])

    def offer(self, brand: BrandData) -> None:
        """Fill the selects with the brand's state maps and formulas."""
        none = SelectChoice("", _l("None"))
        self.states.choices = [none, *(SelectChoice(one.name, one.name) for one in brand.state_maps)]
        self.formula.choices = [none, *(SelectChoice(one.name, one.name) for one in brand.formulas)]

    @staticmethod
    def stored(data: OidData) -> dict[str, Any]:
        """What the form of a stored row starts with."""
        values: dict[str, Any] = {name: getattr(data, name) for name in (*_TEXTS, *_FLAGS)}
        values |= {name: getattr(data, name).value for name in ("shape", "kind", "type", "access", "confidence")}
        values |= {
            name: _number(getattr(data, name)) for name in ("scale", "offset", "minimum", "maximum", "dead_band")
        }
        values |= {"signed_bits": str(data.signed_bits), "sentinels": _listed(data.sentinels)}
        values |= {"models": _listed(data.models), "formulas": _listed(data.candidates)}
        return values | {"safe_interval": intervals.show(data.safe_interval) if data.safe_interval else ""}

    def fields(self) -> dict[str, object]:
        """What services.catalogue_edit takes: texts as they were typed."""
        return {name: value for name, value in self.data.items() if name != "csrf_token"}


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _number(value: float | None) -> str:
    """Text that reads back as the same number: 0.002, 1, -30."""
    return "" if value is None else f"{value:.15g}"


class FormulaForm(ErrorForm):
    """An index formula."""

    aliases = {"": "definition"}

    name = StringField(_l("Name"), validators=[Length(max=60)], description=_l("Lower-case letters, digits and _."))
    kind = Select(
        _l("Kind"),
        choices=[SelectChoice(kind, kind) for kind in KINDS],
        description=_l(
            "linear: stride and count. bitshift: shift and bits. string: pattern of a name. boards: learned from names."
        ),
    )
    definition = TextAreaField(
        _l("Definition"),
        validators=[DataRequired(), Length(max=10_000)],
        description=_l("JSON, as in the shipped files."),
    )

    def fields(self) -> dict[str, object]:
        """What services.catalogue_parts takes."""
        return {name: value for name, value in self.data.items() if name != "csrf_token"}


def as_text(definition: Mapping[str, Any]) -> str:
    """A definition as people edit it: a line for each key, and for each field of an index."""
    return _lines(definition, "  ")


def _lines(value: Any, indent: str) -> str:
    deep = isinstance(value, Mapping) and (len(indent) == 2 or any(isinstance(one, Mapping) for one in value.values()))
    if not deep:
        return json.dumps(value, ensure_ascii=False)
    lines = [f"{indent}{json.dumps(key)}: {_lines(one, indent + '  ')}" for key, one in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent[2:]}}}"
