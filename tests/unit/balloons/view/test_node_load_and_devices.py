"""What makes a node busy, and what does not; which of its resources are devices, and which may be added up."""

import msgspec
import pytest

from balloons.view.node_load_and_devices import counted_apart, is_accelerator, is_device, load_of
from tests.world import daemon, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import parse_resources


def balloon(name: str, created_s: float = 0.0, **changes: object) -> Pod:
    pod = Pod(ObjectKey("team-a", name), f"uid-{name}", "1", "n", -10, {}, kind=PodKind.BALLOON, created_s=created_s)
    return msgspec.structs.replace(pod, **changes)


def test_work_above_the_balloons_counts_as_work_and_below_as_scavenger() -> None:
    pods = [work("a", "n"), work("b", "n", priority=-10), work("c", "n", priority=-100), work("d", "n", priority=-9)]
    load = load_of(pods, balloon_priority=-10)
    assert (load.work, load.scavengers) == (2, 2)
    assert load.others == parse_resources({"cpu": "48", "memory": "4Gi", "pods": "4"})


def test_daemon_and_mirror_pods_are_no_work_but_take_room() -> None:
    mirror = work("static", "n", cpu="1", kind=PodKind.MIRROR)
    load = load_of([daemon("ds", "n"), mirror], balloon_priority=-10)
    assert (load.work, load.scavengers) == (0, 0)
    assert load.daemons == parse_resources({"cpu": "1500m", "memory": "2Gi", "pods": "2"})


def test_finished_pods_take_no_room() -> None:
    assert load_of([work("done", "n", is_finished=True)], balloon_priority=-10).work == 0


def test_a_leaving_pod_still_takes_its_room_and_a_leaving_balloon_holds_nothing() -> None:
    load = load_of([work("w", "n", is_terminating=True), balloon("b", is_terminating=True)], balloon_priority=-10)
    assert load.work == 1
    assert load.balloons == ()


def test_balloons_are_ordered_oldest_first() -> None:
    load = load_of([balloon("young", 2.0), balloon("old", 1.0)], balloon_priority=-10)
    assert [b.key.name for b in load.balloons] == ["old", "young"]


def test_nodes_with_equal_daemons_share_one_sum() -> None:
    """Shapes tell sizes apart by identity first; thousands of equal nodes must be one kind."""
    first = load_of([daemon("a", "n1"), daemon("b", "n1")], -10)
    second = load_of([daemon("c", "n2"), daemon("d", "n2")], -10)
    assert first.daemons is second.daemons


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/xe",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "vpc.amazonaws.com/efa",
        "rdma/hca_shared_devices_a",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/gpu.shared",
    ],
)
def test_accelerators_and_their_network_cards_are_devices(name: str) -> None:
    assert is_device(name)


@pytest.mark.parametrize(
    "name",
    [
        "vpc.amazonaws.com/pod-eni",
        "kubernetes.io/batch-cpu",
        "devices.kubevirt.io/kvm",
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu",
        "cpu",
        "hugepages-2Mi",
        "example.com/default-gpux",
        "gpu.intel.com/millicores",
    ],
)
def test_what_node_agents_offer_is_not_asked_for(name: str) -> None:
    assert not is_device(name)


@pytest.mark.parametrize("name", ["vpc.amazonaws.com/efa", "rdma/hca_shared_devices_a", "koordinator.sh/gpu", "cpu"])
def test_network_cards_and_made_up_resources_are_no_accelerators(name: str) -> None:
    assert not is_accelerator(name)


def test_slices_and_whole_gpus_are_added_up() -> None:
    names = ["cpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu", "vpc.amazonaws.com/efa"]
    assert counted_apart(names) == [["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]]


def test_the_names_of_one_neuron_chip_are_never_added() -> None:
    neuron, core = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
    assert counted_apart([core, neuron]) == [[neuron], [core]]
    assert counted_apart(["cpu"]) == []
