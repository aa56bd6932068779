"""The tables *Every field* name each field that a user may set, with its default by the CRD, and no other.

So does the table of levers, with the chart's value and kustomize's component that give the right to each.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
KINDS = {"balloonpool": "balloonpools", "jointhrottle": "jointhrottles"}
NAME = re.compile(r"`([^`]+)`")
Fields = dict[str, str]
"""Path of a field -> its default as text, empty where the CRD has none."""


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field that has no fields of its own; a selector, a list and a map count as one."""
    parts = {} if schema.get("x-kubernetes-map-type") == "atomic" else schema.get("properties", {})
    for name, part in parts.items():
        yield from fields(part, f"{path}.{name}".lstrip("."))
    if not parts:
        default = schema.get("default", "")
        yield path, str(default).lower() if isinstance(default, bool) else "" if default == {} else str(default)


def documented(page: str) -> Fields:
    """The rows of the table: `a.b`, `c` are the fields a.b and a.c."""
    table = page.partition("\n## Every field\n")[2].partition("\n## ")[0]
    rows = {}
    for row in re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", table, re.MULTILINE):
        first, *others = (name.removesuffix("[]") for name in NAME.findall(row[0]))
        folder = first.rpartition(".")[0]
        for path in (first, *(f"{folder}.{name}" for name in others)):
            rows[path] = row[1]
    return rows


def differences(spec: dict[str, Any], page: str) -> list[str]:
    """What the page leaves out, what it makes up, and where it names another default."""
    there, named = dict(fields(spec)), documented(page)
    lost = [f"{path} is not documented" for path in there if path not in named]
    made_up = [f"{path} is no field" for path in named if path not in there]
    both = there.keys() & named.keys()
    return [*lost, *made_up, *(f"{path} is {there[path]}" for path in sorted(both) if there[path] not in named[path])]


@pytest.mark.parametrize("page", KINDS)
def test_every_field_is_documented_with_its_default(page: str) -> None:
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / f"{KINDS[page]}.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert differences(spec, (ROOT / "docs" / f"{page}.md").read_text()) == []


@pytest.mark.parametrize("page", KINDS)
def test_every_column_of_kubectl_get_is_shown_and_explained(page: str) -> None:
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / f"{KINDS[page]}.yaml").read_text())
    columns = [column["name"].upper() for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    text = (ROOT / "docs" / f"{page}.md").read_text()
    (header,) = re.findall(r"^NAME +(.*)$", text, re.MULTILINE)
    assert header.split() == columns
    assert [column for column in columns if column != "AGE" and f"\n| {column} | " not in text] == []


def test_pools_that_are_shown_are_in_a_namespace_that_is_served() -> None:
    pages = [path.read_text() for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"))]
    blocks = [block for page in pages for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    objects = [shown for block in blocks for shown in yaml.safe_load_all(block) if isinstance(shown, dict)]
    pools = [shown["metadata"] for shown in objects if shown.get("kind") == "BalloonPool"]
    assert [pool for pool in pools if pool.get("namespace") != "kube-balloons"] == []
    assert len(pools) > 5


def test_what_is_left_out_made_up_or_wrong_is_found() -> None:
    wait, names = {"type": "string", "default": "10m"}, {"type": "array"}
    spec = {"properties": {"levers": {"properties": {"quota": names, "pools": names}}, "wait": wait, "nodes": {}}}
    page = "\n## Every field\n\n| `levers.quota`, `gates` | none | a |\n| `wait` | `5m` | b |\n| `nodes` | all | c |\n"
    assert differences(spec, page) == ["levers.pools is not documented", "levers.gates is no field", "wait is 10m"]


def test_every_lever_is_documented_with_what_gives_the_right_to_it() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    section = page.partition("\n## The right to move a lever\n")[2].partition("\n## ")[0]
    rows = [[NAME.findall(cell) for cell in row.split("|")[1:4]] for row in section.splitlines() if "=true" in row]
    crd = yaml.safe_load((ROOT / "manifests/crds/jointhrottles.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    values = yaml.safe_load((ROOT / "manifests/chart/kube-balloons/values.yaml").read_text())
    levers, switches, components = ({name for row in rows for name in row[column]} for column in range(3))
    assert levers == spec["properties"]["levers"]["properties"].keys() - {"headroom"}
    assert switches == {f"levers.{name}=true" for name in values["levers"]}
    assert components == {f"levers/{folder.name}" for folder in (ROOT / "manifests/levers").iterdir()}
