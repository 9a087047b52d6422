"""An OLT that was entered as another device: brand and model are set right, and its nodes with them."""

from datetime import datetime

from sqlalchemy.orm import Session

from portal.domain import node_fields
from portal.extensions import transaction
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.network import olts, revisions, workflows
from portal.services.network.references import Person, References
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Olt


def use_model(olt_id: int, brand: str, model: str, actor: str, now: datetime) -> None:
    """The OLT is of this brand and model. Its nodes read what they read before, by the new maker's columns.

    Invalid, and nothing is changed, where a node reads what the new maker has no column for.
    """
    with unique_or_invalid(olts.UNIQUE), transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        values, references = olts.checked(session, {"brand": brand, "model": model}, olt, Person(actor, False, now))
        _rename_columns(session, olt, references, actor, now)
        olts.check_workflow(session, olt, references, now)
        olts.change(session, olt, values, references, actor, now)


def _rename_columns(session: Session, olt: Olt, references: References, actor: str, now: datetime) -> None:
    """zte.onu_state becomes huawei.onu_state where there is one."""
    old, new = olt.brand.key, references.brand.key
    if olt.workflow is None or old == new:
        return
    lookup, model = catalogue.load_lookup(session, [new]), references.model.key if references.model else ""
    begun = revisions.begin(session, olt.workflow)
    changed = False
    for node in olt.workflow.nodes:
        texts = [text if not text.startswith(f"{old}.") else new + text.removeprefix(old)
                 for text in node_fields.parts_of(node.oid)]  # fmt: skip
        wanted = ",".join(texts)
        if wanted == node.oid or any(lookup.find(new, model, text) is None for text in texts):
            continue
        changes = {"oid": [node.oid, wanted]}
        node.oid, node.overridden = wanted, node.overridden or node.template_node_id is not None
        audit.record(session, actor=actor, action="node.update", subject=node, changes=changes, now=now)
        changed = True
    if changed:
        revisions.finish(session, begun, "node.update", "", actor, now)
