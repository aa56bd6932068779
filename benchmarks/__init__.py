"""Benchmarks: each prints a table, states what is faked, and checks its result as well as its time."""
