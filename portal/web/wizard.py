"""The wizard of a new task: brand, OLTs, what, when, retries, effect. Its state is in the URL: back loses nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import fields, intervals, node_fields
from portal.domain.fields import FieldError
from portal.domain.statuses import NodeKind, Role
from portal.queries import olt_choices, templates
from portal.queries.catalogue import OidChoice
from portal.queries.olt_choices import OltChoice
from portal.services.errors import Invalid
from portal.services.network import tasks
from portal.services.network.many import Effect
from portal.web import olt_picks, schedule_words
from portal.web.access import requires
from portal.web.formatting import now, number
from portal.web.forms import KIND_LABELS, said
from portal.web.metrics import meaning
from portal.web.template_words import left_out, why_not

bp = Blueprint("wizard", __name__, url_prefix="/workflows/new-task")

Page = str | BaseResponse | tuple[str, int]
Errors = dict[str, str]

STEPS = {
    "brand": _l("Brand"),
    "olts": _l("OLTs"),
    "what": _l("What is read"),
    "when": _l("When"),
    "limits": _l("Name and retries"),
    "review": _l("Effect"),
}
DEFAULTS = {"kind": "", "interval": "15m", "max_retries": "2", "retry_delay": "120", "time_limit": "120", "own": "own"}
# What each step asks for; the node's fields bear the names that services.network.node_input reads.
FIELDS = {
    "brand": ("brand",),
    "olts": ("olts",),
    "what": ("oid", "other", "kind"),
    "when": ("interval", "cron", "override_reason"),
    "limits": ("name", "key", "priority", "max_retries", "retry_delay", "time_limit"),
    "review": ("own", "template_name"),
}
STEP_OF = {name: step for step, names in FIELDS.items() for name in names}
LONGEST = 4000  # characters of a value in the URL
SHOWN = 200


@dataclass(frozen=True)
class State:
    """All that was said so far, as texts."""

    said: Mapping[str, str]

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.said.get(name, DEFAULTS.get(name, ""))

    @cached_property
    def offers(self) -> list[tuple[str, list[OidChoice]]]:
        """What can be read from OLTs of the brand."""
        return templates.offers(self.brand)

    @cached_property
    def chosen(self) -> list[OltChoice]:
        """The OLTs chosen that there are, of the brand."""
        wanted = set(olt_picks.unpacked(self.olts))
        return [olt for olt in olt_choices.choices(self.brand) if olt.id in wanted]

    @cached_property
    def wrong(self) -> Errors:
        """What is wrong with the node, by field."""
        try:
            tasks.check(self.node, now())
        except Invalid as refused:
            return {name: said(message) for name, message in refused.errors.items()}
        return {}

    @property
    def task_oid(self) -> str:
        """The catalogue's key, or what was typed instead."""
        return self.other.strip() if self.oid in ("", "other") else self.oid

    @property
    def node(self) -> dict[str, Any]:
        """The node as services.network.tasks takes it."""
        names = ("interval", "cron", "override_reason", "name", "key", "priority", "max_retries", "retry_delay",
                 "time_limit")  # fmt: skip
        given = {name: getattr(self, name) for name in names}
        known = meaning(self.task_oid.split(",")[0]) or self.task_oid
        return given | {"name": given["name"] or known, "oid": self.task_oid, "kind": self.node_kind}

    @property
    def node_kind(self) -> str:
        """As chosen, else as the catalogue has it, else GET."""
        if self.kind:
            return self.kind
        kinds = (choice.kind for _brand, found in self.offers for choice in found
                 if choice.key == self.task_oid)  # fmt: skip
        return next(kinds, NodeKind.GET.value)


def _state(step: str) -> State:
    """The URL's, and over it what the form of this step says."""
    told = {name: request.args[name].replace("\x00", "")[:LONGEST] for name in STEP_OF if name in request.args}
    if request.method == "POST":
        told |= {name: request.form.get(name, "").replace("\x00", "")[:LONGEST] for name in FIELDS[step]}
        if step == "olts":
            told["olts"] = olt_picks.packed(olt_picks.chosen(request.form))
    return State(told)


def _url(state: State, step: str) -> str:
    told = {name: value for name, value in state.said.items() if value != DEFAULTS.get(name, "")}
    return f"{url_for('wizard.start')}?{urlencode({'step': step, **told})}"


