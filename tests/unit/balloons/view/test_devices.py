"""Which extended resources are devices, and which may be added up."""

import pytest

from balloons.view.devices import counted_apart, is_accelerator, is_device


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
