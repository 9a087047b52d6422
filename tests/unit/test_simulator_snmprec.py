"""Reading recordings and looking things up in them; no sockets."""

from pathlib import Path

import pytest

from jobs.snmp.simulator.mib import (
    NO_SUCH_INSTANCE,
    NO_SUCH_OBJECT,
    SYS_UPTIME,
    Kind,
    Oid,
    RecordedMib,
    Value,
    object_prefix,
    parse_oid,
)
from jobs.snmp.simulator.snmprec import SnmprecError, load_snmprec, parse_snmprec

WALKS = Path(__file__).resolve().parents[2].parent / "shared" / "olt" / "walks"
RECORDING = b"""# a small OLT
1.3.6.1.2.1.1.1.0|4|Huawei | Integrated\r
1.3.6.1.2.1.1.2.0|6|1.3.6.1.4.1.2011.2.123
1.3.6.1.2.1.1.3.0|67|1000

1.3.6.1.2.1.4.20.1.1.5|64|198.51.100.7
1.3.6.1.2.1.2.2.1.6.10|4x|00e0fc7c0a
1.3.6.1.2.1.2.2.1.2.10|4|
1.3.6.1.2.1.2.2.1.2.9|4|eth0
1.3.6.1.2.1.31.1.1.1.6.9|70|18446744073709551615
1.3.6.1.4.1.2011.6.128.1.1.2.46.1.20.4194304000.0|2|-1
"""


def mib(started: float = 0.0) -> RecordedMib:
    return RecordedMib(parse_snmprec(RECORDING, "small"), started)


def test_every_type_of_a_recording_is_read() -> None:
    rows = parse_snmprec(RECORDING, "small")
    assert len(rows) == 9
    assert rows[parse_oid("1.3.6.1.2.1.1.1.0")] == Value(Kind.OCTETS, b"Huawei | Integrated")
    assert rows[parse_oid("1.3.6.1.2.1.1.2.0")] == Value(Kind.OID, (1, 3, 6, 1, 4, 1, 2011, 2, 123))
    assert rows[parse_oid("1.3.6.1.2.1.4.20.1.1.5")] == Value(Kind.IP_ADDRESS, bytes((198, 51, 100, 7)))
    assert rows[parse_oid("1.3.6.1.2.1.2.2.1.6.10")] == Value(Kind.OCTETS, bytes.fromhex("00e0fc7c0a"))
    assert rows[parse_oid("1.3.6.1.2.1.2.2.1.2.10")] == Value(Kind.OCTETS, b"")
    assert rows[parse_oid("1.3.6.1.2.1.31.1.1.1.6.9")] == Value(Kind.COUNTER64, 2**64 - 1)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"garbage", "expected OID|type|value, found 'garbage'"),
        (b"1.3.x|2|5", "'1.3.x' is not an OID"),
        (b"1.3.6|99|5", "unknown type '99'"),
        (b"1.3.6|2|five", "expected a whole number, found 'five'"),
        (b"1.3.6|2|4194304000", "does not fit INTEGER"),
        (b"1.3.6|65|-1", "does not fit COUNTER32"),
        (b"1.3.6|4x|0g", "expected hexadecimal"),
        (b"1.3.6|64|300.1.1.1", "expected an IPv4 address"),
        (b"1.3.6.1|2|2", "already in the file"),
    ],
)
def test_a_bad_line_is_named_with_its_number(line: bytes, complaint: str) -> None:
    with pytest.raises(SnmprecError) as caught:
        parse_snmprec(b"1.3.6.1|2|1\n\n" + line + b"\n", "bad.snmprec")
    assert str(caught.value).startswith("bad.snmprec: line 3: ")
    assert complaint in str(caught.value)


def test_a_recording_without_rows_or_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnmprecError, match="holds no OID"):
        parse_snmprec(b"# nothing\n", "empty")
    with pytest.raises(SnmprecError, match=r"absent\.snmprec: cannot be read: No such file"):
        load_snmprec(tmp_path / "absent.snmprec")


def test_rows_come_in_numeric_order_whatever_the_order_of_the_file() -> None:
    tree, seen = mib(), list[Oid]()
    oid: Oid = (1,)
    while (found := tree.next(oid, 0.0)) is not None:
        oid = found[0]
        seen.append(oid)
    assert seen == sorted(seen)
    assert len(seen) == 9
    assert seen.index(parse_oid("1.3.6.1.2.1.2.2.1.2.9")) + 1 == seen.index(parse_oid("1.3.6.1.2.1.2.2.1.2.10"))


@pytest.mark.parametrize(
    ("oid", "answer"),
    [
        ("1.3.6.1.2.1.1.1.1", NO_SUCH_INSTANCE),
        ("1.3.6.1.2.1.1.99.0", NO_SUCH_OBJECT),
        ("1.3.6.1.2.1.2.2.1.2.77", NO_SUCH_INSTANCE),
        ("1.3.6.1.2.1.2.2.1.99.9", NO_SUCH_OBJECT),
        ("1.3.6.1.4.1.2011.6.128.1.1.2.46.1.20.4194312192.3", NO_SUCH_INSTANCE),
        ("1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15.4194304000.0", NO_SUCH_OBJECT),
    ],
)
def test_a_missing_instance_is_told_from_a_missing_object(oid: str, answer: Value) -> None:
    assert mib().get(parse_oid(oid), 0.0) == answer


def test_the_object_of_a_row_is_guessed_from_the_entry_arc() -> None:
    row = parse_oid("1.3.6.1.4.1.3902.1012.3.11.4.1.2.268501248.5")
    assert object_prefix(row) == parse_oid("1.3.6.1.4.1.3902.1012.3.11.4.1.2")


def test_only_sysuptime_moves_in_a_recording() -> None:
    tree = mib(started=100.0)
    assert tree.get(SYS_UPTIME, 100.0) == Value(Kind.TIMETICKS, 1000)
    assert tree.get(SYS_UPTIME, 102.5) == Value(Kind.TIMETICKS, 1250)


def test_all_recorded_walks_load() -> None:
    if not WALKS.is_dir():
        pytest.skip("recorded walks absent")
    loaded = {path.name: len(load_snmprec(path)) for path in sorted(WALKS.glob("*.snmprec"))}
    assert len(loaded) == 29
    assert loaded["zxa10_c320.snmprec"] == 2753
    assert loaded["smartax.snmprec"] == 3699
