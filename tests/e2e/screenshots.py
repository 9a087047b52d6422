"""Takes the pictures of every page (docs/screens) from a demonstration that really polls. Run: `make screenshots`.

Four simulated OLTs are polled over SNMP; one loses its line, one is paused, a template is tried on a fifth. What a
minute cannot bring is made up by `testing`: the promises of the day before with their violations, the pool's last
hour, the power of one ONU over a week, the alerts that were sent. `-k olts` takes only pictures whose name has "olts".
"""

import argparse
import logging
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flask import Flask
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import func, select, update

from app import create_app
from config import load_settings
from jobs.snmp.simulator.farm import Farm, start_farm
from portal import tables as m
from portal.domain.statuses import OltState, Role
from portal.extensions import db, transaction
from portal.services.cataloguing import catalogue
from portal.services.dispatch import run_requests
from portal.services.importing import inventory
from portal.services.network import olts, rollouts, templates, workflows
from portal.services.people import tokens, users
from portal.services.trying import probes, trials
from testing import routes, seed, seed_quotas
from testing.browser import headless_chromium
from testing.pages import Visitor
from testing.stack import ROOT, Stack, stack
from tests.e2e.conftest import serve

FOLDER = ROOT / "docs" / "screens"
LOGIN = "auth-login.png"
PASSWORD = "correct horse battery"
LIMA, CUSCO, PIURA, TACNA, ICA, PUNO = range(1, 7)  # OLTs, as they are numbered
SIMULATED = (
    "huawei@127.0.0.1:0,onus=64,churn=0.05", "zte@127.0.0.1:0,onus=48,churn=0.05",
    "huawei@127.0.0.1:0,onus=40,churn=0.05,seed=3", "zte@127.0.0.1:0,onus=32,churn=0.05,seed=4",
    "huawei@127.0.0.1:0,onus=24,churn=0.05,seed=5",
)  # fmt: skip
MORE = """
  - {{name: OLT-PIURA-01, address: 127.0.0.1, port: {2}, brand: huawei, model: MA5608T, credential: demo, site: Piura,
     template: demo-huawei, timeout: 1, retries: 0}}
  - {{name: OLT-TACNA-01, address: 127.0.0.1, port: {3}, brand: zte, model: C320, credential: demo, site: Tacna,
     template: demo-zte}}
  - {{name: OLT-ICA-01, address: 127.0.0.1, port: {4}, brand: huawei, model: MA5608T, credential: demo, site: Ica}}
  - {{name: OLT-PUNO-01, address: 192.0.2.6, port: 161, brand: zte, model: C320, credential: demo, site: Puno}}
"""

ENGLISH = {
    "dashboard.index", "olts.index", "olts.detail", "workflows.detail", "executions.index", "pollers.index",
    "quotas.index", "violations.index", "onus.index", "onus.detail",
}  # fmt: skip
DECIDING = ("olts.detail", "workflows.detail", "onus.index")
QUERY = {"onus.index": "q=muñoz", "palette.index": "q=lima"}  # worth more than the page without


@dataclass(frozen=True)
class Picture:
    """One page as it is shown: `kind` is "", "en", "dark" or "390"."""

    endpoint: str
    path: str
    kind: str = ""

    @property
    def name(self) -> str:
        """Of its file, without what every index page ends with."""
        stem = self.endpoint.removesuffix(".index").replace(".", "-").replace("_", "-")
        return f"{stem}.{self.kind}.png" if self.kind else f"{stem}.png"


# -- what is there to see


