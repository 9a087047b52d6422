"""What a person wants to see once: connection tests and trials. Nothing else is stored."""
