"""REST API v1 for scripts and other systems: parse, ask one service or query, answer JSON. It imports no pages."""