def _set_up(app: Flask, ports: list[int]) -> None:
    now = datetime.now(UTC)
    demo = (ROOT / "portal" / "demo.yaml").read_text().replace("site: demo", "site: Lima")
    for told, here in {"DEMO-HUAWEI": "LIMA-01", "DEMO-ZTE": "CUSCO-01", "20161": ports[0], "20162": ports[1]}.items():
        demo = demo.replace(told, str(here))
    demo += MORE.format(*ports)
    catalogue.sync(catalogue.load_shipped(), now)
    inventory.load(demo, dry_run=False, actor="demo", now=now, first_run_in=5)
    for name, role in (("admin", Role.ADMIN), ("rosa", Role.OPERATOR), ("visita", Role.VIEWER)):
        users.create(name, PASSWORD, role, "demo", now)
    tokens.create("inventario", Role.VIEWER, "admin", now, now + timedelta(days=90))
    for node in _masters(PIURA):
        workflows.update_node(node.id, {"max_retries": "0"}, "rosa", now)
    olts.delete(PUNO, "Equipo retirado del nodo", "rosa", now)


def _trouble(farm: Farm) -> None:
    """What a person and the world do to it after the first runs."""
    now = datetime.now(UTC)
    farm.unplug(PIURA - 1)
    for node in _masters(PIURA):
        run_requests.run_now(node.id, "rosa", now)
    olts.pause([TACNA], "Cambio de tarjeta en el nodo", now + timedelta(hours=2), "rosa", now)
    rollouts.start(templates.by_name("demo-huawei"), ICA, [ICA, LIMA], "rosa", now)
    probes.of_olt(LIMA, "rosa", now)
    trials.of_node(_masters(LIMA)[0].id, "rosa", now)


def _yesterday() -> None:
    """The past that a demonstration of a minute has not: before anything runs, so that this hour is what is read."""
    now, dice = datetime.now(UTC), random.Random(5)
    seen = {
        "acknowledged_at": now - timedelta(hours=5),
        "acknowledged_by": "rosa",
        "note": "Enlace saturado; reportado",
    }
    with transaction() as session:
        mine = [node for olt in (LIMA, CUSCO, PIURA, TACNA) for node in _masters(olt)]
        seed_quotas.fill(session, mine, now, this_hour=False)
        seed_quotas.fill_slots(session, now)
        seed.add_alerts(session, now)
        told = {"subject": "OLT-CUSCO-01 no responde", "body": "3 ejecuciones seguidas terminaron sin respuesta."}
        session.execute(update(m.Notification).values(told))
        old = m.QuotaViolation.period_start < now - timedelta(hours=6)
        session.execute(update(m.QuotaViolation).where(old).values(seen))
        for ago in range(60, 3600, 10):
            busy = max(2.0, dice.gauss(38 + 22 * math.sin(ago / 500), 5))
            figures = {"busy_pollers": round(busy / 25), "queue_size": max(0, round(dice.gauss(2, 2)))}
            session.add(m.PollerStats(total_pollers=4, busy_percentage=busy, timestamp=now - timedelta(seconds=ago),
                                      **figures))  # fmt: skip


def _last_week() -> None:
    """The power of the ONU that is shown, as it came to where it was read just now."""
    with transaction() as session:
        for metric in ("onu_rx_power", "onu_olt_rx_power"):
            last = session.get_one(m.OnuData, (_shown_onu(), metric)).number
            session.add_all(_week(_shown_onu(), metric, last or -20.0, datetime.now(UTC), random.Random(5)))


def _week(onu: int, metric: str, level: float, now: datetime, dice: random.Random) -> Iterator[m.OnuHistory]:
    """A connector that was dirty until somebody cleaned it two days ago; an hour of darkness on the fourth."""
    for quarter in range(7 * 96, 0, -1):
        at = now - quarter * timedelta(minutes=15)
        dark, dirty = 300 < quarter < 305, 3.5 if quarter > 2 * 96 else 0.0
        value = None if dark else round(level - dirty + 0.4 * math.sin(quarter / 15) + dice.gauss(0, 0.15), 2)
        yield m.OnuHistory(
            onu_id=onu, metric=metric, collected_at=at, mean=value, minimum=value, maximum=value, last=value
        )


