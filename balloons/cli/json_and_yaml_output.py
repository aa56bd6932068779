"""What `-o json` and `-o yaml` print.

The types are the contract that docs/schemas is made from (`python -m balloons.cli.json_and_yaml_output`).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from balloons.api.pool import Mode, PoolStatus
from throttler.api.throttle import ThrottleStatus

ApiVersion = Literal["balloons.kube-balloons.github.io/v1"]


class _Document(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    api_version: ApiVersion = "balloons.kube-balloons.github.io/v1"


class FindingItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One finding; `object` is how kubectl takes it, `docs` a place in the documentation."""

    code: str
    severity: Literal["info", "warning", "error"]
    title: str
    object: str
    message: str
    fix: str
    docs: str


class SkippedItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A check that could say nothing, and why."""

    code: str
    reason: str


class DiagnosisDocument(_Document, frozen=True, kw_only=True):
    """`balloons doctor`."""

    kind: Literal["Diagnosis"] = "Diagnosis"
    detected: str
    checked: int
    skipped: list[SkippedItem]
    findings: list[FindingItem]


class StepItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One step; `at` is RFC 3339 in UTC, null for what holds now."""

    at: str | None
    wait_seconds: float | None
    step: str
    because: str
    message: str


class ExplanationDocument(_Document, frozen=True, kw_only=True):
    """`balloons explain`."""

    kind: Literal["Explanation"] = "Explanation"
    subject: str
    seen_at: str
    now: str
    steps: list[StepItem]


class RequestedItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Shares from 0 to 1 of what is allocatable; null where there is none."""

    cpu: float | None
    memory: float | None
    gpu: float | None


class NodeGroupItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The nodes of one pool in one zone; counts are nodes, the price is of those whose price is known."""

    pool: str
    zone: str
    nodes: int
    ready: int
    busy: int
    warm: int
    idle: int
    joining: int
    sick: int
    requested: RequestedItem
    price_per_hour: float | None = None


class NodeGroupListDocument(_Document, frozen=True, kw_only=True):
    """`balloons top`."""

    kind: Literal["NodeGroupList"] = "NodeGroupList"
    items: list[NodeGroupItem]


class ThrottleItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One JoinThrottle; `ready` is what its condition of that name says, `status` what the service wrote last.

    `problem` is the rule that its spec breaks. `pauseReason` is what `balloons pause` was given.
    """

    name: str
    created_at: str | None
    ready: str
    problem: str | None
    pause_reason: str | None
    status: ThrottleStatus


class PoolItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One BalloonPool; `mode` and `maxSize` are those of its spec, null where that breaks a rule."""

    namespace: str
    name: str
    created_at: str | None
    mode: Mode | None
    max_size: int | None
    ready: str
    problem: str | None
    pause_reason: str | None
    status: PoolStatus


class ThrottleAndPoolStatusDocument(_Document, frozen=True, kw_only=True):
    """`balloons status`."""

    kind: Literal["ThrottleAndPoolStatus"] = "ThrottleAndPoolStatus"
    throttles: list[ThrottleItem]
    pools: list[PoolItem]


class ComponentItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One program of the control plane or autoscaler; `gates` are the feature gates it was given.

    `where` is the namespace and name of its Deployment or pod. An empty version could not be seen.
    """

    version: str
    where: str
    gates: dict[str, bool]


class VersionDocument(_Document, frozen=True, kw_only=True):
    """`balloons version`; all but `version` is of the cluster, and only there if a cluster was asked."""

    kind: Literal["Version"] = "Version"
    version: str
    kubernetes: str | msgspec.UnsetType = msgspec.UNSET
    provider: str | msgspec.UnsetType = msgspec.UNSET
    api_servers: int | msgspec.UnsetType | None = msgspec.UNSET
    crds: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    autoscalers: list[str] | msgspec.UnsetType = msgspec.UNSET
    components: dict[str, ComponentItem] | msgspec.UnsetType = msgspec.UNSET


DOCUMENTS: dict[str, type[_Document]] = {
    "doctor": DiagnosisDocument,
    "explain": ExplanationDocument,
    "status": ThrottleAndPoolStatusDocument,
    "top": NodeGroupListDocument,
    "version": VersionDocument,
}


def printed(document: _Document | Mapping[str, Any], output: str) -> str:
    """The same data as JSON, indented, or as YAML; the last line ends."""
    plain = msgspec.to_builtins(document)
    if output == "yaml":
        # Imported here: most people want a table, some JSON.
        import yaml

        return yaml.safe_dump(plain, sort_keys=False)
    return json.dumps(plain, indent=2) + "\n"


def schema(document: type[_Document]) -> str:
    """Its JSON Schema (2020-12)."""
    head: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | msgspec.json.schema(document), indent=2) + "\n"


if __name__ == "__main__":
    for name, document in DOCUMENTS.items():
        Path("docs", "schemas", f"{name}.json").write_text(schema(document))
