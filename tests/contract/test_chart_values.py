"""Every value of the chart does something, and no misspelt one is taken."""

import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command

from balloons.api.pool_rules import decode_pool
from balloons.balloon_manifest import DEFAULT_IMAGE, ImageSettings
from balloons.cli.guard_and_give_back_command import guard
from balloons.cli.run_command import run
from balloons.service.settings import ServiceSettings, SettingsError
from lab.controlplane import ControlPlane
from lab.manifests import CHART
from lab.manifests.values import Value, read_values
from tests.contract.rendered import Object, comparable, helm, helm_notes, helm_text
from tests.contract.waiting import make_namespace
from throttler.kube.custom_objects import Invalid
from throttler.scraping.promql_client import PrometheusAccess

pytestmark = pytest.mark.helm

VALUES = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
CASES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("chart_values.yaml").read_text(encoding="utf-8"))
DIGEST = "sha256:" + "a" * 64
ON = {"enabled": True}
NAMESPACE = "each-value"


def leaves(values: tuple[Value, ...] = VALUES) -> Iterator[Value]:
    for value in values:
        yield from leaves(value.below) if value.below else (value,)


def nested(path: Iterable[str], value: Any) -> dict[str, Any]:
    for part in reversed(tuple(path)):
        value = {part: value}
    found: dict[str, Any] = value
    return found


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: merged(one[key], other[key]) for key in one.keys() & other.keys() if isinstance(one[key], dict)}
    return {**one, **other, **both}


PROMETHEUS: dict[str, Any] = {
    "url": "https://prometheus:9091",
    "ca": {"configMap": "ca"},
    "token": {"secret": "reader"},
    "client": {"secret": "client"},
}
NEEDS: dict[str, dict[str, Any]] = {
    "prometheus.ca.secret": {"prometheus": {key: PROMETHEUS[key] for key in ("url", "token")}},
    "prometheus.": {"prometheus": PROMETHEUS},
    "metrics.tls.secret": {},
    "metrics.tls.": {"metrics": {"tls": {"secret": "serving"}}},
    "metrics.serviceMonitor.": {"metrics": {"serviceMonitor": ON}},
    "metrics.podMonitor.": {"metrics": {"podMonitor": ON}},
    "prometheusRule.": {"prometheusRule": ON},
    "dashboards.grafanaOperator.enabled": {"dashboards": ON},
    "dashboards.": {"dashboards": {**ON, "grafanaOperator": ON}},
    "run.extraVolumeMounts": {"run": {"extraVolumes": CASES["run.extraVolumes"]}},
    "guard.extraVolumeMounts": {"guard": {"extraVolumes": CASES["guard.extraVolumes"]}},
    "serviceAccount.create": {"serviceAccount": {"name": "holder", "guardName": "watcher"}},
}
"""Other values without which one has no effect, by the beginning of its path."""
ELSEWHERE = ("monitoring.coreos.com", "grafana.integreatly.org")
"""API groups whose CRDs are not to be had here."""


def needed(dotted: str) -> dict[str, Any]:
    is_switch = dotted in ("metrics.serviceMonitor.enabled", "metrics.podMonitor.enabled", "prometheusRule.enabled")
    is_switch |= dotted == "dashboards.enabled"
    return {} if is_switch else next((given for front, given in NEEDS.items() if dotted.startswith(front)), {})


@functools.cache
def rendered(values: str) -> dict[tuple[str, str, str], Object]:
    """By kind, namespace and name, with the hooks; the values as JSON, so that each is rendered once."""
    found = helm(json.loads(values), f"--namespace={NAMESPACE}", has_hooks=True)
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in found}


def with_and_without(dotted: str) -> tuple[dict[tuple[str, str, str], Object], dict[tuple[str, str, str], Object]]:
    before = needed(dotted)
    after = merged(before, nested(dotted.split("."), CASES[dotted]))
    return rendered(json.dumps(after, sort_keys=True)), rendered(json.dumps(before, sort_keys=True))


def changed(dotted: str) -> list[Object]:
    """What a value brings or changes."""
    after, before = with_and_without(dotted)
    return [each for key, each in after.items() if before.get(key) != each]


def test_every_value_has_a_case_and_no_case_is_left_over() -> None:
    assert sorted(CASES) == sorted(value.dotted for value in leaves())


@pytest.mark.parametrize("dotted", CASES)
def test_each_value_changes_what_is_rendered(dotted: str) -> None:
    after, before = with_and_without(dotted)
    assert after != before


