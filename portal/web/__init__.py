"""Pages and fragments for people. Parse, call a service or a query, render; rules and SQL live elsewhere."""
