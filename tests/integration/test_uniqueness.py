"""Which word of the database means that somebody was faster, on both of them."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal.services.errors import Conflict
from portal.services.uniqueness import unique_or_invalid, was_faster
from testing.builders import make_execution, make_node, make_olt

pytestmark = pytest.mark.integration

BROKEN = {
    "UPDATE olts SET id = 1": (True, Conflict),
    "UPDATE olts SET name = 'OLT-A'": (True, Conflict),
    "UPDATE executions SET status = 'NEW WORD'": (False, IntegrityError),  # a CHECK of an older schema
    "UPDATE executions SET node_name = NULL": (False, IntegrityError),
    "UPDATE executions SET olt_id = 99": (False, Conflict),  # what it refers to was deleted
}


@pytest.mark.parametrize("statement", BROKEN)
def test_only_what_is_unique_and_taken_means_that_somebody_was_faster(session: Session, statement: str) -> None:
    make_execution(make_node(make_olt("OLT-A")))
    make_olt("OLT-B")
    faster, told = BROKEN[statement]
    with pytest.raises(IntegrityError) as broken:
        session.execute(text(statement))
    session.rollback()
    assert was_faster(broken.value) is faster
    with pytest.raises(told), unique_or_invalid({}):
        raise broken.value
