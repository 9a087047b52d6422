"""Executions from their slot to their end: clocks, slots, tries, what waits, which OLT can be reached."""
