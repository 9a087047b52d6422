"""By the real processes, over real Redis and UDP: recorded OLTs polled, trials answered, an alert sent."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from jobs.snmp.simulator.farm import Farm, start_farm
from portal.domain import alerting
from portal.domain.statuses import AlertKind, ErrorKind, ExecutionStatus, NotificationStatus, Severity
from portal.extensions import db, transaction
from portal.models.trial import Trial, TrialMode, TrialStatus
from portal.services.alerting import alerts, channels
from portal.services.network import olts
from portal.services.trying import trials
from portal.tables import Execution, Notification, Olt, Onu, OnuData, PonPort, QuotaViolation
from testing.cast import ACTOR
from testing.live import Live
from testing.receiver import receiver
from tests.walks.recordings import column_of
from tests.walks.tables import IF_NAME

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

DISTANCE = "1.3.6.1.4.1.3902.1012.3.11.4.1.2"


def read_by_polling(live: Live, olt: int, oid: str, kind: str) -> None:
    live.node(olt, "node", oid, kind)
    live.due_now()
    live.start("scheduler", "pollers")
    live.wait_for(ExecutionStatus.SUCCESS)


def test_a_recorded_zte_c320_yields_its_125_onus_where_they_are(live: Live, recorded: Farm) -> None:
    olt = live.olt("OLT-CUSCO", recorded.ports[0], "zte", model="C320")
    read_by_polling(live, olt, "zte.onu_distance", "discovery")
    expected = {}
    for index, line in column_of("zxa10_c320", DISTANCE).items():
        port_index, onu = map(int, index.split("."))
        place = (port_index >> 16 & 255, port_index >> 8 & 255, onu)
        expected[place] = float(line.number) if line.number > 0 else None
    found = {(onu.slot, onu.port, onu.onu_number): onu.data[0].number for onu in live.onus(olt)}
    assert len(found) == 125
    assert found == expected


def test_a_recorded_huawei_ma5603t_gives_its_pon_ports(live: Live, recorded: Farm) -> None:
    olt = live.olt("OLT-LIMA", recorded.ports[1], "huawei", model="MA5603T")
    read_by_polling(live, olt, "huawei.if_name", "table")
    db.session.rollback()
    named = {port.name: (port.frame, port.slot, port.port) for port in db.session.scalars(select(PonPort))}
    gpon = {name: place for name, place in named.items() if name.startswith("GPON")}
    wanted = [line.text for line in column_of("smartax", IF_NAME).values() if line.text.startswith("GPON")]
    assert len(wanted) == 32
    assert gpon == {name: tuple(map(int, name.removeprefix("GPON ").split("/"))) for name in wanted}


def ended(live: Live, trial_id: int) -> Trial:
    def found() -> Trial | None:
        db.session.rollback()
        trial = db.session.get(Trial, trial_id)
        return trial if trial is not None and trial.finished_at is not None else None

    live.stack.wait_until(lambda: found() is not None, "an answer")
    trial = found()
    assert trial is not None
    return trial


def test_a_node_and_an_oid_are_read_by_the_worker_and_nothing_is_stored(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    node = live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.stack.start("trials")
    first = ended(live, trials.of_node(node, ACTOR, datetime.now(UTC)))
    assert (first.status, first.error_message) == (TrialStatus.SUCCESS, "")
    assert (first.result["rows"], first.result["complete"]) == (64, True)
    assert all(row["at"] and row["value"] in ("online", "offline") for row in first.result["columns"][0]["shown"])
    names = ended(live, trials.of_oid(olt, "1.3.6.1.2.1.31.1.1.1.1", TrialMode.WALK, ACTOR, datetime.now(UTC)))
    assert any("GPON" in str(row["value"]) for row in names.result["columns"][0]["shown"])
    counts = [db.session.scalar(select(func.count()).select_from(table)) for table in (Onu, OnuData, Execution)]
    assert counts == [0, 0, 0]


def test_one_onu_is_read_now_by_the_worker_and_nothing_is_stored(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.node(olt, "rx", "huawei.onu_rx_power,huawei.onu_distance")
    live.stack.start("trials")
    walked = ended(live, trials.of_oid(olt, "huawei.onu_state", TrialMode.WALK, ACTOR, datetime.now(UTC)))
    lit = next(row for row in walked.result["columns"][0]["shown"] if row["online"])
    at = datetime.now(UTC)
    onu = Onu(olt_id=olt, index_key=lit["index"], first_seen=at, last_seen=at)
    db.session.add(onu)
    db.session.commit()
    answer = ended(live, trials.of_onu(onu.id, ACTOR, datetime.now(UTC)))
    assert (answer.status, answer.error_message, answer.node_name) == (TrialStatus.SUCCESS, "", lit["index"])
    assert answer.result["pdus"] == 1
    shown = {column["metric"]: column["shown"][0] for column in answer.result["columns"]}
    assert set(shown) == {"onu_state", "onu_rx_power", "onu_distance"}
    assert {row["index"] for row in shown.values()} == {lit["index"]}
    assert shown["onu_state"]["online"] is True
    assert -40 < shown["onu_rx_power"]["value"] < 0
    assert db.session.scalar(select(func.count()).select_from(OnuData)) == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_commands_walk_and_decode_work_from_a_shell(live: Live, two_olts: Farm) -> None:
    live.olt("OLT-LIMA", two_olts.ports[0])
    told = json.loads(live.stack.run("snmp", "walk", "--olt", "OLT-LIMA", "huawei.onu_state", "--json"))
    assert (told["rows"], told["complete"]) == (64, True)
    first = told["columns"][0]["shown"][0]
    oid = f"{told['columns'][0]['oid']}.{first['index']}"
    decoded = json.loads(live.stack.run("snmp", "decode", oid, "--olt", "OLT-LIMA", "--json"))
    frame, slot, port, onu = first["at"]
    assert decoded["position"] == f"{frame}/{slot}/{port}:{onu}"


def test_a_violation_reaches_a_webhook_failing_twice_exactly_once(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerting, "GAPS", (1, 1))  # the processes are forked from this one
    olt_id = live.olt("OLT-LIMA", 20161)
    assert db.session.get(Olt, olt_id) is not None
    with receiver() as hook:
        hook.answers.extend((500, 500))
        channels.save({"name": "noc", "target": hook.url}, ACTOR, live.now)
        with transaction() as session:
            row = QuotaViolation(olt_id=olt_id, task_type="discovery", period_start=live.now - timedelta(hours=1),
                                 period_end=live.now, report={}, severity=Severity.HIGH,
                                 created_at=live.now)  # fmt: skip
            session.add(row)
            session.flush()
            alerts.raise_alert(session, AlertKind.QUOTA_VIOLATION, "Quota not met", "2 of 4", datetime.now(UTC),
                               severity=Severity.HIGH, olt_id=olt_id, violation_id=row.id)  # fmt: skip
            violation_id = row.id
        live.start("scheduler", "alerts")

        def sent() -> bool:
            db.session.rollback()
            return db.session.scalars(select(Notification.status)).all() == [NotificationStatus.SENT]

        live.stack.wait_until(sent, "the alert to be sent")
        told = db.session.get_one(QuotaViolation, violation_id)
        assert (hook.refused, hook.titles, told.notified) == (2, ["Quota not met"], True)
        assert told.notified_at == db.session.scalars(select(Notification.sent_at)).one()


def test_another_olt_at_the_address_is_not_read_before_a_person_says_that_it_is_the_olt(live: Live) -> None:
    def serials() -> set[str | None]:
        return {onu.serial for onu in live.onus(olt) if onu.index_key is not None}

    with start_farm(("huawei@127.0.0.1:0,onus=16,seed=1",)) as farm:
        port = farm.ports[0]
        olt = live.olt("OLT-LIMA", port)
        master = live.node(olt, "discovery", "huawei.onu_state", "discovery", max_retries=0)
        live.node(olt, "serial", "huawei.onu_serial", master_id=master)
        live.start("scheduler", "pollers")
        live.due_now(20)  # half an interval ago would be too late
        live.wait_for(ExecutionStatus.SUCCESS)
    own = serials()
    with start_farm((f"huawei@127.0.0.1:{port},onus=16,seed=2",)):
        live.due_now(15)
        live.wait_for(ExecutionStatus.FAILED)
        (failed,) = (one for one in live.executions() if one.status is ExecutionStatus.FAILED)
        assert failed.error_kind is ErrorKind.OTHER_DEVICE and serials() == own and len(own) == 16
        olts.accept_device(olt, ACTOR, datetime.now(UTC))
        live.due_now(10)
        live.wait_for(ExecutionStatus.SUCCESS, count=2)
    assert len(serials() - own) == 16
