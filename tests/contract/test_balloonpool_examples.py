"""The examples of docs/balloonpool.md, and what the server makes of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloons.api.pool import BalloonPool
from balloons.api.pool_rules import decode_pool
from lab.controlplane import ControlPlane

PAGE = Path(__file__).parents[2] / "docs" / "balloonpool.md"
MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)]


def name_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["name"])


def test_the_page_has_examples_of_each_kind() -> None:
    assert len(EXAMPLES) >= 5
    assert {example["spec"]["mode"] for example in EXAMPLES} == {"Hold", "Headroom"}


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_the_server_stores_the_example_and_the_service_reads_it(
    control_plane: ControlPlane, pool_namespace: str, example: dict[str, Any]
) -> None:
    manifest = {**example, "metadata": {"name": name_of(example), "namespace": pool_namespace}}
    control_plane.kubectl("apply", "--filename=-", input=json.dumps(manifest))
    stored = control_plane.kubectl(
        "get", "balloonpool", name_of(example), f"--namespace={pool_namespace}", "--output=json"
    )
    pool = decode_pool(stored.encode())
    assert isinstance(pool, BalloonPool), pool
    assert pool.metadata.generation == 1
    # The server fills in the defaults that the types have: both readings are of the same pool.
    plain = decode_pool(example)
    assert isinstance(plain, BalloonPool), plain
    assert pool.spec == plain.spec


def test_a_status_write_does_not_touch_the_spec(control_plane: ControlPlane, pool_namespace: str) -> None:
    manifest = {**EXAMPLES[0], "metadata": {"name": "status", "namespace": pool_namespace}}
    control_plane.kubectl("apply", "--filename=-", input=json.dumps(manifest))
    condition = {"type": "Ready", "status": "True", "reason": "Steady", "message": "4 of 4", "observedGeneration": 1}
    status = {"observedGeneration": 1, "warm": 4, "target": 4, "because": "Steady", "conditions": [condition]}
    body = {**{key: manifest[key] for key in ("apiVersion", "kind", "metadata")}, "status": status}
    server_side = ("--server-side", "--subresource=status", "--field-manager=service")
    control_plane.kubectl("apply", *server_side, "--filename=-", input=json.dumps(body))
    control_plane.kubectl(
        "wait", "balloonpool/status", f"--namespace={pool_namespace}", "--for=condition=Ready", "--timeout=180s"
    )
    stored = decode_pool(
        control_plane.kubectl("get", "balloonpool", "status", f"--namespace={pool_namespace}", "--output=json").encode()
    )
    assert isinstance(stored, BalloonPool)
    assert (stored.spec.size, stored.status.warm, stored.metadata.generation) == (4, 4, 1)


def test_the_priority_class_is_taken(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "--dry-run=server", f"--filename={MANIFESTS}/base/priorityclass.yaml")


def test_kubectl_explains_every_field(control_plane: ControlPlane, balloonpool_crd: str) -> None:
    text = control_plane.kubectl("explain", "balloonpool.spec", "--recursive")
    for field in ("sizePercent", "notWarm", "schedules", "timeZone", "prePull", "dryRun"):
        assert field in text
    assert "rounded up" in control_plane.kubectl("explain", "balloonpool.spec.sizePercent")
