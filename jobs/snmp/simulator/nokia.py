"""A generated Nokia ISAM 7360 FX: PON and ONT rows in IF-MIB at levels 13 and 14, whose steps depend on the board.

Columns, encodings and sentinels as in the catalogue's reference; names and the odd 0x2000 of the PON rows as recorded
on an FWLT-C, the wider steps as recorded on an FGLT-B. No name tells a port: slot, PON and ONT are in the ifIndex.
"""

from __future__ import annotations

from typing import NamedTuple

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population
from jobs.snmp.simulator.standard import (
    GPON,
    LOOPBACK,
    Identity,
    Interface,
    OnuInterfaces,
    interface_columns,
    system_columns,
)
from jobs.snmp.simulator.values import Reader, constant, decimal, integer, octets, scaled, text, when

TREE: Oid = (1, 3, 6, 1, 4, 1, 637, 61, 1)
NO_ONT_READING = integer(32768)
NO_OLT_READING = integer(65534)
PON_LEVEL, ONT_LEVEL = 13, 14
_GPON_ONT = 270
_VENDOR = b"ALCL"
_DESCR = "R6.5.02r NFXS-E FANT-H NOKIA ISAM Copyright (c) 2016 Nokia. All rights reserved."


class Board(NamedTuple):
    """A line card: name, steps between PONs and between ONTs, what its PON rows carry on top, ifName of a PON."""

    name: str
    pon_step: int
    ont_step: int
    pon_offset: int
    pon_name: str


NARROW = Board("FWLT-C", 65536, 512, 0x2000, " X-PON")
WIDE = Board("FGLT-B", 131072, 1024, 0, " GPON")
# The boards of a chassis, slot after slot.
MODELS = {"FWLT-C": (NARROW,), "FGLT-B": (WIDE,), "FWLT-C+FGLT-B": (NARROW, WIDE)}


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; FWLT-C boards unless the plan says FGLT-B, or both by turns."""
    onus = plan.population
    boards = MODELS[plan.model or "FWLT-C"]
    tables = _Onts(onus, boards)
    columns = system_columns(Identity(_DESCR, TREE, plan.name, onus.seed)) + tables.interfaces()
    truth = Truth(onus, tables.place, steps=500, serial=tables.serial)
    return BuiltOlt(GeneratedMib(columns + tables.columns()), truth)


def if_index(slot: int, level: int, rest: int) -> int:
    """ifIndex from the slot (from 1), the level and what the board lays below it."""
    return ((slot + 1) << 25) | (level << 21) | rest


def _module(pon: int) -> Oid:
    """Key of a PON port's SFP module: the slot counts from 4355 on the recorded 7360 FX."""
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return 4355 + slot, port + 1


class _Onts:
    """Where rows stand and how their cells are read; a reader takes an ONU and the time."""

    def __init__(self, population: Population, boards: tuple[Board, ...]) -> None:
        self._onus = population
        self._boards = boards

    def interfaces(self) -> list[Column]:
        onus = self._onus
        ports = [Interface(20971520, " LOOPBACK", "Nokia ASAM, Software Loopback interface", LOOPBACK, 10)]
        for pon in range(onus.ports):
            board = self._board(pon)
            ports.append(Interface(self._pon_index(pon), board.pon_name, f"nokia {board.name}  PON", GPON, 10000))

        def face(onu: int, now: float) -> Interface:
            board = self._board(onus.position(onu)[0])
            descr = f"nokia {board.name}  ONT"
            return Interface(self.ont_index(onu), " ONT", descr, _GPON_ONT, 2488, "", onus.online(onu, now))

        return interface_columns(ports, OnuInterfaces(onus.members, self.ont_index, face))

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, lambda onu: (self.ont_index(onu),))
        ranged = MovingRows(self._onus.members, self._pon_key)
        modules = FixedRows((_module(pon), pon) for pon in range(self._onus.ports))
        sfp: dict[Oid, Reader] = {
            (6,): lambda pon, now: text(f"{decimal(4 + draw(self._onus.seed, pon, 'port tx') % 200 / 100)} dBm"),
            (7,): constant(text("No Power")),
        }
        return [
            *columns_of((*TREE, 35, 10), rows, self._roster() | self._optics()),
            *columns_of((*TREE, 35, 11, 4, 1), ranged, {(5,): self._distance}),
            *columns_of((*TREE, 56, 5, 1), modules, sfp),
        ]

    def place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        slot, port = divmod(pon, PORTS_PER_SLOT)
        return Place(str(self.ont_index(onu)), slot + 1, port + 1, number + 1)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def ont_index(self, onu: int) -> int:
        pon, number = self._onus.position(onu)
        slot, port = divmod(pon, PORTS_PER_SLOT)
        board = self._board(pon)
        return if_index(slot + 1, ONT_LEVEL, port * board.pon_step + number * board.ont_step)

    def _pon_index(self, pon: int) -> int:
        slot, port = divmod(pon, PORTS_PER_SLOT)
        board = self._board(pon)
        return if_index(slot + 1, PON_LEVEL, port * board.pon_step + board.pon_offset)

    def _board(self, pon: int) -> Board:
        return self._boards[pon // PORTS_PER_SLOT % len(self._boards)]

    def _pon_key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return self._pon_index(pon), number + 1

    def _distance(self, onu: int, now: float) -> Value:
        return integer(self._onus.distance(onu, now, 0))

    def _roster(self) -> dict[Oid, Reader]:
        return {
            (1, 1, 2): constant(integer(1)),
            (1, 1, 5): lambda onu, now: octets(self.serial(onu)),
            (1, 1, 24): lambda onu, now: octets(self._onus.description(onu)),
            (4, 1, 2): lambda onu, now: integer(0 if self._onus.online(onu, now) else 2),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (14, 1, 5): lambda onu, now: integer(4000 + draw(onus.seed, onu, "bias") % 6000),
            (14, 1, 6): lambda onu, now: scaled(onus.temperature(onu, now), 256),
        }
        powers: dict[Oid, Reader] = {
            (14, 1, 2): lambda onu, now: scaled(onus.rx_power(onu, now), 500),
            (14, 1, 4): lambda onu, now: scaled(onus.tx_power(onu, now), 500),
        }
        found = {tail: when(onus.online, read, NO_ONT_READING) for tail, read in lit.items()}
        found |= {tail: when(onus.measured, read, NO_ONT_READING) for tail, read in powers.items()}
        heard = when(onus.heard, lambda onu, now: scaled(onus.olt_rx_power(onu, now), 10), NO_OLT_READING)
        return found | {(18, 1, 2): heard}
