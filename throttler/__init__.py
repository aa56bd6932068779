"""Observes, paces and will govern the load that node growth puts on the API servers."""
