"""Command template: what it prints, and what it refuses."""

import json
from datetime import datetime

import pytest
from click.testing import Result
from flask import Flask

from portal.cli.templates import template
from portal.services.importing import inventory
from testing.builders import make_catalogue, make_credential
from testing.cast import ACTOR

FILE = """
templates: [{name: basic, nodes: [{key: state, kind: discovery, oid: huawei.onu_state, interval: 15m}]}]
olts: [{name: A, address: 10.0.0.1, brand: huawei, credential: lab, template: basic}]
"""


@pytest.fixture
def filled(app: Flask, now: datetime) -> Flask:
    with app.app_context():
        make_catalogue()
        make_credential()
        inventory.load(FILE, dry_run=False, actor=ACTOR, now=now)
    return app


def run(app: Flask, *words: str) -> Result:
    return app.test_cli_runner().invoke(template, list(words))


def test_templates_are_listed_with_their_switch_and_how_much_hangs_on_them(filled: Flask) -> None:
    lines = run(filled, "list").stdout.splitlines()
    assert [line.split() for line in lines] == [["TEMPLATE", "ENABLED", "NODES", "OLTS"], ["basic", "yes", "1", "1"]]
    assert run(filled, "disable", "basic").stdout == "template basic is disabled\n"
    assert json.loads(run(filled, "list", "--json").stdout) == [
        {"id": 1, "name": "basic", "description": "", "enabled": False, "nodes": 1, "olts": 1}
    ]
    assert run(filled, "enable", "basic").stdout == "template basic is enabled\n"


def test_no_template_is_told_in_words(app: Flask) -> None:
    assert run(app, "list").stdout == "there is no template\n"


def test_an_unknown_template_is_an_error(filled: Flask) -> None:
    result = run(filled, "disable", "basik")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no template basik" in result.stderr
