"""Fetches the signals: scrapes every API server, asks a Prometheus, and notes what our own requests meet."""
