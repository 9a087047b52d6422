"""Simulated OLTs, recorded or generated, as real SNMP agents over UDP; no database and nothing of the poller here."""
