"""The catalogue: shipped, edited, looked up, explained; index families."""
