"""Commands, those of channels, tokens and templates too: what they print, on which stream, with which exit code."""

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select

from portal import notify
from portal.cli import inventory as inventory_commands
from portal.cli.commands import COMMANDS
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import db
from portal.services.importing import inventory
from portal.services.network import olts
from portal.services.people import tokens
from portal.tables import ApiToken, Channel, Olt, User, WorkflowNode
from testing.builders import (
    make_catalogue,
    make_credential,
    make_execution,
    make_node,
    make_olt,
    make_poller,
    make_pool,
)
from testing.cast import ACTOR, COMMUNITY
from testing.commands import Run, commands
from testing.web import stored, update_rows
from tests.unit.test_inventory_file import EXAMPLE

SECRET = "planted-hook-token"
TARGET = f"json://127.0.0.1:1/{SECRET}"


@pytest.fixture
def run(app: Flask) -> Run:
    """Runs `flask <words>`; expects exit code `code`."""
    return commands(app)


@pytest.fixture
def filled(app: Flask) -> None:
    with app.app_context():
        make_catalogue()


@pytest.fixture
def waiting(app: Flask, now: datetime) -> None:
    """OLT-LIMA with one PENDING and one FAILED execution, and a busy poller."""
    with app.app_context():
        node = make_node(make_olt(), name="ONUs")
        make_execution(node, now - timedelta(minutes=5), status=ExecutionStatus.FAILED, queued_at=None,
                       error_kind="timeout", error_message="no answer\x1b[31m")  # fmt: skip
        make_execution(node, now)
        pool = make_pool(now, name="vm", host="vm")
        make_poller(pool, worker="w", status=PollerStatus.BUSY, current_olt_id=node.workflow.olt_id)


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_explains_itself(run: Run, name: str) -> None:
    assert "Usage:" in run(name, "--help").output


def test_import_tells_what_it_did_and_the_second_time_that_nothing_changed(
    run: Run, filled: None, tmp_path: Path
) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(EXAMPLE, encoding="utf-8")
    assert "dry run: nothing was written" in run("import", str(file), "--dry-run").stdout
    assert "olts: 2 created, 0 updated, 0 unchanged" in run("import", str(file)).stdout
    again = json.loads(run("import", str(file), "--json").stdout)
    assert (again["changed"], again["counts"]["olts"]["unchanged"]) == (False, 2)


