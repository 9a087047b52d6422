"""What simulated OLTs are made of: specifications, the command line, recordings; no sockets."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs.cli_simulate import simulate
from jobs.snmp.simulator.faults import Faults
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
from jobs.snmp.simulator.onus import Layout
from jobs.snmp.simulator.snmprec import SnmprecError, load_snmprec, parse_snmprec
from jobs.snmp.simulator.spec import OltSpec, SpecError, expected, numbered, option_names, parse_spec
from jobs.snmp.simulator.usm import V3User
from jobs.snmp.simulator.vendors import VENDORS


def run(*words: str) -> Result:
    return CliRunner().invoke(simulate, words)


def test_a_full_specification_is_read() -> None:
    spec = parse_spec(
        "Huawei@127.0.0.1:20000,onus=128,seed=3,community=s3cret,churn=0.02,delay=0.05,drop=0.1,loop=1.3.6"
    )
    assert spec == OltSpec(
        "huawei", "127.0.0.1", 20000, onus=128, seed=3, community="s3cret", churn=0.02,
        faults=Faults(delay=0.05, drop=0.1, loop=(1, 3, 6)),
    )  # fmt: skip


def test_the_host_may_be_left_out_or_be_ipv6_and_the_port_be_free() -> None:
    free, six = parse_spec("zte@0"), parse_spec("zte@[::1]:161")
    assert ((free.host, free.port), (six.host, six.port)) == (("127.0.0.1", 0), ("::1", 161))
    assert parse_spec("walks/x.snmprec@20000").source == "walks/x.snmprec"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("huawei", "expected SOURCE@[HOST:]PORT"),
        ("@20000", "expected SOURCE@[HOST:]PORT"),
        ("cisco@20000", "unknown vendor 'cisco'; use huawei, zte, fiberhome"),
        ("huawei@host", "no [HOST:]PORT"),
        ("huawei@70000", "no [HOST:]PORT"),
        ("huawei@20000,onus", "unknown option 'onus'"),
        ("huawei@20000,speling=1", "unknown option 'speling=1'; KEY=VALUE with a KEY of onus, seed"),
        ("huawei@20000,onus=0", "onus=0: must lie between 1 and 16384"),
        ("huawei@20000,drop=2", "drop=2: must lie between 0 and 1"),
        ("huawei@20000,delay=nan", "delay=nan: must lie between"),
        ("huawei@20000,dead=yes", "dead=yes: must be 0 or 1"),
        ("huawei@20000,toobig=20", "toobig=20: must lie between 484 and 65507"),
        ("zte@20000,family=A", "family=A: must be B or C"),
        ("zte@20000,mute=x", "mute=x: 'x' is not an OID"),
        ("walk.snmprec@20000,onus=5", "onus has no meaning for a recording"),
        ("walk.snmprec@20000,sentinels=0.5", "sentinels has no meaning for a recording"),
        ("huawei@20000,family=B", "family is how a ZTE C300 or C320 numbers ifIndex"),
        ("zte@20000,model=C600,family=B", "family is how a ZTE C300 or C320 numbers ifIndex"),
        ("vsol@20000,model=C600", "vsol has no such model; use V1600G, V1600D"),
        ("huawei@20000,reboot=10", "rebootfor=10 must be shorter than reboot=10"),
        ("huawei@20000,rebootfor=5", "rebootfor has no meaning without reboot"),
        ("huawei@20000,vanishat=60", "vanishat has no meaning without vanish"),
    ],
)
def test_a_bad_specification_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert complaint in str(caught.value)
    assert run("--olt", text).exit_code == 2


def test_every_model_may_be_given_in_any_case_and_is_named_in_the_help_like_every_option() -> None:
    text, models = run("--help").output, [(source, model) for source in VENDORS for model in VENDORS[source].models]
    assert [parse_spec(f"{source}@0,model={model.lower()}").model for source, model in models] == [m for _, m in models]
    assert [model for _, model in models if model not in text] == []
    assert [name for name in option_names() if f"  {name}=" not in text] == []


def test_an_olt_has_no_more_onus_than_its_index_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(VENDORS["cdata"], layout=Layout(most=80, ports=2))
    monkeypatch.setitem(VENDORS, "cdata", small)
    assert parse_spec("cdata@0,onus=160").onus == 160
    with pytest.raises(SpecError, match="onus=161: cdata numbers at most 160 ONUs"):
        parse_spec("cdata@0,onus=161")


def test_the_truth_goes_by_the_clock_of_the_specification_and_is_not_known_of_a_recording() -> None:
    assert expected("huawei@0,seed=4,at=1790000000") == expected("huawei@0,seed=4", 1_790_000_000.0)
    assert expected("huawei@0,at=1790000000") == expected("huawei@0,seed=1,at=1790000000")
    with pytest.raises(SpecError, match="nobody knows the truth about a recording"):
        expected("walk.snmprec@0")


def test_count_repeats_each_olt_on_the_next_ports_with_the_next_seeds() -> None:
    found = numbered([parse_spec("huawei@20000,seed=10"), parse_spec("zte@0"), parse_spec("zte@0")], 2)
    assert [(spec.port, spec.seed) for spec in found] == [(20000, 10), (20001, 11), (0, 3), (0, 4), (0, 5), (0, 6)]
    with pytest.raises(SpecError, match="would pass port 65535"):
        numbered([parse_spec("huawei@65530")], 10)


def test_a_missing_or_damaged_recording_ends_the_command_with_its_name_and_code_one(tmp_path: Path) -> None:
    (tmp_path / "bad.snmprec").write_text("1.3.6.1.2.1.1.1.0|4|x\nrubbish\n")
    absent, damaged = run("--olt", "absent.snmprec@0"), run("--olt", f"{tmp_path}/bad.snmprec@0")
    assert (absent.exit_code, damaged.exit_code) == (1, 1)
    assert "absent.snmprec: cannot be read: No such file or directory" in absent.output
    assert "bad.snmprec: line 2: expected OID|type|value, found 'rubbish'" in damaged.output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--v3-auth-password", "longenough"), "need --v3-user"),
        (("--v3-user", "ops", "--v3-auth-password", "short"), "at least 8 characters"),
        (("--v3-user", "ops", "--v3-priv-password", "longenough"), "needs an authentication password too"),
        (("--count", "1001"), "1001"),
    ],
)
def test_wrong_usage_is_explained_and_ends_with_code_two(words: tuple[str, ...], complaint: str) -> None:
    result = run("--olt", "huawei@0", *words)
    assert result.exit_code == 2
    assert complaint in result.output


def test_passwords_are_not_in_the_repr_of_a_user() -> None:
    assert "hunter2hunter2" not in repr(V3User("ops", "hunter2hunter2", "hunter2hunter2"))


WALKS = Path(__file__).resolve().parents[2].parent / "shared" / "olt" / "walks"
RECORDING = b"""# a small OLT
1.3.6.1.2.1.1.1.0|4|Huawei | Integrated\r
1.3.6.1.2.1.1.2.0|6|1.3.6.1.4.1.2011.2.123
1.3.6.1.2.1.1.3.0|67|1000

