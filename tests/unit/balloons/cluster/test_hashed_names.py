"""Hashed names: none of the users' own is left, the same name is the same hash, and decisions stay."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.hashed_names import hashed
from balloons.cluster.kinds import kept
from balloons.cluster.seen_cluster import SeenCluster, detect
from balloons.doctor.diagnose import diagnose
from balloons.preview.from_cluster import plan_inputs
from tests.doctor_cases import CASES, Case
from tests.seen_clusters import cluster
from throttler.kube.cluster_autoscaler import read_status

KEY = b"sixteen bytes or more"


def a_cluster() -> SeenCluster:
    node = {
        "metadata": {
            "name": "ip-10-1-2-3.corp.example",
            "labels": {
                "kubernetes.io/hostname": "ip-10-1-2-3.corp.example",
                "topology.kubernetes.io/zone": "eu-1a",
                "team": "moonshot",
            },
        },
        "spec": {"providerID": "aws:///eu-1a/i-0abc"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}},
    }
    pod = {
        "metadata": {"name": "train-0", "namespace": "secretlab", "labels": {"job": "moonshot"}},
        "spec": {
            "nodeName": "ip-10-1-2-3.corp.example",
            "containers": [
                {"name": "c", "image": "registry.corp.example/moonshot:1", "resources": {"requests": {"cpu": "1"}}}
            ],
        },
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "True", "message": "on ip-10-1-2-3.corp.example."}]
        },
    }
    system = {"metadata": {"name": "kube-proxy-x", "namespace": "kube-system"}, "spec": {"containers": []}}
    event = {
        "metadata": {"name": "train-0.16af", "namespace": "secretlab"},
        "note": "Successfully assigned secretlab/train-0 to ip-10-1-2-3.corp.example",
        "regarding": {"kind": "Pod", "name": "train-0", "namespace": "secretlab"},
    }
    return cluster({kinds.NODES: [node], kinds.PODS: [pod, system], kinds.EVENTS: [event]})


def whole(seen: SeenCluster) -> str:
    return b"".join(text for listed in seen.lists.values() for text in listed.objects).decode()


def test_no_name_of_the_users_is_left_and_kubernetes_names_stay() -> None:
    found = whole(hashed(a_cluster(), KEY))
    for private in ("moonshot", "secretlab", "train-0", "10-1-2-3", "corp", "i-0abc"):
        assert private not in found
    for public in ("kube-system", "eu-1a", "PodScheduled", "Successfully assigned"):
        assert public in found


PRIVATE = """acme-prod-4711 0b1f6471 mc_acme-secretproj globex-bank payments-api globex-deployer stripe-live-key
    globex-merger 10.12.13.14 hunter2 0abcdef1234567890 0deadbeef
    prom.acme.internal s3cr3t gke-n1 hooks.acme.internal
    registry.acme.internal tabcd globex-alarm globex-spread""".split()  # noqa: SIM905
EXPRESSION = {"key": "acme/tenant", "operator": "In", "values": ["globex-bank"]}


def every_kind_of_name() -> dict[kinds.Kind, list[dict[str, object]]]:
    """Names wherever a user may put one, as an API server sends them."""
    vmss = "azure:///subscriptions/0b1f6471/resourceGroups/mc_acme-secretproj/virtualMachines/3"
    taint = {"key": "acme/tenant", "value": "globex-bank", "effect": "NoSchedule"}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}}}  # fmt: skip
    posing = {
        "name": "karpenter",
        "image": "registry.acme.internal/x:1",
        "args": ["--password=hunter2"],
        "command": ["sh", "-c", "curl -H 'Authorization: Bearer s3cr3t'"],
    }
    pod = {
        "serviceAccountName": "globex-deployer",
        "nodeSelector": {"acme/tenant": "globex-bank"},
        "tolerations": [taint],
        "affinity": affinity,
        "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app": "globex-spread"}}}],
        "containers": [{"name": "payments-api", "image": "registry.acme.internal/payments/api:3"}],
        "initContainers": [posing],
    }
    note = (
        'Failed to pull image "registry.acme.internal/globex-merger/app:v1": secret "stripe-live-key" not found; '
        "dial tcp 10.12.13.14:8443; GET https://user:hunter2@hooks.acme.internal/x?token=tabcd"
    )
    alarm = {"name": "globex-alarm", "query": 'globex_free{tenant="globex-bank"}', "threshold": "1"}
    prometheus = {"url": "http://prom.acme.internal:9090"}
    return {
        kinds.NODES: [
            {"metadata": {"name": "gke-n1"}, "spec": {"providerID": "gce://acme-prod-4711/eu-1b/n", "taints": [taint]}},
            {"metadata": {"name": "aks-1"}, "spec": {"providerID": vmss}},
        ],
        kinds.PODS: [{"metadata": {"name": "api-0", "namespace": "shop"}, "spec": pod}],
        kinds.DEPLOYMENTS: [{"metadata": {"name": "api", "namespace": "shop"}, "spec": {"template": {"spec": pod}}}],
        kinds.EVENTS: [{"metadata": {"name": "api-0.16af", "namespace": "shop"}, "note": note}],
        kinds.NODE_CLAIMS: [
            {
                "metadata": {"name": "np-abc"},
                "status": {"providerID": "aws:///eu-1a/i-0abcdef1234567890", "imageID": "ami-0deadbeef"},
            }
        ],
        kinds.THROTTLES: [
            {
                "metadata": {"name": "default"},
                "spec": {"signals": {
                    "prometheus": prometheus,
                    "scrape": {"servers": ["https://registry.acme.internal:6443"]},
                    "alarms": [alarm],
                }},
            }
        ],
    }  # fmt: skip


def test_no_name_that_went_in_is_anywhere_in_the_dump() -> None:
    found = whole(hashed(as_dumped(every_kind_of_name()), KEY))
    assert [word for word in PRIVATE if word in found] == []
    for public in ("gce://h-", "azure://h-", "Failed to pull image", "NoSchedule"):
        assert public in found


MENTIONED = """globex-orders globex-nodes globex-claim globex-pull globex-gpu-asg acme-prod-9 acme-wl
    globex-sandbox globex-evicted payments-worker globex-shop bob@globex.example globex-flood globex-crew globex-sched
    globex-crisis globex-gang globex-motto pull.globex.example globex-guarded globex-team globex-crowd""".split()  # noqa: SIM905
"""Names of what no list of a dump holds, and of what is only mentioned."""
STATUS = """nodeGroups:
- health:
    cloudProviderTarget: 3
  name: globex-gpu-asg
