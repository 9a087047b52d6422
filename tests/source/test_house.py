"""The house keeps its word: scripts, Procfile, locks and settings agree. Nothing of the product runs here."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import click
import pytest

import config
from app import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("ops/setup", "ops/run", "ops/redis", "ops/entry", "ops/ctl", ".ci/run")
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;]+)", re.MULTILINE)
LOCKS = ("requirements.lock", "requirements-dev.lock")
SOURCE_SUFFIXES = {".py", ".html", ".md", ".toml", ".yaml", ".in", ".lock", ".sh", ".css"}
# Of what was written for the makers of the product and is not in the repository: sections, numbers, file names.
ELSEWHERE = re.compile(
    r"(?<!RFC \d{4} )§ ?\d|the design's|requirements/|\b[Dd]ocument \d|(?<!/)\bshared/\w|\b[Ii]ssue \d+:"
    r"|\b(?:ui|plant|design|reliability|quirks)\.md\b"
)
PLACES = ("portal", "jobs", "scheduler", "ops", "migrations", "testing", "tests", "bench", "docs")

ROOTS = (
    "/srv/facho",
    "/home/operator/facho deluxe (copy)",
    "/home/señor/ñandú",
    "/srv/" + "x" * 74,  # the last that fits: 100 bytes with /instance/redis.sock
    "/srv/" + "x" * 76,
    "/srv/" + "deep/" * 40 + "facho",
    "/srv/" + "ñ" * 38,  # short in characters, too long in bytes
)


def load_script(name: str) -> ModuleType:
    """A Python file of ops/ as a module; they are programs, not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "ops" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shell(script: str, *arguments: str, **environment: str) -> str:
    """What `script` prints after ops/env.sh was sourced."""
    command = ["bash", "-euc", f"source ops/env.sh; {script}", "test", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pins(text: str) -> set[tuple[str, str]]:
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in PIN.findall(text)}


@pytest.mark.parametrize("root", ROOTS)
def test_shell_and_python_agree_on_the_address_of_the_embedded_redis(root: str) -> None:
    assert shell('default_redis_url "$1"', root) == config.default_redis_url(Path(root))


def test_shell_and_python_agree_when_temporary_files_lie_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # Python remembers the first answer
    root = "/srv/" + "deep/" * 40 + "facho"
    assert shell('default_redis_url "$1"', root) == config.default_redis_url(Path(root))


def test_a_socket_always_fits_into_the_kernels_limit() -> None:
    for root in ROOTS:
        paths = shell('redis_socket "$1"; supervisor_socket "$1"', root, TMPDIR="/tmp").splitlines()
        assert max(len(os.fsencode(f"{path}.4194304")) for path in paths) <= 107


def test_a_given_redis_url_is_kept_and_the_embedded_server_not_started() -> None:
    script = 'ROOT=/nowhere; load_env; echo "$REDIS_URL $EMBEDDED_REDIS"'
    assert shell(script, REDIS_URL="redis://10.0.0.5:6379/0") == "redis://10.0.0.5:6379/0 0"
    assert shell(script, REDIS_URL="").endswith(" 1")


def test_the_environment_wins_over_the_env_file_in_shell_as_in_python(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PORT=8001\nBIND='127.0.0.2' # here\nREDIS_URL=\"redis://h/0\"\nSECRET_KEY=hidden\n")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    script = f'ROOT="{tmp_path}"; load_env; echo "$PORT $BIND $REDIS_URL ${{SECRET_KEY:-none}}"'
    given = {"PORT": "9000", "BIND": "", "REDIS_URL": ""}
    assert shell(f"unset BIND REDIS_URL; {script}", **given) == "9000 127.0.0.2 redis://h/0 none"


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_is_executable_strict_and_parses(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK), f"chmod +x {script}"
    assert re.search(r"^set -(e?)uo pipefail$", path.read_text(), re.MULTILINE)
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_entry_of_the_procfile_becomes_a_program_that_is_restarted() -> None:
    house = load_script("procfile_to_supervisord")
    names = house.entry_names((ROOT / "Procfile").read_text())
    assert {"redis", "web", "scheduler", "pollers", "maintenance", "simulators"} <= set(names)
    text = house.supervisord_config(names, "/run/sv.sock")
    assert re.findall(r"^\[program:(.*)\]$", text, re.MULTILINE) == names
    assert text.count("\nautorestart=true\n") == text.count("\nstopasgroup=false\n") == len(names)


def test_redis_starts_first_and_so_stops_last() -> None:
    house = load_script("procfile_to_supervisord")
    assert house.entry_names((ROOT / "Procfile").read_text())[0] == "redis"
    text = house.supervisord_config(["redis", "pollers"], "/run/sv.sock")
    assert re.findall(r"^priority=(\d+)$", text, re.MULTILINE) == ["10", "20"]


def test_pollers_get_a_minute_to_finish_what_they_hold() -> None:
    text = load_script("procfile_to_supervisord").supervisord_config(["web", "pollers"], "/run/sv.sock")
    assert re.findall(r"^stopwaitsecs=(\d+)$", text, re.MULTILINE) == ["15", "60"]


def test_supervisords_own_parser_takes_a_socket_path_with_spaces_and_percent_signs() -> None:
    text = load_script("procfile_to_supervisord").supervisord_config(["web"], "/srv/a b/100% ours/sv.sock")
    assert "\nfile=/srv/a b/100%% ours/sv.sock\n" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [("web gunicorn", "line 1 is not"), ("web: a\n\n# why\nweb: b", "line 4: there are two"), ("we b: x", "line 1")],
)
def test_a_broken_procfile_is_refused_by_line(text: str, message: str) -> None:
    house = load_script("procfile_to_supervisord")
    with pytest.raises(house.ProcfileError, match=message):
        house.entry_names(text)


