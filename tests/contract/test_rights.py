"""What our accounts may not do, asked of a real API server, with every lever bound."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from balloons.cluster.kinds import ALL_KINDS
from lab.controlplane import ControlPlane
from tests.contract.rendered import Object, helm
from tests.contract.waiting import make_namespace, reviewed, until

pytestmark = pytest.mark.helm

NAMESPACE = "reviewed"
EVERYTHING: dict[str, Any] = {
    "levers": dict.fromkeys(
        ("nodePoolLimits", "capacityQuota", "machineDeployments", "nodes", "schedulingGates"), True
    ),
    "annotateNodes": True,
}


@dataclass(frozen=True)
class Right:
    """A verb on a resource, everywhere unless a namespace or a name is given."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, self.resource, self.namespace, self.name)))


RBAC, CERTIFICATES = "rbac.authorization.k8s.io", "certificates.k8s.io"
ADMISSION, OUR = "admissionregistration.k8s.io", "kube-balloons.github.io"
DENIED = (
    *(Right(verb, "secrets") for verb in ("get", "list", "watch", "create", "update", "patch", "delete")),
    *(Right(verb, "secrets", namespace=NAMESPACE) for verb in ("get", "list", "watch", "create")),
    *(Right(verb, f"pods/{how}") for how in ("exec", "attach", "portforward", "proxy") for verb in ("get", "create")),
    *(Right("create", f"pods/{what}", namespace=NAMESPACE) for what in ("exec", "eviction", "binding")),
    Right("patch", "pods/ephemeralcontainers"),
    Right("patch", "pods/resize"),
    Right("create", "pods"),
    Right("create", "pods", namespace=NAMESPACE),
    Right("delete", "pods", namespace="kube-system"),
    Right("delete", "pods", namespace="default"),
    Right("deletecollection", "pods", namespace=NAMESPACE),
    *(Right("get", f"nodes/{what}") for what in ("proxy", "metrics", "stats", "log", "configz")),
    *(Right(verb, "nodes") for verb in ("create", "delete", "deletecollection", "update")),
    Right("patch", "nodes/status"),
    *(Right(verb, kind, RBAC) for kind in ("roles", "clusterroles")
      for verb in ("escalate", "bind", "create", "patch")),
    *(Right("create", kind, RBAC) for kind in ("rolebindings", "clusterrolebindings")),
    *(Right("impersonate", kind) for kind in ("users", "groups", "serviceaccounts")),
    Right("impersonate", "userextras", "authentication.k8s.io"),
    *(Right(verb, "serviceaccounts/token", namespace=NAMESPACE) for verb in ("create", "get")),
    *(Right("create", kind, "apps", "kube-system") for kind in ("deployments", "daemonsets", "statefulsets")),
    Right("create", "daemonsets", "apps", NAMESPACE),
    Right("create", "jobs", "batch", NAMESPACE),
    *(Right(verb, f"{kind}webhookconfigurations", ADMISSION) for kind in ("mutating", "validating")
      for verb in ("create", "patch")),
    *(Right(verb, "validatingadmissionpolicies", ADMISSION) for verb in ("patch", "delete")),
    Right("delete", "validatingadmissionpolicybindings", ADMISSION),
    *(Right(verb, "certificatesigningrequests", CERTIFICATES) for verb in ("list", "create", "delete")),
    Right("patch", "certificatesigningrequests/approval", CERTIFICATES),
    Right("sign", "signers", CERTIFICATES, name="kubernetes.io/kube-apiserver-client-kubelet"),
    Right("approve", "signers", CERTIFICATES, name="kubernetes.io/kube-apiserver-client"),
    Right("approve", "signers", CERTIFICATES, name="kubernetes.io/kube-apiserver-client-kubelet"),
    Right("approve", "signers", CERTIFICATES, name="kubernetes.io/kubelet-serving"),
    Right("create", "persistentvolumes"),
    Right("patch", "namespaces"),
    Right("get", "configmaps", namespace=NAMESPACE),
    Right("get", "leases", "coordination.k8s.io", "kube-system", "kube-scheduler"),
    Right("patch", "leases", "coordination.k8s.io", NAMESPACE, "somebody"),
    Right("delete", "leases", "coordination.k8s.io", NAMESPACE, "kube-balloons-throttle"),
    *(Right(verb, "nodeclaims", "karpenter.sh") for verb in ("create", "patch", "delete")),
    *(Right(verb, "nodepools", "karpenter.sh") for verb in ("create", "delete", "update")),
    *(Right(verb, "machinedeployments", "cluster.x-k8s.io") for verb in ("create", "delete", "update")),
    Right("patch", "machinedeployments/scale", "cluster.x-k8s.io"),
    *(Right(verb, kind, OUR) for kind in ("balloonpools", "jointhrottles") for verb in ("create", "patch", "delete")),
    Right("delete", "customresourcedefinitions", "apiextensions.k8s.io"),
    Right("patch", "flowschemas", "flowcontrol.apiserver.k8s.io"),
    Right("create", "poddisruptionbudgets", "policy", NAMESPACE),
)  # fmt: skip
"""Held against the service and the guard with every lever bound."""
ACCOUNTS = ("kube-balloons", "kube-balloons-guard")
GUARD_ONLY_READS = (
    *(Right(verb, kind, group, NAMESPACE) for kind, group in (("deployments", "apps"), ("podtemplates", ""))
      for verb in ("create", "patch", "delete")),
    Right("delete", "pods", namespace=NAMESPACE),
    Right("patch", "leases", "coordination.k8s.io", NAMESPACE, "kube-balloons-throttle"),
    Right("create", "leases", "coordination.k8s.io", NAMESPACE),
    Right("patch", "balloonpools/status", OUR),
)  # fmt: skip


