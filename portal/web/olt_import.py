"""Import of OLTs from a CSV: the form, what each row would do, and its confirmation. Its pages are part of `olts`.

No file is kept: the table travels inside the form of the preview, where it can also be corrected, and what is confirmed
is compared with what was shown by a mark.
"""

from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import csv_rows
from portal.domain.csv_rows import SheetError
from portal.domain.spreadsheets import unguard
from portal.domain.statuses import Role
from portal.services.errors import ServiceError
from portal.services.importing import csv_olts
from portal.services.importing.csv_olts import Effect, Moved, Preview, Row
from portal.web.access import can, requires
from portal.web.errors import http_error
from portal.web.export import csv_file
from portal.web.formatting import now, number
from portal.web.forms import refusal, said, translated
from portal.web.olts import Page, bp

__all__ = ["bp"]

WORDS = {
    "name": _l("Name"), "address": _l("Address"), "port": _l("UDP port"), "brand": _l("Brand"), "model": _l("Model"),
    "credential": _l("Credential"), "template": _l("Template"), "site": _l("Site"), "enabled": _l("Enabled"),
    "timeout": _l("Timeout (s)"), "retries": _l("Retries"), "max_repetitions": _l("Rows per GETBULK"),
    "max_varbinds": _l("Values per GET"), "max_inflight": _l("Requests at once"),
    "text_encoding": _l("Encoding of texts"),
}  # fmt: skip
OFFERED = ("name", "address", "port", "brand", "model", "credential", "template", "site", "enabled")