- health:
    cloudProviderTarget: 1
  name: https://cloud.example/compute/v1/projects/acme-prod-9/zones/eu-1b/instanceGroups/n
time: 2026-11-21 07:16:26.33 +0000 UTC
"""


def names_that_are_only_mentioned() -> dict[kinds.Kind, list[dict[str, object]]]:
    """Objects that speak of others: a Service's Event, a node group, a user's group."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "globex-claim"}]
    labels = {"app.kubernetes.io/instance": "globex-shop", "jobset.sigs.k8s.io/jobset-name": "globex-crew"}
    containers = [{"name": "payments-worker"}, {"name": "balloon"}]
    gang = {"scheduling.k8s.io/group-name": "globex-gang"}
    paused = {"kube-balloons.github.io/pause-reason": "globex-crisis, ask Bob"}
    pod = {"metadata": {"name": "api-0", "namespace": "shop", "labels": labels, "annotations": gang},
           "spec": {"containers": containers, "resourceClaims": claims, "schedulerName": "globex-sched",
                    "schedulingGroup": {"podGroupName": "globex-crowd"},
                    "tolerations": [{"key": "acme/team", "value": "globex-team"},
                                    {"key": "topology.kubernetes.io/zone", "value": "eu-1b"}]}}  # fmt: skip
    failing = "Back-off restarting failed container payments-worker in pod api-0_shop(0b1f)"
    subjects = [
        {"kind": "User", "user": {"name": "bob@globex.example"}},
        {"kind": "Group", "group": {"name": "acme-wl"}},
    ]
    template = {"annotations": {"globex/motto": "globex-motto"}, "imagePullSecrets": [{"name": "globex-pull"}],
                "runtimeClassName": "globex-sandbox"}  # fmt: skip
    pool = {"prePull": ["pull.globex.example/app:1"], "template": template}
    return {
        kinds.NAMESPACES: [{"metadata": {"name": "shop"}}],
        kinds.PODS: [pod],
        kinds.EVENTS: [
            {
                "metadata": {"name": "globex-orders.16af", "namespace": "shop"},
                "note": "Error syncing load balancer of shop/globex-orders",
                "regarding": {"kind": "Service", "name": "globex-orders", "namespace": "shop"},
            },
            {
                "metadata": {"name": "api-0.16b0", "namespace": "shop"},
                "note": failing,
                "regarding": {"kind": "Pod", "name": "api-0", "namespace": "shop"},
            },
        ],
        kinds.DISRUPTION_BUDGETS: [
            {
                "metadata": {"name": "guarded", "namespace": "shop"},
                "status": {"disruptedPods": {"globex-evicted": "2026-11-21T07:16:26Z"}},
            }
        ],
        kinds.NODE_POOLS: [
            {
                "metadata": {
                    "name": "gpu",
                    "managedFields": [
                        {"manager": "kubectl", "fieldsV1": {"f:finalizers": {'v:"globex-guarded"': {}}}}
                    ],
                },
                "spec": {"template": {"spec": {"nodeClassRef": {"kind": "NodeClass", "name": "globex-nodes"}}}},
            }
        ],
        kinds.AUTOSCALER_STATUS: [
            {"metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}, "data": {"status": STATUS}}
        ],
        kinds.FLOW_SCHEMAS: [
            {
                "metadata": {"name": "globex-flood"},
                "spec": {
                    "priorityLevelConfiguration": {"name": "workload-low"},
                    "rules": [{"subjects": [*subjects, {"kind": "Group", "group": {"name": "system:nodes"}}]}],
                },
            }
        ],
        kinds.BALLOON_POOLS: [{"metadata": {"name": "warm", "namespace": "shop", "annotations": paused}, "spec": pool}],
    }  # fmt: skip


def as_dumped(named: dict[kinds.Kind, list[dict[str, object]]]) -> SeenCluster:
    return cluster(
        {
            kind: [msgspec.json.decode(kept(kind, msgspec.json.encode(each))) for each in found]
            for kind, found in named.items()
        }
    )


def test_no_name_that_is_only_mentioned_is_anywhere_in_the_dump() -> None:
    found = whole(hashed(as_dumped(names_that_are_only_mentioned()), KEY))
    assert [word for word in (*MENTIONED, "api-0", "shop") if word in found] == []
    for public in (
        "workload-low", "system:nodes", '"eu-1b"', "Back-off restarting failed container", '"balloon"',
        '"f:finalizers":{"v:h-',
    ):  # fmt: skip
        assert public in found


def test_what_the_autoscaler_says_of_its_groups_is_read_as_before() -> None:
    (told,) = hashed(as_dumped(names_that_are_only_mentioned()), KEY).listed(kinds.AUTOSCALER_STATUS).objects
    before, after = read_status(STATUS), read_status(msgspec.json.decode(told)["data"]["status"])
    assert before is not None
    assert after is not None
    assert [group.target for group in after.groups] == [group.target for group in before.groups] == [3, 1]
    assert after.at_s == before.at_s > 0
    assert len({group.name for group in after.groups}) == 2


def test_what_the_cloud_says_of_a_node_group_is_not_left_in_its_status() -> None:
    """It names machines, the cluster, and the project or the account."""
    message = "    errorMessage: 'Instance ''gke-acme-gpu-0a-x1'' creation failed: The zone ''projects/acme-prod/zones/"
    folded = "      eu-1b'' does not have enough resources. project: acme'"
    backoff = (
        f"  scaleUp:\n    backoffInfo:\n      errorCode: OUT_OF_RESOURCES\n  {message}\n{folded}\n    status: Backoff\n"
    )
    said = STATUS.replace("  name: globex-gpu-asg\n", f"  name: globex-gpu-asg\n{backoff}")
    config_map = {"metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}}
    seen = cluster({kinds.AUTOSCALER_STATUS: [{**config_map, "data": {"status": said}}]})
    (raw,) = hashed(seen, KEY).listed(kinds.AUTOSCALER_STATUS).objects
    assert [word for word in ("acme", "globex", "gke-", "projects/") if word.encode() in raw] == []
    told, before = read_status(msgspec.json.decode(raw)["data"]["status"]), read_status(STATUS)
    assert told is not None
    assert before is not None
    assert (told.at_s, [g.target for g in told.groups]) == (before.at_s, [g.target for g in before.groups])


def in_group(name: str, pool: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "labels": {"cloud.google.com/gke-nodepool": pool}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}},
    }


