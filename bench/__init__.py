"""Benchmarks and long checks. Each is a module that prints one line of JSON, runs in bounded time and cleans up."""
