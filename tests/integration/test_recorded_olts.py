"""Recorded walks of real OLTs, served over UDP and polled by the product: what is in the recording is in the tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.snmp.simulator.farm import Farm, start_farm
from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import PonPort
from tests.support.live import Live

WALKS = Path(__file__).resolve().parents[3] / "shared" / "olt" / "walks"
C320 = WALKS / "zxa10_c320.snmprec"
MA5603T = WALKS / "smartax.snmprec"
DISTANCE = "1.3.6.1.4.1.3902.1012.3.11.4.1.2."
IF_NAME = "1.3.6.1.2.1.31.1.1.1.1."

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def recorded() -> Iterator[Farm]:
    if not C320.exists():
        pytest.skip("../shared/olt/walks is absent: the recorded walks are not part of this repository")
    with start_farm([f"{C320}@127.0.0.1:0", f"{MA5603T}@127.0.0.1:0"]) as farm:
        yield farm


def rows(walk: Path, column: str) -> dict[str, str]:
    """Index → value of one column, straight from the recording."""
    cells = (line.split("|", 2) for line in walk.read_text(errors="replace").splitlines())
    return {oid.removeprefix(column): value for oid, _, value in cells if oid.startswith(column)}


def test_a_recorded_zte_c320_yields_its_125_onus_where_they_are(live: Live, recorded: Farm) -> None:
    olt = live.olt("OLT-CUSCO", recorded.ports[0], "zte", model="C320")
    live.node(olt, "onus", "zte.onu_distance", "discovery")
    live.due_now()
    for name in ("scheduler", "pollers"):
        live.stack.start(name)
    live.wait_for(ExecutionStatus.SUCCESS)
    expected = {}
    for index, metres in rows(C320, DISTANCE).items():
        port_index, onu = map(int, index.split("."))
        place = (port_index >> 16 & 255, port_index >> 8 & 255, onu)
        expected[place] = float(metres) if int(metres) > 0 else None
    found = {(onu.slot, onu.port, onu.onu_number): onu.data[0].number for onu in live.onus(olt)}
    assert len(found) == 125
    assert found == expected


def test_a_recorded_huawei_ma5603t_gives_its_pon_ports(live: Live, recorded: Farm) -> None:
    olt = live.olt("OLT-LIMA", recorded.ports[1], "huawei", model="MA5603T")
    live.node(olt, "ports", "huawei.if_name", "table")
    live.due_now()
    for name in ("scheduler", "pollers"):
        live.stack.start(name)
    live.wait_for(ExecutionStatus.SUCCESS)
    db.session.rollback()
    named = {port.name: (port.frame, port.slot, port.port) for port in db.session.scalars(select(PonPort))}
    gpon = {name: place for name, place in named.items() if name.startswith("GPON")}
    wanted = [value for value in rows(MA5603T, IF_NAME).values() if value.startswith("GPON")]
    assert len(wanted) == 32
    assert gpon == {name: tuple(map(int, name.removeprefix("GPON ").split("/"))) for name in wanted}
