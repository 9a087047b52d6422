"""The SNMP engine: a narrow session protocol, its drivers, walking and getting. No database, no vendor knowledge."""
