"""What several modules ask of a server: to take something up, and who may do what."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.controlplane import ControlPlane
from lab.errors import LabError

DEADLINE_S = 60.0


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
    until(lambda: plane.kubectl("create", "namespace", name), deadline_s=120)


def reviewed(plane: ControlPlane, asked: Sequence[dict[str, Any]]) -> list[bool]:
    """What the authorizer says to each spec of a SubjectAccessReview; one kubectl asks them all."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    given = {"apiVersion": "v1", "kind": "List", "items": [{**kind, "spec": spec} for spec in asked]}
    shown = "--output=jsonpath={.status.allowed} "
    answers = plane.kubectl("create", shown, "--filename=-", input=json.dumps(given)).split()
    assert len(answers) == len(asked)
    return [{"true": True, "false": False}[answer] for answer in answers]
