"""`flask snmp`: what it prints, whom it asks, and that an OLT of ours is read under its lease or not at all."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask
from redis import Redis

from jobs import claim as claims
from jobs import cli_snmp, trying
from jobs.snmp.fake import FakeSession, Faults, fake_factory
from portal.domain.composite import SnmpTarget
from portal.extensions import db
from portal.services.cataloguing import catalogue, catalogue_shipped
from portal.tables import Olt, Onu, PonPort
from testing import builders
from testing.cast import COMMUNITY
from testing.commands import Run, commands
from tests.integration.test_services_trials import PASSWORD, PORT, POWER, STATE

SYSTEM: dict[str, int | bytes | str | None] = {
    "1.3.6.1.2.1.1.1.0": b"Huawei Integrated Access Software",
    "1.3.6.1.2.1.1.2.0": "1.3.6.1.4.1.2011.2.248",
    "1.3.6.1.2.1.1.3.0": 900,
    "1.3.6.1.2.1.1.5.0": b"OLT\x07LIMA",
}


@pytest.fixture
def targets() -> list[SnmpTarget]:
    """With what each session was opened."""
    return []


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, targets: list[SnmpTarget]) -> FakeSession:
    """A Huawei with three ONUs."""
    rows: dict[str, int | bytes | str | None] = {f"{STATE}.{PORT}.{n}": 1 + n % 2 for n in range(3)}
    rows |= {f"{POWER}.{PORT}.{n}": -2150 - n for n in range(2)} | {f"{POWER}.{PORT}.2": 2147483647} | SYSTEM
    session = FakeSession(rows, columns=(STATE, POWER))
    monkeypatch.setattr(cli_snmp, "open_session", fake_factory(session, targets))
    return session


@pytest.fixture
def run(app: Flask, redis: Redis, fake: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`flask snmp <words>` where OLT-LIMA at 10.20.0.1 is ours; expects exit code `code`."""
    app.config["QUARANTINE_SECONDS"] = 0
    monkeypatch.setattr(trying, "PATIENCE", 0.0)
    with app.app_context():
        files = (catalogue_shipped.shipped(key) for key in ("huawei", "zte", "generic"))
        catalogue.sync([data for data in files if data is not None], datetime.now(UTC))
        olt = builders.make_olt(address="10.20.0.1", model="MA5800")
        builders.make_credential("v3", version="3", username="ana", auth_protocol="SHA", auth_password="long enough",
                                 community="")  # fmt: skip
        db.session.add(PonPort(olt_id=olt.id, index_key=str(PORT), name="GPON 0/1/1", frame=0, slot=1, port=1,
                               last_seen=datetime.now(UTC)))  # fmt: skip
        db.session.commit()
    return commands(app, "snmp")


def test_a_walk_prints_raw_and_decoded_and_says_that_it_is_complete(run: Run) -> None:
    told = run("walk", "--olt", "OLT-LIMA", "huawei.onu_state", "huawei.onu_rx_power").output
    for part in (f"0/1/1:1        {PORT}.1", "offline", "-21.51 dBm", "(sentinel 2147483647)", "6 values, "):
        assert part in told
    assert told.count("3 rows, complete") == 2 and COMMUNITY not in told


def test_on_a_host_that_is_not_ours_the_key_says_which_brand_is_meant(run: Run) -> None:
    told = run("walk", "10.9.9.9", "huawei.onu_state", "--community", "public").output
    assert "offline" in told and "3 rows, complete" in told


def test_a_walk_as_json_is_one_document(run: Run) -> None:
    told = json.loads(run("walk", "--olt", "OLT-LIMA", STATE, "--json").output)
    assert (told["rows"], told["complete"], told["error"]) == (3, True, "")
    assert told["columns"][0]["shown"][0]["value"] == "online"


def test_a_walk_stops_at_the_rows_that_were_asked_for(run: Run) -> None:
    assert "2 rows, cut short" in run("walk", "--olt", "OLT-LIMA", STATE, "--rows", "2").output


def test_a_walk_of_what_is_not_there_fails(run: Run) -> None:
    assert "not supported" in run("walk", "--olt", "OLT-LIMA", "1.3.6.1.4.1.5765.1", code=1).output


