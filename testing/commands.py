"""Commands of the product (`flask …`), called by tests."""

from collections.abc import Callable

from click.testing import Result
from flask import Flask

Run = Callable[..., Result]


def commands(app: Flask, *group: str) -> Run:
    """Runs `flask <group> <words>`, with `text` typed; expects exit code `code`."""

    def run(*words: str, code: int = 0, text: str | None = None) -> Result:
        result = app.test_cli_runner().invoke(args=[*group, *words], input=text)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run
