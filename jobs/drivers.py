"""Which SNMP driver the product uses."""

from jobs.snmp.easysnmp_driver import open_session

__all__ = ["open_session"]
