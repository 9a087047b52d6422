"""ONUs that change places while an OLT is read, and a judge: is anything booked to a serial that was not read of it?

One OLT of many groups of four indexes; each group is a history of its own. Of each ONU state, power and description
follow from its number, so that a value says whose it is. Between two readings of the serials each group sees one change
at most: two ONUs change places, one moves to a free index, one is replaced by another or goes. A change that is undone
before the serials are read again leaves no trace that anybody could see; nor does one at a place that no earlier
composite has listed, between the listing and the serials of the first that does: an ONU is believed at first sight.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, ReadingSpec, StepResult
from portal.domain.readings import StateLabel, ValueSpec, ValueType, decoder
from portal.domain.statuses import ErrorKind, OnuEventKind, StepStatus
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.tables import Onu, OnuData, OnuEvent, OnuHistory
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW

PLACES = 4  # indexes of a group
STATES = {1: StateLabel("online", True), 2: StateLabel("offline", False)}
STATE = ReadingSpec("onu_state", "1.1", ValueSpec(ValueType.STATE, states=STATES))
SERIAL = ReadingSpec("onu_serial", "1.2", ValueSpec(ValueType.SERIAL))
POWER = ReadingSpec("onu_rx_power", "1.3", ValueSpec(ValueType.NUMBER, 0.01, unit="dBm"), dead_band=0.3)
TEXT = ReadingSpec("onu_description", "1.4", ValueSpec(ValueType.TEXT))
COLUMNS = {"serial": SERIAL, "rx": POWER, "text": TEXT}
FAILING = 0.08  # of the chained steps


def serial_of(number: int) -> str:
    """As the catalogue would decode it."""
    return b"HWTC".hex().upper() + f"{number:08X}"


def number_of(serial: str) -> int:
    """The ONU that has it."""
    return int(serial[8:], 16)


def power_of(number: int) -> float:
    """Hundredths of dBm: no two of the same group are alike."""
    return -1000 - 50 * (number % 40)


@dataclass
class World:
    """Which ONU stands at which index; changes as time goes by."""

    groups: int
    chance: random.Random
    made: int  # ONUs so far: the last number
    at: dict[str, int] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)  # groups, since the serials were read
    listed: set[str] = field(default_factory=set)  # indexes that a discovery of an earlier composite has seen
    changes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for group in range(self.groups):
            for place in range(PLACES - 1):
                self.at[f"{group}.{place}"] = self._new()

    def _new(self) -> int:
        self.made += 1
        return self.made

    def passes(self, share: float) -> None:
        """Some of the groups that did not change yet do."""
        for group in range(self.groups):
            if group not in self.changed and self.chance.random() < share:
                self.changed.add(group)
                self._change([f"{group}.{place}" for place in range(PLACES)])

    def _change(self, places: list[str]) -> None:
        taken = [place for place in places if place in self.at]
        free = [place for place in places if place not in self.at]
        kind = self.chance.choice(["swap", "swap", "move", "replace", "replace", "go", "come"])
        self.changes[kind] += 1
        if kind == "swap" and len(taken) > 1:
            one, other = self.chance.sample(taken, 2)
            self.at[one], self.at[other] = self.at[other], self.at[one]
        elif kind == "move" and taken and free:
            self.at[self.chance.choice(free)] = self.at.pop(self.chance.choice(taken))
        elif kind == "replace" and (known := [place for place in taken if place in self.listed]):
            self.at[self.chance.choice(known)] = self._new()
        elif kind == "go" and len(taken) > 1:
            del self.at[self.chance.choice(taken)]
        elif kind == "come" and free:
            self.at[self.chance.choice(free)] = self._new()

    def read(self, spec: ReadingSpec) -> ColumnReadings:
        """That column as it is now."""
        values: dict[str, Any] = {
            index: {
                STATE.metric: 1 + number % 2,
                SERIAL.metric: b"HWTC" + number.to_bytes(4, "big"),
                POWER.metric: int(power_of(number)),
                TEXT.metric: f"CLI-{number}".encode(),
            }[spec.metric]
            for index, number in sorted(self.at.items())
        }  # fmt: skip
        return ColumnReadings(spec, decoder(spec.value)(values.items()), complete=True)


@dataclass
class Histories:
    """Runs composites against a world that changes under them; `session` inside an app context."""

    session: Session
    seed: int
    groups: int
    now: datetime = NOW

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.world = World(self.groups, self.chance, made=self.seed * 1_000_000)  # no ONU is of two OLTs
        olt = make_olt(f"OLT-{self.seed}")
        self.master = make_node(olt)
        self.nodes = {key: make_chained(self.master, key) for key in COLUMNS}
        self.olt_id = olt.id

    def run(self, composites: int) -> Counter[str]:
        """So many composites with changes between two quiet ones that read all; returns what is wrong, by kind.

        Before the first an ONU has no serial, and is told by its index.
        """
        self._composite(["serial", "rx", "text"], 0.0)
        for _ in range(composites):
            keys = self.chance.sample(sorted(self.nodes), self.chance.randint(1, len(self.nodes)))
            self._composite(keys, 0.15)
        self._composite(["serial", "rx", "text"], 0.0)
        return Counter(self._wrong())

    def _composite(self, keys: list[str], share: float) -> None:
        self.world.passes(share)
        execution_id, _ = run_requests.run_now(self.master.id, ACTOR, self.now)
        assert executions.start(execution_id, 1, "poller-1", self.now, self.now) is not None
        steps = []
        books = Books(self.olt_id, execution_id, [self.nodes["serial"].id] if "serial" in keys else [])
        for node_id, spec in [(self.master.id, STATE), *((self.nodes[key].id, COLUMNS[key]) for key in keys)]:
            self.now += timedelta(seconds=7)
            failed = share and node_id != self.master.id and self.chance.random() < FAILING
            columns = () if failed else (self.world.read(spec),)
            if columns and spec is SERIAL:
                self.world.changed.clear()
            status, kind = (StepStatus.FAILED, ErrorKind.DEVICE) if failed else (StepStatus.SUCCESS, None)
            steps.append(StepResult(node_id, status, columns, finished_at=self.now, pdus=1, error_kind=kind))
            self.world.passes(share / 3)
        for step in steps[:-1]:
            if step.columns:
                executions.keep_step(execution_id, 1, books, step, self.now, self.now)
        executions.finish(execution_id, 1, CompositeResult(tuple(steps)), self.now, books)
        self.world.listed |= {reading.index for reading in steps[0].columns[0].readings}
        self.session.rollback()
        self.now += MINUTE

    def _wrong(self) -> Iterator[str]:
        """Names of what was booked to a serial and is not its own."""
        onus = {row.id: row for row in self.session.scalars(select(Onu).where(Onu.olt_id == self.olt_id)) if row.serial}
        numbers = {onu_id: number_of(onu.serial or "") for onu_id, onu in onus.items()}
        stood = {serial_of(number): index for index, number in self.world.at.items()}
        for onu_id, onu in onus.items():
            own = numbers[onu_id]
            if onu.online not in (None, own % 2 == 0):
                yield "state"
            if onu.description not in ("", f"CLI-{own}"):
                yield "description"
            if stood.get(onu.serial or "") != onu.index_key and stood.get(onu.serial or "") is not None:
                yield "place"
        for data in self.session.scalars(select(OnuData).where(OnuData.onu_id.in_(onus))):
            own = numbers[data.onu_id]
            expected = {POWER.metric: power_of(own) / 100, STATE.metric: STATES[1 + own % 2].label,
                        TEXT.metric: f"CLI-{own}", SERIAL.metric: serial_of(own)}[data.metric]  # fmt: skip
            if (data.text if data.number is None else data.number) not in (None, expected):
                yield f"latest {data.metric}"
        for row in self.session.scalars(select(OnuHistory).where(OnuHistory.onu_id.in_(onus))):
            if row.mean not in (None, power_of(numbers[row.onu_id]) / 100):
                yield "history"
        events = select(OnuEvent).where(OnuEvent.onu_id.in_(onus), OnuEvent.kind == OnuEventKind.STATE)
        for _event in self.session.scalars(events):
            yield "event"
