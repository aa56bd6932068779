"""What limits keep from a pod that waits: those that leave no room for it, or for a node like the others."""

from typing import Any

import pytest

from balloons.explain import explain_pod
from tests.unit.balloons.things_to_explain import pod, seen

NODE = {
    "metadata": {"name": "x-0", "labels": {"karpenter.sh/nodepool": "x"}},
    "status": {"allocatable": {"cpu": "16"}},
}
FULL, SHORT = "nodepool x is at its limits", "nodepool x has no room for a node like its own"


def steps(asked: dict[str, Any], **objects: Any) -> list[str]:
    found = explain_pod(seen(pods=[asked], **objects), "ml", "train-0")
    assert found is not None
    return [step.what for step in found.steps[1:]]


@pytest.mark.parametrize(
    ("limits", "used", "told"),
    [
        ({"cpu": "64"}, {"cpu": "48"}, []),
        ({"cpu": "64"}, {"cpu": "49"}, [SHORT]),
        ({"cpu": "64"}, {"cpu": "60"}, [SHORT]),
        ({"cpu": "64"}, {"cpu": "61"}, [FULL]),
        ({"cpu": "64"}, {"cpu": "64000m"}, [FULL]),
        ({"cpu": "64"}, {"cpu": "72"}, [FULL]),
        ({"cpu": "0"}, {}, [FULL]),
        ({"nodes": "9"}, {"nodes": "8"}, []),
        ({"nodes": "9"}, {"nodes": "10"}, [FULL]),
        ({"nodes": "99", "cpu": "64"}, {"nodes": "9", "cpu": "63"}, [FULL]),
        ({"nvidia.com/gpu": "0"}, {}, []),
        ({"nvidia.com/gpu": "8", "cpu": "64"}, {"nvidia.com/gpu": "8", "cpu": "8"}, []),
        ({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "9"}, [FULL]),
        ({"cpu": "many"}, {"cpu": "many"}, []),
    ],
)
def test_a_pool_is_full_where_no_node_fits_for_the_pod(
    limits: dict[str, str], used: dict[str, str], told: list[str]
) -> None:
    """Its nodes have 16 cores, and the pod asks for 4. It was only told of where both texts were equal."""
    x = {"metadata": {"name": "x"}, "spec": {"limits": limits}, "status": {"resources": used}}
    asks = pod(containers=[{"resources": {"requests": {"cpu": "4"}}}])
    assert steps(asks, nodes=[NODE], node_pools=[x]) == told
    alone = steps(asks, node_pools=[x])
    assert alone == [what for what in told if what == FULL], "nobody knows how large its nodes are"


def test_a_pool_whose_nodes_have_devices_is_short_of_these_also_for_a_pod_that_asks_for_none() -> None:
    x = {
        "metadata": {"name": "x"},
        "spec": {"limits": {"nvidia.com/gpu": "8"}},
        "status": {"resources": {"nvidia.com/gpu": "8"}},
    }
    gpus = {**NODE, "status": {"allocatable": {"cpu": "16", "nvidia.com/gpu": "8"}}}
    assert steps(pod(), nodes=[gpus], node_pools=[x]) == [SHORT]


@pytest.mark.parametrize(("used", "told"), [("48", []), ("49", [SHORT])])
def test_the_smallest_of_its_nodes_is_the_least_that_a_pool_needs_room_for(used: str, told: list[str]) -> None:
    x = {"metadata": {"name": "x"}, "spec": {"limits": {"cpu": "64"}}, "status": {"resources": {"cpu": used}}}
    large = {**NODE, "metadata": {**NODE["metadata"], "name": "x-1"}, "status": {"allocatable": {"cpu": "32"}}}
    assert steps(pod(), nodes=[NODE, large], node_pools=[x]) == told