def review(who: dict[str, Any], right: Right) -> dict[str, Any]:
    """What the API server's authorizer is asked."""
    resource, _, subresource = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
    asked |= {"namespace": right.namespace, "name": right.name}
    return {**who, "resourceAttributes": asked}


def account(name: str) -> dict[str, Any]:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    return {"user": f"system:serviceaccount:{NAMESPACE}:{name}", "groups": groups}


def allowed(plane: ControlPlane, who: dict[str, Any], rights: tuple[Right, ...]) -> list[str]:
    """Those of the rights that the server grants."""
    answers = reviewed(plane, [review(who, right) for right in rights])
    return [str(right) for right, is_allowed in zip(rights, answers, strict=True) if is_allowed]


@pytest.fixture(scope="module")
def bound(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Every role and every binding of the chart."""
    kinds = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount")
    objects = [each for each in helm(EVERYTHING, f"--namespace={NAMESPACE}") if each["kind"] in kinds]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    make_namespace(control_plane, NAMESPACE)
    control_plane.kubectl("apply", "--filename=-", input=given)
    until(lambda: are_in_force(control_plane))
    yield control_plane
    control_plane.kubectl("delete", "--ignore-not-found", "--filename=-", input=given)
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def are_in_force(plane: ControlPlane) -> None:
    """A moment after they were made; Kubernetes' own roles get our rules from a controller."""
    needed = (*GUARD_ONLY_READS, Right("patch", "nodepools", "karpenter.sh"), Right("patch", "nodes"))
    assert allowed(plane, account("kube-balloons"), needed) == [str(right) for right in needed]
    assert allowed(plane, account("kube-balloons-guard"), (Right("patch", "nodes"),))
    for role in ("view", "edit", "admin"):
        rules = plane.get("clusterrole", role)["rules"]
        assert OUR in {group for rule in rules for group in rule.get("apiGroups", ())}, role


@pytest.mark.parametrize("name", ACCOUNTS)
def test_the_server_denies_what_no_lever_needs(bound: ControlPlane, name: str) -> None:
    assert len(set(DENIED)) >= 60
    assert allowed(bound, account(name), DENIED) == []


def test_the_guard_makes_nothing(bound: ControlPlane) -> None:
    assert allowed(bound, account("kube-balloons-guard"), GUARD_ONLY_READS) == []


def test_the_service_may_what_it_does(bound: ControlPlane) -> None:
    needed = (*GUARD_ONLY_READS, Right("patch", "nodepools", "karpenter.sh"), Right("patch", "nodes"))
    assert allowed(bound, account("kube-balloons"), needed) == [str(right) for right in needed]


def sees(plane: ControlPlane, user: str, expected: int) -> None:
    """Raises AssertionError unless the user has so many of the rights to pools."""
    pools = tuple(Right(verb, "balloonpools", OUR, NAMESPACE) for verb in ("get", "create", "delete"))
    assert len(allowed(plane, {"user": user}, pools)) == expected, user


def test_people_get_pools_with_the_roles_they_have(bound: ControlPlane) -> None:
    throttle = (Right("create", "jointhrottles", OUR),)
    for role, expected in (("view", 1), ("edit", 1), ("admin", 1), ("kube-balloons-edit", 3)):
        bound.kubectl(
            "create", "rolebinding", f"--namespace={NAMESPACE}", role, f"--clusterrole={role}", f"--user={role}"
        )
        until(lambda role=role, expected=expected: sees(bound, role, expected))  # type: ignore[misc]
        assert allowed(bound, {"user": role}, throttle) == [], role


def test_the_viewer_sees_what_the_commands_read_and_nothing_else() -> None:
    viewer = next(role for role in roles() if role["metadata"]["name"] == "kube-balloons-cli-viewer")
    granted = {(group, kind) for rule in viewer["rules"] for group in rule["apiGroups"] for kind in rule["resources"]}
    assert granted == {(kind.group, kind.plural) for kind in ALL_KINDS}
    watched = {kind for rule in viewer["rules"] for kind in rule["resources"] if "watch" in rule["verbs"]}
    assert watched == {"balloonpools", "jointhrottles", "nodes", "pods"}, "what `status -w` and `top -w` follow"
    assert {verb for rule in viewer["rules"] for verb in rule["verbs"]} == {"list", "watch"}


def test_people_may_read_what_they_may_change() -> None:
    """`kubectl apply`, `edit` and `scale` read first."""
    writers = [role for role in roles() if role["metadata"]["name"].endswith(("-edit", "-throttle-editor"))]
    rules = [set(rule["verbs"]) for role in writers for rule in role["rules"]]
    assert len(writers) == 2
    assert all("get" in verbs for verbs in rules if "patch" in verbs)


def roles() -> list[Object]:
    return [each for each in helm(EVERYTHING) if each["kind"] in ("Role", "ClusterRole")]


def test_no_role_has_a_wildcard() -> None:
    lists = ("apiGroups", "resources", "verbs", "nonResourceURLs")
    found = [
        role["metadata"]["name"]
        for role in roles()
        for rule in role["rules"]
        for key in lists
        if "*" in str(rule.get(key))
    ]
    assert found == []


def test_no_lever_is_bound_that_was_not_asked_for() -> None:
    def bindings(values: dict[str, Any]) -> set[str]:
        return {
            each["roleRef"]["name"] for each in helm(values) if each["kind"].endswith("Binding") and "roleRef" in each
        }

    writing = {name for name in bindings({}) if name.startswith("kube-balloons")}
    assert writing == {
        "kube-balloons-reader",
        "kube-balloons-reporter",
        "kube-balloons-writer",
        "kube-balloons-servers",
        "kube-balloons-lease",
        "kube-balloons-guard",
    }
