"""docs/settings.md says what config.py reads."""

from pathlib import Path

import pytest

from testing import settings_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


@pytest.mark.parametrize("variable", settings_page.rows())
def test_every_setting_is_documented_with_its_default_and_meaning(variable: str) -> None:
    wanted = settings_page.rows()[variable]
    remedy = "run: python -m testing.settings_page > docs/settings.md"
    assert wanted in PAGE.read_text(encoding="utf-8").splitlines(), remedy


def test_no_setting_is_documented_that_does_not_exist() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    documented = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert documented == settings_page.rows().keys()
