"""All commands of the portal, for app.py."""

from portal.cli.administration import catalog, keyring, user
from portal.cli.inventory import demo, export_inventory, import_inventory
from portal.cli.templates import template
from portal.cli.tokens import token
from portal.cli.watching import list_executions, list_pollers, list_queue

COMMANDS = (
    import_inventory, export_inventory, demo, catalog, template, user, token, keyring,
    list_executions, list_pollers, list_queue,
)  # fmt: skip