def test_import_lists_every_mistake_on_stderr_and_fails(run: Run, filled: None) -> None:
    result = run("import", "-", text="olts: [{name: A, prot: 1}]\n", code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: nothing was loaded, 4 mistakes:\n  line 1, column 8: OLT A: address is")
    assert "did you mean port?" in result.stderr


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a: [", b"#" * (10 * 1024 * 1024 + 1)])
def test_import_refuses_what_is_no_inventory(run: Run, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    assert run("import", str(file), code=1).stderr.startswith("Error: nothing was loaded, one mistake:")
    run("import", str(tmp_path / "absent"), code=2)


def test_import_finds_secrets_in_any_variable_of_its_own_environment(
    run: Run, filled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_COMMUNITY", "x")
    run("import", "-", text="credentials: [{name: lab, community_env: LAB_COMMUNITY}]")
    assert "LOST is not set" in run("import", "-", text="credentials: [{name: b, community_env: LOST}]", code=1).stderr


def test_export_goes_to_stdout_or_a_file_and_holds_no_secret(app: Flask, run: Run, tmp_path: Path) -> None:
    with app.app_context():
        make_olt()
    file = tmp_path / "out.yaml"
    run("export", str(file))
    written = file.read_text(encoding="utf-8")
    assert written == run("export").stdout
    assert COMMUNITY not in written
    assert "community_env: SNMP_COMMUNITY_LAB" in written


def test_the_demonstration_is_made_once_and_starts_soon(app: Flask, run: Run) -> None:
    run("catalog", "sync")
    assert "olts: 2 created" in run("demo", "ensure").stdout
    assert "2 unchanged" in run("demo", "ensure").stdout
    with app.app_context():
        made = db.session.query(Olt).order_by(Olt.name).all()
        assert [(olt.name, olt.device_key) for olt in made] == [
            ("OLT-DEMO-HUAWEI", "127.0.0.1:20161"), ("OLT-DEMO-ZTE", "127.0.0.1:20162"),
        ]  # fmt: skip
        masters = db.session.query(WorkflowNode).filter(WorkflowNode.master_id.is_(None)).all()
        assert {(node.key, node.interval_seconds) for node in masters} == {("discovery", 60), ("rx", 60)}
        for node in masters:
            assert node.anchor_at is not None
            wait = (node.anchor_at - made[0].created_at).total_seconds()
            assert wait <= inventory_commands.DEMO_FIRST_RUN


@pytest.mark.parametrize("change", [{"name": "OURS"}, None])
def test_a_demonstration_that_somebody_deleted_or_renamed_does_not_come_back(
    app: Flask, run: Run, now: datetime, change: dict[str, str] | None
) -> None:
    run("catalog", "sync")
    run("demo", "ensure")
    with app.app_context():
        olt = db.session.query(Olt).filter_by(name="OLT-DEMO-ZTE").one()
        if change:
            olts.update(olt.id, change, "rosa", now)
        else:
            olts.delete(olt.id, "seen enough", "rosa", now)
    assert "left as it is" in run("demo", "ensure").stderr
    assert len(stored(app, select(Olt))) == 2


def test_the_catalogue_is_brought_up_to_the_shipped_files(run: Run) -> None:
    assert json.loads(run("catalog", "sync", "--json").stdout)["created"] > 0
    assert "0 created, 0 updated" in run("catalog", "sync").stdout


def test_the_first_password_is_shown_exactly_once(run: Run) -> None:
    first = run("user", "ensure-admin").stdout.splitlines()
    assert first[0] == "User:    admin"
    assert len(first[1].split()[1]) >= 16
    assert run("user", "ensure-admin").stdout == ""


def test_users_are_added_listed_and_given_new_passwords(app: Flask, run: Run) -> None:
    twice = "a good password\na good password\n"
    assert "a good" not in run("user", "add", "Rosa", "--role", "operator", text=twice).output
    assert "another user has this name" in run("user", "add", "rosa", text=twice, code=1).stderr
    assert "at least 8" in run("user", "add", "luis", text="short\nshort\n", code=1).stderr
    (listed,) = json.loads(run("user", "list", "--json").stdout)
    assert (listed["username"], listed["role"], "password_hash" in listed) == ("rosa", "operator", False)
    assert "rosa" in run("user", "list").stdout
    run("user", "passwd", "rosa", text=twice)
    assert "no user nobody" in run("user", "passwd", "nobody", text=twice, code=1).stderr
    assert stored(app, select(User.session_epoch)) == [1]


def test_a_new_key_is_a_fernet_key(run: Run) -> None:
    assert Fernet(run("keys", "new").stdout.strip())


def test_keys_rotate_counts_the_secrets(app: Flask, run: Run) -> None:
    with app.app_context():
        make_credential()
    assert "1 secrets" in run("keys", "rotate").stdout


def test_executions_are_shown_newest_first_and_filtered(run: Run, waiting: None) -> None:
    table = run("executions").stdout
    assert table.index("PENDING") < table.index("FAILED")
    assert "\x1b" not in table
    rows = json.loads(run("executions", "--json", "--olt", "OLT-LIMA", "--status", "failed").stdout)
    assert [(row["status"], row["error_kind"]) for row in rows] == [("FAILED", "timeout")]
    assert len(json.loads(run("executions", "--json", "--limit", "1").stdout)) == 1
    assert "there is no OLT OLT-PUNO" in run("executions", "--olt", "OLT-PUNO", code=1).stderr
    run("executions", "--status", "nonsense", code=2)


def test_pollers_and_what_they_hold_are_shown(run: Run, waiting: None) -> None:
    assert "OLT-LIMA" in run("pollers").stdout
    shown = json.loads(run("pollers", "--json").stdout)
    assert (shown["pollers"][0]["status"], shown["pulse"]["waiting"]) == ("BUSY", 1)


def test_the_queue_says_why_each_waits(run: Run, waiting: None) -> None:
    assert "no_pollers" in run("queue").stdout
    (row,) = json.loads(run("queue", "--json").stdout)
    assert (row["cause"], row["lane"], row["waiting"]["olt_name"]) == ("no_pollers", "normal", "OLT-LIMA")


def test_empty_lists_say_so(run: Run) -> None:
    assert "no execution yet" in run("executions").stdout
    assert "no poller has run yet" in run("pollers").stdout
    assert "nothing waits" in run("queue").stdout
    assert json.loads(run("queue", "--json").stdout) == []


def test_a_database_without_tables_is_told_with_what_to_do(app: Flask, run: Run) -> None:
    with app.app_context():
        db.drop_all()
    for words in (["executions"], ["catalog", "sync"], ["user", "ensure-admin"], ["export"]):
        assert "flask db upgrade" in run(*words, code=1).stderr


def test_an_exported_file_is_not_left_half_written(app: Flask, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    file.write_text("before", encoding="utf-8")
    with app.app_context():
        db.drop_all()
    run("export", str(file), code=1)
    assert file.read_text(encoding="utf-8") == "before"
    assert stat.S_ISREG(file.stat().st_mode)


# ------------------------------------------------------------------------------------------------------------- channels


@pytest.fixture
def channel(app: Flask) -> Run:
    """Runs `flask channel <words>`; expects exit code `code`, and that nothing secret is printed."""

    def command(*words: str, **more: Any) -> Result:
        result = commands(app, "channel")(*words, **more)
        assert SECRET not in result.output
        return result

    return command


def test_add_asks_for_the_address_without_showing_it(app: Flask, channel: Run) -> None:
    words = ("--kind", "system", "--severity", "HIGH", "--quiet", "22:00-07:00")
    assert "channel noc added" in channel("add", "noc", *words, text=f"{TARGET}\n").output
    with app.app_context():
        row = db.session.query(Channel).one()
        assert (row.target, row.alert_kinds, row.min_severity) == (TARGET, ["system"], "HIGH")
        assert (row.quiet_start, row.quiet_end) == (1320, 420)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--target", f"gopher://{SECRET}"), "target: begins with no service that is known"),
        (("--target", TARGET, "--quiet", "22-7"), "must be a time of day"),
        (("--target", TARGET, "--quiet", "22:00"), "quiet_end: is the start too"),
        (("--target", TARGET, "--per-hour", "0"), "per_hour: must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(channel: Run, words: tuple[str, ...], told: str) -> None:
    assert told in channel("add", "noc", *words, code=1).stderr


def test_list_shows_service_host_and_state(channel: Run) -> None:
    assert "there is no channel" in channel("list").output
    channel("add", "noc", "--target", TARGET)
    assert "json://127.0.0.1  not tried" in channel("list").output
    (row,) = json.loads(channel("list", "--json").stdout)
    assert (row["name"], row["address"], row["per_hour"], row["quiet"]) == ("noc", "json://127.0.0.1", 30, "")


def test_test_prints_the_true_answer_and_fails_when_it_is_no(channel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    channel("add", "noc", "--target", TARGET)
    sent: list[str] = []
    monkeypatch.setattr(notify, "send", lambda url, title, body: sent.append(url))
    assert "the receiver took the test message" in channel("test", "noc").output

    def refuse(*_message: str) -> None:
        raise notify.DeliveryFailed(notify.WHO_ARE_YOU, "error=401")

    monkeypatch.setattr(notify, "send", refuse)
    assert "refused the user, password or token: error=401" in channel("test", "noc", code=1).stderr
    assert sent == [TARGET]


def test_delete_asks_first_and_names_what_is_not_there(app: Flask, channel: Run) -> None:
    channel("add", "noc", "--target", TARGET)
    channel("delete", "noc", code=1, text="n\n")
    channel("delete", "noc", "--yes")
    assert "there is no channel of this name" in channel("delete", "noc", "--yes", code=1).stderr
    assert stored(app, select(Channel)) == []


# --------------------------------------------------------------------------------------------------------------- tokens


@pytest.fixture
def token(app: Flask) -> Run:
    """Runs `flask token <words>`; expects exit code `code`."""
    return commands(app, "token")


def test_add_prints_the_token_alone_on_stdout_and_what_it_is_on_stderr(app: Flask, token: Run) -> None:
    result = token("add", "CI", "--role", "operator")
    clear = result.stdout.removesuffix("\n")
    assert "token ci with role operator" in result.stderr
    with app.app_context():
        found = tokens.authenticate(clear, datetime.now(UTC))
    assert found is not None and (found.name, found.role) == ("ci", "operator")


def test_a_token_is_shown_once_and_never_listed(token: Run) -> None:
    clear = token("add", "ci").stdout.strip()
    for listed in (token("list").output, token("list", "--json").output):
        assert clear not in listed
        assert clear[:12] in listed


def test_add_in_json_says_when_it_ends(token: Run) -> None:
    made = json.loads(token("add", "ci", "--expires", "30", "--json").stdout)
    assert made.keys() == {"name", "role", "expires_at", "token"}
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)


def test_list_tells_active_expired_and_revoked_apart(app: Flask, token: Run) -> None:
    assert "flask token add NAME" in token("list").stdout
    assert json.loads(token("list", "--json").stdout) == []
    for name in ("active", "old", "stolen"):
        token("add", name, "--expires", "1")
    token("revoke", "stolen")
    update_rows(app, ApiToken, ApiToken.name == "old", expires_at=datetime.now(UTC) - timedelta(days=1))
    states = {row["name"]: row["state"] for row in json.loads(token("list", "--json").stdout)}
    assert states == {"active": "active", "old": "expired", "stolen": "revoked"}
    heads = token("list").stdout.splitlines()[0].split()
    assert heads == ["NAME", "PREFIX", "ROLE", "STATE", "CREATED", "EXPIRES", "LAST", "USED", "REVOKED"]


def test_revoke_says_whether_it_had_been_done_before(token: Run) -> None:
    token("add", "ci")
    assert token("revoke", "ci").stdout == "token revoked\n"
    assert token("revoke", "ci").stdout == "this token had been revoked before\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("add", "two words"), 1, "name: must be 1 to 64 letters"),
        (("add", "taken"), 1, "choose another name"),
        (("add", "ci", "--role", "root"), 2, "'viewer', 'operator', 'admin'"),
        (("add", "ci", "--expires", "0"), 2, "1<=x<=3650"),
        (("add", "ci", "--expires", "soon"), 2, "not a valid integer"),
        (("add",), 2, "NAME"),
        (("revoke", "nobody"), 1, "there is no token nobody: `flask token list` shows them"),
    ],
)
def test_a_mistake_is_told_on_stderr(token: Run, words: tuple[str, ...], code: int, told: str) -> None:
    token("add", "taken")
    result = token(*words, code=code)
    assert (told in result.stderr, result.stdout) == (True, "")


# ------------------------------------------------------------------------------------------------------------ templates

FILE = """
templates: [{name: basic, nodes: [{key: state, kind: discovery, oid: huawei.onu_state, interval: 15m}]}]
olts: [{name: A, address: 10.0.0.1, brand: huawei, credential: lab, template: basic}]
"""


@pytest.fixture
def basic(app: Flask, now: datetime) -> None:
    """The template basic of one node, which one OLT has."""
    with app.app_context():
        make_catalogue()
        make_credential()
        inventory.load(FILE, dry_run=False, actor=ACTOR, now=now)


def test_templates_are_listed_with_their_switch_and_how_much_hangs_on_them(run: Run, basic: None) -> None:
    lines = run("template", "list").stdout.splitlines()
    assert [line.split() for line in lines] == [["TEMPLATE", "ENABLED", "NODES", "OLTS"], ["basic", "yes", "1", "1"]]
    assert run("template", "disable", "basic").stdout == "template basic is disabled\n"
    told = {"id": 1, "name": "basic", "description": "", "enabled": False, "nodes": 1, "olts": 1}
    assert json.loads(run("template", "list", "--json").stdout) == [told]
    assert run("template", "enable", "basic").stdout == "template basic is enabled\n"


def test_no_template_and_an_unknown_one_are_told_in_words(run: Run) -> None:
    assert run("template", "list").stdout == "there is no template\n"
    result = run("template", "disable", "basik", code=1)
    assert (result.stdout, "there is no template basik" in result.stderr) == ("", True)