@pytest.mark.parametrize(("source", "lock"), [("requirements.in", LOCKS[0]), ("requirements-dev.in", LOCKS[1])])
def test_each_lock_holds_what_its_source_asks_for(source: str, lock: str) -> None:
    assert pins((ROOT / source).read_text()) <= pins((ROOT / lock).read_text()), "run `make lock`"


def test_the_development_lock_contains_the_products_lock() -> None:
    runtime, development = (pins((ROOT / lock).read_text()) for lock in LOCKS)
    assert runtime <= development, "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_each_locked_package_has_hashes_and_no_lock_names_an_address_or_a_machine(lock: str) -> None:
    text = (ROOT / lock).read_text()
    blocks = re.split(r"\n(?=[A-Za-z])", text.partition("\n    make lock\n")[2] or text)
    assert all("--hash=sha256:" in block for block in blocks if PIN.match(block))
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links|(?<![\w.])/\w+/", text)


def test_the_project_file_and_the_tools_name_one_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert project["tool"]["mypy"]["python_version"] == "3.11"


def test_every_target_of_the_makefile_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z0-9-]+):(.*)$", text, re.MULTILINE)
    assert {"help", "setup", "run", "test", "check", "bench"} <= {name for name, _ in targets}
    assert [name for name, rest in targets if "## " not in rest] == []


def test_the_example_settings_are_all_known_settings() -> None:
    named = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert named <= {name.upper() for name in config.Settings.__dataclass_fields__}


def test_tests_import_no_bench() -> None:
    """What both do to the product is in testing/; that benches import no tests is a contract in pyproject.toml."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        if name.partition(".")[0] == "bench"
    ]
    assert found == []


def test_no_file_names_a_directory_of_somebodys_machine() -> None:
    foreign = re.compile(r"(?<![\w.~])/(?:work/(?:main|shared)|root/|home/(?!operator|señor))")
    files = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in SOURCE_SUFFIXES]
    found = [
        str(path.relative_to(ROOT))
        for path in files
        if path != Path(__file__) and "vendor" not in path.parts and foreign.search(path.read_text())
    ]
    assert found == []


def test_no_file_refers_to_a_document_that_is_not_in_the_repository() -> None:
    """What a reader cannot open explains nothing: the reason stands there itself, or the ADR that has it is named."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ELSEWHERE.search(line) or ("../shared/" in line and not _takes_recordings(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "parked (design §5.9)",
        "late (§ 5.7)",
        "named so (requirements, document 3)",
        "rows (requirements/2-database.md)",
        "the language of state (shared/ui.md)",
        "fixed by the design's section 7",
        "Issue 4: in bulk",
        "quirks of OLTs (olt/quirks.md)",
    ],
)
def test_a_reference_that_leads_out_of_the_repository_is_seen(line: str) -> None:
    assert ELSEWHERE.search(line)


@pytest.mark.parametrize(
    "line", ["RFC 3414 §11.2", "portal/web/shared.py", "the document that was sent", "in requirements.in"]
)
def test_what_can_be_looked_up_may_be_cited(line: str) -> None:
    assert not ELSEWHERE.search(line)


def _texts() -> list[Path]:
    """Every file that people write, but this one, which has samples of what is forbidden."""
    below = [path for place in PLACES for path in (ROOT / place).rglob("*")]
    files = [path for path in [*below, *ROOT.iterdir()] if path.suffix in SOURCE_SUFFIXES or path.name == "Makefile"]
    return [path for path in files if path.is_file() and path != Path(__file__) and "vendor" not in path.parts]


def _takes_recordings(path: Path) -> bool:
    return not {"tests", "testing"}.isdisjoint(path.parts) or path.name == "vendors.md"


@pytest.mark.parametrize(
    "line", [line for line in (ROOT / "Procfile").read_text().splitlines() if "flask --app" in line]
)
def test_each_flask_line_of_the_procfile_is_a_command_with_arguments_it_takes(line: str) -> None:
    words = shlex.split(line.partition(": flask --app app ")[2])
    command: click.Command = click.Group(commands={command.name or "": command for command in COMMANDS})
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    assert command.make_context(str(command.name), words, resilient_parsing=False).params is not None


@pytest.mark.parametrize("name", ["LANGUAGE", "LANG", "HOST", "HOSTNAME", "USER", "PATH", "TZ", "DISPLAY"])
def test_no_setting_has_a_name_that_machines_export_for_themselves(name: str, tmp_path: Path) -> None:
    settings = config.load_settings({name: "en_US:en", "INSTANCE": str(tmp_path)}, tmp_path)
    assert name.lower() not in {item.name for item in fields(settings)}
