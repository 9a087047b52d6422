"""From what a session brought to readings: instances to ask for, rows to decode, what a GET amounts to. No sending."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.snmp.getting import GetResult
from jobs.snmp.session import SnmpType
from jobs.snmp.walking import WalkedColumn
from portal.domain.composite import ColumnReadings, ReadingSpec
from portal.domain.readings import decoder
from portal.domain.statuses import ErrorKind
from portal.domain.table_sizes import SizeEvidence

SCALAR_INDEX = "0"

Asked = list[tuple[ReadingSpec, dict[str, str]]]
"""Each column of a GET with its instances: index → OID to ask for."""


@dataclass
class Outcome:
    """What a step has brought so far; the first error stays."""

    columns: list[ColumnReadings] = field(default_factory=list)
    pdus: int = 0
    timeouts: int = 0
    retries: int = 0
    rows: int = 0
    octets: int = 0
    sizes: list[SizeEvidence] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)  # column OID → index read last, where the time limit cut
    broke_off: bool = False  # a walk ended early for want of an answer or of time
    error_kind: ErrorKind | None = None
    message: str = ""

    def fail(self, kind: ErrorKind, message: str) -> None:
        """Keep the first error."""
        if self.error_kind is None:
            self.error_kind, self.message = kind, message

    def take_got(self, asked: Asked, got: GetResult) -> None:
        """The columns of a GET."""
        self.octets += got.octets
        self.sizes += got.sizes
        self.rows += sum(not bind.missing for bind in got.values.values())
        self.columns += [_got_column(spec, instances, got) for spec, instances in asked]
        if got.error_kind is ErrorKind.TIME_LIMIT:
            for spec, instances in asked:
                read = [index for index, oid in instances.items() if oid in got.values]
                if read and len(read) < len(instances):
                    self.stopped[spec.oid] = read[-1]
        _judge_get(asked, got, self)

    def take_walked(self, specs: Sequence[ReadingSpec], walked: Sequence[WalkedColumn]) -> None:
        """The columns of a walk."""
        columns = [_walked_column(spec, column) for spec, column in zip(specs, walked, strict=True)]
        self.rows += sum(len(column.readings) for column in columns)
        self.columns += columns
        for spec, column in zip(specs, walked, strict=True):
            if column.error_kind is ErrorKind.TIME_LIMIT and column.stopped_at:
                self.stopped[spec.oid] = column.stopped_at
            self.broke_off |= column.error_kind in (ErrorKind.TIME_LIMIT, ErrorKind.TIMEOUT) and bool(column.rows)
        bad = next((column for column in walked if not column.complete), None)
        if bad is not None:
            self.fail(bad.error_kind or ErrorKind.INCOMPLETE, bad.message)


def instances(spec: ReadingSpec, keys: Sequence[str], after: str = "") -> dict[str, str]:
    """Index → OID to ask for. Those behind `after` come first: a run that was cut had read up to there."""
    if spec.scalar:
        return {SCALAR_INDEX: spec.oid}
    if after in keys:
        place = list(keys).index(after) + 1
        keys = [*keys[place:], *keys[:place]]
    suffix = spec.suffix
    return {key: f"{spec.oid}.{key}{suffix}" for key in keys}


def _got_column(spec: ReadingSpec, asked: dict[str, str], got: GetResult) -> ColumnReadings:
    if _unsupported(asked, got):
        return ColumnReadings(spec, (), complete=False)
    values = got.values
    readings = decoder(spec.value)([(index, values[oid].value) for index, oid in asked.items() if oid in values])
    return ColumnReadings(spec, readings, complete=len(readings) == len(asked))


def _unsupported(asked: dict[str, str], got: GetResult) -> bool:
    """True when the OLT said noSuchObject for every instance. noSuchInstance is the word for one ONU without data."""
    binds = [got.values.get(oid) for oid in asked.values()]
    return bool(binds) and all(bind is not None and bind.type is SnmpType.NO_SUCH_OBJECT for bind in binds)


def _judge_get(asked: Asked, got: GetResult, outcome: Outcome) -> None:
    if got.error_kind is not None:
        outcome.fail(got.error_kind, got.message)
    for spec, wanted in asked:
        failed = [got.failed[oid] for oid in wanted.values() if oid in got.failed]
        if _unsupported(wanted, got):
            outcome.fail(
                ErrorKind.NO_SUCH_OBJECT,
                f"{spec.oid} is not supported by this OLT (noSuchObject for all {len(wanted)} instances): check the "
                "OID against model and firmware; an SNMP view on the OLT may also hide it",
            )
        elif failed and len(failed) == len(wanted):
            outcome.fail(failed[0], f"no instance of {spec.oid} could be read; first: {got.message}")
    if got.failed and outcome.error_kind is None:
        outcome.message = f"{len(got.failed)} instances could not be read; first: {got.message}"


def _walked_column(spec: ReadingSpec, column: WalkedColumn) -> ColumnReadings:
    """Rows as readings. Rows with another suffix belong to something else (a further port of the ONU): left out."""
    rows, suffix = column.rows, spec.suffix
    if suffix:
        rows = [
            (index.removesuffix(suffix), value)
            for index, value in rows
            if index.endswith(suffix) and len(index) > len(suffix)
        ]
    return ColumnReadings(spec, decoder(spec.value)(rows), column.complete, continued=bool(column.started_at))
