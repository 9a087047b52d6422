"""What crosses between the database and the wire: one composite to do, and what came of it. Plain frozen data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portal.domain.device import Answer, Device
from portal.domain.formulas import IndexFormula
from portal.domain.readings import Reading, ValueSpec, ValueType
from portal.domain.statuses import ErrorKind, NodeKind, SkipReason, StepStatus
from portal.domain.table_sizes import SizeEvidence, Sizes


@dataclass(frozen=True)
class SnmpTarget:
    """How to talk to one OLT. Secrets are in clear here, so `repr` leaves them out. Times in seconds."""

    address: str
    port: int
    version: str  # "1", "2c" or "3"
    community: str = field(default="", repr=False)
    username: str = field(default="", repr=False)
    auth_protocol: str = ""  # "", "SHA", "MD5"
    auth_password: str = field(default="", repr=False)
    priv_protocol: str = ""  # "", "AES", "DES"
    priv_password: str = field(default="", repr=False)
    context: str = ""  # SNMPv3 context name: Nokia's switch tables are read in one of their own
    timeout: float = 2.0  # one try
    retries: int = 1  # further tries of the same request
    max_repetitions: int = 20  # rows asked for in one GETBULK
    max_varbinds: int = 50  # instances asked for in one GET
    max_inflight: int = 2  # requests at once inside one GET step
    max_rows: int = 100_000  # a walk that would pass this is cut short
    networks: tuple[str, ...] = ("0.0.0.0/0", "::/0")  # in which the address, or what its name stands for, must lie
    secret_networks: tuple[str, ...] | None = None  # those of its credential, likewise; None: it was approved for there

    @property
    def device_key(self) -> str:
        """What at most one composite may touch at a time: management address and port."""
        return f"{self.address}:{self.port}"

    @property
    def longest_request(self) -> float:
        """Seconds between two checkpoints at most; must stay below the lease (docs/serialisation.md).

        Each try of a request has its checkpoint. An SNMPv3 session's first is preceded by two exchanges of its own.
        """
        return self.timeout * (3 if self.version == "3" else 1)


IDENTITIES = ("onu_serial", "onu_mac")
PORT_NAMES = ("if_name", "if_descr")  # by ifIndex, or kept as such where a maker has nothing else
_TELLING = frozenset({ValueType.SERIAL, ValueType.MAC})  # a text of that name is nobody's identity


@dataclass(frozen=True)
class ReadingSpec:
    """One column to read and how its index and values are to be understood."""

    metric: str  # name under which readings are kept: onu_state, onu_rx_power, …
    oid: str  # dotted numbers, no leading dot
    value: ValueSpec
    formula: IndexFormula | None = None
    index_suffix: str = ""  # sub-identifiers after the ONU key, such as ".1" for ZTE optics
    scalar: bool = False  # a complete OID ending in .0
    by_name: bool = False  # the index is (or begins with) an ifIndex: its interface's name decides the position
    dead_band: float | None = None  # a change of a number by less than this is no history; None: nothing is kept
    access: str = ""  # "walk" or "get" where the device answers a column in that way only (quirks 1 and 8)
    zero_unsupported: bool = False  # a whole column of zeros means that the device does not have it (quirk 45)
    shape: str = ""  # what a row is: "onu", "port", "row"; "" for an OID that the catalogue does not know

    @property
    def suffix(self) -> str:
        """What follows the index in the OID of an instance: with its leading dot, or ""."""
        return f".{self.index_suffix.strip('.')}" if self.index_suffix else ""

    @property
    def of_part(self) -> bool:
        """Its rows are ports, cards, or the OLT itself."""
        return self.scalar or self.shape in ("port", "row")

    @property
    def names_ports(self) -> bool:
        """Its rows are the interfaces of the OLT, its values their names."""
        return self.metric in PORT_NAMES

    @property
    def tells_identity(self) -> bool:
        """It says which ONU stands at an index."""
        return self.metric in IDENTITIES and self.value.type in _TELLING


@dataclass(frozen=True)
class Progress:
    """Where a node's reading stood when its time limit cut it; the next run goes on there. Kept with the node as JSON.

    `since`: when the first of the runs that make up one whole reading began. `by_port`: the table is so large, or broke
    off so, that it is walked port by port.
    """

    stopped: Mapping[str, str] = field(default_factory=dict)  # column OID → index read last
    since: datetime | None = None
    by_port: bool = False

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None) -> "Progress":
        """As `as_json` made it; None is a node that has nothing to go on with."""
        if not stored:
            return cls()
        since = stored.get("since")
        return cls(dict(stored["stopped"]), datetime.fromisoformat(since) if since else None, bool(stored["by_port"]))

    def as_json(self) -> dict[str, Any] | None:
        """None where there is nothing to keep."""
        if not self.stopped and not self.by_port:
            return None
        since = self.since.isoformat() if self.since else None
        return {"stopped": dict(self.stopped), "since": since, "by_port": self.by_port}


@dataclass(frozen=True)
class StepWork:
    """One node of the chain."""

    node_id: int
    key: str
    kind: NodeKind
    specs: tuple[ReadingSpec, ...]
    time_limit: float = 120.0  # seconds
    stop_on_failure: bool = False
    progress: Progress = field(default_factory=Progress)

    @property
    def tells_identity(self) -> bool:
        """One of its columns says which ONU stands at an index."""
        return any(spec.tells_identity for spec in self.specs)


@dataclass(frozen=True)
class CompositeWork:
    """A master and its enabled chained nodes on one OLT: those that tell who is who first, else in order."""

    execution_id: int
    token: int
    olt_id: int
    target: SnmpTarget
    steps: tuple[StepWork, ...]
    onu_keys: tuple[str, ...] = ()  # the ONUs known to be present: a GET asks for them
    sizes: Sizes = field(default_factory=dict)  # message sizes that earlier runs learned
    device: Device | None = None  # which device is to answer; None: whoever does


@dataclass(frozen=True)
class ColumnReadings:
    """All readings of one column. `complete` is False when the column may have had further rows.

    `continued`: they begin where an earlier run was cut; with that one's they are the whole column.
    """

    spec: ReadingSpec
    readings: Sequence[Reading]
    complete: bool
    continued: bool = False

    @property
    def whole(self) -> bool:
        """True when these readings are all of the column."""
        return self.complete and not self.continued


@dataclass(frozen=True)
class StepResult:
    """What one node brought. Good readings are kept also when the step failed."""

    node_id: int
    status: StepStatus
    columns: tuple[ColumnReadings, ...] = ()
    skip_reason: SkipReason | None = None
    error_kind: ErrorKind | None = None
    error_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    pdus: int = 0  # datagrams sent
    timeouts: int = 0
    retries: int = 0  # repeats of a silent request; each is also in pdus and timeouts
    rows: int = 0
    octets: int = 0  # of the values that arrived, as far as the driver tells
    sizes: tuple[SizeEvidence, ...] = ()  # what this step learned about message sizes
    progress: Progress = field(default_factory=Progress)  # for the node's next run
    restarted_at: datetime | None = None  # of the device, where its tables may not be whole yet
    continues: datetime | None = None  # it went on where an earlier run was cut: when the first of them began

    @property
    def tells_identity(self) -> bool:
        """It read a column that says which ONU stands at an index."""
        return any(column.spec.tells_identity for column in self.columns)


def telling(steps: Iterable[StepWork | StepResult]) -> frozenset[int]:
    """Nodes of the steps that say which ONU stands at an index."""
    return frozenset(step.node_id for step in steps if step.tells_identity)


@dataclass(frozen=True)
class CompositeResult:
    """Every step of the chain has exactly one StepResult, in chain order."""

    steps: tuple[StepResult, ...]
    answer: Answer | None = None  # of the device that was asked who it is

    @property
    def other_device(self) -> bool:
        """True when another device answered than the one that is known; nothing was read of it."""
        return any(step.error_kind is ErrorKind.OTHER_DEVICE for step in self.steps)

    @property
    def empty(self) -> bool:
        """True when there was nothing to ask for: each step was a GET, and no ONU is known."""
        return bool(self.steps) and all(step.skip_reason is SkipReason.NO_ONUS for step in self.steps)

    @property
    def succeeded(self) -> bool:
        """True when all steps succeeded. A GET that had no ONU to ask for is skipped, not failed."""
        return all(step.status is StepStatus.SUCCESS or step.skip_reason is SkipReason.NO_ONUS for step in self.steps)

    @property
    def answered(self) -> bool:
        """True when the OLT answered anything at all."""
        return any(step.pdus > step.timeouts for step in self.steps)

    @property
    def first_failure(self) -> StepResult | None:
        """The step that decides the composite's error, or None."""
        return next((s for s in self.steps if s.status is StepStatus.FAILED), None)
