"""What a web process does once, as the Procfile starts it."""

import gc
import re
import runpy
import threading
from pathlib import Path
from types import SimpleNamespace

from app import create_app
from testing.databases import Databases, settings_for

ROOT = Path(__file__).resolve().parents[3]


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