def _masters(olt_id: int) -> list[m.WorkflowNode]:
    flow = select(m.WorkflowNode).where(m.WorkflowNode.workflow.has(olt_id=olt_id), m.WorkflowNode.master_id.is_(None))
    return list(db.session.scalars(flow.order_by(m.WorkflowNode.id)))


def _shown_onu() -> int:
    """A lit one on the second port: on the first stand the simulator's oddest customers."""
    return db.session.scalars(select(m.Onu.id).where(m.Onu.olt_id == LIMA, m.Onu.port == 1, m.Onu.online)).first() or 1


def _polled() -> bool:
    """Every master of the OLTs that are read has succeeded."""
    ready = select(func.count()).where(m.WorkflowNode.last_success_at.is_not(None), m.WorkflowNode.master_id.is_(None))
    return (db.session.scalar(ready) or 0) >= sum(len(_masters(olt)) for olt in (LIMA, CUSCO, PIURA, TACNA))


def _in_trouble() -> bool:
    """The line is known to be lost, what was asked for has come, the coordinator has planned."""
    asks: Iterable[object] = (
        select(m.Olt.id).where(m.Olt.id == PIURA, m.Olt.state == OltState.UNREACHABLE),
        select(m.Probe.id).where(m.Probe.status == m.ProbeStatus.SUCCESS),
        select(m.Trial.id).where(m.Trial.status == m.TrialStatus.SUCCESS),
        select(m.ExecutionPlan),
        select(m.Onu.id).where(m.Onu.olt_id == ICA),
    )
    return all(db.session.execute(ask).first() is not None for ask in asks)  # type: ignore[call-overload]


def _fresh(true: Callable[[], bool]) -> Callable[[], bool]:
    def asked() -> bool:
        db.session.rollback()
        db.session.expire_all()
        return true()

    return asked


# -- the pictures


def _pictures(app: Flask) -> list[Picture]:
    """Every page of the URL map once; parts of pages and files are known by what they answer."""
    routes.PARAMETERS["onu_id"] = lambda _session: _shown_onu()
    found: dict[str, str] = {}
    for one in routes.addresses(app, db.session()):
        if one.endpoint not in found or one.query == QUERY.get(one.endpoint):
            found[one.endpoint] = one.path
    found |= {name: f"{found[name].partition('?')[0]}?{query}" for name, query in QUERY.items()}
    missing = [endpoint for endpoint, path in found.items() if not path]
    assert not missing, f"nothing to show there: {missing}"
    person = Visitor(app)
    person.login("admin", PASSWORD)
    answers = {endpoint: person.get(path) for endpoint, path in found.items()}
    whole = [endpoint for endpoint, got in answers.items() if got.status_code == 200 and "</html>" in got.text[-20:]]
    made = [Picture(endpoint, found[endpoint]) for endpoint in ("auth.login", *whole)]
    made += [Picture(endpoint, found[endpoint], "en") for endpoint in whole if endpoint in ENGLISH]
    made += [Picture(endpoint, found[endpoint], kind) for kind in ("dark", "390") for endpoint in DECIDING]
    return sorted(made, key=lambda one: (one.kind, one.path))


def _tab(browser: Browser, address: str, kind: str, wanted: str) -> Page:
    """Logged in, as the pictures of this kind want it; the way in is a picture of its own."""
    context = browser.new_context(
        base_url=address, locale="en" if kind == "en" else "es", timezone_id="America/Lima",
        color_scheme="dark" if kind == "dark" else "light", reduced_motion="reduce",
        viewport={"width": 390 if kind == "390" else 1440, "height": 844 if kind == "390" else 900},
    )  # fmt: skip
    page = context.new_page()
    page.goto("/login")
    if not kind and wanted in LOGIN:
        _settle(page)
        page.screenshot(path=FOLDER / LOGIN)
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{address}/")
    return page


def _settle(page: Page) -> None:
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=30_000)  # parts that load after the page
    page.evaluate("document.fonts.ready")