def test_a_node_group_still_bounds_the_pool_whose_name_is_in_its_own() -> None:
    """On clouds nothing else says which group makes which nodes; of two pools it is the one with the longer name."""
    pools = {"gpu": 20, "gpu-big": 30, "default": 40, "Acme_web": 50}
    texts = [f"- name: https://gce.example/zones/eu-1b/gke-c-{p.lower()}-0a-grp\n" for p in pools]
    sizes = [f"  health:\n    cloudProviderTarget: 1\n    maxSize: {size}\n" for size in pools.values()]
    status = "nodeGroups:\n" + "".join(name + size for name, size in zip(texts, sizes, strict=True))
    config_map = {"metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}}
    seen = cluster(
        {
            kinds.NODES: [in_group(f"n-{pool.lower()}", pool) for pool in pools],
            kinds.AUTOSCALER_STATUS: [{**config_map, "data": {"status": status}}],
        }
    )
    assert sorted(room_of_pools(seen)) == [19, 29, 39, 49]
    assert sorted(room_of_pools(hashed(seen, KEY))) == [19, 29, 39, 49]
    assert "acme" not in whole(hashed(seen, KEY)).lower()


def room_of_pools(seen: SeenCluster) -> list[int]:
    return [ceiling.nodes for pool in plan_inputs(seen).pools for ceiling in pool.ceilings]


@pytest.mark.parametrize(
    "key",
    [
        "kops.k8s.io/instancegroup",
        "karpenter.sh/nodepool",
        "example.com.node-restriction.kubernetes.io/tenant",
        "node-restriction.kubernetes.io/tenant",
        "gateway.networking.k8s.io/gateway-name",
        "app.kubernetes.io/name",
        "kueue.sigs.k8s.io/queue",
    ],
)
def test_values_of_what_users_name_are_hashed_although_the_key_is_kubernetes_own(key: str) -> None:
    labels = {key: "moonshot", "topology.kubernetes.io/zone": "eu-1a"}
    found = whole(hashed(cluster({kinds.NODES: [{"metadata": {"name": "n1", "labels": labels}}]}), KEY))
    assert "moonshot" not in found
    assert "eu-1a" in found


def shape(value: Any) -> Any:
    """Types, and how many of each, without what they say."""
    if isinstance(value, dict):
        return [shape(inner) for inner in value.values()]
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("named", [every_kind_of_name(), names_that_are_only_mentioned()])
def test_nothing_but_names_is_lost(named: dict[kinds.Kind, list[dict[str, object]]]) -> None:
    before, after = as_dumped(named), hashed(as_dumped(named), KEY)
    for kind in named:
        pairs = zip(before.listed(kind).objects, after.listed(kind).objects, strict=True)
        for old, new in (map(msgspec.json.decode, pair) for pair in pairs):
            assert shape(old) == shape(new), kind


def test_what_kubernetes_says_in_quotes_stays() -> None:
    note = (
        'Insufficient "cpu" and "pods": "64Gi" asked for; '
        'taint "node.kubernetes.io/unreachable"; label "topology.kubernetes.io/zone"'
    )
    events = {kinds.EVENTS: [{"metadata": {"name": "a", "namespace": "default"}, "note": note}]}
    assert note in msgspec.json.decode(hashed(cluster(events), KEY).listed(kinds.EVENTS).objects[0])["note"]


@pytest.mark.parametrize("odd", [5, True, None, ["x"], {"x": "y"}])
def test_what_is_of_an_odd_type_is_kept_as_that(odd: Any) -> None:
    node = {"metadata": {"annotations": {"karpenter.sh/a": odd}, "name": "n"}, "spec": {"providerID": odd}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [odd]}}
    seen = cluster({kinds.NODES: [node], kinds.PODS: [pod]})
    for kind in (kinds.NODES, kinds.PODS):
        (before,), (after,) = seen.listed(kind).objects, hashed(seen, KEY).listed(kind).objects
        assert shape(msgspec.json.decode(after)) == shape(msgspec.json.decode(before))


