from typing import Any

import msgspec
import pytest

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.kinds import kept
from balloons.cluster.seen_cluster import Autoscaler, Detected, Listed, SeenCluster, Unread, detect, minor_of
from tests.seen_clusters import TAKEN_AT, cluster
from throttler.kube.custom_objects import Invalid
from throttler.kube.lease import LEASE_NAME

NODE = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}, "managedFields": [{"manager": "kubelet"}]},
    "spec": {"providerID": "aws:///eu-1a/i-1"},
    "status": {"allocatable": {"cpu": "8"}, "images": [{"names": ["a"]}], "conditions": []},
}
POD = {
    "metadata": {
        "name": "p1",
        "namespace": "ml",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "controller.kubernetes.io/pod-deletion-cost": "-5",
        },
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "args": ["--password=hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"requests": {"cpu": "2"}},
            }
        ],
        "volumes": [{"name": "keys", "secret": {"secretName": "hunter2"}}],
    },
}


def deployment(name: str, image: str, **container: object) -> dict[str, object]:
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image, **container}]}}},
    }


def test_secrets_and_bulk_are_not_kept() -> None:
    text = kept(kinds.PODS, msgspec.json.encode(POD))
    assert b"hunter2" not in text
    assert b"last-applied" not in text
    found = msgspec.json.decode(text)
    assert found["metadata"]["annotations"] == {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    assert found["spec"]["volumes"] == [{"secret": {}}]
    assert b"images" not in kept(kinds.NODES, msgspec.json.encode(NODE))


def test_arguments_are_kept_of_components_only() -> None:
    env = [{"name": "FEATURE_GATES", "value": "StaticCapacity=true"}, {"name": "KEY", "value": "hunter2"}]
    ours = deployment(
        "k", "public.ecr.aws/karpenter/controller:1.14.0@sha256:0a", args=["--kube-api-qps=1", "--x=1"], env=env
    )
    text = kept(kinds.DEPLOYMENTS, msgspec.json.encode(ours))
    assert b"--kube-api-qps=1" in text
    assert b"--x=1" not in text
    assert b"StaticCapacity" in text
    assert b"hunter2" not in text


def test_equal_objects_are_equal_bytes_whatever_their_order() -> None:
    turned = dict(reversed(NODE.items()))
    assert kept(kinds.NODES, msgspec.json.encode(NODE)) == kept(kinds.NODES, msgspec.json.encode(turned))


@pytest.mark.parametrize("text", [b"[]", b"1", b"{", b"[" * 100_000, b'"\xff"'])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError, UnicodeDecodeError)):
        kept(kinds.PODS, text)


@pytest.mark.parametrize("spec", [1, "x", [], {"containers": 1}, {"containers": [1, None], "volumes": ["x"]}])
def test_odd_types_are_cut_down_without_an_error(spec: object) -> None:
    assert msgspec.json.decode(kept(kinds.PODS, msgspec.json.encode({"spec": spec})))


def test_objects_come_in_types_and_a_broken_one_is_left_out() -> None:
    broken = {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "many"}}}
    seen = cluster({kinds.NODES: [NODE, broken], kinds.PODS: [POD]})
    assert [node.name for node in seen_cluster.nodes(seen)] == ["n1"]
    assert [pod.deletion_cost for pod in seen_cluster.pods(seen)] == [-5]


@pytest.mark.parametrize(("name", "count"), [("n1", 1), ("n", 0), ('n1"', 0), ("n1\udcff", 0)])
def test_objects_are_found_by_a_name_in_them(name: str, count: int) -> None:
    assert len(list(cluster({kinds.NODES: [NODE]}).naming(kinds.NODES, name))) == count


def test_a_pool_that_breaks_a_rule_says_why() -> None:
    seen = cluster(
        {kinds.BALLOON_POOLS: [{"metadata": {"name": "p", "namespace": "ml"}, "spec": {"mode": "Sideways"}}]}
    )
    (found,) = seen_cluster.balloon_pools(seen)
    assert isinstance(found, Invalid)
    assert "Sideways" in found.message


def test_cluster_autoscaler_is_found_with_version_flags_and_gates() -> None:
    args = ["--capacity-quotas-enabled", "--scan-interval", "20s", "--cloud-config=/x"]
    seen = cluster(
        {kinds.DEPLOYMENTS: [deployment("ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", args=args)]}
    )
    found = detect(seen)
    assert found.autoscalers == (Autoscaler.CLUSTER_AUTOSCALER,)
    assert found.cluster_autoscaler is not None
    assert found.cluster_autoscaler.version == "v1.36.1"
    assert found.cluster_autoscaler.flags["scan-interval"] == "20s"
    assert found.cluster_autoscaler.is_on("capacity-quotas-enabled")
    assert not found.cluster_autoscaler.is_on("scale-down-enabled")
    assert not found.cluster_autoscaler.is_on("never-given")


