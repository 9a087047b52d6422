"""What the first page weighs and when it is painted: Chromium with an empty cache on a throttled line, real gunicorn.

Goals: 350 KB transferred for the first page, first paint within a second on "Fast 4G" (as Chromium's tools define it).
The slow profile is told, not judged. Run: `python -m bench.web_weight`; prints one line of JSON.
"""

import argparse
import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from flask_migrate import upgrade
from playwright.sync_api import Browser

from app import create_app
from bench.web import MIGRATIONS
from config import load_settings
from portal.extensions import db
from testing import seed
from testing.browser import headless_chromium
from testing.cast import password_of
from testing.measuring import grounds
from testing.measuring.quantiles import quantile
from testing.served import free_port, served
from testing.stack import stack

GOAL_OCTETS, GOAL_PAINT_MS = 350_000, 1000
PAGES = ("/login", "/", "/olts/", "/executions/")


@dataclass(frozen=True)
class Line:
    """Milliseconds until an answer begins, and bits a second."""

    latency: float
    down: float
    up: float


LINES = {"fast_4g": Line(165, 8.1e6, 1.35e6), "slow_4g": Line(562.5, 1.44e6, 0.675e6)}
_PAINT = """() => new Promise((done) => {
    const look = () => {
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        if (paint) { done(paint.startTime); } else { requestAnimationFrame(look); }
    };
    look();
})"""


def visit(browser: Browser, address: str, path: str, line: Line, cookies: list[Any]) -> dict[str, float]:
    """A first visit: octets as they came over the wire, requests, milliseconds to the first paint of content."""
    context = browser.new_context(locale="es", viewport={"width": 1440, "height": 900})
    context.add_cookies(cookies)
    page = context.new_page()
    tools = context.new_cdp_session(page)
    octets: list[float] = []
    tools.on("Network.loadingFinished", lambda event: octets.append(event["encodedDataLength"]))
    tools.send("Network.enable")
    tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    tools.send("Network.emulateNetworkConditions", {
        "offline": False, "latency": line.latency, "downloadThroughput": line.down / 8, "uploadThroughput": line.up / 8,
    })  # fmt: skip
    page.goto(address + path, wait_until="load")
    found = {"paint_ms": float(page.evaluate(_PAINT)), "octets": sum(octets), "requests": len(octets)}
    context.close()
    return found


def log_in(browser: Browser, address: str) -> list[Any]:
    """Cookies of an operator."""
    page = browser.new_page()
    page.goto(f"{address}/login")
    page.fill("[name=username]", "operator")
    page.fill("[name=password]", password_of("operator"))
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{address}/")
    found = page.context.cookies()
    page.close()
    return list(found)


def measure(browser: Browser, address: str, times: int) -> dict[str, Any]:
    """Line → page → medians of some visits."""
    cookies, found = log_in(browser, address), dict[str, Any]()
    for name, line in LINES.items():
        for path in PAGES:
            visits = [visit(browser, address, path, line, [] if path == "/login" else cookies) for _ in range(times)]
            medians = {what: round(quantile([one[what] for one in visits], 0.5)) for what in visits[0]}
            found.setdefault(name, {})[path] = medians
    return found


def run(times: int) -> dict[str, Any]:
    """A portal with 300 OLTs, served and looked at."""
    with ExitStack() as exits:
        running = exits.enter_context(stack(exits.enter_context(grounds.folder()), tempo=1, timezone="America/Lima"))
        app = create_app(load_settings(running.environment))
        with app.app_context():
            logging.getLogger("alembic").setLevel(logging.WARNING)
            upgrade(MIGRATIONS)
            db.session.remove()
        seed.seed(app, "many")
        with app.app_context():
            db.session.remove()
            db.engine.dispose()
        port = free_port()
        exits.enter_context(served(running, port))
        browser = exits.enter_context(headless_chromium())
        found = measure(browser, f"http://127.0.0.1:{port}", times)
    fast = found["fast_4g"].values()
    passed = {"octets": max(one["octets"] for one in fast) <= GOAL_OCTETS,
              "first_paint": max(one["paint_ms"] for one in fast) <= GOAL_PAINT_MS}  # fmt: skip
    return {**found, "pass": passed}


def main() -> None:
    """Look, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    found = run(parser.parse_args().times)
    print(json.dumps({"bench": "web_weight", **found}))
    raise SystemExit(0 if all(found["pass"].values()) else 1)


if __name__ == "__main__":
    main()
