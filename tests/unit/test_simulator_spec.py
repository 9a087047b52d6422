"""Specifications and the command line: what is understood and what is refused with which words; no sockets."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs.cli_simulate import simulate
from jobs.snmp.simulator.faults import Faults
from jobs.snmp.simulator.onus import Layout
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
