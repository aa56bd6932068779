"""Every value of the chart does something, and no misspelt one is taken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.manifests import CHART
from lab.manifests.values import Value, read_values
from tests.contract.rendered import Object, comparable, helm, helm_notes, helm_text

pytestmark = pytest.mark.helm

VALUES = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
DIGEST = "sha256:" + "a" * 64
ON = {"enabled": True}


def leaves(values: tuple[Value, ...] = VALUES) -> Iterator[Value]:
    for value in values:
        yield from leaves(value.below) if value.below else (value,)


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    found: dict[str, Any] = value
    return found


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: merged(one[key], other[key]) for key in one.keys() & other.keys() if isinstance(one[key], dict)}
    return {**one, **other, **both}


PAIR = {"example.com/key": "value"}
PEER: dict[str, Any] = {"namespaceSelector": {}}
VARIABLE, NAMED = {"name": "EXTRA", "value": "1"}, {"name": "extra"}
BY_KEY: dict[str, Any] = {
    "commonLabels": PAIR,
    "labels": PAIR,
    "annotations": PAIR,
    "podLabels": PAIR,
    "podAnnotations": PAIR,
    "nodeSelector": PAIR,
    "matchLabels": PAIR,
    "resources": {"requests": {"cpu": "1"}},
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "tolerations": [{"key": "example.com/own", "operator": "Exists"}],
    "imagePullSecrets": [NAMED],
    "env": [VARIABLE],
    "envFrom": [{"configMapRef": NAMED}],
    "extraArgs": ["--context=x"],
    "extraVolumes": [{"name": "extra", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    "extraEgress": [{"to": [PEER]}],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra", "labels": {}}}],
    "scrapeFrom": [PEER],
    "apiServerPorts": [8443],
    "apiServerCIDRs": ["10.0.0.0/28"],
    "prometheusPorts": [9091],
    "relabelings": [{"action": "labeldrop", "regex": "x"}],
    "metricRelabelings": [{"action": "labeldrop", "regex": "x"}],
    "poolNamespaces": ["team-a"],
    "nodeLabels": {"team-a": ["team=a"]},
    "allowedImages": ["registry.example/"],
    "dnsPolicy": "Default",
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "digest": DIGEST,
    "pullPolicy": "Always",
    "logFormat": "pretty",
    "period": 7,
    "interval": 30,
    "scrapeTimeout": "3s",
    "resyncPeriod": "3m",
}
"""A value that is not the default, by the last part of the path; numbers, switches and texts are changed as such."""

NEEDS: dict[str, dict[str, Any]] = {
    "metrics.serviceMonitor": {"metrics": {"serviceMonitor": ON}},
    "metrics.podMonitor": {"metrics": {"podMonitor": ON}},
    "prometheusRule": {"prometheusRule": ON},
    "dashboards": {"dashboards": {**ON, "grafanaOperator": ON}},
    "networkPolicy": {"networkPolicy": ON},
}
"""Other values without which one has no effect, by the beginning of its path."""


def other(value: Value) -> Any:
    if value.dotted in ("metrics.serviceMonitor.interval", "metrics.podMonitor.interval"):
        return "7s"
    if value.key in BY_KEY:
        return BY_KEY[value.key]
    if isinstance(value.default, bool):
        return not value.default
    return value.default + 1 if isinstance(value.default, int) else f"{value.default}x"


def objects(values: dict[str, Any], *arguments: str) -> dict[tuple[str, str, str], Object]:
    return comparable(helm(values, *arguments))


@pytest.fixture(scope="module")
def bases() -> dict[str, Any]:
    """What each of NEEDS renders to, and nothing at all."""
    return {prefix: objects(values) for prefix, values in NEEDS.items()} | {"": objects({})}


@pytest.mark.parametrize("value", list(leaves()), ids=lambda value: value.dotted)
def test_each_value_changes_what_is_rendered(value: Value, bases: dict[str, Any]) -> None:
    if value.dotted == "crds.keep":
        pytest.skip("the comparison leaves out Helm's own annotations; a test of its own looks at it")
    if value.dotted in ("tests.enabled", "giveBack.enabled"):
        pytest.skip("the comparison leaves out hooks; a test of its own looks at them")
    prefix = next((each for each in NEEDS if value.dotted.startswith(f"{each}.") and value.key != "enabled"), "")
    change = nested(value.path, other(value))
    if value.dotted == "dashboards.grafanaOperator.enabled":
        change = merged(change, {"dashboards": ON})
    if value.dotted == "metrics.service.enabled":
        assert ("Service", "kube-balloons", "kube-balloons") not in objects(change)
    if value.dotted == "commonLabels":
        assert all(each["metadata"]["labels"].get("example.com/key") for each in objects(change).values())
    assert objects(merged(NEEDS.get(prefix, {}), change)) != bases[prefix]


def misspelt(values: tuple[Value, ...] = VALUES) -> dict[str, Any]:
    """Every key once more, with a letter too many beside it."""
    found: dict[str, Any] = {}
    for value in values:
        found[f"{value.key}z"] = None if value.key == "none" else 1
        if value.below:
            found[value.key] = misspelt(value.below)
    return found


def test_every_misspelt_key_is_refused() -> None:
    wrong = misspelt()
    # `global` belongs to the parent chart as well.
    wrong["global"] = {}
    with pytest.raises(RuntimeError) as refusal:
        helm(wrong)
    below_global = ("global",)
    unnoticed = [
        v.dotted for v in every(VALUES) if f"'{v.key}z'" not in str(refusal.value) and v.path[:1] != below_global
    ]
    assert unnoticed == []


def every(values: tuple[Value, ...]) -> Iterator[Value]:
    for value in values:
        yield value
        yield from every(value.below)


def test_what_a_parent_chart_hands_down_is_taken() -> None:
    assert objects({"global": {"clusterName": "a"}, "enabled": True, "tags": {"capacity": True}}) == objects({})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"run": {"replicas": "two"}}, "replicas"),
        ({"run": {"replicas": -1}}, "replicas"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"run": {"resources": {"limit": {}}}}, "limit"),
        ({"commonLabels": {"app.kubernetes.io/name": "mine"}}, "app.kubernetes.io/name"),
        ({"guard": {"after": 10}}, "more than a quarter"),
        ({"metrics": {"serviceMonitor": ON, "podMonitor": ON}}, "twice"),
        ({"dashboards": {"grafanaOperator": ON}}, "enable both"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        helm(values)


def test_zero_is_a_number() -> None:
    deployment = objects({"run": {"replicas": 0, "revisionHistoryLimit": 0, "terminationGracePeriodSeconds": 0}})[
        ("Deployment", "kube-balloons", "kube-balloons")
    ]
    spec = deployment["spec"]
    assert spec["replicas"] == spec["revisionHistoryLimit"] == 0
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 0


def test_the_platform_may_choose_the_user() -> None:
    found = objects({"run": {"runAsUser": None}})[("Deployment", "kube-balloons", "kube-balloons")]
    context = found["spec"]["template"]["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_an_image_has_a_registry_a_tag_and_a_digest() -> None:
    given = {"global": {"imageRegistry": "registry.example"}, "image": {"tag": "2", "digest": DIGEST}}
    for name in ("kube-balloons", "kube-balloons-guard"):
        pod = objects(given)[("Deployment", "kube-balloons", name)]["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == f"registry.example/kube-balloons:2@{DIGEST}"


def test_crds_stay_when_the_release_goes() -> None:
    def policies(values: dict[str, Any]) -> list[str | None]:
        crds = [each for each in helm(values) if each["kind"] == "CustomResourceDefinition"]
        return [each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for each in crds]

    assert policies({}) == ["keep", "keep"]
    assert policies({"crds": {"keep": False}}) == [None, None]
    assert policies({"crds": {"enabled": False}}) == []


def test_the_test_runs_the_doctor_with_the_right_to_look_only() -> None:
    text = helm_text({}, "--show-only=templates/tests/doctor.yaml")
    assert "[doctor, --in-cluster, --fail-on=error]" in text
    assert "name: kube-balloons-cli-viewer" in text
    with pytest.raises(RuntimeError, match="could not find template"):
        helm_text({"tests": {"enabled": False}}, "--show-only=templates/tests/doctor.yaml")


GIVE_BACK = "--show-only=templates/hooks/give-back.yaml"


def test_before_it_is_uninstalled_everything_is_given_back_with_the_rights_of_the_guard() -> None:
    def bound(values: dict[str, Any]) -> set[str]:
        objects = [each for each in yaml.safe_load_all(helm_text(values, GIVE_BACK)) if each]
        assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in objects} == {"pre-delete"}
        names = [(each["kind"], each["metadata"]["name"]) for each in objects]
        assert len(set(names)) == len(names)
        return {each["roleRef"]["name"] for each in objects if each["kind"] == "ClusterRoleBinding"}

    assert "- give-back" in helm_text({}, GIVE_BACK)
    assert bound({}) == {"kube-balloons-guard"}
    with_levers = bound({"levers": {"nodes": True, "nodePoolLimits": True}})
    assert with_levers == {f"kube-balloons-guard{lever}" for lever in ("", "-nodes", "-node-pools")}


def test_without_roles_of_ours_no_hook_can_fail() -> None:
    """A hook that lacks its rights would keep the release from being uninstalled."""
    assert "RoleBinding" not in helm_text({"rbac": {"create": False}})
    with pytest.raises(RuntimeError, match="could not find template"):
        helm_text({"rbac": {"create": False}}, GIVE_BACK)


def test_the_guard_may_change_only_what_a_lever_that_is_bound_has_changed() -> None:
    def rules(values: dict[str, Any]) -> set[tuple[str, str]]:
        guards = [r for r in helm(values) if r["kind"] == "ClusterRole" and "guard" in r["metadata"]["name"]]
        found = [(what, verb) for role in guards for rule in role["rules"] for what in rule["resources"]
                 for verb in rule["verbs"]]  # fmt: skip
        return {(what, verb) for what, verb in found if verb not in ("get", "list")}

    assert rules({}) == set()
    assert rules({"levers": {"nodes": True}}) == {("nodes", "patch")}
    assert rules({"levers": {"nodePoolLimits": True}}) == {("nodepools", "patch")}
    assert rules({"levers": {"schedulingGates": True}}) == {("pods", "patch")}
    assert rules({"levers": {"capacityQuota": True}}) == {("capacityquotas", "patch"), ("capacityquotas", "delete")}
    assert rules({"levers": {"nodes": True}, "guard": {"enabled": False}}) == set()


def test_in_kube_system_nobody_else_is_bounded() -> None:
    """CoreDNS and the CNI run there, at the priority that the quota counts."""
    assert "kind: ResourceQuota" in helm_text({})
    assert "kind: ResourceQuota" not in helm_text({}, namespace="kube-system")


def test_the_release_namespace_among_the_pools_own_is_there_once() -> None:
    values = {"poolNamespaces": ["team-a", "kube-balloons", "team-a"], "networkPolicy": ON}
    writers = [key for key in objects(values) if key[0] == "RoleBinding" and key[2] == "kube-balloons-writer"]
    assert sorted(namespace for _, namespace, _ in writers) == ["kube-balloons", "team-a"]
    policies = [key[1] for key in objects(values) if key[::2] == ("NetworkPolicy", "kube-balloons-balloons")]
    assert sorted(policies) == ["kube-balloons", "team-a"]


def test_editing_pools_is_added_to_nobodys_role_unless_asked_for() -> None:
    def added(values: dict[str, Any], role: str) -> list[str]:
        (found,) = [r for r in helm(values) if (r["kind"], r["metadata"]["name"]) == ("ClusterRole", role)]
        return sorted(label.rpartition("-")[2] for label in found["metadata"]["labels"] if "aggregate-to" in label)

    assert added({}, "kube-balloons-edit") == []
    assert added({}, "kube-balloons-view") == ["admin", "edit", "view"]
    assert added({"rbac": {"aggregateEdit": True}}, "kube-balloons-edit") == ["admin", "edit"]
    assert added({"rbac": {"aggregate": False}}, "kube-balloons-view") == []


@pytest.mark.parametrize("part", ["giveBack", "guard"])
def test_without_the_guards_rights_nothing_can_be_given_back(part: str) -> None:
    with pytest.raises(RuntimeError, match="could not find template"):
        helm_text({part: {"enabled": False}}, GIVE_BACK)


def test_a_dry_run_has_nothing_to_give_back() -> None:
    with pytest.raises(RuntimeError, match="could not find template"):
        helm_text({"settings": {"dryRun": True}}, GIVE_BACK)


def test_another_namespace_is_everywhere() -> None:
    text = helm_text({"networkPolicy": ON, "levers": {"nodePoolLimits": True}}, namespace="elsewhere")
    assert "namespace: kube-balloons\n" not in text
    assert "system:serviceaccount:kube-balloons:" not in text
    assert "system:serviceaccount:elsewhere:kube-balloons-guard" in text
    assert "request.namespace == 'elsewhere'" in text
    assert "namespaces: [elsewhere]" in text


def test_text_with_templates_is_an_extra_object() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-extra\n  labels: {}\n"
    assert ("ConfigMap", "", "kube-balloons-extra") in objects({"extraObjects": [text]})


LABELLED = {**ON, "labels": {"release": "stack"}}
SCRAPED = {"prometheus.io/scrape": "true"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"metrics": {"serviceMonitor": ON}}, "metrics.serviceMonitor.labels is empty"),
        ({"metrics": {"podMonitor": ON}}, "metrics.podMonitor.labels is empty"),
        ({"metrics": {"podMonitor": LABELLED}, "prometheusRule": ON}, "prometheusRule.labels is empty"),
        ({"prometheusRule": LABELLED}, "KubeBalloonsDown fires"),
        ({"metrics": {"podMonitor": LABELLED}, "run": {"podAnnotations": SCRAPED}}, "scrapes every replica twice"),
        ({}, "image.registry is empty"),
        (
            {"metrics": {"serviceMonitor": LABELLED, "service": {"annotations": SCRAPED}}},
            "scrapes every replica twice",
        ),
    ],
)
def test_the_notes_warn_of_what_nobody_scrapes_and_of_what_is_scraped_twice(
    values: dict[str, Any], says: str, tmp_path: Path
) -> None:
    assert says in helm_notes(tmp_path, {"levers": {"nodes": True}, **values})


def test_monitors_that_are_well_set_up_are_no_reason_to_warn(tmp_path: Path) -> None:
    values = {"metrics": {"serviceMonitor": LABELLED}, "prometheusRule": LABELLED, "levers": {"nodes": True}}
    values["image"] = {"registry": "registry.example"}
    assert "Warnings" not in helm_notes(tmp_path, values)
