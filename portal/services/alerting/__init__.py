"""Alerts through channels: raising them, delivering them, and the channels. The transport itself is portal.notify."""
