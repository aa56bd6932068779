"""Observes and paces the load that node growth puts on the API servers."""
