"""The palette: jump to a page, an OLT or an ONU from anywhere. A page of its own where scripts do not run."""

from flask import Blueprint, Response
from flask_babel import gettext as _

from portal.domain.searching import folded
from portal.domain.statuses import Role
from portal.queries import palette
from portal.web import args, live
from portal.web.access import requires
from portal.web.frame import Page, navigation

bp = Blueprint("palette", __name__)


@bp.get("/palette")
@requires(Role.VIEWER)
def index() -> Response:
    """?q=: a part of a page's name, of an OLT's name or address, of an ONU's serial, code, description or position."""
    q = args.text("q")
    return live.render("palette/index.html", title=_("Go to"), q=q, pages=_pages(q), found=palette.find(q))


def _pages(q: str) -> list[Page]:
    """Those of the rail whose name holds it; all of them as long as nothing is written."""
    wanted = folded(q)
    return [page for page in navigation() if wanted in folded(str(page.label))]
