"""What the lab reads of a manifest when it runs a pod as a process."""

from typing import Any

import pytest

from lab.cloud.machines.process_objects import Ended, command_of, ended_status, is_of_image, running_process_status


def pod(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "balloons", "image": "kube-balloons:1", **container}]}
    return {"metadata": {"name": "one", "namespace": "ours"}, "spec": spec}


@pytest.mark.parametrize(
    ("image", "is_ours"),
    [
        ("kube-balloons", True),
        ("registry.example.com:5000/team/kube-balloons:0.1.0@sha256:ab", True),
        ("kube-balloons-other:1", False),
        ("registry.example.com/kube-balloons/pause", False),
    ],
)
def test_image_is_known_by_its_name(image: str, is_ours: bool) -> None:
    assert is_of_image(image, "kube-balloons") is is_ours


def test_arguments_are_those_of_the_manifest_but_for_the_address() -> None:
    field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    args = ["run", "--metrics-address=0.0.0.0:8080", "--lease-namespace=$(POD_NAMESPACE)", "--in-cluster", "$(NONE)"]
    command = command_of(
        pod(args=args, env=[{"name": "POD_NAMESPACE", "valueFrom": field}, {"name": "A", "value": "b"}])
    )
    assert command.arguments_on(7) == ("run", "--metrics-address=127.0.0.1:7", "--lease-namespace=ours", "$(NONE)")
    assert command.environment == {"POD_NAMESPACE": "ours", "A": "b"}


def test_without_a_probe_it_is_ready_when_it_runs() -> None:
    assert command_of(pod()).ready_path == ""
    assert command_of(pod(readinessProbe={"httpGet": {"path": "/readyz", "port": "metrics"}})).ready_path == "/readyz"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed"), (-9, "Failed")])
def test_end_of_a_process_is_the_end_of_its_pod(code: int, phase: str) -> None:
    status = ended_status(command_of(pod()), Ended(code, "then"))
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code & 0xFF


@pytest.mark.parametrize("is_ready", [True, False])
def test_readiness_is_told_in_all_three_places(is_ready: bool) -> None:
    status = running_process_status(command_of(pod()), "now", 2, is_ready=is_ready)
    told = {each["type"]: each["status"] for each in status["conditions"]}
    assert told["Ready"] == told["ContainersReady"] == str(is_ready)
    assert status["containerStatuses"][0]["ready"] is is_ready
    assert status["containerStatuses"][0]["restartCount"] == 2
