"""Where the manifests and the chart lie."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart" / "kube-balloons"
