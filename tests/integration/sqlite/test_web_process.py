"""A web process: whose address a request has behind proxies (PROXIES), and what is done once as it starts."""

import gc
import re
import runpy
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from flask import Flask, request

from app import create_app
from config import SettingsError, load_settings
from portal.extensions import limiter
from portal.web.access import public
from testing.databases import Databases, settings_for

ROOT = Path(__file__).resolve().parents[3]


def behind(proxies: int, databases: Databases, folder: Path) -> Flask:
    """The product with that many proxies in front, and a page that says what it sees."""
    app = create_app(replace(settings_for(databases.own("sqlite", folder), folder), proxies=proxies))

    @app.get("/who")
    @public
    def who() -> str:
        return f"{request.remote_addr} {request.url}"

    return app


FORWARDED = {"X-Forwarded-For": "6.6.6.6, 203.0.113.5", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "noc.example"}


SEEN = ["127.0.0.1 http://localhost/who", "203.0.113.5 https://noc.example/who", "6.6.6.6 http://localhost/who"]


@pytest.mark.parametrize(("proxies", "seen"), [*enumerate(SEEN)])
def test_only_as_many_proxies_are_believed_as_there_are(
    proxies: int, seen: str, databases: Databases, tmp_path: Path
) -> None:
    assert behind(proxies, databases, tmp_path).test_client().get("/who", headers=FORWARDED).text == seen


def test_wrong_passwords_of_one_person_behind_a_proxy_do_not_lock_out_the_others(
    databases: Databases, tmp_path: Path
) -> None:
    app = behind(1, databases, tmp_path)
    app.config["WTF_CSRF_ENABLED"] = False
    with app.app_context():
        limiter.reset()

    def attempt(address: str, username: str) -> int:
        headers = {"X-Forwarded-For": address}
        data = {"username": username, "password": "wrong"}
        return app.test_client().post("/login", data=data, headers=headers).status_code

    assert [attempt("203.0.113.5", f"someone{n}") for n in range(11)][-1] == 429
    assert attempt("203.0.113.6", "ana") == 401
    with app.app_context():
        limiter.reset()


@pytest.mark.parametrize("text", ["-1", "4", "yes"])
def test_so_many_proxies_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PROXIES"):
        load_settings({"PROXIES": text, "INSTANCE": str(tmp_path)}, tmp_path)


# ---------------------------------------------------------------------------------------------------------- the process


def test_templates_are_ready_and_what_is_there_for_good_is_left_alone_by_the_garbage_collector(
    databases: Databases, tmp_path: Path
) -> None:
    found = re.search(r"^web: gunicorn --config (\S+) ", (ROOT / "Procfile").read_text(), re.MULTILINE)
    assert found is not None
    hooks = runpy.run_path(str(ROOT / found[1]))
    before = gc.get_freeze_count()
    app = create_app(settings_for(databases.own("sqlite", tmp_path), tmp_path))
    hooks["post_worker_init"](SimpleNamespace(wsgi=app))
    for thread in threading.enumerate():
        if thread.name == "settle":
            thread.join()
    try:
        assert gc.get_freeze_count() > max(before, 10_000)
        assert len(app.jinja_env.cache or ()) > 150, "templates are ready before they are wanted"
    finally:
        gc.unfreeze()
