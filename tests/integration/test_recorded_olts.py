"""Recorded walks of real OLTs, served over UDP and polled by the product: what is in the recording is in the tables."""

import pytest
from sqlalchemy import select

from jobs.snmp.simulator.farm import Farm
from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import PonPort
from testing.live import Live
from tests.walks.recordings import column_of
from tests.walks.tables import IF_NAME

DISTANCE = "1.3.6.1.4.1.3902.1012.3.11.4.1.2"

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


def read(live: Live, olt: int, oid: str, kind: str) -> None:
    live.node(olt, "node", oid, kind)
    live.due_now()
    live.start("scheduler", "pollers")
    live.wait_for(ExecutionStatus.SUCCESS)


def test_a_recorded_zte_c320_yields_its_125_onus_where_they_are(live: Live, recorded: Farm) -> None:
    olt = live.olt("OLT-CUSCO", recorded.ports[0], "zte", model="C320")
    read(live, olt, "zte.onu_distance", "discovery")
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
    read(live, olt, "huawei.if_name", "table")
    db.session.rollback()
    named = {port.name: (port.frame, port.slot, port.port) for port in db.session.scalars(select(PonPort))}
    gpon = {name: place for name, place in named.items() if name.startswith("GPON")}
    wanted = [line.text for line in column_of("smartax", IF_NAME).values() if line.text.startswith("GPON")]
    assert len(wanted) == 32
    assert gpon == {name: tuple(map(int, name.removeprefix("GPON ").split("/"))) for name in wanted}
