"""The fake session behaves as the drivers promise, so that what unit tests prove with it holds on the wire."""

import pytest

from jobs.snmp.errors import SnmpBadOid, SnmpNoSuchObject, SnmpTimeout, SnmpTooBig, SnmpUnreachable
from jobs.snmp.fake import FakeSession, Faults, Request, fake_factory
from jobs.snmp.session import SnmpType, VarBind, checked_oid
from portal.domain.composite import SnmpTarget

COLUMN = "1.3.6.1.4.1.9.1"
ROWS = {f"{COLUMN}.2": b"two", f"{COLUMN}.10": b"ten", f"{COLUMN}.9": 9}
TARGET = SnmpTarget("192.0.2.1", 161, "2c", community="c")


def test_get_tells_an_absent_instance_from_an_absent_object():
    session = FakeSession(ROWS, columns=[COLUMN])
    types = [bind.type for bind in session.get([f"{COLUMN}.2", f"{COLUMN}.3", "1.3.6.1.4.1.8.1.0"])]
    assert types == [SnmpType.OCTETS, SnmpType.NO_SUCH_INSTANCE, SnmpType.NO_SUCH_OBJECT]


def test_rows_come_in_numeric_order_and_interleaved_by_column():
    session = FakeSession({**ROWS, "1.3.6.1.4.1.9.2.1": 1})
    oids = [bind.oid for bind in session.next_rows([COLUMN, "1.3.6.1.4.1.9.2"], 3)]
    assert oids[0::2] == [f"{COLUMN}.2", f"{COLUMN}.9", f"{COLUMN}.10"]
    assert oids[1] == "1.3.6.1.4.1.9.2.1"


def test_the_end_of_everything_is_marked_and_names_the_oid_asked_for():
    assert FakeSession(ROWS).next_rows([f"{COLUMN}.10"], 1) == [VarBind(f"{COLUMN}.10", SnmpType.END_OF_MIB_VIEW)]


def test_every_request_is_recorded_even_one_without_an_answer():
    session = FakeSession(ROWS, faults=Faults(time_out_on=frozenset({2})))
    session.get([f"{COLUMN}.2"])
    with pytest.raises(SnmpTimeout):
        session.next_rows([COLUMN], 5)
    assert session.requests == [Request("get", (f"{COLUMN}.2",)), Request("next", (COLUMN,), 5)]


def test_a_closed_session_refuses_to_be_used():
    session = FakeSession(ROWS)
    session.close()
    with pytest.raises(RuntimeError):
        session.get([f"{COLUMN}.2"])


def test_version_1_refuses_a_whole_get_for_one_missing_name():
    session = FakeSession(ROWS, columns=[COLUMN], v1=True)
    with pytest.raises(SnmpNoSuchObject):
        session.get([f"{COLUMN}.2", f"{COLUMN}.3"])
    assert session.get([f"{COLUMN}.3"])[0].type is SnmpType.NO_SUCH_OBJECT


def test_scripted_faults_strike_where_they_are_told_to():
    session = FakeSession(ROWS, faults=Faults(get_too_big_above=1, guilty=frozenset({f"{COLUMN}.9"}), dies_after=3))
    with pytest.raises(SnmpTooBig):
        session.get([f"{COLUMN}.2", f"{COLUMN}.10"])
    with pytest.raises(SnmpTimeout):
        session.get([f"{COLUMN}.9"])
    session.get([f"{COLUMN}.2"])
    with pytest.raises(SnmpTimeout):
        session.get([f"{COLUMN}.2"])


def test_the_factory_hands_out_the_session_or_fails_as_told_and_keeps_the_targets():
    session, targets = FakeSession(), []
    assert fake_factory(session, targets)(TARGET) is session
    assert targets == [TARGET]
    with pytest.raises(SnmpUnreachable):
        fake_factory(SnmpUnreachable("no route"))(TARGET)


@pytest.mark.parametrize("text", ["", "1", "garbage", "1..3", "1.3.", "1.3.6;7", "3.1.1", "1.40.1", "1.3.4294967296"])
def test_what_is_no_oid_is_refused_before_anything_is_sent(text):
    with pytest.raises(SnmpBadOid):
        checked_oid(text)
    with pytest.raises(SnmpBadOid):
        FakeSession(ROWS).get([text])


def test_an_oid_that_can_be_sent_is_left_as_it_is_or_brought_to_one_form():
    oids = [f"1.3.6.{arc}" for arc in ("0", "4194304000", "4294967295", "999999999", "3999999999")]
    assert [checked_oid(oid) for oid in oids] == oids
    assert checked_oid(".1.3.06.1") == "1.3.6.1"


def test_an_oid_of_more_than_128_numbers_is_refused():
    assert checked_oid("1.3" + ".5" * 126)
    with pytest.raises(SnmpBadOid):
        checked_oid("1.3" + ".5" * 127)