@bp.route("", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def start() -> Page:
    """One step (?step=): a form that posts to itself, and on to the next, or back, when it is right."""
    wanted = request.args.get("step", "brand")
    step = wanted if wanted in STEPS else "brand"
    state, order = _state(step), list(STEPS)
    if request.method == "GET":
        missing = next((one for one in order[: order.index(step)] if _errors(one, state)), None)
        return redirect(_url(state, missing), 303) if missing else _page(step, state, {})
    if request.form.get("go") == "back":
        return redirect(_url(state, order[max(0, order.index(step) - 1)]), 303)
    errors = _errors(step, state)
    if errors or request.form.get("go") == "look":
        return _page(step, state, errors)
    if step == "review":
        return _create(state)
    return redirect(_url(state, order[order.index(step) + 1]), 303)


@bp.post("/runs")
@requires(Role.OPERATOR)
def runs() -> str:
    """The fields `interval` and `cron` as they are being filled in: in words, with the next five runs."""
    return render_template("wizard/_runs.html", **_clock(_state("when")))


def _clock(state: State) -> dict[str, Any]:
    """What the clock's fields say, in words; nothing while they cannot be read."""
    line = state.cron.strip()
    try:
        seconds = None if line else intervals.parse(state.interval)
        times = schedule_words.next_runs(seconds, line, now()) if line or seconds else []
    except (ValueError, FieldError):
        return {"words": "", "times": []}
    words = schedule_words.of_cron(line) if line else schedule_words.of_interval(seconds) if seconds else ""
    return {"words": words, "times": times}


def _errors(step: str, state: State) -> Errors:
    """What is wrong with the answers of a step, by field."""
    checks = {"brand": _check_brand, "olts": _check_olts, "what": _check_what}
    return checks[step](state) if step in checks else _check_node(step, state)


def _check_brand(state: State) -> Errors:
    known = {key for key, _name, _count in olt_choices.brands()}
    return {} if state.brand in known else {"brand": _("Choose a brand.")}


def _check_olts(state: State) -> Errors:
    return {} if state.chosen else {"olts": _("Choose at least one OLT.")}


def _check_what(state: State) -> Errors:
    if not state.task_oid:
        return {"oid": _("Choose what is read, or write an OID.")}
    readers = {"oid": node_fields.READERS["oid"], "kind": fields.choice(NodeKind)}
    _values, wrong = fields.read_all(readers, {"oid": state.task_oid, "kind": state.node_kind})
    shown = {"oid": "other" if state.oid in ("", "other") else "oid"}
    if wrong:
        return {shown.get(name, name): said(message) for name, message in wrong.items()}
    told = state.wrong.get("oid") or _foreign(state)
    return {shown["oid"]: told} if told else {}


def _foreign(state: State) -> str:
    """Why an OID of the catalogue cannot be read from this brand's OLTs; "" when each can."""
    offered = {choice.key for _brand, some in state.offers for choice in some}
    parts = node_fields.parts_of(state.task_oid.replace(" ", ""))
    foreign = [part for part in parts if not node_fields.is_dotted(part) and part not in offered]
    told = "%(oid)s is not for this OLT, whose brand is %(brand)s"  # as services.cataloguing.catalogue says it
    return _(told, oid=foreign[0], brand=state.brand) if foreign else ""


def _check_node(step: str, state: State) -> Errors:
    return {name: message for name, message in state.wrong.items() if STEP_OF.get(name) == step}


def _page(step: str, state: State, errors: Errors, effects: list[Effect] | None = None) -> Page:
    order = list(STEPS)
    context = {
        "step": step, "state": state, "errors": errors, "steps": STEPS, "place": order.index(step),
        "action": _url(state, step),
    }  # fmt: skip
    readers = {"brand": _brand_page, "olts": _olts_page, "what": _what_page, "when": _when_page,
               "limits": _limits_page}  # fmt: skip
    more = readers[step](state) if step in readers else _review_page(state, effects)
    return render_template(f"wizard/{step}.html", **context, **more), 422 if errors else 200


def _brand_page(_state: State) -> dict[str, Any]:
    return {"brands": olt_choices.brands()}


def _olts_page(state: State) -> dict[str, Any]:
    return {"choices": olt_choices.choices(state.brand), "chosen": {olt.id for olt in state.chosen}}


def _what_page(state: State) -> dict[str, Any]:
    return {"offers": state.offers, "kinds": [("", _("As the catalogue has it")),
            *((kind.value, str(label)) for kind, label in KIND_LABELS.items())]}  # fmt: skip


def _when_page(state: State) -> dict[str, Any]:
    return _clock(state) | {"safe": _safe(state)}


def _safe(state: State) -> int | None:
    """The safe interval (s) of what is read, the strictest where models differ."""
    parts = set(state.task_oid.split(","))
    found = [choice.safe_interval for _brand, some in state.offers for choice in some
             if choice.key in parts and choice.safe_interval]  # fmt: skip
    return max(found, default=None)


def _limits_page(state: State) -> dict[str, Any]:
    return {"node": state.node}


def _review_page(state: State, effects: list[Effect] | None) -> dict[str, Any]:
    if effects is None:
        ids = [olt.id for olt in state.chosen]
        effects = tasks.preview(state.node, ids, now(), in_template=state.own == "template")
    order = sorted(effects, key=lambda one: (not one.problems, not one.breaks))
    changing = [one for one in effects if one.changes]
    return _clock(state) | {
        "effects": order[:SHOWN], "total": len(effects), "changing": changing, "why_not": why_not,
        "out": len(effects) - len(changing), "breaking": [one for one in effects if one.breaks],
        "node": state.node,
    }  # fmt: skip


def _create(state: State) -> Page:
    ids, actor = [olt.id for olt in state.chosen], current_user.username
    missing = next((one for one in STEPS if _errors(one, state)), None)
    if missing:
        return redirect(_url(state, missing), 303)
    in_template = state.own == "template"
    seen = tasks.preview(state.node, ids, now(), in_template=in_template)
    if not any(one.changes for one in seen):
        return _page("review", state, {"": _("No OLT can have this task: see why below.")}, seen)
    if not in_template:
        return _created(tasks.create(state.node, ids, actor, now()), url_for("workflows.index"))
    try:
        template_id, effects = tasks.create_template(state.template_name, state.node, ids, actor, now())
    except Invalid as refused:
        errors = {name: said(message) for name, message in refused.errors.items()}
        return _page("review", state, errors, seen)
    return _created(effects, url_for("template_pages.detail", template_id=template_id))


def _created(effects: list[Effect], page: str) -> BaseResponse:
    made = [one for one in effects if one.changes]
    count = len(made)
    told = ngettext("The task was made on %(n)s OLT.", "The task was made on %(n)s OLTs.", count, n=number(count))
    flash(told, "success" if made else "error")
    if left_out(effects):
        flash(left_out(effects), "error")
    one = len(effects) == 1 and len(made) == 1 and page == url_for("workflows.index")
    return redirect(url_for("workflows.detail", olt_id=made[0].olt_id) if one else page, 303)