@bp.route("/import", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def import_csv() -> Page:
    """The form; sent, what each row would do. Nothing is written."""
    if request.method == "GET":
        return _page("")
    text = request.form.get("text", "")
    try:
        text = _given()
        return _page(text, preview=csv_olts.preview(text, now(), by_admin=can(Role.ADMIN)))
    except SheetError as refused:
        return _page(text, problem=said(refused.message))
    except ServiceError as refused:
        return _page(text, problem=refusal(refused))


@bp.post("/import/confirm")
@requires(Role.OPERATOR)
def import_confirm() -> Page:
    """Fields `text` and `mark`: write what the preview of that mark showed."""
    text = request.form.get("text", "")
    try:
        done = csv_olts.load(text, request.form.get("mark", ""), current_user.username, now(), by_admin=can(Role.ADMIN))
    except Moved as moved:
        return _page(text, preview=moved.preview, problem=refusal(moved), status=409)
    except SheetError as refused:
        return _page(text, problem=said(refused.message))
    except ServiceError as refused:
        return _page(text, problem=refusal(refused), status=409)
    flash(_done(done), "success")
    return redirect(url_for("olts.index"), 303)


@bp.post("/import/refused.csv")
@requires(Role.OPERATOR)
def import_refused() -> BaseResponse | tuple[str, int]:
    """Field `text`: its rows that are wrong, as they were given, with a column that says why."""
    text = request.form.get("text", "")
    try:
        shown = csv_olts.preview(text, now(), by_admin=can(Role.ADMIN))
    except SheetError as refused:
        return _page(text, problem=said(refused.message))
    head = shown.sheet.head
    rows = ([*map(unguard, _as_wide(row.raw, len(head))), _why(row)] for row in shown.of(Effect.REFUSED))
    return csv_file("olts-refused.csv", [*head, _("Reason")], rows)


@bp.get("/import/template.csv")
@requires(Role.OPERATOR)
def import_template() -> Response:
    """A table to fill in. The row that shows how names a credential that does not exist, so it is never imported."""
    example = ("OLT-EXAMPLE-01", "192.0.2.10", 161, "huawei", "MA5800", _("name of a credential"),
               _("name of a template, or empty"), "Lima", _("yes"))  # fmt: skip
    return csv_file("olts.csv", [str(WORDS[name]) for name in OFFERED], [example])


@bp.errorhandler(RequestEntityTooLarge)
def too_large(error: RequestEntityTooLarge) -> Any:
    """What is beyond the size of any request is not even read; said as by this page."""
    if request.path != url_for("olts.import_csv"):
        return http_error(error)
    return _page("", problem=_("The table is larger than %(limit)s KB: split the file.",
                               limit=number(csv_olts.LARGEST // 1024)), status=413)  # fmt: skip


def _given() -> str:
    """The chosen file, else the text. SheetError."""
    file = request.files.get("file")
    return csv_rows.decode(file.read()) if file and file.filename else request.form.get("text", "")


def _page(text: str, *, preview: Preview | None = None, problem: str = "", status: int = 0) -> tuple[str, int]:
    html = render_template(
        "olts/import.html", text=text, preview=preview, problem=problem, title=_title(preview), words=WORDS,
        names=", ".join(str(WORDS[name]) for name in OFFERED), why=_reasons, change=_change, nodes=_nodes,
        counts=_counts, most=csv_olts.MOST_ROWS, largest=csv_olts.LARGEST // 1024,
    )  # fmt: skip
    return html, status or (422 if problem else 200)


def _title(preview: Preview | None) -> str:
    """The answer: how many OLTs the table would write."""
    if preview is None:
        return _("Import OLTs")
    count = preview.writes
    if not count:
        return _("Nothing to import")
    return ngettext("%(n)s OLT would be written", "%(n)s OLTs would be written", count, n=number(count))


def _counts(preview: Preview) -> str:
    """198 new · 3 changed · 2 unchanged · 1 refused, without those that are none."""
    made, changed = len(preview.of(Effect.CREATED)), len(preview.of(Effect.CHANGED))
    same, wrong = len(preview.of(Effect.UNCHANGED)), len(preview.of(Effect.REFUSED))
    words = (
        (made, ngettext("%(n)s new", "%(n)s new", made, n=number(made))),
        (changed, ngettext("%(n)s changed", "%(n)s changed", changed, n=number(changed))),
        (same, ngettext("%(n)s unchanged", "%(n)s unchanged", same, n=number(same))),
        (wrong, ngettext("%(n)s refused", "%(n)s refused", wrong, n=number(wrong))),
    )
    return " · ".join(text for count, text in words if count)


def _done(done: Preview) -> str:
    return _("Imported: %(counts)s.", counts=_counts(done))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "–" if value in (None, "") else number(value, 1) if isinstance(value, float) else str(value)


def _change(row: Row) -> list[tuple[str, str, str]]:
    """(field, old, new) of each setting that changes."""
    return [(str(WORDS[name]), _shown(old), _shown(new)) for name, (old, new) in row.changes.items()]


def _nodes(row: Row) -> str:
    """What becomes of the nodes: 3 added, 1 changed."""
    found = row.nodes
    added, changed, removed = len(found.added), len(found.changed), len(found.removed)
    words = (
        (added, ngettext("%(n)s node added", "%(n)s nodes added", added, n=number(added))),
        (changed, ngettext("%(n)s node changed", "%(n)s nodes changed", changed, n=number(changed))),
        (removed, ngettext("%(n)s node removed", "%(n)s nodes removed", removed, n=number(removed))),
    )
    return ", ".join(text for count, text in words if count)


def _reasons(row: Row) -> list[tuple[str, str]]:
    """(field or "", why) of a refused row. Behind a field's name the words stay small: they may begin with a name."""
    return [
        (str(WORDS[name]), translated(reason)) if name in WORDS else ("", said(reason)) for name, reason in row.reasons
    ]


def _why(row: Row) -> str:
    return "; ".join(f"{field}: {reason}" if field else reason for field, reason in _reasons(row))


def _as_wide(cells: tuple[str, ...], width: int) -> list[str]:
    """A row as wide as the head; what was too much goes with the last cell, so that nothing is lost."""
    kept, rest = list(cells[:width]), [cell for cell in cells[width:] if cell.strip()]
    kept += [""] * (width - len(kept))
    return [*kept[:-1], " ".join([kept[-1], *rest])] if rest else kept
