"""Generated OLTs read by the product, row by row: place, identity, state, light and description are those of the truth.

The simulator's modules and the catalogue's profiles were written apart from the same reference; here they must agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.snmp.simulator.built import ExpectedOnu
from jobs.snmp.simulator.farm import start_farm
from jobs.snmp.simulator.spec import expected
from portal.domain.readings import Reading
from portal.domain.statuses import NodeKind
from portal.tables import Olt, Onu
from tests.walks.product import Reader, add_olt, kind_of, probe, rows_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

# The clock stands still: powers wander, and their truth with them.
CLOCK = "seed=7,at=1790000000,speed=0.001,sentinels=0.1"


@dataclass(frozen=True)
class Family:
    """A generated OLT, the model that a probe must find, and the names of the columns that tell of its ONUs."""

    spec: str
    brand: str
    model: str
    roster: str
    identity: str
    rx: str = "onu_rx_power"
    description: str = "onu_description"
    names: str = ""
    more: tuple[str, ...] = ()
    onus: int = 40

    @property
    def served(self) -> str:
        """The whole specification."""
        return f"{self.spec},{CLOCK},onus={self.onus}"


# Nokia lists its ONTs in one column and tells their state in another, which is asked for by GET.
STATE = ("onu_state",)
FAMILIES = (
    Family("huawei@0", "huawei", "MA5608T", "onu_state", "onu_serial", names="if_name"),
    Family("zte@0", "zte", "C320", "onu_state", "onu_serial", names="if_name"),
    Family("zte@0,family=B", "zte", "C320", "onu_state", "onu_serial", names="if_name"),
    Family("zte@0,model=C600", "zte", "C600", "onu_state", "onu_serial", names="if_name"),
    Family("zte@0,model=C620", "zte", "C620", "onu_state", "onu_serial_text", names="if_name"),
    # Told from the others only by the tree that answers.
    Family("zte@0,model=C320-1082", "zte", "C320-1082", "onu_state", "onu_serial", names="if_name",
           more=("onu_olt_rx_power",)),
    Family("fiberhome@0", "fiberhome", "AN5516-01", "onu_state", "onu_serial", description="onu_name"),
    Family("vsol@0", "vsol", "V1600G", "onu_state", "onu_serial"),
    Family("vsol@0,model=V1600D", "vsol", "V1600D", "onu_state", "onu_mac"),
    Family("bdcom@0", "bdcom", "GP3600-16B", "onu_state", "onu_serial", names="if_descr"),
    Family("bdcom@0,model=P3310C", "bdcom", "P3310C", "onu_state", "onu_mac", description="", names="if_descr"),
    Family("cdata@0", "cdata", "FD16XX", "onu_state", "onu_serial", description="onu_name", names="if_name"),
    Family("cdata@0,model=FD1608S-B1", "cdata", "FD16XX-V3", "onu_state", "onu_serial", description="onu_name",
           names="if_name", more=("onu_tx_power",)),
    Family("cdata@0,model=FD1208S", "cdata", "FD12XX", "onu_state", "onu_mac", description="onu_name", names="if_name"),
    Family("nokia@0", "nokia", "ISAM", "onu_row_status", "onu_serial", names="if_descr", more=STATE),
    Family("nokia@0,model=FGLT-B", "nokia", "ISAM", "onu_row_status", "onu_serial", names="if_descr", more=STATE),
    # Two boards, two steps: one slot of each.
    Family(
        "nokia@0,model=FWLT-C+FGLT-B", "nokia", "ISAM", "onu_row_status", "onu_serial", names="if_descr", more=STATE,
        onus=280,
    ),
    Family("ufiber@0", "ufiber", "UF-OLT", "onu_state", "onu_serial", description="onu_name", more=("onu_pon",)),
)  # fmt: skip
by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.spec)


@pytest.fixture(scope="module")
def farm() -> Iterator[dict[str, int]]:
    """Specification → UDP port."""
    with start_farm([family.served for family in FAMILIES]) as running:
        yield dict(zip((family.spec for family in FAMILIES), running.ports, strict=True))


@by_family
def test_a_generated_olt_is_recognised_and_read_as_it_is(shelf: Session, farm: dict[str, int], family: Family) -> None:
    found = probe(shelf, farm[family.spec])
    assert (found["brand"], found["model"]) == (family.brand, family.model)
    olt = add_olt(shelf, f"generated-{family.spec}", farm[family.spec], family.brand, family.model)
    read = read_all(shelf, olt, family)
    stored = {onu.index_key: onu for onu in shelf.scalars(select(Onu).where(Onu.olt_id == olt.id))}
    truth = expected(family.served)
    assert stored.keys() == {one.index for one in truth}
    assert {one.index: identity(read[family.identity][one.index]) for one in truth} == {
        one.index: one.serial if "serial" in family.identity else one.mac for one in truth
    }
    for one in truth:
        onu = stored[one.index]
        assert (onu.slot or 0, onu.port, onu.onu_number) == (one.slot or 0, one.port, one.number), one
        assert onu.online == one.online, one
        assert_light(read[family.rx][one.index], one)
        if family.description:
            assert read[family.description][one.index].value == one.description, one


def read_all(session: Session, olt: Olt, family: Family) -> dict[str, dict[str, Reading]]:
    """Column → index → reading, by a discovery with a chain, after the interfaces where their names tell places."""
    reader = Reader(session, olt)
    if family.names:
        reader.read(NodeKind.TABLE, [family.names])
    wanted = [name for name in (family.identity, family.rx, family.description, *family.more) if name]
    kinds = {name: kind_of(row) for name, row in rows_of(session, olt, wanted).items()}
    chain = [(kind, [name for name in wanted if kinds[name] is kind]) for kind in sorted(set(kinds.values()))]
    return reader.read(NodeKind.DISCOVERY, [family.roster], chain)


def identity(reading: Reading) -> str:
    """A serial or a MAC address without its colons."""
    return str(reading.value).replace(":", "")


def assert_light(reading: Reading, one: ExpectedOnu) -> None:
    """Power after decoding; a dark ONU has none."""
    if one.rx_power is not None:
        assert reading.value == pytest.approx(one.rx_power, abs=1e-6), one
    else:
        assert reading.value is None, one
