"""The tools of the fault tests do what they say: a proxy that swallows replies, a file that lost its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from testing.redis_proxy import RedisProxy, redis_proxy
from testing.redis_server import RedisServer, RedisServerError, redis_server

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server(appendonly=True) as made:
        yield made


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[RedisProxy]:
    with redis_proxy(server.socket_path) as made:
        yield made


def through(proxy: RedisProxy) -> redis.Redis:
    return redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0), socket_timeout=5)


def increments(client: redis.Redis, times: int) -> int:
    """How many of so many INCR were heard of."""
    heard = 0
    for _ in range(times):
        try:
            client.incr("counter")
        except redis.exceptions.ConnectionError:
            continue
        heard += 1
    return heard


def test_a_proxy_at_rest_passes_everything(server: RedisServer, proxy: RedisProxy) -> None:
    with through(proxy) as client:
        assert increments(client, 300) == 300
        assert client.lrange("nothing", 0, -1) == []
        assert len(client.pipeline().set("large", "x" * 300_000).get("large").execute()[1]) == 300_000
    assert server.client().get("counter") == b"300"


def test_what_a_swallowed_reply_answered_was_executed(server: RedisServer, proxy: RedisProxy) -> None:
    with through(proxy) as client:
        client.ping()
        proxy.swallow(1.0)
        with pytest.raises(redis.exceptions.ConnectionError):
            client.incr("counter")
        proxy.swallow(0.0)
        assert client.get("counter") == b"1"
    assert server.client().get("counter") == b"1"


def test_the_share_of_swallowed_replies_is_as_asked_and_can_be_switched(server: RedisServer, proxy: RedisProxy) -> None:
    with through(proxy) as client:
        before = proxy.swallow(0.2)
        heard = increments(client, 600)
        after = proxy.swallow(0.0)
        assert increments(client, 100) == 100
    assert after.swallowed - before.swallowed >= 600 - heard > 60
    share = (after.swallowed - before.swallowed) / (after.swallowed - before.swallowed + after.passed - before.passed)
    assert 0.13 < share < 0.27


def test_behind_a_proxy_a_server_may_go_and_come_back(server: RedisServer, proxy: RedisProxy) -> None:
    with through(proxy) as client:
        client.set("kept", 1)
        server.kill()
        with pytest.raises(redis.exceptions.ConnectionError):
            client.ping()
        server.start()
        assert client.get("kept") == b"1"


def test_a_frozen_server_leaves_its_clients_waiting(server: RedisServer, proxy: RedisProxy) -> None:
    with redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0), socket_timeout=0.2) as client:
        client.ping()
        server.freeze()
        with pytest.raises(redis.exceptions.TimeoutError):
            client.ping()
        server.thaw()
        assert client.ping()


def written(server: RedisServer, count: int = 2000) -> None:
    with server.client() as client:
        for number in range(count):
            client.rpush("list", number)


def test_a_plain_kill_loses_nothing_and_a_cut_tail_loses_the_last_writes(server: RedisServer) -> None:
    written(server)
    server.kill()
    server.start()
    assert server.client().llen("list") == 2000
    server.kill()
    assert server.cut_tail(5000) == 5000
    server.start()
    left = server.client().lrange("list", 0, -1)
    assert 1500 < len(left) < 2000 and left == [str(number).encode() for number in range(len(left))]


def test_a_zeroed_tail_keeps_the_length_of_the_file_and_the_server_refuses_it(server: RedisServer) -> None:
    written(server, 200)
    server.kill()
    path = server.append_only_file()
    size = path.stat().st_size
    server.cut_tail(1000, zeroed=True)
    assert path.stat().st_size == size and path.read_bytes().endswith(bytes(1000))
    with pytest.raises(RedisServerError, match="did not answer"):
        server.start()


def test_no_more_is_cut_than_there_is(server: RedisServer) -> None:
    written(server, 10)
    server.kill()
    assert 0 < server.cut_tail(10**9) < 10**4
    server.start()
    assert server.client().dbsize() == 0


def test_a_running_server_or_one_without_a_file_has_no_tail_to_cut(tmp_path: Path) -> None:
    with redis_server() as plain:
        with pytest.raises(RedisServerError, match="kill"):
            plain.cut_tail(1)
        plain.kill()
        with pytest.raises(RedisServerError, match="append-only"):
            plain.cut_tail(1)


def test_of_a_series_of_files_the_newest_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    for name in ("appendonly.aof.9.incr.aof", "appendonly.aof.10.incr.aof", "appendonly.aof.10.base.rdb"):
        (folder / name).write_bytes(b"x" * 100)
    server = RedisServer(tmp_path, appendonly=True)
    assert server.cut_tail(60) == 60
    assert {path.name: path.stat().st_size for path in folder.iterdir()}["appendonly.aof.10.incr.aof"] == 40
