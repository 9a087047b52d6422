"""Who may do what: viewer < operator < admin. The one place where roles are compared."""

from portal.domain.statuses import Role

_RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}


def allows(held: Role, required: Role) -> bool:
    """True when a person with role `held` may do what needs `required`."""
    return _RANK[held] >= _RANK[required]
