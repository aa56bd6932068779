"""Synthetic Node objects as large as those of a managed cluster: about 17 kB each, and the pages they come in."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

PAGE_NODES = 500
"""The page size of our own lists, and of kubectl's."""

_INSTANCE_TYPES = (
    ("p5.48xlarge", "191450m", "2063231Mi", "8"),
    ("m7i.16xlarge", "63770m", "252310Mi", "0"),
    ("c7i.8xlarge", "31850m", "58622Mi", "0"),
)
_ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
_SEEN = "2026-11-21T04:00:00Z"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("KernelDeadlock", "False", "KernelHasNoDeadlock", "kernel has no deadlock"),
    ("ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
    ("GPUHealthy", "True", "NoXidErrors", "all devices answer"),
)


def node_pages(count: int, seed: int = 1) -> list[bytes]:
    """The answers of the API server to a paged list of `count` nodes."""
    random = Random(seed)
    nodes = [_node(number, random) for number in range(count)]
    chunks = [nodes[start : start + PAGE_NODES] for start in range(0, count, PAGE_NODES)]
    return [_page(chunk, is_last=chunk is chunks[-1]) for chunk in chunks]


def _page(items: list[dict[str, Any]], *, is_last: bool) -> bytes:
    metadata = {"resourceVersion": "81234567"} | ({} if is_last else {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"})
    return msgspec.json.encode({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})


def _node(number: int, random: Random) -> dict[str, Any]:
    name = f"ip-10-{number >> 16 & 255}-{number >> 8 & 255}-{number & 255}.eu-west-1.compute.internal"
    machine = f"i-{random.getrandbits(68):017x}"
    instance_type, cpu, memory, gpus = _INSTANCE_TYPES[number % len(_INSTANCE_TYPES)]
    zone = _ZONES[number // 7 % len(_ZONES)]
    return {
        "metadata": _metadata(name, machine, instance_type, zone, random),
        "spec": {
            "podCIDR": f"10.{number >> 8 & 255}.{number & 255}.0/24",
            "providerID": f"aws:///{zone}/{machine}",
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}] if gpus != "0" else [],
        },
        "status": _status(name, _resources(cpu, memory, gpus), random),
    }


def _metadata(name: str, machine: str, instance_type: str, zone: str, random: Random) -> dict[str, Any]:
    labels = _labels(name, instance_type, zone)
    annotations = _annotations(machine, random)
    return {
        "name": name,
        "uid": _uuid(random),
        "resourceVersion": str(random.randrange(10**7, 10**8)),
        "creationTimestamp": f"2026-11-{random.randrange(1, 21):02}T{random.randrange(24):02}:11:42Z",
        "labels": labels,
        "annotations": annotations,
        "finalizers": ["karpenter.sh/termination"],
        "managedFields": list(_managed_fields(list(labels), list(annotations))),
    }


def _labels(name: str, instance_type: str, zone: str) -> dict[str, str]:
    family, _, size = instance_type.partition(".")
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": instance_type,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "k8s.io/cloud-provider-aws": "0b0a4dbd1e6a9f4a4f7d8a3b0f1e2d3c",
        "karpenter.k8s.aws/instance-category": family[0],
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-generation": family[1],
        "karpenter.k8s.aws/instance-hypervisor": "nitro",
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/nodepool": f"team-{family}",
        "karpenter.sh/registered": "true",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        "team": f"team-{zone[-1]}",
        "topology.ebs.csi.aws.com/zone": zone,
        "topology.k8s.aws/zone-id": f"euw1-az{ord(zone[-1]) - 96}",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": zone,
    }


def _annotations(machine: str, random: Random) -> dict[str, str]:
    address = f"10.0.{random.randrange(256)}.{random.randrange(256)}"
    return {
        "alpha.kubernetes.io/provided-node-ip": address,
        "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"{machine}","efs.csi.aws.com":"{machine}"}}',
        "karpenter.k8s.aws/ec2nodeclass-hash": f"{random.getrandbits(63)}",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
        "karpenter.sh/nodepool-hash": f"{random.getrandbits(63)}",
        "node.alpha.kubernetes.io/ttl": "15",
        "projectcalico.org/IPv4Address": f"{address}/20",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _managed_fields(labels: list[str], annotations: list[str]) -> Iterator[dict[str, Any]]:
    marks = {
        "f:metadata": {
            "f:annotations": {".": {}, **{f"f:{key}": {} for key in annotations}},
            "f:labels": {".": {}, **{f"f:{key}": {} for key in labels}},
        },
        "f:spec": {"f:providerID": {}, "f:taints": {}},
    }
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "time": _SEEN}
    yield {**entry, "manager": "kubelet", "fieldsV1": marks}
    keys = ("f:lastHeartbeatTime", "f:lastTransitionTime", "f:message", "f:reason", "f:status")
    touched: dict[str, Any] = {".": {}, "f:type": {}, **{key: {} for key in keys}}
    conditions = {f'k:{{"type":"{kind}"}}': touched for kind, *_ in _CONDITIONS}
    status = {"f:allocatable": {"f:cpu": {}, "f:memory": {}}, "f:conditions": conditions, "f:images": {}}
    yield {**entry, "manager": "kubelet", "subresource": "status", "fieldsV1": {"f:status": status}}
    yield {**entry, "manager": "karpenter", "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}}}}}


def _resources(cpu: str, memory: str, gpus: str) -> dict[str, str]:
    return {
        "cpu": cpu,
        "ephemeral-storage": "1888313384Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": memory,
        "nvidia.com/gpu": gpus,
        "pods": "110",
        "vpc.amazonaws.com/efa": gpus,
    }


def _status(name: str, resources: dict[str, str], random: Random) -> dict[str, Any]:
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": _SEEN,
                "lastTransitionTime": _SEEN,
                "reason": reason,
                "message": message,
            }
            for kind, status, reason, message in _CONDITIONS
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.3.4"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": f"{random.getrandbits(128):032x}",
            "systemUUID": _uuid(random),
            "bootID": _uuid(random),
            "kernelVersion": "6.1.150-174.273.amzn2023.x86_64",
            "osImage": "Amazon Linux 2023.9.20261110",
            "containerRuntimeVersion": "containerd://2.1.5",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [_image(random) for _ in range(_IMAGES)],
    }


_IMAGES = 42
"""A kubelet reports up to 50; with 42 a node comes to 17 kB, as those of a large real cluster have."""


def _image(random: Random) -> dict[str, Any]:
    repository = f"602401143452.dkr.ecr.eu-west-1.amazonaws.com/team/{random.choice(('trainer', 'server', 'agent'))}"
    tagged, digest = f"v1.{random.randrange(99)}.{random.randrange(99)}", f"sha256:{random.getrandbits(256):064x}"
    names = [f"{repository}@{digest}", f"{repository}:{tagged}"]
    return {"names": names, "sizeBytes": random.randrange(10**7, 10**10)}


def _uuid(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
