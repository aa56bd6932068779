"""Dashboards and alerts: how they are made, recorded, asked of a real Prometheus, and drawn. Development only."""
