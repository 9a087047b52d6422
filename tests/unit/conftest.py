"""Unit tests use no sockets, so their database is SQLite."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.snmp.fake import FakeSession
from jobs.snmp.session import LateAnswer, VarBind
from tests.conftest import Databases


@pytest.fixture
def database_url(databases: Databases, tmp_path: Path) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.sqlite(tmp_path)


@pytest.fixture(params=[False, True], ids=["at_once", "late"])
def answers_of_both_kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test says holds too where the rows of one answer are judged while the next is on its way."""
    if not request.param:
        return
    ask = FakeSession.next_rows

    def late(session: FakeSession, oids: Sequence[str], max_repetitions: int) -> Sequence[VarBind]:
        answer = ask(session, oids, max_repetitions)
        return answer if session.vague else LateAnswer(answer, lambda bind: bind)

    monkeypatch.setattr(FakeSession, "next_rows", late)
