"""OLTs to choose from, for what is done to many: each with what tells it from the others. Reads only."""

from dataclasses import dataclass

from sqlalchemy import func, select

from portal.extensions import db
from portal.tables import Brand, Olt, OltModel, Workflow, WorkflowTemplate


@dataclass(frozen=True)
class OltChoice:
    """An OLT in service."""

    id: int
    name: str
    site: str
    enabled: bool
    brand_key: str
    brand: str
    model: str
    template_id: int | None
    template: str

    @property
    def about(self) -> str:
        """What tells it from the others: model, site, template."""
        return " · ".join(part for part in (self.model or self.brand, self.site, self.template) if part)


def choices(brand: str = "") -> list[OltChoice]:
    """All of them, or those of a brand, by name. One SQL statement."""
    query = (
        select(
            Olt.id, Olt.name, Olt.site, Olt.enabled, Brand.key, Brand.name,
            func.coalesce(OltModel.name, ""), WorkflowTemplate.id, func.coalesce(WorkflowTemplate.name, ""),
        )
        .join(Brand, Brand.id == Olt.brand_id)
        .outerjoin(OltModel, OltModel.id == Olt.model_id)
        .outerjoin(Workflow, Workflow.olt_id == Olt.id)
        .outerjoin(WorkflowTemplate, WorkflowTemplate.id == Workflow.template_id)
        .where(Olt.deleted_at.is_(None))
        .order_by(func.lower(Olt.name))
    )  # fmt: skip
    if brand:
        query = query.where(Brand.key == brand)
    return [OltChoice(*row) for row in db.session.execute(query)]


def brands() -> list[tuple[str, str, int]]:
    """(key, name, OLTs in service) of the brands that have any, by name. One SQL statement."""
    query = (
        select(Brand.key, Brand.name, func.count(Olt.id))
        .join(Olt, Olt.brand_id == Brand.id)
        .where(Olt.deleted_at.is_(None))
        .group_by(Brand.key, Brand.name)
        .order_by(Brand.name)
    )
    return [(key, name, count) for key, name, count in db.session.execute(query)]
