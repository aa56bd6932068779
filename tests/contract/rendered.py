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
_CHART_LABELS = ("helm.sh/chart", *(f"app.kubernetes.io/{name}" for name in ("instance", "version", "managed-by")))


def kustomize(directory: Path) -> list[Object]:
    """The objects of a kustomization, by the lab's kubectl."""
    return _objects(_run(find_binary("kubectl"), "kustomize", str(directory)))


def kustomize_with(folder: Path, *directories: str) -> list[Object]:
    """The objects of an overlay in `folder`, as a user would write one: the default with these components."""
    default = os.path.relpath(MANIFESTS / "overlays" / "default", folder)
    components = [os.path.relpath(MANIFESTS / each, folder) for each in directories]
    overlay = {"kind": "Kustomization", "resources": [default], "components": components}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return kustomize(folder)


def helm(values: Mapping[str, Any] | None = None, *arguments: str) -> list[Object]:
    """The objects of the chart with these values, but for its hooks; raises RuntimeError with what Helm says."""
    return _objects(helm_text(values, "--no-hooks", *arguments))


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
    """What `helm template` prints."""
    # A Helm that was built from its module says nothing of a newer Kubernetes by itself.
    version = f"--kube-version={KUBERNETES.version}"
    placed = ("kube-balloons", str(chart), f"--namespace={namespace}", version, "--values=-")
    return _run(find_binary("helm"), "template", *placed, *arguments, given=json.dumps(values or {}))


def comparable(objects: Iterable[Object]) -> dict[Key, Object]:
    """By kind, namespace and name, without what only a chart says."""
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
    answer = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr)
    return answer.stdout
