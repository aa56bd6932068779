"""Manifests of our objects, and what counts as drift.

The balloon Deployment, as it is applied. Whether what is stored says what is wanted.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PodTemplate, PoolNodes, SecretName, Spread
from balloons.balloon_manifest import BalloonSpec, deployment, hosts_in, says, stored_terms
from balloons.view.shape_and_balloon_size import Shape
from balloons.view.tenancy_and_claim import deployment_name
from tests.world import a_pool
from throttler.kube.pod import POOL_LABEL
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector, matches
from throttler.kube.taints import Toleration

MANIFESTS = Path(__file__).parents[3] / "manifests"
SHAPE = Shape("p5", "p5.48xlarge", {})
REQUESTS = parse_resources({"cpu": "190", "memory": "2000Gi", "nvidia.com/gpu": "8"})
SPEC = BalloonSpec(REQUESTS, 3, "registry.k8s.io/pause:3.10.1")
HOST = "kubernetes.io/hostname"


def manifest(**spec: Any) -> dict[str, Any]:
    return deployment(a_pool(**spec), SHAPE, SPEC)


def pod(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = manifest(**spec)["spec"]["template"]["spec"]
    return found


def node_terms(**spec: Any) -> list[set[tuple[str, str, tuple[str, ...]]]]:
    required = pod(**spec)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        {(rule["key"], rule["operator"], tuple(rule.get("values", ()))) for rule in term["matchExpressions"]}
        for term in required["nodeSelectorTerms"]
    ]


def test_balloons_name_no_user_where_namespaces_give_one() -> None:
    named = manifest()
    unnamed = deployment(a_pool(), SHAPE, replace(SPEC, names_user=False))
    who = unnamed["spec"]["template"]["spec"]["securityContext"]
    assert who == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert named["spec"]["template"]["spec"]["securityContext"] == {**who, "runAsUser": 65535, "runAsGroup": 65535}
    assert not says(named, unnamed)
    assert not says(unnamed, named)
    assert says(unnamed, unnamed)


@pytest.mark.parametrize(
    ("stored", "wanted", "is_said"),
    [(["a"], ["a"], True), (["a"], ["a", "b"], False), (["b"], ["a"], False), (["a"], "a", False), ("a", ["a"], False)],
)
def test_a_list_says_what_has_its_items(stored: Any, wanted: Any, is_said: bool) -> None:
    assert says(stored, wanted) == is_said


def test_a_balloon_gives_way_at_once() -> None:
    assert pod()["terminationGracePeriodSeconds"] == 0
    assert pod()["priorityClassName"] == "kube-balloons"


def test_a_balloon_is_told_nothing_of_the_cluster_and_may_do_nothing_on_its_node() -> None:
    """No token, and none of what a namespace with thousands of Services would put into its environment."""
    assert (pod()["automountServiceAccountToken"], pod()["enableServiceLinks"]) == (False, False)
    (container,) = pod()["containers"]
    may = container["securityContext"]
    assert (may["allowPrivilegeEscalation"], may["readOnlyRootFilesystem"]) == (False, True)
    assert may["capabilities"] == {"drop": ["ALL"]}


SELECTED = LabelSelector({"pool": "gpu"})
UNREACHABLE = Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute")


@pytest.mark.parametrize(
    ("own", "stays"),
    [((), ["not-ready", "unreachable"]), ((UNREACHABLE,), ["not-ready"]), ((Toleration(operator="Exists"),), [])],
    ids=["says nothing", "says half", "tolerates everything"],
)
def test_a_balloon_stays_for_as_long_as_its_node_is_expected_back(
    own: tuple[Toleration, ...], stays: list[str]
) -> None:
    """Kubernetes evicts it after five minutes else, and the autoscaler buys a node for the one made in its place."""
    patient = PoolNodes(SELECTED, tolerations=own, not_ready_grace="10m30s")
    tolerations = pod(mode=Mode.HEADROOM, size=1, max_size=9, nodes=patient)["tolerations"]
    assert list(tolerations[len(own) :]) == [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 630}
        for key in stays
    ]


@pytest.mark.parametrize("spec", [{"mode": Mode.HEADROOM, "size": 1, "max_size": 9}, {"mode": Mode.HOLD}])
def test_a_balloon_says_nothing_of_what_kubernetes_does_by_itself(spec: dict[str, Any]) -> None:
    grace = "5m" if spec["mode"] is Mode.HEADROOM else "20m"
    assert "tolerations" not in pod(nodes=PoolNodes(SELECTED, not_ready_grace=grace), **spec)


def test_no_object_owns_the_deployment() -> None:
    found = manifest()
    assert found["kind"] == "Deployment"
    assert set(found["metadata"]) == {"name", "namespace", "labels", "annotations"}


def test_devices_are_requested_with_limits_and_nothing_that_is_shared_is_limited() -> None:
    resources = pod()["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "190", "memory": "2000Gi", "nvidia.com/gpu": "8"}
    assert resources["limits"] == {"nvidia.com/gpu": "8"}


def test_huge_pages_have_a_limit_too() -> None:
    """Without it the API server refuses the pod: "Limit must be set for non overcommitable resources"."""
    requests = parse_resources({"cpu": "2", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0"})
    made = deployment(a_pool(), SHAPE, replace(SPEC, requests=requests))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"hugepages-2Mi": "64Mi"}


def test_in_hold_either_karpenter_did_not_make_the_node_or_has_initialised_it() -> None:
    rest = {("pool", "In", ("gpu",)), ("node.kubernetes.io/instance-type", "In", ("p5.48xlarge",))}
    assert node_terms(mode=Mode.HOLD) == [
        {("karpenter.sh/nodepool", "DoesNotExist", ()), *rest},
        {("karpenter.sh/initialized", "In", ("true",)), *rest},
    ]


def test_in_headroom_one_term_lets_the_autoscaler_make_nodes() -> None:
    assert node_terms(mode=Mode.HEADROOM) == [
        {("pool", "In", ("gpu",)), ("node.kubernetes.io/instance-type", "In", ("p5.48xlarge",))}
    ]


@pytest.mark.parametrize("mode", Mode)
def test_nodes_that_refuse_are_ruled_out_by_name_in_every_term(mode: Mode) -> None:
    pool = a_pool(mode=mode)
    made = deployment(pool, SHAPE, replace(SPEC, left_out=("n1", "n2")))["spec"]
    affinity = made["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    rule = {"key": HOST, "operator": "NotIn", "values": ["n1", "n2"]}
    assert all(rule in term["matchExpressions"] for term in affinity["nodeSelectorTerms"])
    selectors = [pool.spec.nodes.selector]
    assert hosts_in(stored_terms(made), selectors) == ("n1", "n2")
    assert hosts_in(stored_terms(manifest(mode=mode)["spec"]), selectors) == ()
    assert hosts_in(stored_terms({}), selectors) == ()


def test_only_in_hold_cluster_autoscaler_is_told_to_wait() -> None:
    delay = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
    assert manifest(mode=Mode.HOLD)["spec"]["template"]["metadata"]["annotations"][delay] == "87600h"
    assert delay not in manifest(mode=Mode.HEADROOM)["spec"]["template"]["metadata"]["annotations"]


def test_the_network_is_shut_to_balloons_and_not_to_work_that_wears_a_pools_label() -> None:
    policies = yaml.safe_load_all((MANIFESTS / "components" / "networkpolicy" / "networkpolicy.yaml").read_text())
    (found,) = (each["spec"] for each in policies if each["metadata"]["name"] == "kube-balloons-balloons")
    selector = msgspec.convert(found["podSelector"], LabelSelector)
    assert matches(selector, manifest()["spec"]["template"]["metadata"]["labels"])
    assert not matches(selector, {POOL_LABEL: "gpu", "app": "train"})


def test_the_pools_template_is_carried_and_changes_nothing_of_ours() -> None:
    given = PodTemplate(
        labels={"team": "research", POOL_LABEL: "another"},
        annotations={"example.com/scan": "off"},
        image_pull_secrets=(SecretName("registry"),),
        runtime_class_name="nvidia",
    )
    template = manifest(template=given)["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "research"
    assert template["metadata"]["labels"][POOL_LABEL] == "gpu"
    assert template["metadata"]["annotations"]["example.com/scan"] == "off"
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert template["spec"]["runtimeClassName"] == "nvidia"


def test_the_operators_pull_secrets_are_for_pools_that_name_none() -> None:
    spec = replace(SPEC, image_pull_secrets=("mirror",))

    def secrets(template: PodTemplate) -> list[dict[str, str]]:
        found: dict[str, Any] = deployment(a_pool(template=template), SHAPE, spec)["spec"]["template"]["spec"]
        return list(found["imagePullSecrets"])

    assert secrets(PodTemplate()) == [{"name": "mirror"}]
    assert secrets(PodTemplate(image_pull_secrets=(SecretName("own"),))) == [{"name": "own"}]


def test_no_mesh_puts_a_proxy_beside_a_balloon() -> None:
    metadata = manifest(mode=Mode.HEADROOM)["spec"]["template"]["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"


def test_balloons_of_a_pool_avoid_each_other_whatever_their_shape() -> None:
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"kube-balloons.github.io/pool": "gpu"}}}
    anti = pod(spread=Spread.ANTI_AFFINITY)["affinity"]["podAntiAffinity"]
    assert anti == {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    spread = pod(spread=Spread.TOPOLOGY_SPREAD)
    assert spread["topologySpreadConstraints"] == [{**apart, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    assert "podAntiAffinity" not in spread["affinity"]


def test_an_exclusive_request_needs_no_rule() -> None:
    found = pod(spread=Spread.EXCLUSIVE_REQUEST)
    assert set(found["affinity"]) == {"nodeAffinity"}
    assert "topologySpreadConstraints" not in found


def test_images_are_pulled_as_volumes_that_never_run() -> None:
    found = pod(pre_pull=("registry.example/model:1",))
    image = {"reference": "registry.example/model:1", "pullPolicy": "IfNotPresent"}
    assert found["volumes"] == [{"name": "pull-0", "image": image}]
    assert found["containers"][0]["volumeMounts"] == [{"name": "pull-0", "mountPath": "/images/0"}]
    assert len(found["containers"]) == 1


def parts_of(value: Any) -> list[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(part for item in inner for part in parts_of(item))]


def test_nothing_is_said_where_a_pool_asks_for_nothing() -> None:
    """What is applied is owned: an empty list would claim what others add there."""
    plain = deployment(a_pool(), SHAPE, replace(SPEC, requests=parse_resources({"cpu": "2"})))
    assert all(part not in ([], {}, "", None) for part in parts_of(plain))


def test_a_rollout_never_needs_a_second_node() -> None:
    assert manifest()["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0


def test_a_deployment_that_is_paused_by_hand_goes_on() -> None:
    """Balloons would stay as they were, whatever becomes of the pool, and nothing would say so."""
    wanted = manifest()
    stored = {name: value for name, value in wanted["spec"].items() if name != "paused"}
    assert says({**wanted, "spec": stored}, wanted), "the server stores no false"
    assert not says({**wanted, "spec": {**stored, "paused": True}}, wanted)


def test_equal_input_gives_an_equal_manifest() -> None:
    assert json.dumps(manifest()) == json.dumps(manifest())


@pytest.mark.parametrize("length", [1, 60, 63])
def test_names_fit_a_label_value(length: int) -> None:
    name = deployment_name("x" * length, SHAPE.name)
    assert len(name) <= 63
    assert name.endswith("-p5")


def test_long_names_that_are_cut_alike_stay_apart() -> None:
    pool, shape = "team-of-the-very-long-name-for-training-", "standard-nd96amsr-a100-v4"
    one, two = (deployment_name(pool + end, shape) for end in ("a", "b"))
    assert one != two


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_says_itself(value: Any) -> None:
    assert says(value, value)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), VALUES)
def test_what_others_added_does_not_matter(wanted: dict[str, Any], more: Any) -> None:
    assert says({**wanted, "added by the server": more}, wanted)


@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=1, max_size=3))
def test_every_wanted_number_matters(wanted: dict[str, int]) -> None:
    for key, value in wanted.items():
        assert not says({**wanted, key: value + 1}, wanted)
        assert not says({k: v for k, v in wanted.items() if k != key}, wanted), "a missing zero is no zero"


@pytest.mark.parametrize("nothing", [{}, [], "", False])
def test_empty_values_need_not_be_stored(nothing: Any) -> None:
    assert says({}, {"key": nothing})


def test_lists_are_compared_whole_and_in_order() -> None:
    assert not says([1, 2, 3], [1, 2])
    assert not says([2, 1], [1, 2])
    assert says([{"a": 1, "b": 2}], [{"a": 1}])


def test_a_text_is_no_list() -> None:
    assert not says("ab", ["a", "b"])


@pytest.mark.parametrize(("stored", "wanted"), [("1k", "1000"), ("1", "1000m"), ("1Gi", "1073741824"), (1, "1")])
@pytest.mark.parametrize("field", ["requests", "limits"])
def test_amounts_are_compared_and_not_their_texts(field: str, stored: Any, wanted: str) -> None:
    """An extended resource of 1,000 was applied at every tick for ever."""
    assert says({"resources": {field: {"cpu": stored}}}, {"resources": {field: {"cpu": wanted}}})


@pytest.mark.parametrize("stored", [{"cpu": "1001"}, {}, {"cpu": "no quantity"}, None])
def test_other_amounts_are_told_apart(stored: Any) -> None:
    assert not says({"requests": stored}, {"requests": {"cpu": "1000"}})


@pytest.mark.parametrize(
    ("stored", "wanted", "is_said"),
    [
        ({"runAsNonRoot": True, "runAsUser": 65535}, {"runAsNonRoot": True}, False),
        ({"runAsNonRoot": True, "runAsGroup": 65535}, {"runAsNonRoot": True}, False),
        ({"runAsNonRoot": True, "runAsUser": 65535}, {"runAsNonRoot": True, "runAsUser": 65535}, True),
        ({"runAsNonRoot": True, "fsGroup": 7}, {"runAsNonRoot": True}, True),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, False),
    ],
)
def test_a_user_that_is_no_longer_named_must_go(stored: dict[str, Any], wanted: dict[str, Any], is_said: bool) -> None:
    assert says({"securityContext": stored}, {"securityContext": wanted}) is is_said
