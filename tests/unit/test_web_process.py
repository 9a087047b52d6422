"""What a web process does once, as the Procfile starts it."""

import gc
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_there_for_good_is_left_alone_by_the_garbage_collector() -> None:
    found = re.search(r"^web: gunicorn --config (\S+) ", (ROOT / "Procfile").read_text(), re.MULTILINE)
    assert found is not None
    hooks = runpy.run_path(str(ROOT / found[1]))
    before = gc.get_freeze_count()
    hooks["post_worker_init"](None)
    try:
        assert gc.get_freeze_count() > max(before, 10_000)
    finally:
        gc.unfreeze()
