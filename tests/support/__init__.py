"""Servers and helpers that tests start; no tests here."""
