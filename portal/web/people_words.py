"""What roles may do, and how the state of a token looks. Texts only."""

from collections.abc import Mapping

from flask_babel import LazyString
from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext as pgettext  # under the name that pybabel looks for

from portal.domain.statuses import Role
from portal.queries.people import TokenState
from portal.web.words import Face

POWERS: Mapping[Role, LazyString] = {
    Role.VIEWER: _l("Sees OLTs, ONUs, workflows and everything that runs."),
    Role.OPERATOR: _l("Also adds and changes OLTs, workflows and templates, runs and cancels, acknowledges."),
    Role.ADMIN: _l("Also credentials, alerts, catalogue, pollers, users, tokens and the audit log."),
}

TOKEN_POWERS: Mapping[Role, LazyString] = {
    Role.VIEWER: _l("Reads everything the API answers."),
    Role.OPERATOR: _l("Also runs nodes and cancels executions."),
    Role.ADMIN: _l("Whatever the API can do, now and later: give it only where nothing less is enough."),
}

TOKEN_STATES: Mapping[TokenState, Face] = {
    TokenState.ACTIVE: Face(pgettext("token", "Valid"), "quiet", "circle-check"),
    TokenState.EXPIRING: Face(_l("Expires soon"), "amber", "clock-exclamation"),
    TokenState.EXPIRED: Face(pgettext("token", "Expired"), "muted", "clock"),
    TokenState.REVOKED: Face(pgettext("token", "Revoked"), "muted", "ban"),
}

USER_ACTIVE = Face(pgettext("user", "Active"), "quiet", "circle-check")
USER_INACTIVE = Face(pgettext("user", "Deactivated"), "muted", "ban")

LANGUAGE_NAMES = {"es": "Español", "en": "English"}
