"""All files that are written from others, as path -> text; `make manifests` writes them, a test compares."""

import json
from pathlib import Path

from lab.manifests.rights_page import rights_page
from lab.manifests.values import read_values, values_schema
from lab.manifests.values_pages import (
    CHART_HEAD,
    PAGE_HEAD,
    groups_part,
    platform_rows,
    platforms_part,
    values_page,
    with_parts,
)

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart" / "kube-balloons"
COPIED = (
    "crds/*s.yaml",
    "base/lease.yaml",
    "base/priorityclass.yaml",
    "base/rbac-*.yaml",
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

DOCS = ROOT / "docs"
PLATFORMS = sorted((MANIFESTS / "platforms").glob("*.yaml"))
"""Values for one platform each."""


def generated() -> dict[Path, str]:
    """Every generated file and what belongs into it."""
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        **_copies(),
        CHART / "values.schema.json": json.dumps(values_schema(values), indent=2) + "\n",
        CHART / "README.md": values_page(values, CHART_HEAD),
        DOCS / "rbac.md": rights_page(MANIFESTS),
        DOCS / "values.md": values_page(values, PAGE_HEAD),
        **_renewed("platforms.md", platforms=platforms_part(PLATFORMS)),
        **_renewed(
            "install.md",
            platforms=platform_rows(PLATFORMS, "platforms.md"),
            values=groups_part(values, "values.md"),
        ),
    }


def _renewed(page: str, **parts: str) -> dict[Path, str]:
    """A page of docs/ that people write, with the parts that are generated."""
    return {DOCS / page: with_parts((DOCS / page).read_text(encoding="utf-8"), parts)}


def _copies() -> dict[Path, str]:
    sources = sorted(source for pattern in COPIED for source in MANIFESTS.glob(pattern))
    return {
        CHART / "files" / source.relative_to(MANIFESTS): source.read_text(encoding="utf-8")
        for source in sources
        if source.name != "kustomization.yaml"
    }
