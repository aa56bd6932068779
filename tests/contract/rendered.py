"""What kustomize and Helm make of the manifests, in a form in which they can be compared."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from lab.binaries import find_binary
from lab.binaries.catalogue import KUBERNETES
from lab.manifests import CHART, MANIFESTS

Object = dict[str, Any]
Key = tuple[str, str, str]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
REGISTRY = "registry.example"
"""What `image.registry` is where a test says nothing of it; the chart refuses to guess."""
_ENV = {**os.environ, "GOGC": "off", "GOMAXPROCS": "1"}
"""A call lasts a tenth of a second, of which garbage collection and threads take a tenth."""
_CHART_LABELS = ("helm.sh/chart", *(f"app.kubernetes.io/{name}" for name in ("instance", "version", "managed-by")))


def kustomize(directory: Path) -> list[Object]:
    """The objects of a kustomization, by the lab's kubectl."""
    return _objects(_run(find_binary("kubectl"), "kustomize", str(directory)))


def kustomize_with(folder: Path, *directories: str, overlay: str = "default") -> list[Object]:
    """The objects of an overlay in `folder`, as a user would write one: ours with these components and a registry."""
    ours = os.path.relpath(MANIFESTS / "overlays" / overlay, folder)
    components = [os.path.relpath(MANIFESTS / each, folder) for each in directories]
    images = [{"name": "kube-balloons", "newName": f"{REGISTRY}/kube-balloons"}]
    written = {"kind": "Kustomization", "resources": [ours], "components": components, "images": images}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(written))
    return kustomize(folder)


def helm(values: Mapping[str, Any] | None = None, *arguments: str, has_hooks: bool = False) -> list[Object]:
    """The objects of the chart with these values; raises RuntimeError with what Helm says."""
    return _objects(helm_text(values, *(() if has_hooks else ("--no-hooks",)), *arguments))


def helm_notes(folder: Path, values: Mapping[str, Any]) -> str:
    """The chart's notes on a cluster that serves the Prometheus operator's kinds, without installing anything.

    `helm template` leaves NOTES.txt out: a copy of the chart in `folder` has them as the text of a YAML document.
    """
    shutil.copytree(CHART, folder, dirs_exist_ok=True)
    notes = (folder / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (folder / "templates" / "notes.yaml").write_text(f"notes: |-\n{indent(notes, '  ')}", encoding="utf-8")
    served = "--api-versions=monitoring.coreos.com/v1"
    text = helm_text(values, "--show-only=templates/notes.yaml", served, chart=folder)
    return str(_objects(text)[0]["notes"])


def helm_text(
    values: Mapping[str, Any] | None, *arguments: str, namespace: str = "kube-balloons", chart: Path = CHART
) -> str:
    """What `helm template` prints; values that name no registry get one."""
    # A Helm that was built from its module says nothing of a newer Kubernetes by itself.
    version = f"--kube-version={KUBERNETES.version}"
    placed = ("kube-balloons", str(chart), f"--namespace={namespace}", version, "--values=-")
    image = {"registry": REGISTRY, **(values or {}).get("image", {})}
    given = json.dumps({**(values or {}), "image": image})
    return _run(find_binary("helm"), "template", *placed, *arguments, given=given)


def comparable(objects: Iterable[Object]) -> dict[Key, Object]:
    """By kind, namespace and name, without what only a chart says. Changes the objects."""
    found = {}
    for each in objects:
        metadata = each["metadata"]
        for label in _CHART_LABELS:
            metadata["labels"].pop(label, None)
        annotations = metadata.get("annotations", {})
        annotations.pop("helm.sh/resource-policy", None)
        if not annotations:
            metadata.pop("annotations", None)
        key = (each["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"{key} is there twice"
        found[key] = each
    return found


def _objects(text: str) -> list[Object]:
    return [each for each in yaml.load_all(text, Loader=_LOADER) if each]


def _run(program: Path, *arguments: str, given: str = "") -> str:
    answer = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, check=False, env=_ENV)
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr)
    return answer.stdout
