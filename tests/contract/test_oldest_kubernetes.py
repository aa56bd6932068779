"""The oldest Kubernetes that the chart accepts takes our CRDs and policies.

An API server takes no CEL function in a new rule that came with its own version, so that it can be rolled back
(k8s.io/apiserver, pkg/cel/environment: DefaultCompatibilityVersion is one version less).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("manifests/crds/*.yaml"), *ROOT.glob("manifests/components/policies/*.yaml")]
OLDEST = int(
    re.findall(r'kubeVersion: ">=1\.(\d+)\.0-0"', (ROOT / "manifests/chart/kube-balloons/Chart.yaml").read_text())[0]
)
ALWAYS = "has all exists filter matches size string int duration contains startsWith dyn find replace indexOf substring"
OPTIONALS_AND_QUANTITIES = "of orValue quantity isQuantity isInteger isGreaterThan isLessThan compareTo"
CAME_WITH = {
    **dict.fromkeys(ALWAYS.split(), 0),
    **dict.fromkeys(OPTIONALS_AND_QUANTITIES.split(), 28),
    "format": 29,
    "isIP": 30,
}
"""Minor version of Kubernetes by function; a new one is to be looked up there."""


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if key in ("rule", "messageExpression", "expression") else _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rules_call_nothing_that_came_with_the_oldest_version_or_later(path: Path) -> None:
    expressions = [text for each in yaml.safe_load_all(path.read_text()) for text in _expressions(each)]
    used = {name for text in expressions for name in re.findall(r"\b([A-Za-z]+)\(", text)}
    assert used <= CAME_WITH.keys()
    assert {name for name in used if CAME_WITH[name] >= OLDEST} == set()


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_name_the_version_that_the_chart_asks_for(page: str) -> None:
    assert f"You need Kubernetes 1.{OLDEST} or later" in (ROOT / page).read_text()
