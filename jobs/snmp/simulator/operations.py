"""What an agent answers to GET, GETNEXT, GETBULK and SET (RFC 3416, RFC 1157); messages and sockets are not here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobs.snmp.simulator.faults import DEFAULT_MAX_BYTES, DeviceGenError, DeviceMuteError
from jobs.snmp.simulator.mib import END_OF_MIB_VIEW, Kind, MibSource, Oid, Value
from jobs.snmp.simulator.wire import V1, PduType, encode_varbind

NO_ERROR, TOO_BIG, NO_SUCH_NAME, GEN_ERR, NOT_WRITABLE = 0, 1, 2, 5, 17
# Room for the message and PDU headers around the varbinds; a community of up to 64 octets fits.
ENVELOPE = 100
_EXCEPTIONS = (Kind.NO_SUCH_OBJECT, Kind.NO_SUCH_INSTANCE, Kind.END_OF_MIB_VIEW)


class Row(NamedTuple):
    """One varbind of an answer, as value and as BER."""

    oid: Oid
    value: Value
    ber: bytes


class Answer(NamedTuple):
    """``rows`` is None when the request's own varbinds are to be echoed."""

    status: int
    error_index: int
    rows: list[Row] | None


class Ask(NamedTuple):
    """A request stripped of its protocol: what, for which OIDs, and the two numbers of a GETBULK."""

    version: int
    pdu: PduType
    oids: Sequence[Oid]
    non_repeaters: int = 0
    max_repetitions: int = 0


class _TooBigError(Exception):
    pass


class _FailureError(Exception):
    def __init__(self, status: int, index: int) -> None:
        super().__init__(status, index)
        self.status, self.index = status, index


@dataclass(frozen=True, slots=True)
class Responder:
    """Answers for one MIB within ``max_bytes``; 0 in the other three = no such limit.

    ``max_repetitions`` bounds the rows per column of a GETBULK, ``max_varbinds`` the varbinds of any answer (a GET of
    more gets tooBig, a GETBULK is cut), ``truncate`` those of a GET, the rest of which is left out in silence.
    """

    mib: MibSource
    max_bytes: int = DEFAULT_MAX_BYTES
    max_repetitions: int = 0
    max_varbinds: int = 0
    truncate: int = 0

    def answer(self, ask: Ask, now: float) -> Answer:
        """Answer one request as of ``now``; DeviceMute when the device swallows it."""
        try:
            rows = self._rows(ask, now)
            if sum(len(row.ber) for row in rows) > self.max_bytes - ENVELOPE:
                raise _TooBigError
        except _FailureError as failure:
            return Answer(failure.status, failure.index, None)
        except _TooBigError:
            return Answer(TOO_BIG, 0, None if ask.version == V1 else [])
        return Answer(NO_ERROR, 0, rows)

    def _rows(self, ask: Ask, now: float) -> list[Row]:
        if 0 < self.max_varbinds < len(ask.oids) and ask.pdu in (PduType.GET, PduType.GETNEXT):
            raise _TooBigError
        if ask.pdu is PduType.GET:
            asked = ask.oids[: self.truncate] if self.truncate else ask.oids
            return [self._get(ask, oid, at, now) for at, oid in enumerate(asked, start=1)]
        if ask.pdu is PduType.GETNEXT:
            return [self._next(ask, oid, at, now) for at, oid in enumerate(ask.oids, start=1)]
        if ask.pdu is PduType.GETBULK:
            return self._bulk(ask, now)
        raise _FailureError(NO_SUCH_NAME if ask.version == V1 else NOT_WRITABLE, 1)

    def _get(self, ask: Ask, oid: Oid, at: int, now: float) -> Row:
        try:
            value = self.mib.get(oid, now)
        except DeviceGenError:
            raise _FailureError(GEN_ERR, at) from None
        if ask.version == V1 and (value.kind in _EXCEPTIONS or value.kind is Kind.COUNTER64):
            raise _FailureError(NO_SUCH_NAME, at)
        return Row(oid, value, encode_varbind(oid, value))

    def _next(self, ask: Ask, oid: Oid, at: int, now: float) -> Row:
        try:
            found = self.mib.next(oid, now)
            # A v1 manager cannot read Counter64, so the walk passes over it (RFC 3584, 4.2.2.1).
            while ask.version == V1 and found is not None and found[1].kind is Kind.COUNTER64:
                found = self.mib.next(found[0], now)
        except DeviceGenError:
            raise _FailureError(GEN_ERR, at) from None
        if found is None and ask.version == V1:
            raise _FailureError(NO_SUCH_NAME, at)
        oid, value = found or (oid, END_OF_MIB_VIEW)
        return Row(oid, value, encode_varbind(oid, value))

    def _bulk(self, ask: Ask, now: float) -> list[Row]:
        fixed = max(0, min(ask.non_repeaters, len(ask.oids)))
        rows: list[Row] = []
        room = self.max_bytes - ENVELOPE
        for row in self._bulk_rows(ask, fixed, now):
            room -= len(row.ber)
            if room < 0 and not rows:
                raise _TooBigError
            if room < 0:
                break
            rows.append(row)
            if len(rows) == self.max_varbinds:
                break
        return rows

    def _bulk_rows(self, ask: Ask, fixed: int, now: float) -> Iterable[Row]:
        for at, oid in enumerate(ask.oids[:fixed], start=1):
            yield self._next(ask, oid, at, now)
        first = columns = list(ask.oids[fixed:])
        repetitions = max(0, ask.max_repetitions)
        if self.max_repetitions:
            repetitions = min(repetitions, self.max_repetitions)
        for _ in range(repetitions if columns else 0):
            try:
                line = [self._next(ask, oid, fixed + at, now) for at, oid in enumerate(columns, start=1)]
            except (_FailureError, DeviceMuteError):
                # What was gathered before the broken row still goes out; only a walk that starts there meets the fault.
                if columns is not first:
                    return
                raise
            yield from line
            columns = [row.oid for row in line]
            if all(row.value is END_OF_MIB_VIEW for row in line):
                return
