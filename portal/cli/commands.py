"""All commands of the portal, for app.py."""

from portal.cli.administration import catalog, keyring, user
from portal.cli.channels import channel
from portal.cli.decisions import explain, show_log
from portal.cli.inventory import demo, export_inventory, import_inventory
from portal.cli.ledger import show_ledger
from portal.cli.olts import olt
from portal.cli.planning import plan
from portal.cli.quotas import quotas
from portal.cli.templates import template
from portal.cli.tokens import token
from portal.cli.watching import list_executions, list_pollers, list_queue

COMMANDS = (
    import_inventory, export_inventory, demo, catalog, olt, template, user, token, channel, keyring,
    list_executions, list_pollers, list_queue, show_log, explain, show_ledger, plan, quotas,
)  # fmt: skip
