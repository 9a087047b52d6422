"""Which Redis server ops/redis starts: none that is older than the floor."""

import os
import subprocess
from pathlib import Path

import pytest

OPS_REDIS = Path(__file__).resolve().parents[2] / "ops" / "redis"


def which(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """What ops/redis chooses where the only redis-server on the path says that it has this version."""
    server = folder / "redis-server"
    server.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0 malloc=libc bits=64'\n")
    server.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run([OPS_REDIS, "--which"], env=os.environ | {"PATH": path}, capture_output=True, text=True)


@pytest.mark.parametrize("version", ["7.0.15", "7.2.0", "8.0.3", "10.0.0"])
def test_a_server_of_the_floor_or_newer_is_taken(tmp_path: Path, version: str) -> None:
    assert which(tmp_path, version).stdout.strip() == str(tmp_path / "redis-server")


@pytest.mark.parametrize("version", ["6.2.5", "7.0.9", "7.0.14", ""])
def test_an_older_one_is_passed_over_and_refused_where_there_is_no_other(tmp_path: Path, version: str) -> None:
    chosen = which(tmp_path, version)
    assert str(tmp_path) not in chosen.stdout
    if chosen.returncode:
        assert "7.0.15" in chosen.stderr and "ops/setup" in chosen.stderr
