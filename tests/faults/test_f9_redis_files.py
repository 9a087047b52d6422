"""F9: an append-only file that lost its end, or ends in zeros. Redis starts, or the repair of `ops/redis` makes it."""

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import default_redis_url
from portal.domain.statuses import ExecutionStatus
from testing.redis_server import RedisServer, RedisServerError, answered, redis_server
from testing.stack import ROOT
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(180)]

CUTS = 15
SCRIPT = "redis.call('LPUSH', KEYS[1], ARGV[1]); redis.call('ZADD', KEYS[2], ARGV[1], ARGV[1]); return 1"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a server that was killed amid plain commands, transactions and scripts."""
    kept = tmp_path_factory.mktemp("written") / "redis"
    with redis_server(appendonly=True) as server, server.client() as client:
        for number in range(200):
            client.hset(f"job:{number}", mapping={"data": "x" * 50, "origin": f"olt-{number}"})
            client.pipeline(transaction=True).rpush("queue", number).zadd("ready", {str(number): number}).execute()
            client.eval(SCRIPT, 2, "list", "order", number)
        server.kill()
        shutil.copytree(server.directory, kept, ignore=shutil.ignore_patterns("*.sock"))
    return kept


@pytest.fixture
def checkout(written: Path) -> Iterator[Path]:
    """As much of a checkout as `ops/redis` needs; its data folder is the test's to fill. A short path: sockets."""
    with tempfile.TemporaryDirectory(prefix="facho-f9-", dir="/tmp") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "ops", folder / "ops")
        (folder / ".venv").symlink_to(ROOT / ".venv")
        (folder / "instance").mkdir(mode=0o700)
        yield folder


def filled(checkout: Path, written: Path) -> RedisServer:
    """The checkout with that data, and a handle on its files."""
    data = checkout / "instance" / "redis"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(written, data)
    data.chmod(0o700)
    return RedisServer(data, appendonly=True)


@contextmanager
def started(checkout: Path) -> Iterator[redis.Redis]:
    """`ops/redis` as it starts the embedded server."""
    command = ["setpriv", "--pdeathsig", "KILL", "--", "bash", str(checkout / "ops" / "redis")]
    with (checkout / "out.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with redis.Redis.from_url(default_redis_url(checkout), retry=Retry(NoBackoff(), 0)) as client:
            assert answered(client, lambda: process.poll() is None), f"ops/redis ended with {process.returncode}"
            yield client
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("zeroed", [False, True], ids=["cut", "zeroed"])
def test_f9_the_embedded_redis_starts_with_any_damaged_tail(checkout: Path, written: Path, zeroed: bool) -> None:
    dice = random.Random(9)
    for _ in range(CUTS):
        server = filled(checkout, written)
        size = server.append_only_file().stat().st_size
        server.cut_tail(dice.randint(1, size - 1), zeroed=zeroed)
        with started(checkout) as client:
            assert client.llen("queue") == client.zcard("ready"), "a transaction is there or not"
            assert client.llen("list") == client.zcard("order"), "a script is there or not"
            assert client.set("writable", 1)


def test_f9_what_cannot_be_repaired_is_set_aside_and_the_server_starts_empty(checkout: Path, written: Path) -> None:
    filled(checkout, written).append_only_file().write_bytes(b"\x00" * 4096)
    with started(checkout) as client:
        assert client.dbsize() == 0 and client.set("writable", 1)


def test_f9_after_the_documented_repair_every_composite_is_run_once(site: Polled) -> None:
    with site(olts=4) as live:
        live.start("scheduler", "maintenance")
        live.due_now()
        live.stack.wait_until(lambda: len(live.executions()) == 4, "four slots")
        server = live.stack.redis
        server.kill()
        server.cut_tail(server.append_only_file().stat().st_size // 2, zeroed=True)
        with pytest.raises(RedisServerError, match="did not answer"):
            server.start()
        server.repair()
        server.start()
        live.start("pollers")
        live.wait_for(ExecutionStatus.SUCCESS, count=4)
        assert [execution.attempt for execution in live.executions()] == [1] * 4
