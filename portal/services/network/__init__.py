"""What people set up: OLTs, credentials, workflows, templates."""