def test_cluster_autoscaler_is_found_by_its_status_alone_even_where_that_cannot_be_read() -> None:
    status = {"metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}, "data": {"status": "new"}}
    assert detect(cluster({kinds.AUTOSCALER_STATUS: [status]})).autoscalers == (Autoscaler.CLUSTER_AUTOSCALER,)


@pytest.mark.parametrize("cut", [{"unread": Unread.FORBIDDEN}, {"left_out": 1}, {"unreadable": 1}])
def test_a_list_of_which_anything_is_missing_is_not_complete(cut: dict[str, Any]) -> None:
    assert Listed().is_complete
    assert not Listed(**cut).is_complete


def test_karpenter_is_found_by_its_image_or_by_its_pools_alone() -> None:
    env = [{"name": "FEATURE_GATES", "value": "StaticCapacity=true,NodeRepair=false"}]
    by_image = detect(
        cluster({kinds.DEPLOYMENTS: [deployment("k", "public.ecr.aws/karpenter/controller:1.14.0", env=env)]})
    )
    assert by_image.karpenter is not None
    assert by_image.karpenter.gates == {"StaticCapacity": True, "NodeRepair": False}
    managed = detect(cluster({kinds.NODE_POOLS: [{"metadata": {"name": "default"}}]}))
    assert managed.autoscalers == (Autoscaler.KARPENTER,)
    assert managed.in_words.startswith("Karpenter (version not seen), Kubernetes v1.36.3")


def last_status(at: str) -> dict[str, object]:
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    return {"metadata": metadata, "data": {"status": f"{at}\nnodeGroups:\n- name: g\n"}}


@pytest.mark.parametrize(
    ("replicas", "at", "has_it"),
    [
        (None, "time: 2026-10-01 12:00:00.33 +0000 UTC", False),
        (None, "autoscalerStatus: Running", False),
        (0, "time: 2026-10-01 12:00:00.33 +0000 UTC", False),
        (None, "time: 2026-11-21 11:59:59.33 +0000 UTC", True),
        (1, "time: 2026-10-01 12:00:00.33 +0000 UTC", True),
    ],
)
def test_what_cluster_autoscaler_left_behind_beside_karpenter_is_not_taken_for_it(
    replicas: int | None, at: str, *, has_it: bool
) -> None:
    autoscaler = deployment("ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1")
    seen = cluster(
        {
            kinds.NODE_POOLS: [{"metadata": {"name": "default"}}],
            kinds.AUTOSCALER_STATUS: [last_status(at)],
            kinds.DEPLOYMENTS: [] if replicas is None else [with_replicas(autoscaler, replicas)],
        }
    )
    found = detect(seen)
    assert (Autoscaler.CLUSTER_AUTOSCALER in found.autoscalers) is has_it
    assert (found.status is not None) is has_it
    assert Autoscaler.KARPENTER in found.autoscalers


def test_karpenter_without_replicas_orders_nothing_whatever_its_pools_say() -> None:
    karpenter = deployment("k", "public.ecr.aws/karpenter/controller:1.14.0")
    seen = cluster(
        {
            kinds.NODE_POOLS: [{"metadata": {"name": "default"}}],
            kinds.DEPLOYMENTS: [
                with_replicas(karpenter, 0),
                deployment("ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"),
            ],
        }
    )
    assert detect(seen).autoscalers == (Autoscaler.CLUSTER_AUTOSCALER,)


def with_replicas(thing: dict[str, Any], replicas: int) -> dict[str, object]:
    return {**thing, "spec": {**thing["spec"], "replicas": replicas}}


def test_version_provider_and_api_servers() -> None:
    slices = [{"metadata": {"name": "kubernetes"}, "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}]}]
    found = detect(cluster({kinds.NODES: [NODE], kinds.API_SERVERS: slices}, version="v1.34.1-eks-0"))
    assert (found.provider, found.api_servers) == ("aws", 2)
    assert found.in_words == "no autoscaler found, Kubernetes v1.34.1-eks-0, provider aws, 2 API servers"
    assert (minor_of("v1.34.1-eks-0"), minor_of("master")) == (34, 0)
    assert Detected().in_words == "no autoscaler found, Kubernetes of unknown version", "and nothing of what is unknown"


def test_the_controller_managers_flags_come_from_its_static_pod() -> None:
    pod = {
        "metadata": {"name": "kube-controller-manager-a", "namespace": "kube-system"},
        "spec": {
            "containers": [
                {"name": "kube-controller-manager", "command": ["kube-controller-manager", "--kube-api-qps=50"]}
            ]
        },
    }
    elsewhere = {**pod, "metadata": {"name": "x", "namespace": "mallory"}}
    assert detect(cluster({kinds.PODS: [elsewhere]})).controller_manager is None
    found = detect(cluster({kinds.PODS: [pod, elsewhere]})).controller_manager
    assert found is not None
    assert found.flags == {"kube-api-qps": "50"}


def test_what_runs_for_other_clusters_or_beside_the_scheduler_is_not_taken_for_the_clusters_own() -> None:
    """Clusters host the control planes of others, and charts bring schedulers of their own."""
    names = ("kube-controller-manager", "kube-scheduler")
    hosted = [deployment(name, f"registry.k8s.io/{name}:v1.30.1", args=["--kube-api-qps=400"]) for name in names]
    found = detect(cluster({kinds.DEPLOYMENTS: hosted}))
    assert (found.controller_manager, found.scheduler) == (None, None)


def test_what_could_not_be_read_is_said_and_what_is_not_served_is_not_missing() -> None:
    lists = {
        "pods": Listed(unread=Unread.FORBIDDEN, message="pods is forbidden"),
        "nodepools.karpenter.sh": Listed(unread=Unread.NOT_SERVED),
    }
    seen = SeenCluster(taken_at=TAKEN_AT, lists=lists)
    assert list(seen.not_seen) == ["pods"]
    assert seen.listed(kinds.NODES).unread is Unread.NOT_ASKED
    assert seen.only([kinds.NODES, kinds.PODS]).lists.keys() == {"nodes", "pods"}
    assert detect(seen).api_servers is None


def test_the_lease_is_the_services_own() -> None:
    assert kinds.OWN_LEASE == LEASE_NAME
