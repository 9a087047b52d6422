"""What benches (at length) and tests (in short) both do to the running product, and the judges of what came of it."""
