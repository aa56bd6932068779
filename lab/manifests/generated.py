"""All files that are written from others, as path -> text; `make manifests` writes them, a test compares."""

import json
from pathlib import Path

from lab.manifests.rights_page import rights_page
from lab.manifests.values import read_values, values_schema
from lab.manifests.values_pages import install_page, platforms_part, values_page, values_table

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart" / "kube-balloons"
COPIED = (
    "crds/*s.yaml",
    "base/lease.yaml",
    "base/priorityclass.yaml",
    "base/rbac*.yaml",
    "base/serviceaccount.yaml",
    "levers/*/binding.yaml",
    "levers/*/guard.yaml",
    "components/annotate-nodes/binding.yaml",
    "components/flow-control/flow-control.yaml",
    "components/guard/rbac.yaml",
    "components/guard/serviceaccount.yaml",
    "components/policies/*.yaml",
    "components/monitoring/prometheusrule.yaml",
    "components/monitoring/dashboards/*.json",
)
"""What the chart renders as it stands. Helm reads nothing outside a chart, so it gets copies."""

INSTALL = ROOT / "docs" / "install.md"
PLATFORMS = sorted((MANIFESTS / "platforms").glob("*.yaml"))
"""Values for one platform each."""


def generated() -> dict[Path, str]:
    """Every generated file and what belongs into it."""
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        **_copies(),
        CHART / "values.schema.json": json.dumps(values_schema(values), indent=2) + "\n",
        CHART / "README.md": values_page(values),
        ROOT / "docs" / "rbac.md": rights_page(MANIFESTS),
        INSTALL: install_page(
            INSTALL.read_text(encoding="utf-8"),
            {"platforms": platforms_part(PLATFORMS), "values": values_table(values)},
        ),
    }


def _copies() -> dict[Path, str]:
    sources = sorted(source for pattern in COPIED for source in MANIFESTS.glob(pattern))
    return {
        CHART / "files" / source.relative_to(MANIFESTS): source.read_text(encoding="utf-8")
        for source in sources
        if source.name != "kustomization.yaml"
    }
