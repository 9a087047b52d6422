"""What was read becomes rows: who is there, who is who, latest readings and their history."""