def _take(page: Page, picture: Picture) -> None:
    page.goto(picture.path)
    _settle(page)
    if picture.endpoint == "workflows.detail" and picture.kind != "390":
        page.locator(".nw-node.is-master h2 a").first.click()
        expect(page.locator("#what_if .card")).to_be_visible(timeout=30_000)
    page.screenshot(path=FOLDER / picture.name)


def _photograph(address: str, pictures: list[Picture], wanted: str) -> None:
    with headless_chromium() as browser:
        for kind in sorted({one.kind for one in pictures}):
            page = _tab(browser, address, kind, wanted)
            for picture in pictures:
                if picture.kind == kind and wanted in picture.name and picture.name != LOGIN:
                    _take(page, picture)
            page.context.close()


def _shrink(names: Iterable[str]) -> None:
    """256 colours are enough for a page; a picture is then a third as large."""
    paths = [str(FOLDER / name) for name in names]
    subprocess.run(["pngquant", "--force", "--skip-if-larger", "--ext", ".png", "256", *paths], check=False)


def _index(pictures: list[Picture]) -> None:
    """docs/screens/README.md: each page with its address, and the other pictures of it."""
    others: dict[str, list[str]] = {}
    for one in pictures:
        if one.kind:
            others.setdefault(one.endpoint, []).append(f"[{one.kind}]({one.name})")
    lines = [f"| `{one.path}` | [{one.name}]({one.name}) | {' '.join(others.get(one.endpoint, ()))} |"
             for one in pictures if not one.kind]  # fmt: skip
    said = " ".join((__doc__ or "").split("\n\n", 1)[1].rpartition(" `-k")[0].split())
    shown = "\n\n".join(
        f"![{name}]({name}.png)" for name in ("dashboard", "olts-detail", "workflows-detail", "onus-detail")
    )
    (FOLDER / "README.md").write_text(
        f"# Every page\n\nTaken by `make screenshots`, which also writes this list. {said}\n\n"
        "1440 × 900, Spanish, light; `en`: English; `dark`; `390`: on a phone.\n\n"
        "| page | picture | also |\n| --- | --- | --- |\n" + "\n".join(lines) + f"\n\n{shown}\n"
    )


# -- all of it


def _demonstration(running: Stack, farm: Farm, wanted: str) -> list[Picture]:
    """Fill, poll, photograph; the pictures of all pages, also of those that were not wanted now."""
    running.run("db", "upgrade")
    app = create_app(load_settings(running.environment))
    with app.app_context():
        _set_up(app, farm.ports)
        _yesterday()
        db.session.remove()
        db.engine.dispose()
        for name in ("scheduler", "pollers", "maintenance", "upkeep", "probes", "trials"):
            running.start(name)
        running.wait_until(_fresh(_polled), "the first runs", 120)
        _trouble(farm)
        _last_week()
        running.wait_until(_fresh(_in_trouble), "an OLT that does not answer", 180)
        with transaction() as session:
            session.execute(update(m.User).values(language=""))
        pictures = _pictures(app)
        db.session.remove()
    with serve(app) as address:
        _photograph(address, pictures, wanted)
    return pictures


def main() -> None:
    """The pictures, shrunk, and their list."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only pictures whose name has this")
    wanted = parser.parse_args().k
    if shutil.which("pngquant") is None:
        sys.exit("pngquant is missing: apt-get install pngquant")
    FOLDER.mkdir(exist_ok=True)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="pictures-", dir="/tmp") as folder,
        start_farm(SIMULATED) as farm,
        stack(Path(folder), pollers=4, timezone="America/Lima", auto_pause_after=1) as running,
    ):
        pictures = _demonstration(running, farm, wanted)
    names = {one.name for one in pictures}
    for gone in {path.name for path in FOLDER.glob("*.png")} - names:
        (FOLDER / gone).unlink()
    _shrink(name for name in names if wanted in name)
    _index(pictures)
    size = sum(path.stat().st_size for path in FOLDER.glob("*.png"))
    print(f"{len(names)} pictures, {size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
