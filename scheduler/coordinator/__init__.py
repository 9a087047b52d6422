"""The coordinator: observe each OLT's work, decide (pure) what a change means, reconcile through services."""