@pytest.mark.parametrize("oid", [PASSWORD, f"{PASSWORD}.{PORT}.1", "1.3.6.1.4.1.2011.6.128.1.1.2.43", "1.3.6.1"])
def test_quirk_57_secret_columns_are_refused_and_nothing_is_sent(run: Run, fake: FakeSession, oid: str) -> None:
    assert "passwords" in run("walk", "10.9.9.9", oid, "--community", "public", code=1).output
    assert fake.requests == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("walk", "--olt", "OLT-LIMA"), "Missing argument"),
        (("walk", "10.9.9.9"), "Name at least one column"),
        (("walk", "--olt", "NOBODY", STATE), "no OLT NOBODY"),
        (("walk", "--olt", "OLT-LIMA", "huawei.onu_stat"), "did you mean huawei.onu_state"),
        (("walk", "--olt", "OLT-LIMA", "zte.onu_state"), "not for this OLT"),
        (("walk", "10.9.9.9:x", STATE, "--community", "c"), "no UDP port"),
        (("walk", "not a host", STATE, "--community", "c"), "must be an IP address"),
        (("probe",), "Say whom to ask"),
        (("probe", "10.9.9.9", "--credential", "nobody"), "no credential nobody"),
        (("decode", STATE), "--olt NAME or --brand"),
        (("decode", "1.3.6.1.4.1.5", "--brand", "huawei"), "in no column"),
        (("decode", "x", "--brand", "huawei"), "separated by single dots"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_sent(
    run: Run, fake: FakeSession, words: tuple[str, ...], said: str
) -> None:
    result = run(*words, code=2 if said in ("Missing argument", "Name at least one column", "Say whom to ask",
                                            "--olt NAME or --brand") else 1)  # fmt: skip
    assert said in result.output
    assert fake.requests == []


def olt_id(app: Flask) -> int:
    with app.app_context():
        return int(db.session.query(Olt.id).filter_by(name="OLT-LIMA").scalar())


@pytest.mark.parametrize(
    "words", [("walk", "--olt", "OLT-LIMA", STATE), ("walk", "10.20.0.1", STATE), ("probe", "10.20.0.1:161")]
)
def test_an_olt_of_ours_is_held_whatever_it_is_called(
    run: Run, app: Flask, redis: Redis, fake: FakeSession, words: tuple[str, ...]
) -> None:
    key, owners = f"lock:snmp:host:{olt_id(app)}", set()
    fake.on_request = lambda _request: owners.add(redis.hget(key, "owner"))
    run(*words)
    (owner,) = owners
    assert str(owner).startswith("b'cli-")
    assert redis.exists(key) == 0


@pytest.mark.parametrize("command", ["walk", "probe"])
def test_an_olt_being_read_is_not_asked(run: Run, app: Flask, redis: Redis, fake: FakeSession, command: str) -> None:
    assert claims.hold(redis, olt_id(app), "poller-1", 15, 0) is not None
    words = [command, "10.20.0.1", *([STATE] if command == "walk" else []), "--community", "public"]
    assert "is being read right now" in run(*words, code=1).output
    assert fake.requests == []


def test_a_lease_that_is_lost_stops_the_command(run: Run, app: Flask, redis: Redis, fake: FakeSession) -> None:
    lease = f"lock:snmp:host:{olt_id(app)}"
    fake.faults = Faults(cut_answers_to=1)
    fake.on_request = lambda _request: redis.delete(lease)
    assert "the lease is no longer ours" in run("walk", "--olt", "OLT-LIMA", STATE, POWER, code=1).output
    assert len(fake.requests) == 1


def test_without_redis_an_olt_of_ours_is_not_asked_but_a_stranger_is(
    app: Flask, run: Run, fake: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the app's own connection again: nothing listens there
    monkeypatch.setattr(cli_snmp, "open_session", fake_factory(fake))
    assert "does not answer" in run("walk", "--olt", "OLT-LIMA", STATE, code=1).output
    assert fake.requests == []
    assert "3 rows, complete" in run("walk", "10.9.9.9", STATE, "--community", "public").output


def test_a_probe_says_what_decided(run: Run, fake: FakeSession) -> None:
    found = json.loads(run("probe", "10.9.9.9", "--community", "public", "--json").output)
    assert (found["brand"], found["sysobjectid"]) == ("huawei", "1.3.6.1.4.1.2011.2.248")
    assert found["decided"]
    fake.closed = False
    text = run("probe", "10.9.9.9", "--community", "public").output
    assert "brand        huawei" in text
    assert "\x07" not in text


def test_a_probe_uses_a_stored_credential_also_v3(run: Run, targets: list[SnmpTarget]) -> None:
    run("probe", "10.9.9.9", "--credential", "v3", "--timeout", "1", "--retries", "0")
    assert (targets[0].version, targets[0].username, targets[0].auth_password) == ("3", "ana", "long enough")
    assert (targets[0].timeout, targets[0].retries, targets[0].port) == (1.0, 0, 161)


def test_an_address_of_ours_is_asked_with_its_own_credential(run: Run, targets: list[SnmpTarget]) -> None:
    run("probe", "10.20.0.1")
    assert targets[0].community == COMMUNITY


def test_a_stranger_is_asked_with_the_community_that_is_typed(run: Run, targets: list[SnmpTarget]) -> None:
    result = run("probe", "[2001:db8::7]:1161", text="secret\n")
    assert (targets[0].address, targets[0].port, targets[0].community) == ("2001:db8::7", 1161, "secret")
    assert "secret" not in result.output


def test_nothing_is_stored(run: Run, app: Flask) -> None:
    run("walk", "--olt", "OLT-LIMA", STATE)
    with app.app_context():
        assert db.session.query(Onu.id).count() == 0


def decoded(run: Run, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run("decode", *words, "--json").output)
    return told


def test_decode_explains_each_step_and_asks_nobody(run: Run, fake: FakeSession) -> None:
    told = decoded(run, f"{POWER}.{PORT}.7", "--olt", "OLT-LIMA", "--value", "-2254")
    found = (told["row"], told["index"], told["formula"], told["position"])
    assert found == ("huawei.onu_rx_power", f"{PORT}.7", "huawei_gpon", "0/1/1:7")
    assert (told["interface"], told["check"], told["value"], told["unit"]) == ("GPON 0/1/1", "agrees", -22.54, "dBm")
    assert any(field.startswith("slot 1 (bits 13..18") for field in told["fields"])
    assert fake.requests == []


def test_decode_needs_no_olt_when_the_brand_is_named(run: Run) -> None:
    told = decoded(run, f".{STATE}.{PORT}.7", "--brand", "huawei", "--model", "MA5800", "--value", "2")
    assert (told["position"], told["interface"], told["value"]) == ("0/1/1:7", "", "offline")
    assert "position     0/1/1:7" in run("decode", f"{STATE}.{PORT}.7", "--brand", "huawei").output


def test_decode_of_a_scalar_has_no_position(run: Run) -> None:
    told = decoded(run, "1.3.6.1.2.1.1.3.0", "--brand", "huawei")
    assert (told["index"], told["position"], told["check"]) == ("", "", "not checked")


@pytest.mark.parametrize("command", ["probe", "walk", "decode"])
def test_every_command_has_help(run: Run, command: str) -> None:
    assert "--json" in run(command, "--help").output
