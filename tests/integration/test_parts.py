"""Readings of ports, cards and of the OLT itself: kept with their unit, and no name of a port is lost to them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, ReadingSpec, StepResult
from portal.domain.readings import ValueSpec, ValueType, decoder
from portal.domain.statuses import StepStatus
from portal.queries import parts
from portal.services.dispatch import executions, run_requests
from portal.tables import OltHistory, PonPort
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, DAY, MINUTE, NOW
from testing.rows import thinned

pytestmark = pytest.mark.integration

NAMES = ReadingSpec("if_name", "1.1", ValueSpec(ValueType.TEXT), shape="port")
LIGHT = ReadingSpec(
    "pon_port_tx_power", "1.2", ValueSpec(ValueType.NUMBER, 0.01, unit="dBm"), shape="port", dead_band=0.3
)
HEAT = ReadingSpec("card_temperature", "1.3", ValueSpec(ValueType.NUMBER, unit="°C"), shape="row", dead_band=2.0)
CPU = ReadingSpec("system_cpu", "1.4.0", ValueSpec(ValueType.NUMBER, unit="%"), scalar=True, dead_band=5.0)
UNKNOWN = ReadingSpec("mine", "1.5", ValueSpec(ValueType.TEXT))


@dataclass
class Shelf:
    """An OLT whose one node reads what a test says."""

    session: Session
    now: datetime = NOW

    def __post_init__(self) -> None:
        olt = make_olt()
        self.node, self.olt_id = make_node(olt, "ports", kind="table", oid="generic.sysuptime"), olt.id

    def read(self, spec: ReadingSpec, rows: Mapping[str, int | bytes], *, complete: bool = True) -> None:
        """A run that brings these rows."""
        self.now += 15 * MINUTE
        execution_id, _ = run_requests.run_now(self.node.id, ACTOR, self.now)
        assert executions.start(execution_id, 1, "poller-1", self.now, self.now) is not None
        column = ColumnReadings(spec, decoder(spec.value)(rows.items()), complete)
        step = StepResult(self.node.id, StepStatus.SUCCESS, (column,), finished_at=self.now, pdus=1)
        executions.finish(execution_id, 1, CompositeResult((step,)), self.now)
        self.session.rollback()
        self.session.expire_all()

    def names(self) -> list[str]:
        return list(self.session.scalars(select(PonPort.name).order_by(PonPort.index_key)))

    def kept(self) -> list[tuple[str, float | None]]:
        query = select(OltHistory).order_by(OltHistory.index_key, OltHistory.collected_at)
        return [(row.index_key, row.mean) for row in self.session.scalars(query)]


@pytest.fixture
def shelf(session: Session) -> Shelf:
    return Shelf(session)


def test_light_of_ports_is_kept_beside_their_names(shelf: Shelf) -> None:
    shelf.read(NAMES, {"7": b"GPON 0/1/0", "8": b"GPON 0/1/1"})
    shelf.read(LIGHT, {"7": 497, "8": 512})
    assert shelf.names() == ["GPON 0/1/0", "GPON 0/1/1"]
    ports = parts.of_olt(shelf.olt_id).ports
    assert [(part.label, part.readings["pon_port_tx_power"].number) for part in ports] == [
        ("GPON 0/1/0", 4.97), ("GPON 0/1/1", 5.12)
    ]  # fmt: skip
    assert {part.readings["pon_port_tx_power"].unit for part in ports} == {"dBm"}


def test_cards_and_the_olt_itself_are_kept_and_an_unknown_column_is_one_of_ports(shelf: Shelf) -> None:
    shelf.read(HEAT, {"0.1": 45, "0.10": 51, "0.9": 48})
    shelf.read(CPU, {"0": 31})
    shelf.read(UNKNOWN, {"7": b"abc"})
    found = parts.of_olt(shelf.olt_id)
    assert [(card.index, card.readings["card_temperature"].number) for card in found.cards] == [
        ("0.1", 45), ("0.9", 48), ("0.10", 51)
    ]  # fmt: skip
    assert [(one.metric, one.number, one.unit) for one in found.itself] == [("system_cpu", 31, "%")]
    assert [part.readings["mine"].text for part in found.ports] == ["abc"]
    shelf.read(replace(LIGHT, metric="onu_rx_power", shape="onu"), {"7.1": -2000, "7.2": -2100})
    assert parts.of_olt(shelf.olt_id).others == {"onu_rx_power": 2}, "of a table node from before they were refused"
    assert shelf.names() == []


def test_what_a_whole_column_lists_no_longer_has_no_value_and_a_part_of_one_takes_nothing_away(shelf: Shelf) -> None:
    shelf.read(LIGHT, {"7": 497, "8": 512})
    shelf.read(LIGHT, {"7": 497}, complete=False)
    assert [part.readings["pon_port_tx_power"].number for part in parts.of_olt(shelf.olt_id).ports] == [4.97, 5.12]
    shelf.read(LIGHT, {"7": 497})
    assert [part.readings["pon_port_tx_power"].number for part in parts.of_olt(shelf.olt_id).ports] == [4.97, None]
    assert shelf.kept() == [("7", 4.97), ("8", 5.12), ("8", None)]


def test_an_equal_reading_is_not_written_again_and_yet_is_as_new_as_its_column(shelf: Shelf) -> None:
    shelf.read(CPU, {"0": 31})
    shelf.read(CPU, {"0": 33})
    shelf.read(CPU, {"0": 33})
    (cpu,) = parts.of_olt(shelf.olt_id).itself
    assert (cpu.number, cpu.read_at) == (33, shelf.now)
    assert shelf.kept() == [("0", 31)]


def test_a_month_of_a_card_is_a_chart_before_and_after_it_is_thinned(shelf: Shelf) -> None:
    for degrees in (45, 48, 45, 52, 47):
        shelf.read(HEAT, {"0.1": degrees})
    later = shelf.now + 3 * DAY
    drawn = parts.history(shelf.olt_id, "card_temperature", "0.1", later - 30 * DAY, later)
    assert drawn[-1].value == 47
    assert thinned(later) > 0
    assert parts.history(shelf.olt_id, "card_temperature", "0.1", later - 30 * DAY, later) == drawn
