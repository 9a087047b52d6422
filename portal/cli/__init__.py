"""Commands of the portal: they parse, ask one service or query, and print. They never import pages."""
