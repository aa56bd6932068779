"""The tables of refused and accepted BalloonPools, read by the contract tests and by the unit tests alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from balloons.api.pool import API_VERSION, POOL_KIND

_HERE = Path(__file__).parent
_SMALLEST = {"mode": "Hold", "nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}}


@dataclass(frozen=True)
class Case:
    """One manifest; `at` and `says` are the service's words, `server` the API server's where they differ."""

    name: str
    manifest: Mapping[str, Any]
    at: str = ""
    says: str = ""
    server: str = ""
    is_for_service_only: bool = False


def refused() -> list[Case]:
    return [_case(row) for row in _rows("balloonpools_refused.yaml")]


def accepted() -> list[Case]:
    return [_case(row) for row in _rows("balloonpools_accepted.yaml")]


def _rows(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load((_HERE / file).read_text(encoding="utf-8"))
    return rows


def _case(row: Mapping[str, Any]) -> Case:
    spec = {**_SMALLEST, **row.get("spec", {})}
    if repeat := row.get("repeat"):
        spec[repeat["field"]] = [repeat["item"]] * repeat["times"]
    manifest = {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "metadata": {"name": row.get("name", "pool")},
        "spec": spec,
    }
    says = row.get("says", "")
    return Case(row["case"], manifest, row.get("at", ""), says, row.get("server", says), row.get("only") == "service")
