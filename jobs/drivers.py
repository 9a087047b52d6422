"""Which SNMP driver the product uses: the setting SNMP_DRIVER says so, easysnmp where no application is at hand."""

from flask import current_app, has_app_context

from jobs.snmp import datagrams, easysnmp_driver, gufo_driver
from jobs.snmp.session import SessionFactory, SnmpSession
from portal.domain.composite import SnmpTarget

__all__ = ["DRIVERS", "open_session", "prepare"]

DRIVERS: dict[str, SessionFactory] = {"easysnmp": easysnmp_driver.open_session, "gufo": gufo_driver.open_session}


def open_session(target: SnmpTarget) -> SnmpSession:
    """A session to `target` over the driver of the application's settings."""
    return DRIVERS[_name()](target)


def prepare() -> None:
    """Make what the driver needs at its first use, so that forks inherit it."""
    if _name() == "gufo":
        datagrams.prepare()


def _name() -> str:
    return str(current_app.config["SNMP_DRIVER"]) if has_app_context() else "easysnmp"