def test_the_server_takes_what_each_value_changes(control_plane: ControlPlane) -> None:
    objects = [each for dotted in CASES for each in changed(dotted)]
    objects = [each for each in objects if each["apiVersion"].partition("/")[0] not in ELSEWHERE]
    accounts = {each["spec"]["serviceAccountName"] for each in objects if each["kind"] == "Pod"}
    for name in (NAMESPACE, "team-a"):
        make_namespace(control_plane, name)
    for name in accounts:
        control_plane.kubectl("create", "serviceaccount", name, f"--namespace={NAMESPACE}")
    try:
        how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=name")
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        taken = control_plane.kubectl("apply", *how, "--filename=-", input=given)
        assert len(taken.split()) == len(objects) >= 400
    finally:
        for name in (NAMESPACE, "team-a"):
            control_plane.kubectl("delete", "namespace", name, "--wait=false")


def objects(values: dict[str, Any], *arguments: str) -> dict[tuple[str, str, str], Object]:
    return comparable(helm(values, *arguments))


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
        ({"image": {"registry": ""}}, "image.registry is empty.*set it to the registry that your nodes pull from"),
        (
            {"image": {"registry": "https://registry.example.com"}},
            'image "https://registry.example.com/kube-balloons:.*" is not an image reference; accepted: one such as',
        ),
        ({"run": {"livenessProbe": {"periodSecond": 5}}}, "periodSecond"),
        ({"run": {"strategy": {"typ": "Recreate"}}}, "typ"),
        ({"run": {"affinity": {"podAntiAfinity": {}}}}, "podAntiAfinity"),
        ({"securityContext": {"readOnlyRootFileSystem": True}}, "readOnlyRootFileSystem"),
        ({"podSecurityContext": {"runAsNonRot": True}}, "runAsNonRot"),
        ({"metrics": {"serviceMonitor": {"endpoint": {"tlsconfig": {}}}}}, "tlsconfig"),
        ({"podDisruptionBudget": {"minAvailable": 2}}, "no node with a replica could ever be drained"),
        ({"run": {"replicas": 8}}, "criticalPodsQuota.pods 10: .* need 11"),
        ({"serviceAccount": {"create": False, "name": "x"}}, "name the accounts that exist"),
        ({"serviceAccount": {"name": "x", "guardName": "x"}}, "are both x"),
        ({"guard": {"after": 10}}, "more than a quarter"),
        ({"metrics": {"serviceMonitor": ON, "podMonitor": ON}}, "twice"),
        ({"metrics": {"tls": {"clientCaKey": "ca.crt"}}}, "without metrics.tls.secret"),
        ({"metrics": {"tls": {"secret": "a"}, "serviceMonitor": ON}}, "knows nothing of it"),
        ({"dashboards": {"grafanaOperator": ON}}, "enable both"),
        ({"prometheus": {"token": {"secret": "a"}}}, "prometheus.url is empty"),
        ({"prometheus": {"url": "https://prometheus:9091"}}, "alone does nothing"),
        ({"prometheus": {**PROMETHEUS, "url": "http://prometheus:9090"}}, "prometheus.*url"),
        ({"prometheus": {**PROMETHEUS, "ca": {"configMap": "a", "secret": "b"}}}, "one of them"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        helm(values)


@pytest.mark.parametrize(
    ("values", "settings", "spec"),
    [
        (
            {"registry": "my registry"},
            {"image": "my registry/pause:3.10.1"},
            {"image": "my registry/pause:3.10.1"},
        ),
        (
            {"pullSecrets": ["Registry"]},
            {"image_pull_secrets": ("Registry",)},
            {"template": {"imagePullSecrets": [{"name": "Registry"}]}},
        ),
    ],
    ids=["image", "pull secret"],
)
def test_chart_service_and_pool_refuse_in_the_same_words(
    values: dict[str, Any], settings: dict[str, Any], spec: dict[str, Any]
) -> None:
    """And the API server in those of the pool: one table is put before both (`balloonpools_refused.yaml`)."""
    pool = {"mode": "Hold", "nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}, **spec}
    refused = decode_pool({"metadata": {"name": "gpu", "namespace": "team-a"}, "spec": pool})
    assert isinstance(refused, Invalid)
    sentence = refused.message.partition(": ")[2]
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        ServiceSettings(images=ImageSettings(**settings))
    with pytest.raises(RuntimeError, match=re.escape(sentence)):
        helm({"balloonImage": values})


def test_zero_is_a_number() -> None:
    deployment = objects({"run": {"replicas": 0, "revisionHistoryLimit": 0, "terminationGracePeriodSeconds": 0}})[
        ("Deployment", "kube-balloons", "kube-balloons")
    ]
    spec = deployment["spec"]
    assert spec["replicas"] == spec["revisionHistoryLimit"] == 0
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 0


def test_the_platform_may_choose_the_user() -> None:
    found = objects({"podSecurityContext": {"runAsUser": None, "runAsGroup": None}})[
        ("Deployment", "kube-balloons", "kube-balloons")
    ]
    context = found["spec"]["template"]["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_an_image_has_a_registry_a_tag_and_a_digest() -> None:
    given = {"global": {"imageRegistry": "registry.example"}, "image": {"tag": "2", "digest": DIGEST}}
    for name in ("kube-balloons", "kube-balloons-guard"):
        pod = objects(given)[("Deployment", "kube-balloons", name)]["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == f"registry.example/kube-balloons:2@{DIGEST}"


def argument(values: dict[str, Any], flag: str) -> list[str]:
    found = objects(values)[("Deployment", "kube-balloons", "kube-balloons")]["spec"]["template"]["spec"]
    given = found["containers"][0]["args"]
    return [each.partition("=")[2] for each in given if each.startswith(f"--{flag}=")]


def test_each_secret_for_prometheus_is_mounted_where_the_service_reads_it() -> None:
    """As files of a whole folder, which the kubelet renews; read by options that the service has."""
    own = {"extraVolumes": CASES["run.extraVolumes"], "extraVolumeMounts": CASES["run.extraVolumeMounts"]}
    deployment = objects({"prometheus": PROMETHEUS, "run": own})[("Deployment", "kube-balloons", "kube-balloons")]
    pod = deployment["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert volumes.keys() == mounts.keys() == {"extra", "prometheus-access"}
    items = [
        item["path"]
        for source in volumes["prometheus-access"]["projected"]["sources"]
        for item in (source.get("secret") or source["configMap"])["items"]
    ]
    options = [text for text in pod["containers"][0]["args"] if text.startswith("--prometheus-")]
    paths = [text.partition("=")[2] for text in options if "-file=" in text]
    assert paths == [f"{mounts['prometheus-access']}/{path}" for path in items]
    known = {name: parameter.name for parameter in run.params for name in parameter.opts}
    told = {known[option]: value for option, _, value in (text.partition("=") for text in options)}
    names = [name for name in told if name and name.endswith("_file")]
    files = {name.removeprefix("prometheus_"): told[name] for name in names}
    assert len(files) == 4
    assert PrometheusAccess(url=told["prometheus_url"], **files).is_for(PROMETHEUS["url"])


@pytest.mark.parametrize(("part", "command"), [("", run), ("-guard", guard)])
def test_the_certificate_of_the_metrics_is_mounted_where_it_is_read_and_probes_speak_tls(
    part: str, command: Command
) -> None:
    tls = {"secret": "serving", "clientCaKey": "ca.crt"}
    how = {"metrics": {"tls": tls, "serviceMonitor": {**ON, "endpoint": {"scheme": "https", "tlsConfig": {"ca": {}}}}}}
    pod = objects(how)[("Deployment", "kube-balloons", f"kube-balloons{part}")]["spec"]["template"]["spec"]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    paths = {f"{mount['mountPath']}/{item['path']}" for item in volume["secret"]["items"]}
    known = {name for parameter in command.params for name in parameter.opts}
    told = dict(text.split("=", 1) for text in container["args"] if text.startswith("--metrics-"))
    assert told.keys() <= known
    assert {path for option, path in told.items() if option.endswith("-file")} == paths
    assert len(paths) == 3
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}


def test_the_balloons_image_is_the_services_own_default_and_follows_the_mirror() -> None:
    assert argument({}, "image") == [DEFAULT_IMAGE]
    assert argument({"global": {"imageRegistry": "mirror.example"}}, "image") == ["mirror.example/pause:3.10.1"]
    own = {"registry": "own.example/k8s", "digest": DIGEST, "pullSecrets": ["a", "b"]}
    given = {"global": {"imageRegistry": "mirror.example"}, "balloonImage": own}
    assert argument(given, "image") == [f"own.example/k8s/pause:3.10.1@{DIGEST}"]
    assert argument(given, "image-pull-secret") == ["a", "b"]


EVERY_LEVER = ("nodes", "nodePoolLimits", "capacityQuota", "machineDeployments", "schedulingGates")


def test_a_renamed_account_is_held_by_every_policy_and_role() -> None:
    values = {"serviceAccount": {"name": "holder", "guardName": "watcher"}, "fullnameOverride": "warm"}
    every = {**values, "levers": dict.fromkeys(EVERY_LEVER, True)}
    text = helm_text(every)
    for known in ("kube-balloons", "kube-balloons-guard", "kube-balloons-give-back", "warm", "warm-guard"):
        assert f"system:serviceaccount:kube-balloons:{known}'" not in text
    made = {each["metadata"]["name"] for each in helm(every, has_hooks=True) if each["kind"] == "ServiceAccount"}
    assert made == {"holder", "watcher", "warm-give-back", "warm-doctor"}
    assert {each["name"] for each in subjects(every)} == made
    users = {part.partition("'")[0] for part in text.split("system:serviceaccount:kube-balloons:")[1:]}
    assert users == made - {"warm-doctor"}


def subjects(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in helm(values, has_hooks=True):
        yield from each.get("subjects", ())
        for rule in each.get("spec", {}).get("rules", ()) if each["kind"] == "FlowSchema" else ():
            yield from (subject["serviceAccount"] for subject in rule["subjects"])


def test_another_front_is_in_every_name_but_those_that_the_service_knows() -> None:
    values = {
        "fullnameOverride": "warm",
        "nameOverride": "capacity",
        "annotateNodes": True,
        "poolNamespaces": ["team-a"],
    }
    values |= {"dashboards": {**ON, "grafanaOperator": ON}, "metrics": {"serviceMonitor": ON}, "prometheusRule": ON}
    found = helm(values, has_hooks=True)
    kept = {"PriorityClass", "CustomResourceDefinition"}
    assert {each["metadata"]["name"] for each in found if not each["metadata"]["name"].startswith("warm")} == {
        each["metadata"]["name"] for each in found if each["kind"] in kept
    }
    named = {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in found}
    assert named == {"capacity", *(f"capacity-{part}" for part in ("guard", "give-back", "doctor"))}
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in found if "roleRef" in each}
    assert bound <= names
    policies = [each["spec"]["policyName"] for each in found if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {("ValidatingAdmissionPolicy", name) for name in policies} <= names


def test_common_labels_and_annotations_are_on_every_object_and_every_pod() -> None:
    label, note = {"example.com/team": "capacity"}, {"example.com/owner": "capacity"}
    found = helm({"commonLabels": label, "commonAnnotations": note}, has_hooks=True)
    pods = [each["spec"]["template"] for each in found if each["kind"] in ("Deployment", "Job")]
    assert len(pods) == 3
    for each in (*found, *pods):
        assert label.items() <= each["metadata"]["labels"].items()
        assert note.items() <= each["metadata"]["annotations"].items()


def test_every_pod_says_what_it_may_write_and_is_meant_by_a_network_policy() -> None:
    """What kube-score asks of a workload."""
    found = helm(has_hooks=True)
    policies = [each["spec"] for each in found if each["kind"] == "NetworkPolicy"]
    pods = {each["metadata"]["name"]: each for each in found if each["kind"] == "Pod"}
    pods |= {each["metadata"]["name"]: each["spec"]["template"] for each in found if "template" in each.get("spec", {})}
    assert len(pods) == 4
    for name, pod in pods.items():
        for container in pod["spec"]["containers"]:
            for bound in ("requests", "limits"):
                assert "ephemeral-storage" in container["resources"][bound], name
        assert any(selects(policy["podSelector"], pod["metadata"]["labels"]) for policy in policies), name


def test_the_operator_can_name_everybody_whom_our_pods_reach_and_hear() -> None:
    dns = CASES["networkPolicy.dnsTo"]
    named = {"apiServerCIDRs": ["10.0.0.0/28"], "dnsTo": dns, "scrapeFrom": CASES["networkPolicy.scrapeFrom"]}
    found = helm({"networkPolicy": named, "poolNamespaces": ["team-a"]})
    policies = [thing["spec"] for thing in found if thing["kind"] == "NetworkPolicy"]
    assert len(policies) == 4
    for policy in policies:
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule["to"] for rule in policy.get("egress", ()))
        assert all(rule["from"] for rule in policy.get("ingress", ()))
    assert sum(not policy.keys() & {"ingress", "egress"} for policy in policies) == 2


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    listed = {rule["key"]: rule.get("values") for rule in selector.get("matchExpressions", ())}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        key in labels and (values is None or labels[key] in values) for key, values in listed.items()
    )


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
    assert bound({"annotateNodes": True}) == {"kube-balloons-guard", "kube-balloons-annotator"}


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
    values = {"poolNamespaces": ["team-a", "kube-balloons", "team-a"]}
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
    text = helm_text({"levers": {"nodePoolLimits": True}}, namespace="elsewhere")
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
        ({"prometheus": PROMETHEUS}, "port 9091 is not in networkPolicy.prometheusPorts"),
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
    assert "Warnings" not in helm_notes(tmp_path, values)
