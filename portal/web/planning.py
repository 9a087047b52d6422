"""Capacity: whether OLTs can keep their promises, what an edit would do, where clocks should strike, pollers needed."""

from typing import Any

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import node_fields
from portal.domain.feasibility import Feasibility, Verdict
from portal.domain.fields import read_all
from portal.domain.statuses import DEFAULT_PRIORITY, NodeKind, Role
from portal.queries import feasibility, olts, phases, pool_advice, templates
from portal.queries.feasibility import Edit, OltFit
from portal.services.coordinating import phases as service
from portal.services.errors import ServiceError
from portal.tables import Olt
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import duration_ms, now, number, percent
from portal.web.forms import refusal
from portal.web.words import task_words

bp = Blueprint("planning", __name__, url_prefix="/capacity")

NOTABLE_WAIT_MS = 1_000
LONGEST_LIST = 50


def sentences(fit: Feasibility) -> list[tuple[str, str]]:
    """(tone, text) of what is worth saying, the worst first."""
    said = [("red", _("%(task)s will not keep its promise", task=task_words(task))) for task in fit.failing]
    slow = _("%(task)s will not keep its promise in a slow hour")
    said += [("amber", slow % {"task": task_words(task)}) for task in fit.endangered]
    late = [load for load in fit.nodes if load.delay_ms >= NOTABLE_WAIT_MS]
    for load in sorted(late, key=lambda load: -load.delay_ms):
        said.append(("quiet", _("%(node)s will wait %(time)s", node=load.name, time=duration_ms(load.delay_ms))))
    return said


def blame(fit: Feasibility) -> str:
    """Who takes most of an OLT that is too busy, or holds it for too long at once."""
    load = fit.blame
    if load is None:
        return ""
    if fit.blocks:
        time = duration_ms(load.p50_ms)
        return _("%(node)s keeps the OLT from the others: %(time)s a run", node=load.name, time=time)
    return _("%(node)s takes most: %(share)s of the hour", node=load.name, share=percent(load.share * 100))


def kept_runs(fit: Feasibility) -> dict[str, tuple[int, int]]:
    """Task type → runs of an hour that it gets, and those promised to it."""
    kept: dict[str, tuple[int, int]] = {}
    for load in fit.nodes:
        runs, promised = kept.get(load.task_type, (0, 0))
        asked = round(load.runs_per_hour)
        kept[load.task_type] = runs + max(asked - load.lost, 0), promised + asked
    return kept


def quota_changes(before: Feasibility, after: Feasibility) -> list[str]:
    """What an edit does to the quotas of an hour: "quota of Description: 12 → 9 of 12"."""
    was, will = kept_runs(before), kept_runs(after)
    said = []
    for task in sorted(was.keys() | will.keys()):
        (old, _promised), (new, promised) = was.get(task, (0, 0)), will.get(task, (0, 0))
        if (old, _promised) == (new, promised):
            continue
        parts = {"task": task_words(task), "before": number(old), "after": number(new), "promised": number(promised)}
        said.append(
            _("quota of %(task)s: %(before)s → %(after)s of %(promised)s an hour", **parts) if new < promised
            else _("quota of %(task)s: %(before)s → %(after)s an hour", **parts)
        )  # fmt: skip
    return said


def busy_words(fit: Feasibility) -> str:
    """The headline."""
    return _("busy %(share)s of the hour", share=percent(fit.share * 100))


def _title(rows: list[OltFit]) -> str:
    bad = sum(not row.fit.keeps for row in rows)
    tight = sum(row.fit.verdict is Verdict.TIGHT for row in rows)
    if bad:
        return ngettext(
            "%(n)s OLT cannot keep its promises", "%(n)s OLTs cannot keep their promises", bad, n=number(bad)
        )
    if tight:
        return ngettext("%(n)s OLT is tight", "%(n)s OLTs are tight", tight, n=number(tight))
    return _("What is planned fits on every OLT")


