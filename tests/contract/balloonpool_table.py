"""The tables of refused and accepted BalloonPools, read by the contract tests and by the unit tests alike."""

from collections.abc import Mapping
from typing import Any

from balloons.api.pool import API_VERSION, POOL_KIND
from tests.contract.manifest_case import Case, case, rows

__all__ = ["Case", "accepted", "refused"]

_SMALLEST = {"mode": "Hold", "nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}}


def refused() -> list[Case]:
    return [case(row, _manifest(row)) for row in rows("balloonpools_refused.yaml")]


def accepted() -> list[Case]:
    return [case(row, _manifest(row)) for row in rows("balloonpools_accepted.yaml")]


def _manifest(row: Mapping[str, Any]) -> dict[str, Any]:
    spec = {**_SMALLEST, **row.get("spec", {})}
    if repeat := row.get("repeat"):
        spec[repeat["field"]] = [repeat["item"]] * repeat["times"]
    return {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": {"name": row.get("name", "pool")}, "spec": spec}
