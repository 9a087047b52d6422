"""Readers of single values: what is accepted, and that a refusal says so."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from portal.domain import addresses, fields, intervals, node_fields, olt_fields
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.statuses import NodeKind


def test_an_interval_is_written_as_people_write_it() -> None:
    seconds = {"60s": 60, "15m": 900, "1h": 3600, "900": 900, "1h30m": 5400, "2 min": 120, "1d": 86400, "90 S": 90}
    assert {text: intervals.parse(text) for text in seconds} == seconds


@pytest.mark.parametrize("text", ["", "15x", "-5m", "1.5h", "m", "5m 3", "١٥m", "m15", "  "])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        intervals.parse(text)


def test_a_shown_interval_reads_back() -> None:
    seconds = [0, 1, 30, 59, 60, 90, 300, 900, 3600, 5400, 86400, 90061]
    assert [intervals.parse(intervals.show(one)) for one in seconds] == seconds


def test_a_message_keeps_what_a_translator_needs_even_through_a_pickle() -> None:
    message = pickle.loads(pickle.dumps(N_("at most %(high)d", high=3)))  # noqa: S301  (our own bytes)
    assert (message, message.msgid, message.params) == ("at most 3", "at most %(high)d", {"high": 3})


def test_yes_is_yes_in_yaml_json_and_forms() -> None:
    assert {fields.flag(value) for value in (True, "true", "1", "yes", "on", "Y")} == {True}


def test_a_whole_number_outside_its_bounds_is_told_with_both_bounds() -> None:
    with pytest.raises(FieldError, match="from 1 to 65535, not 99999"):
        fields.whole(1, 65535)("99999")


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (fields.whole(0, 10), ["1.5", "", "x", None, True, "१"]),
        (olt_fields.OLT_SETTINGS["timeout"], ["nan", "inf", "", "x", None, True, "13"]),
        (node_fields.read_oid, ["", "onu_state", "huawei.", "1.3.", "1.x", "a.b.c", "1.3.6.1,,", "9.1", None]),
        # What the C library would take for another address.
        (addresses.normalise, ["", None, "10.0.0.256", "2130706433", "0x7f000001", "127.1", "host.0x7f", "-a", "a b"]),
        (addresses.normalise, ["a..b", "0.0.0.0", "255.255.255.255", "224.0.0.1", "::"]),  # noqa: S104
        (addresses.normalise, ["http://10.0.0.1", "10.0.0.1/24", "x" * 254]),
    ],
    ids=["no whole number", "no timeout", "no OID", "no address", "an address of nobody", "more than an address"],
)
def test_what_is_none_is_refused(read: Callable[[object], object], values: list[object]) -> None:
    for value in values:
        with pytest.raises(FieldError):
            read(value)


def test_text_with_a_line_break_or_nul_is_refused() -> None:
    for text in ("two\nlines", "nul\x00", "bell\x07"):
        with pytest.raises(FieldError, match="control characters"):
            fields.one_line(80)(text)


def test_a_refused_secret_is_not_repeated() -> None:
    with pytest.raises(FieldError) as caught:
        fields.secret(5)("planted-community")
    assert "planted" not in str(caught.value)


def test_an_address_and_an_oid_have_one_normal_form() -> None:
    normal = {"10.0.0.5": "10.0.0.5", " OLT-1.Example.COM. ": "olt-1.example.com", "2001:DB8::0001": "2001:db8::1"}
    normal |= {"[::1]": "::1", "::ffff:10.0.0.5": "10.0.0.5", "olt_7": "olt_7"}
    assert {given: addresses.normalise(given) for given in normal} == normal
    oids = {".1.3.6.1.2.1.1.3.0": "1.3.6.1.2.1.1.3.0", "huawei.onu_state": "huawei.onu_state"}
    oids |= {"huawei.onu_state, 1.3.06.1.2.1": "huawei.onu_state,1.3.6.1.2.1"}  # or several
    assert {given: node_fields.read_oid(given) for given in oids} == oids


def test_an_address_outside_the_networks_names_the_setting() -> None:
    addresses.check_networks("10.1.2.3", ["10.0.0.0/8"])
    addresses.check_networks("name.example", ["10.0.0.0/8"])
    with pytest.raises(FieldError, match="OLT_NETWORKS"):
        addresses.check_networks("192.168.0.1", ["10.0.0.0/8", "::/0"])


def test_an_address_of_this_link_or_of_many_devices_is_in_no_network_that_does_not_name_it() -> None:
    everything = ["0.0.0.0/0", "::/0"]
    found = {address: addresses.is_within(address, everything) for address in (
        "10.0.0.5", "127.0.0.1", "2001:db8::1", "::ffff:10.0.0.5", "169.254.1.1", "fe80::1", "224.0.0.1", "0.0.0.0",  # noqa: S104
        "255.255.255.255", "::",
    )}  # fmt: skip
    assert [address for address, within in found.items() if within] == list(found)[:4]
    assert addresses.is_within("169.254.1.1", [*everything, "169.254.1.0/24"])
    assert not addresses.is_within("::ffff:127.0.0.1", ["10.0.0.0/8", "::/0"])


@pytest.mark.parametrize("oid", ["1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4", "1.3.6.1.4.1.2011.6.128.1.1.2.43.1"])
def test_a_password_column_and_a_branch_that_holds_it_are_refused(oid: str) -> None:
    with pytest.raises(FieldError, match="passwords"):
        node_fields.read_oid(oid)


def test_a_node_gets_its_defaults_and_the_priority_of_its_kind() -> None:
    given = {"key": "rx", "kind": NodeKind.GET, "oid": "huawei.onu_rx_power", "interval": 300}
    columns, errors = node_fields.complete(given, None, chained=False)
    assert not errors
    assert (columns["name"], columns["priority"], columns["interval_seconds"]) == ("rx", 40, 300)
    assert (columns["max_retries"], columns["retry_delay"], columns["enabled"]) == (2, 120, True)


NODE = {"key": "x", "kind": NodeKind.GET, "oid": "1.3.6.1"}
STORED = NODE | {"interval_seconds": 60, "cron": None, "priority": 40}


def test_a_changed_kind_takes_its_own_priority_unless_somebody_chose_one() -> None:
    stored = (STORED, STORED | {"priority": 55})
    changed = [node_fields.complete({"kind": NodeKind.DISCOVERY}, base, chained=False)[0] for base in stored]
    assert [columns["priority"] for columns in changed] == [90, 55]


def test_a_master_has_exactly_one_clock_and_a_chained_node_none() -> None:
    clocks: dict[str, object] = {"interval": 60, "cron": "0 * * * *"}
    assert "interval" in node_fields.complete(NODE, None, chained=False)[1]
    assert "cron" in node_fields.complete(NODE | clocks, None, chained=False)[1]
    assert "interval" in node_fields.complete(NODE | {"interval": 60}, None, chained=True)[1]
    assert not node_fields.complete(NODE, None, chained=True)[1]


def test_a_cron_line_replaces_a_stored_interval() -> None:
    columns, errors = node_fields.complete({"cron": "0 * * * *"}, STORED, chained=False)
    assert (errors, columns["interval_seconds"], columns["cron"]) == ({}, None, "0 * * * *")


def test_a_request_may_not_outlive_the_lease() -> None:
    values = {"name": "x", "address": "a", "brand": "b", "credential": "c", "timeout": 4.0, "retries": 3}
    assert "16 s" in olt_fields.check_olt(values)["timeout"]
    assert not olt_fields.check_olt(values | {"retries": 2})


def test_each_snmp_version_needs_its_own_secrets() -> None:
    v3 = {**olt_fields.CREDENTIAL_DEFAULTS, "name": "x", "version": "3"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"version": "2c"}, "community"),
        ({}, "username"),
        ({"username": "u", "auth_protocol": "SHA", "auth_password": "short"}, "auth_password"),
        ({"username": "u", "priv_protocol": "AES", "priv_password": "long enough"}, "auth_protocol"),
        ({"username": "u", "auth_password": "long enough"}, "auth_protocol"),
    ]
    assert [field for given, field in wrong if field not in olt_fields.check_credential(v3 | given)] == []
    assert not olt_fields.check_credential(v3 | {"username": "u"})


def test_an_unknown_word_is_answered_with_the_one_that_was_meant() -> None:
    assert "did you mean huawei?" in fields.unknown("huawey", ["huawei", "zte"])
    assert fields.unknown("xyz", ["huawei", "zte"]) == "xyz is unknown. Known: huawei, zte"


def test_names_that_look_alike_are_alike() -> None:
    read = fields.one_line(20)
    assert {read(text) for text in ("ICA Ñandú", "ICA N\u0303andu\u0301", "ICA\u00a0Ñandú", " ICA\u2009Ñandú ")} == {
        "ICA Ñandú"
    }


@pytest.mark.parametrize(
    ("char", "name"), [("\u200b", "zero width space"), ("\u202e", "right-to-left override"), ("\u00ad", "soft hyphen")]
)
def test_a_character_that_cannot_be_seen_is_refused_by_its_name(char: str, name: str) -> None:
    with pytest.raises(FieldError, match=f"cannot be seen \\({name}\\)"):
        fields.one_line(20)(f"OLT{char}-ICA")