@bp.app_context_processor
def _readers() -> dict[str, Any]:
    """What other pages show of this one; read only where a template asks."""
    return {
        "read_pool_advice": lambda: pool_advice.last_hour(now()),
        "fit_sentences": sentences, "fit_blame": blame, "busy_words": busy_words,
    }  # fmt: skip


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """OLTs by how busy they will be: ?template= (left out: all). Live, each minute."""
    template_id = args.number("template")
    names = {row.id: row.name for row in templates.rows()}
    rows = feasibility.listed(now(), template_id)
    return live.render(
        "planning/index.html",
        title=_title(rows), rows=rows[:LONGEST_LIST], total=len(rows), template=template_id,
        chips=[("template", _("Template: %(name)s", name=names[template_id]))] if template_id in names else [],
        filters=[{"name": "template", "label": _("Any template"), "value": template_id or "",
                  "options": list(names.items())}],
    )  # fmt: skip


@bp.post("/olts/<int:olt_id>/what-if")
@requires(Role.OPERATOR)
def what_if(olt_id: int) -> str:
    """The form of a node as it is being filled in: how the OLT would fit with it. ?node=: it is stored; ?master=."""
    olt: Olt = olts.get(olt_id) or abort(404)
    before = feasibility.of_olt(olt_id, now())
    edit, node_id, master_id = _edit(), args.number("node"), args.number("master")
    after = None
    if master_id is not None and edit is not None:
        chained = [(master_id, edit.kind)] if node_id is None and edit.enabled else []
        after = feasibility.what_if(olt_id, now(), chained=chained)
    elif edit is not None and (edit.interval or edit.cron or not edit.enabled):
        after = feasibility.what_if(olt_id, now(), [edit])
    quotas = quota_changes(before, after) if after else []
    return render_template("planning/_what_if.html", olt=olt, before=before, after=after, quotas=quotas)


def _edit() -> Edit | None:
    """What the form says so far; None while it cannot be understood. As a save reads it, so that both refuse alike."""
    given = {name: request.form.get(name, "").strip() for name in ("kind", "interval", "cron", "priority")}
    read, errors = read_all(node_fields.READERS, {name: text for name, text in given.items() if text})
    if errors or "kind" not in read or ("cron" in read and "interval" in read):
        return None
    kind: NodeKind = read["kind"]
    name = request.form.get("name", "").strip()
    key = request.form.get("key", "").strip() or name or _("this node")
    return Edit(key, kind, read.get("priority") or DEFAULT_PRIORITY[kind], read.get("interval"), read.get("cron"),
                args.number("node"), "enabled" in request.form, name)  # fmt: skip


def _scope() -> tuple[list[int] | None, str]:
    """The OLT that the URL or the form names, as a list of one, and its name; (None, "") = all."""
    if "olt" not in request.values:
        return None, ""
    wanted = request.values.get("olt", type=args.whole) or 0
    olt: Olt = olts.get(wanted) or abort(404)
    return [olt.id], olt.name


@bp.get("/phases")
@requires(Role.VIEWER)
def show_phases() -> Response:
    """Where the clocks of masters should strike: what would move, and what it would be good for. ?olt=: of one OLT."""
    olt_ids, name = _scope()
    seen = phases.preview(now(), olt_ids)
    return live.render("planning/phases.html", seen=seen, olt_id=olt_ids[0] if olt_ids else None, olt=name)


@bp.post("/phases")
@requires(Role.OPERATOR)
def apply_phases() -> BaseResponse:
    """Move the clocks as the advice of this moment says. Field `olt`: only of that one."""
    olt_ids, name = _scope()
    try:
        moved = service.apply(current_user.username, now(), olt_ids, name)
        flash(ngettext("%(n)s clock was moved.", "%(n)s clocks were moved.", moved, n=number(moved)), "success")
    except ServiceError as refused:
        flash(refusal(refused), "error")
    return redirect(url_for("planning.show_phases", olt=olt_ids[0] if olt_ids else None), 303)
