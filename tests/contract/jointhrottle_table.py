"""The tables of refused and accepted JoinThrottles, read by the contract tests and by the unit tests alike."""

from collections.abc import Mapping
from typing import Any

from tests.contract.manifest_case import Case, case, rows
from throttler.api.throttle import API_VERSION, THROTTLE_KIND

__all__ = ["Case", "accepted", "refused"]


def refused() -> list[Case]:
    return [case(row, _manifest(row)) for row in rows("jointhrottles_refused.yaml")]


def accepted() -> list[Case]:
    return [case(row, _manifest(row)) for row in rows("jointhrottles_accepted.yaml")]


def _manifest(row: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"spec": row["spec"]} if "spec" in row else {}
    metadata = {"name": row.get("name", "throttle")}
    return {"apiVersion": API_VERSION, "kind": THROTTLE_KIND, "metadata": metadata, **spec}
