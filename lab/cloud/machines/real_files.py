"""The configuration files of a real node: containerd, its network, the kubelet. Values, no I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SANDBOX_IMAGE = "localhost/kube-balloons-sandbox:1"
"""Holds a pod's namespaces and does nothing."""
PLUGINS = Path("/usr/lib/cni")


@dataclass(frozen=True, kw_only=True)
class NodeFiles:
    """Where a node's files lie, and its addresses: `number` (1 to 250) keeps those of two nodes apart."""

    name: str
    number: int
    folder: Path

    @property
    def namespace(self) -> str:
        """Its network namespace: a name that no other run has."""
        return f"{self.folder.parent.name}-{self.number}"

    @property
    def socket(self) -> Path:
        """Of containerd."""
        return self.folder / "containerd.sock"

    @property
    def address(self) -> str:
        """The node's own, in its own network namespace."""
        return f"10.99.{self.number}.1"

    @property
    def pods(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{self.number}.0/24"


def containerd_config(files: NodeFiles) -> str:
    """For containerd 1.6 and 1.7; without CAP_SYS_RESOURCE no process may be made less likely to be killed."""
    return f"""version = 2
root = "{files.folder}/containerd"
state = "{files.folder}/state"
[grpc]
  address = "{files.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{files.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{files.folder}/cni"
"""


def network_config(files: NodeFiles) -> str:
    """A bridge of the node's own: pods reach each other, their node, and nothing else."""
    addresses = {
        "type": "host-local",
        "dataDir": str(files.folder / "addresses"),
        "ranges": [[{"subnet": files.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge]}, indent=1)


def kubelet_config(files: NodeFiles) -> str:
    """A kubelet that makes no cgroups of its own, and deletes nothing for want of space."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "podLogsDir": str(files.folder / "pod-logs"),
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "1Mi"},
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
    }
    return yaml.safe_dump(config, sort_keys=False)
