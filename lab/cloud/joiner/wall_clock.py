"""Timestamps as the API writes them."""

from __future__ import annotations

import datetime


def timestamp() -> str:
    """Return the present, to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Return the present, to the microsecond (leases)."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
