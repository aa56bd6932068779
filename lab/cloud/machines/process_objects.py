"""What a pod's manifest says about its process, and what its status says of it: values, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEFT_OUT = "--in-cluster"
"""A process of this host finds no pod's files; it is given a kubeconfig."""
ANYWHERE = re.compile(r"=0\.0\.0\.0:\d+$")


@dataclass(frozen=True, kw_only=True)
class Command:
    """The only container of a pod of ours."""

    container: str
    image: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    ready_path: str
    """Where it answers 200 once it is ready; empty: it is ready when it runs."""
    grace_s: float
    restarts: bool
    """Whether it is started again when it ends."""

    def arguments_on(self, port: int) -> tuple[str, ...]:
        """The arguments, listening on this port of loopback instead of on every address."""
        wanted = (argument for argument in self.arguments if argument != LEFT_OUT)
        return tuple(ANYWHERE.sub(f"=127.0.0.1:{port}", argument) for argument in wanted)


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    code: int
    at: str


def is_of_image(image: str, repository: str) -> bool:
    """Whether `registry/path/NAME:tag@digest` is of this name."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0] == repository


def command_of(pod: Mapping[str, Any]) -> Command:
    """Read a whole Pod."""
    spec = pod["spec"]
    container = spec["containers"][0]
    environment = {variable["name"]: _value(variable, pod["metadata"]) for variable in container.get("env", ())}
    return Command(
        container=container["name"],
        image=container["image"],
        arguments=tuple(_expanded(argument, environment) for argument in container.get("args", ())),
        environment=environment,
        ready_path=container.get("readinessProbe", {}).get("httpGet", {}).get("path", ""),
        grace_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        restarts=spec.get("restartPolicy", "Always") == "Always",
    )


def running_process_status(command: Command, timestamp: str, restarts: int, *, is_ready: bool) -> dict[str, Any]:
    """The status of a pod whose process runs."""
    state = {"running": {"startedAt": timestamp}}
    return {
        "phase": "Running",
        "startTime": timestamp,
        "conditions": _conditions(timestamp, is_ready=is_ready),
        "containerStatuses": [_container(command, state, restarts, is_ready=is_ready)],
    }


def ended_status(command: Command, ended: Ended) -> dict[str, Any]:
    """The status of a pod whose process has ended and is not started again."""
    reason = "Completed" if ended.code == 0 else "Error"
    state = {"terminated": {"exitCode": ended.code & 0xFF, "reason": reason, "finishedAt": ended.at}}
    return {
        "phase": "Succeeded" if ended.code == 0 else "Failed",
        "conditions": _conditions(ended.at, is_ready=False),
        "containerStatuses": [_container(command, state, 0, is_ready=False)],
    }


def _value(variable: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    return str(metadata[path.removeprefix("metadata.")]) if path else str(variable.get("value", ""))


def _expanded(argument: str, environment: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda reference: environment.get(reference[1], reference[0]), argument)


def _conditions(timestamp: str, *, is_ready: bool) -> list[dict[str, str]]:
    states = {"Initialized": True, "PodReadyToStartContainers": True, "Ready": is_ready, "ContainersReady": is_ready}
    return [{"type": kind, "status": str(state), "lastTransitionTime": timestamp} for kind, state in states.items()]


def _container(command: Command, state: Mapping[str, Any], restarts: int, *, is_ready: bool) -> dict[str, Any]:
    return {
        "name": command.container,
        "image": command.image,
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": restarts,
        "state": dict(state),
    }
