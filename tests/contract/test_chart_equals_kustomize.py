"""The chart and the kustomizations make the same objects: who reads one knows the other."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.rendered import Object, comparable, helm, kustomize_with

pytestmark = pytest.mark.helm

ON = {"enabled": True}
LEVERS = {
    "levers/node-pools": {"nodePoolLimits": True},
    "levers/capacity-quota": {"capacityQuota": True},
    "levers/machine-deployments": {"machineDeployments": True},
    "levers/nodes": {"nodes": True},
    "levers/scheduling-gates": {"schedulingGates": True},
}
GRAFANA = {**ON, "grafanaOperator": ON}
PAIRS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    **{directory: ((directory,), {"levers": values}) for directory, values in LEVERS.items()},
    "nothing": ((), {}),
    "annotate nodes": (("components/annotate-nodes",), {"annotateNodes": True}),
    "service monitor": (
        ("components/monitoring",),
        {"metrics": {"serviceMonitor": ON}, "prometheusRule": ON, "dashboards": ON},
    ),
    "pod monitor": (
        ("components/monitoring", "components/pod-monitor"),
        {"metrics": {"podMonitor": ON}, "prometheusRule": ON, "dashboards": ON},
    ),
    "grafana-operator": (
        ("components/monitoring", "components/grafana-operator"),
        {"metrics": {"serviceMonitor": ON}, "prometheusRule": ON, "dashboards": GRAFANA},
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_the_chart_makes_what_the_overlay_makes(case: str, tmp_path: Path) -> None:
    components, values = PAIRS[case]
    assert_same(helm(values), kustomize_with(tmp_path, *components))


def test_a_dry_run_is_the_same_both_ways(tmp_path: Path) -> None:
    values = {"settings": {"dryRun": True}, "policies": {"enabled": False}}
    assert_same(helm(values), kustomize_with(tmp_path, overlay="dry-run"))


def assert_same(chart: list[Object], overlay: list[Object]) -> None:
    """The namespace is Helm's own affair: `--create-namespace`."""
    ours, theirs = comparable(chart), comparable(overlay)
    theirs.pop(("Namespace", "", "kube-balloons"))
    assert sorted(ours) == sorted(theirs)
    for key, expected in theirs.items():
        assert ours[key] == expected, key
