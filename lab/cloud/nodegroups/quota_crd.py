"""The CapacityQuota kind, which cluster-autoscaler expects to find when it is started with capacity quotas."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from lab.controlplane import ControlPlane

QUOTA_FLAGS = ("--capacity-quotas-enabled=true",)
"""For `AutoscalerSettings.extra_flags`; the CRD must be served before the autoscaler starts."""
_FILE = Path(__file__).with_name("capacityquotas.yaml")


async def install_capacity_quotas(plane: ControlPlane) -> None:
    """Install our stand-in for the CRD and return when it is served."""
    # kubectl knows no YAML anchors with merge keys, so it gets JSON.
    definition = yaml.safe_load(_FILE.read_text())
    await plane.kubectl_async("apply", "-f", "-", input=json.dumps(definition))
    await plane.kubectl_async("wait", "--for=condition=Established", f"crd/{definition['metadata']['name']}")
