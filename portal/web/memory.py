"""Python's garbage collector in a web process: what is there for good is not looked through again and again."""

import gc


def settle() -> None:
    """Call once, when the app is built: code, tables, templates and the catalogue of texts are left alone from then on.

    A full collection goes through some 200,000 objects otherwise, all threads stand still meanwhile (0.1 to 0.2 s),
    and a page that makes thousands of rows brings one about.
    """
    gc.collect()
    gc.freeze()
