"""Keeps warm capacity: balloon pods hold idle nodes, and real work preempts them at once."""

__version__ = "0.1.0"
