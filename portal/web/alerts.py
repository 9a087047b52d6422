"""The page of alerts: channels, what went through them; trying a channel, sending again. Rules live in the services."""

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal import notify
from portal.domain.statuses import NotificationStatus, Role
from portal.queries import alerts, keyset
from portal.queries.alerts import ChannelRow
from portal.services.alerting import by_hand
from portal.services.alerting import channels as service
from portal.services.errors import Invalid, NotFound, ServiceError
from portal.tables import Channel
from portal.web import args, live
from portal.web.access import requires
from portal.web.alert_forms import ChannelForm
from portal.web.formatting import now, number, zone
from portal.web.forms import refusal, translated
from portal.web.words import face, told

bp = Blueprint("alerts", __name__, url_prefix="/alerts")

Page = str | BaseResponse | tuple[str, int]


def _title(channels: list[ChannelRow]) -> str:
    if not any(one.enabled for one in channels):
        return _("Alerts reach nobody")
    failing = [one for one in channels if one.fails]
    if len(failing) == 1:
        return _("Nothing gets through %(name)s", name=failing[0].name)
    if failing:
        return ngettext("%(n)s channel fails", "%(n)s channels fail", len(failing), n=number(len(failing)))
    return _("Alerts")


def _wanted() -> alerts.Filter:
    status = args.word("status", {one.value for one in NotificationStatus})
    return alerts.Filter(args.number("channel"), NotificationStatus(status) if status else None)


def _filters(wanted: alerts.Filter, channels: list[ChannelRow]) -> list[dict[str, object]]:
    statuses = [(one.value, face(one).label) for one in NotificationStatus]
    names = [(one.id, one.name) for one in channels]
    return [
        {"name": "channel", "label": _("Channel"), "value": wanted.channel_id or "", "options": names},
        {"name": "status", "label": _("State"), "value": wanted.status or "", "options": statuses},
    ]


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Channels and how they fare, and the alerts, newest first; the first page is live."""
    wanted, cursor = _wanted(), keyset.cursor(request.args)
    channels = alerts.channels(now(), zone())
    return live.render(
        "alerts/index.html",
        title=_title(channels),
        channels=channels,
        filters=_filters(wanted, channels),
        filtered=wanted != alerts.Filter(),
        page=alerts.page(wanted, cursor),
        first=not cursor,
        say=translated,
    )


@bp.route("/channels/new", methods=["GET", "POST"])
@requires(Role.ADMIN)
def create() -> Page:
    """Form of a new channel."""
    return _form(ChannelForm(), None)


@bp.route("/channels/<int:channel_id>", methods=["GET", "POST"])
@requires(Role.ADMIN)
def edit(channel_id: int) -> Page:
    """Form of a stored channel; an address left empty stays as it is."""
    row = alerts.channel(channel_id) or abort(404)
    return _form(ChannelForm(data=ChannelForm.stored(row)), row)


@bp.post("/channels/<int:channel_id>/delete")
@requires(Role.ADMIN)
def delete(channel_id: int) -> Page:
    """Delete a channel with what waits for it and what went through it."""
    try:
        service.delete(channel_id, current_user.username, now())
    except NotFound:
        abort(404)
    flash(_("The channel was deleted."), "success")
    return _back()


@bp.post("/channels/<int:channel_id>/test")
@requires(Role.ADMIN)
def test(channel_id: int) -> Page:
    """Send a test message now and say what came of it: the receiver's true answer."""
    try:
        failure = by_hand.test(channel_id, current_user.username, now(), notify.send)
    except NotFound:
        abort(404)
    if failure is None:
        flash(_("The receiver took the test message: see whether it arrived."), "success")
    else:
        heard = f" ({failure.answer})" if failure.answer else ""
        reason = told(failure.error) + heard
        flash(_("The test failed. %(reason)s", reason=reason), "error")
    return _back()


@bp.post("/<int:notification_id>/resend")
@requires(Role.ADMIN)
def resend(notification_id: int) -> Page:
    """Send an alert again that was given up."""
    try:
        by_hand.resend(notification_id, current_user.username, now())
    except NotFound:
        abort(404)
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("The alert is sent again."), "success")
    return _back()


def _back() -> BaseResponse:
    return redirect(url_for("alerts.index"), 303)


def _form(form: ChannelForm, row: Channel | None) -> Page:
    if not form.validate_on_submit():
        return _page(form, row), 422 if form.errors else 200
    try:
        service.save(form.fields(), current_user.username, now(), channel_id=row.id if row else None)
    except Invalid as refused:
        form.refuse(refused.errors)
        return _page(form, row), 422
    flash(_("Channel %(name)s was saved.", name=form.name.data), "success")
    return _back()


def _page(form: ChannelForm, row: Channel | None) -> str:
    return render_template("alerts/form.html", form=form, channel=row, zone_name=zone().key)
