"""What the tests of the board share: its nodes as the fixture `board` makes them, and how they are looked at."""

from flask import Flask

from portal.extensions import db
from portal.tables import Olt, WorkflowNode
from testing import builders
from testing.pages import Visitor, soup

BOARD = "/olts/1/workflow"
DISCOVERY, RX, DESCRIPTION, SERIAL = 1, 2, 3, 4


def order(person: Visitor) -> list[int]:
    return [int(str(tag["id"]).removeprefix("node-")) for tag in soup(person.get(BOARD)).select("article.nw-node")]


def more_masters(app: Flask) -> None:
    """Eight, with a chained node each."""
    with app.app_context():
        olt = db.session.get_one(Olt, 1)
        for n in range(8):
            builders.make_chained(builders.make_node(olt, f"m{n}", name=f"M {n}"), f"c{n}")


def node_of(app: Flask, node_id: int) -> WorkflowNode:
    with app.app_context():
        node = db.session.get_one(WorkflowNode, node_id)
        db.session.expunge(node)
        return node
