"""A trial from the button to the answer: real worker, real Redis, a simulated OLT over UDP, both databases."""

import json
from datetime import UTC, datetime

from sqlalchemy import func, select

from jobs.snmp.simulator.farm import Farm
from portal.extensions import db
from portal.services.trying import trials
from portal.tables import Execution, Onu, OnuData, Trial, TrialMode, TrialStatus
from testing.cast import ACTOR
from testing.live import Live


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
    assert first.result is not None
    assert (first.result["rows"], first.result["complete"]) == (64, True)
    rows = first.result["columns"][0]["shown"]
    assert all(row["at"] and row["value"] in ("online", "offline") for row in rows)
    names = ended(live, trials.of_oid(olt, "1.3.6.1.2.1.31.1.1.1.1", TrialMode.WALK, ACTOR, datetime.now(UTC)))
    assert names.result is not None
    assert any("GPON" in str(row["value"]) for row in names.result["columns"][0]["shown"])
    counts = [db.session.scalar(select(func.count()).select_from(table)) for table in (Onu, OnuData, Execution)]
    assert counts == [0, 0, 0]


def test_one_onu_is_read_now_by_the_worker_and_nothing_is_stored(live: Live, two_olts: Farm) -> None:
    olt = live.olt("OLT-LIMA", two_olts.ports[0])
    live.node(olt, "discovery", "huawei.onu_state", "discovery")
    live.node(olt, "rx", "huawei.onu_rx_power,huawei.onu_distance")
    live.stack.start("trials")
    walked = ended(live, trials.of_oid(olt, "huawei.onu_state", TrialMode.WALK, ACTOR, datetime.now(UTC)))
    assert walked.result is not None
    lit = next(row for row in walked.result["columns"][0]["shown"] if row["online"])
    at = datetime.now(UTC)
    onu = Onu(olt_id=olt, index_key=lit["index"], first_seen=at, last_seen=at)
    db.session.add(onu)
    db.session.commit()
    answer = ended(live, trials.of_onu(onu.id, ACTOR, datetime.now(UTC)))
    assert (answer.status, answer.error_message, answer.node_name) == (TrialStatus.SUCCESS, "", lit["index"])
    assert answer.result is not None
    assert answer.result["pdus"] == 1
    shown = {column["metric"]: column["shown"][0] for column in answer.result["columns"]}
    assert set(shown) == {"onu_state", "onu_rx_power", "onu_distance"}
    assert {row["index"] for row in shown.values()} == {lit["index"]}
    assert shown["onu_state"]["online"] is True
    assert -40 < shown["onu_rx_power"]["value"] < 0
    assert db.session.scalar(select(func.count()).select_from(OnuData)) == 0


def test_the_commands_walk_and_decode_work_from_a_shell(live: Live, two_olts: Farm) -> None:
    live.olt("OLT-LIMA", two_olts.ports[0])
    told = json.loads(live.stack.run("snmp", "walk", "--olt", "OLT-LIMA", "huawei.onu_state", "--json"))
    assert (told["rows"], told["complete"]) == (64, True)
    first = told["columns"][0]["shown"][0]
    oid = f"{told['columns'][0]['oid']}.{first['index']}"
    decoded = json.loads(live.stack.run("snmp", "decode", oid, "--olt", "OLT-LIMA", "--json"))
    frame, slot, port, onu = first["at"]
    assert decoded["position"] == f"{frame}/{slot}/{port}:{onu}"
