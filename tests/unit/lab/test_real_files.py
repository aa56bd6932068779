"""The configuration of real nodes: parsed as its readers would, and no two nodes in each other's way."""

import json
import tomllib
from pathlib import Path

import yaml

from lab.cloud.machines.real_files import SANDBOX_IMAGE, NodeFiles, containerd_config, kubelet_config, network_config

ONE, TWO = (NodeFiles(name=f"real-{n}", number=n, folder=Path(f"/tmp/kb/{n}")) for n in (1, 2))


def test_two_nodes_share_nothing() -> None:
    assert ONE.address != TWO.address
    assert ONE.pods != TWO.pods
    assert ONE.namespace != TWO.namespace
    for config in (containerd_config, network_config, kubelet_config):
        assert str(TWO.folder) not in config(ONE)
        assert str(ONE.folder) in config(ONE)


def test_containerd_serves_the_kubelet_and_pulls_nothing() -> None:
    config = tomllib.loads(containerd_config(ONE))
    criteria = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert criteria["sandbox_image"] == SANDBOX_IMAGE
    assert f"unix://{config['grpc']['address']}" == yaml.safe_load(kubelet_config(ONE))["containerRuntimeEndpoint"]


def test_namespaces_of_pods_lie_below_the_node_and_go_with_it() -> None:
    criteria = tomllib.loads(containerd_config(ONE))["plugins"]["io.containerd.grpc.v1.cri"]
    assert criteria["netns_mounts_under_state_dir"] is True


def test_pods_are_on_a_bridge_of_their_node() -> None:
    (bridge,) = json.loads(network_config(ONE))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": ONE.pods}]]
    assert bridge["ipMasq"] is False
