"""Takes the pictures of the documentation from a demonstration that really polls. Run: `make screenshots`."""

import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask
from playwright.sync_api import Page, sync_playwright
from werkzeug.serving import make_server

from app import create_app
from config import load_settings
from jobs.snmp.simulator.farm import start_farm
from portal.extensions import db
from portal.services.cataloguing import catalogue
from portal.services.importing import inventory
from portal.services.people import users
from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.support.stack import ROOT, Stack, stack

PASSWORD = "correct horse battery"
PICTURES = {
    "dashboard": "/",
    "olt": "/olts/1",
    "workflow": "/olts/1/workflow",
    "onus": "/olts/1/onus",
    "catalogue": "/catalogue/?brand=zte",
    "pollers": "/pollers/",
    "quotas": "/quotas/",
}
POLLED_SECONDS = 100


def _fill(app: Flask, ports: list[int]) -> None:
    now = datetime.now(UTC)
    demo = (ROOT / "portal" / "demo.yaml").read_text()
    for before, port in zip((20161, 20162), ports, strict=True):
        demo = demo.replace(str(before), str(port))
    with app.app_context():
        catalogue.sync(catalogue.load_shipped(), now)
        inventory.load(demo, dry_run=False, actor="demo", now=now, first_run_in=5)
        users.create("admin", PASSWORD, "admin", "demo", now)
        db.session.remove()
        db.engine.dispose()


def _photograph(page: Page, address: str, folder: Path) -> None:
    page.goto(f"{address}/login")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{address}/")
    page.wait_for_timeout(POLLED_SECONDS * 1000)
    for name, path in PICTURES.items():
        page.goto(address + path)
        page.wait_for_timeout(1500)
        page.screenshot(path=folder / f"{name}.png")


def _run(running: Stack, ports: list[int]) -> None:
    running.run("db", "upgrade")
    app = create_app(load_settings(running.environment))
    _fill(app, ports)
    for name in ("scheduler", "pollers", "maintenance"):
        running.start(name)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(locale="es", viewport={"width": 1440, "height": 900}).new_page()
        _photograph(page, f"http://127.0.0.1:{server.server_port}", ROOT / "docs" / "images")
        browser.close()
    server.shutdown()


def main() -> None:
    """Two simulated OLTs, polled for a while, then the pictures."""
    (ROOT / "docs" / "images").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="pictures-", dir="/tmp") as folder,
        start_farm(["huawei@127.0.0.1:0,onus=64,churn=0.05", "zte@127.0.0.1:0,onus=48,churn=0.05"]) as farm,
        stack(Path(folder), pollers=4, timezone="America/Lima") as running,
    ):
        _run(running, farm.ports)


if __name__ == "__main__":
    main()
