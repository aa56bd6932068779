"""What several modules ask of a server: to take something up, to serve a kind, and who may do what."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.controlplane import ControlPlane
from lab.errors import LabError

DEADLINE_S = 180.0


def until(attempt: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Repeat until it raises neither LabError nor AssertionError; the last one is raised at the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            attempt()
        except (LabError, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def make_namespace(plane: ControlPlane, name: str) -> None:
    """Make it, also while one of this name still ends.

    A worker that steals the rest of a module's tests sets the module's fixtures up a second time.
    """
    until(lambda: plane.kubectl("create", "namespace", name))


def serve(plane: ControlPlane, crd: Path | str) -> None:
    """Apply a CRD, or all of a folder, or one given as text; returns once the kinds can be asked for.

    That is a moment after it is established: the server tells clients of a new kind in its own time.
    """
    how = ("apply", "--server-side", "--force-conflicts")
    if isinstance(crd, Path):
        applied = plane.kubectl(*how, "--output=name", f"--filename={crd}")
    else:
        applied = plane.kubectl(*how, "--output=name", "--filename=-", input=crd)
    names = [line.rpartition("/")[2] for line in applied.split()]
    plane.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names), "--timeout=180s")
    for name in names:
        until(lambda name=name: _list_each_version(plane, name))  # type: ignore[misc]


def _list_each_version(plane: ControlPlane, name: str) -> None:
    """Raises LabError as long as a client would not find the kind."""
    spec = plane.get("customresourcedefinition", name)["spec"]
    for version in spec["versions"]:
        if version["served"]:
            plane.get(f"{spec['group']}/{version['name']}/{spec['names']['kind']}", namespace=None)


def reviewed(plane: ControlPlane, asked: Sequence[dict[str, Any]]) -> list[bool]:
    """What the authorizer says to each spec of a SubjectAccessReview; one kubectl asks them all."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    given = {"apiVersion": "v1", "kind": "List", "items": [{**kind, "spec": spec} for spec in asked]}
    shown = "--output=jsonpath={.status.allowed} "
    answers = plane.kubectl("create", shown, "--filename=-", input=json.dumps(given)).split()
    assert len(answers) == len(asked)
    return [{"true": True, "false": False}[answer] for answer in answers]
