"""Keeping the books of promises: what became of each slot, in the transaction in which it came to its end."""