def test_even_without_hashes_a_container_called_like_a_component_keeps_no_secret() -> None:
    raw = kept(kinds.PODS, msgspec.json.encode(every_kind_of_name()[kinds.PODS][0])).decode()
    assert not any(secret in raw for secret in ("hunter2", "s3cr3t"))


def test_relations_hold() -> None:
    seen = hashed(a_cluster(), KEY)
    (node,) = seen_cluster.nodes(seen)
    pod = next(pod for pod in seen_cluster.pods(seen) if pod.node)
    assert pod.node == node.name == node.labels["kubernetes.io/hostname"]
    event = msgspec.json.decode(seen.listed(kinds.EVENTS).objects[0])
    assert event["note"] == f"Successfully assigned {pod.key} to {node.name}"
    assert node.is_ready
    assert detect(seen) == detect(a_cluster())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_the_doctor_finds_the_same(case: Case) -> None:
    def codes(seen: SeenCluster) -> list[str]:
        return [finding.check.code for finding in diagnose(seen).findings]

    seen = as_dumped({kind: case.failing.get(kind, []) for kind in kinds.ALL_KINDS})
    assert case.code in codes(seen)
    assert codes(hashed(seen, KEY)) == codes(seen)


def test_the_contexts_name_is_hashed_where_there_is_one() -> None:
    assert hashed(replace(a_cluster(), context="moonshot"), KEY).context.startswith("h-")
    assert hashed(replace(a_cluster(), context=""), KEY).context == ""


def test_the_key_decides() -> None:
    assert hashed(a_cluster(), KEY) == hashed(a_cluster(), KEY)
    assert whole(hashed(a_cluster(), KEY)) != whole(hashed(a_cluster(), KEY + b"x"))


def test_a_machine_is_not_named_where_another_object_speaks_of_it() -> None:
    """Its id may be the host's name, which a message mentions without quotes."""
    claim = {"metadata": {"name": "c"}, "status": {"providerID": "aws:///eu-1a/i-0abc"}}
    event = {"metadata": {"name": "e"}, "note": "terminated i-0abc by request"}
    found = whole(hashed(cluster({kinds.NODE_CLAIMS: [claim], kinds.EVENTS: [event]}), KEY))
    assert "i-0abc" not in found
    assert "by request" in found


def test_the_scheduler_of_kubernetes_keeps_its_name_and_another_does_not() -> None:
    pods = [
        {"metadata": {"name": f"p{number}"}, "spec": {"schedulerName": name}}
        for number, name in enumerate(["default-scheduler", "globex-scheduler"])
    ]
    found = whole(hashed(cluster({kinds.PODS: pods}), KEY))
    assert "default-scheduler" in found
    assert "globex" not in found
