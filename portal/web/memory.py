"""A web process once the app is built: templates ready, and the garbage collector kept from what is there for good."""

import gc
import threading

from flask import Flask


def settle(app: Flask) -> None:
    """Call once, before anybody asks or soon after. Takes some 2 s, nearly all of it for the templates.

    A template is compiled when it is first wanted otherwise, and whoever opens the portal right after its start waits
    a second for it. And the collector goes through some 200,000 objects again and again, all threads stand still
    meanwhile (0.1 to 0.2 s), and a page that makes thousands of rows brings one about.
    """
    for name in app.jinja_env.list_templates(extensions=["html"]):
        app.jinja_env.get_template(name)
    gc.collect()
    gc.freeze()


def settle_beside(app: Flask) -> threading.Thread:
    """The same while the process answers already."""
    thread = threading.Thread(target=settle, args=(app,), name="settle", daemon=True)
    thread.start()
    return thread
