"""Users, sessions and API tokens."""