1.3.6.1.2.1.4.20.1.1.5|64|198.51.100.7
1.3.6.1.2.1.2.2.1.6.10|4x|00e0fc7c0a
1.3.6.1.2.1.2.2.1.2.10|4|
1.3.6.1.2.1.2.2.1.2.9|4|eth0
1.3.6.1.2.1.2.2.1.2.8|4e|a\\nb\\\\c|\\x00\\"
1.3.6.1.2.1.31.1.1.1.6.9|70|18446744073709551615
1.3.6.1.4.1.2011.6.128.1.1.2.46.1.20.4194304000.0|2|-1
"""


def mib(started: float = 0.0) -> RecordedMib:
    return RecordedMib(parse_snmprec(RECORDING, "small"), started)


def test_every_type_of_a_recording_is_read() -> None:
    values = {
        "1.1.1.0": Value(Kind.OCTETS, b"Huawei | Integrated"),
        "1.1.2.0": Value(Kind.OID, (1, 3, 6, 1, 4, 1, 2011, 2, 123)),
        "1.4.20.1.1.5": Value(Kind.IP_ADDRESS, bytes((198, 51, 100, 7))),
        "1.2.2.1.6.10": Value(Kind.OCTETS, bytes.fromhex("00e0fc7c0a")),
        "1.2.2.1.2.10": Value(Kind.OCTETS, b""),
        "1.2.2.1.2.8": Value(Kind.OCTETS, b'a\nb\\c|\0"'),
        "1.31.1.1.1.6.9": Value(Kind.COUNTER64, 2**64 - 1),
    }
    rows = parse_snmprec(RECORDING, "small")
    assert len(rows) == 10
    assert {oid: rows[parse_oid(f"1.3.6.1.2.{oid}")] for oid in values} == values


def test_a_bad_line_is_named_with_its_number() -> None:
    complaints = {
        "garbage": "expected OID|type|value, found 'garbage'",
        "1.3.x|2|5": "'1.3.x' is not an OID",
        "1.3.6|99|5": "unknown type '99'",
        "1.3.6|2|five": "expected a whole number, found 'five'",
        "1.3.6|2|4194304000": "does not fit INTEGER",
        "1.3.6|65|-1": "does not fit COUNTER32",
        "1.3.6|4x|0g": "expected hexadecimal",
        "1.3.6|4e|a\\qb": "unknown escape",
        "1.3.6|64|300.1.1.1": "expected an IPv4 address",
        "1.3.6.1|2|2": "already in the file",
    }
    for line, complaint in complaints.items():
        with pytest.raises(SnmprecError, match=f"^bad.snmprec: line 3: .*{re.escape(complaint)}"):
            parse_snmprec(f"1.3.6.1|2|1\n\n{line}\n".encode(), "bad.snmprec")


PRINTED = b""".1.3.6.1.2.1.1.1.0 = STRING: "Huawei \\"Integrated\\"
Access = Software"
.1.3.6.1.2.1.1.2.0 = OID: .1.3.6.1.4.1.2011.2.123
.1.3.6.1.2.1.1.3.0 = Timeticks: (1000) 0:00:10.00
iso.3.6.1.2.1.1.5.0 = STRING: OLT-LIMA
.1.3.6.1.2.1.1.6.0 = ""
.1.3.6.1.2.1.1.7.0 = NULL
.1.3.6.1.2.1.2.2.1.3.9 = INTEGER: gpon(250)
.1.3.6.1.2.1.2.2.1.6.9 = Hex-STRING: 00 E0 FC 7C
0A 01
.1.3.6.1.2.1.2.2.1.8.9 = Wrong Type (should be INTEGER): Gauge32: 4294967295 dBm
.1.3.6.1.2.1.4.20.1.1.5 = IpAddress: 198.51.100.7
.1.3.6.1.2.1.31.1.1.1.6.9 = Counter64: 18446744073709551615
.1.3.6.1.2.1.99 = No Such Object available on this agent at this OID
No more variables left in this MIB View (It is past the end of the MIB tree)
"""


def test_what_snmpwalk_prints_is_read_too():
    rows = parse_snmprec(PRINTED, "printed")
    assert {".".join(map(str, oid[6:])): value for oid, value in rows.items()} == {
        "1.1.0": Value(Kind.OCTETS, b'Huawei "Integrated"\nAccess = Software'),
        "1.2.0": Value(Kind.OID, (1, 3, 6, 1, 4, 1, 2011, 2, 123)),
        "1.3.0": Value(Kind.TIMETICKS, 1000),
        "1.5.0": Value(Kind.OCTETS, b"OLT-LIMA"),
        "1.6.0": Value(Kind.OCTETS, b""),
        "1.7.0": Value(Kind.NULL, None),
        "2.2.1.3.9": Value(Kind.INTEGER, 250),
        "2.2.1.6.9": Value(Kind.OCTETS, bytes.fromhex("00e0fc7c0a01")),
        "2.2.1.8.9": Value(Kind.GAUGE32, 2**32 - 1),
        "4.20.1.1.5": Value(Kind.IP_ADDRESS, bytes((198, 51, 100, 7))),
        "31.1.1.1.6.9": Value(Kind.COUNTER64, 2**64 - 1),
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (".1.3.6 = INTEGER: five", "expected a whole number, found 'five'"),
        (".1.3.6 = INTEGER: 4294967296", "does not fit INTEGER"),
        (".1.3.6 = Opaque: Float: 1.5", "expected a type, one of STRING, Hex-STRING"),
        (".1.3.6 = Hex-STRING: 0G", "expected hexadecimal"),
        (".1.3.6 = IpAddress: 300.1.1.1", "expected an IPv4 address"),
        ('.1.3.6 = STRING: "open', "no closing quote"),
        (".1.3.6.1 = INTEGER: 2", "already in the file"),
        (".1.9999999999 = INTEGER: 2", "is not an OID"),
    ],
)
def test_a_bad_row_of_a_printed_walk_is_named_with_its_line(line, complaint):
    with pytest.raises(SnmprecError, match=f"^bad.txt: line 3: .*{re.escape(complaint)}"):
        parse_snmprec(f".1.3.6.1 = INTEGER: 1\n\n{line}\n".encode(), "bad.txt")


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
    assert len(seen) == 10
    assert seen.index(parse_oid("1.3.6.1.2.1.2.2.1.2.9")) + 1 == seen.index(parse_oid("1.3.6.1.2.1.2.2.1.2.10"))


def test_a_missing_instance_is_told_from_a_missing_object() -> None:
    answers = {
        "2.1.1.1.1": NO_SUCH_INSTANCE,
        "2.1.1.99.0": NO_SUCH_OBJECT,
        "2.1.2.2.1.2.77": NO_SUCH_INSTANCE,
        "2.1.2.2.1.99.9": NO_SUCH_OBJECT,
        "4.1.2011.6.128.1.1.2.46.1.20.4194312192.3": NO_SUCH_INSTANCE,
        "4.1.2011.6.128.1.1.2.46.1.15.4194304000.0": NO_SUCH_OBJECT,
    }
    assert {oid: mib().get(parse_oid(f"1.3.6.1.{oid}"), 0.0) for oid in answers} == answers


def test_the_object_of_a_row_is_guessed_from_the_entry_arc() -> None:
    row = parse_oid("1.3.6.1.4.1.3902.1012.3.11.4.1.2.268501248.5")
    assert object_prefix(row) == parse_oid("1.3.6.1.4.1.3902.1012.3.11.4.1.2")


def test_only_sysuptime_moves_in_a_recording() -> None:
    ticks = [mib(started=100.0).get(SYS_UPTIME, now) for now in (100.0, 102.5)]
    assert ticks == [Value(Kind.TIMETICKS, 1000), Value(Kind.TIMETICKS, 1250)]


def test_all_recorded_walks_load() -> None:
    if not WALKS.is_dir():
        pytest.skip("recorded walks absent")
    loaded = {path.name: len(load_snmprec(path)) for path in sorted(WALKS.glob("*.snmprec"))}
    assert (len(loaded), loaded["zxa10_c320.snmprec"], loaded["smartax.snmprec"]) == (29, 2753, 3699)
