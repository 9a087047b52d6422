"""The read side, shared by pages, API and commands. Writes nothing."""
