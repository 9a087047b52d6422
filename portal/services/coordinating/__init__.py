"""The coordinator's verbs: open, adjust, judge and audit the promises; plans, forecasts, the ledger."""
