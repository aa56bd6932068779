"""Writes of our own accounts: what the policies refuse, and what they must let pass."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.contract import policy_objects as objects
from tests.contract.policy_objects import NAMESPACE, OUR, STARTUP_TAINT, Object

Edit = Callable[[Object], Object | None]
"""Changes an object as it is stored, in place, or gives another one."""

NODE, KEPT_NODE, FREE_NODE = (f"/api/v1/nodes/{name}" for name in ("policed", "policed-kept", "policed-free"))
CA_KEEP, KARPENTER_KEEP, _ = objects.KEEPING
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
QUOTAS = "/apis/autoscaling.x-k8s.io/v1alpha1/capacityquotas"
MACHINES = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/machinedeployments"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
OUR_DEPLOYMENT = f"{DEPLOYMENTS}/{objects.our_deployment()['metadata']['name']}"


@dataclass(frozen=True)
class Write:
    """One call: a body to create, an edit of what stands at `path`, or neither to delete it."""

    name: str
    path: str
    says: str = ""
    body: Object | None = None
    edit: Edit | None = None
    account: str = "kube-balloons"
    stored_at: str = ""
    """Where the object is read that is edited, if not at `path`."""


def put(*path: Any, to: Any) -> Edit:
    """Set a field."""

    def edit(body: Object) -> None:
        for part in path[:-1]:
            body = body.setdefault(part, {}) if isinstance(body, dict) else body[part]
        body[path[-1]] = to

    return edit


def drop(*path: Any) -> Edit:
    """Remove a field."""

    def edit(body: Object) -> None:
        for part in path[:-1]:
            body = body[part]
        del body[path[-1]]

    return edit


def each(*edits: Edit) -> Edit:
    """Several edits in one write."""

    def edit(body: Object) -> None:
        for one in edits:
            one(body)

    return edit


def untaint(key: str) -> Edit:
    def edit(body: Object) -> None:
        body["spec"]["taints"] = [taint for taint in body["spec"]["taints"] if taint["key"] != key]

    return edit


def taint(body: Object) -> None:
    body["spec"]["taints"].append({"key": "example.com/more", "effect": "NoExecute"})


def retaint(body: Object) -> None:
    body["spec"]["taints"][0]["effect"] = "PreferNoSchedule"


def keep_node(body: Object) -> None:
    body["metadata"].setdefault("annotations", {}).update(objects.KEEPING)


def let_node_go(body: Object) -> None:
    for key in objects.KEEPING:
        del body["metadata"]["annotations"][key]


def ungate(name: str) -> Edit:
    def edit(body: Object) -> None:
        body["spec"]["schedulingGates"] = [gate for gate in body["spec"]["schedulingGates"] if gate["name"] != name]

    return edit


def ceiling(original: Mapping[str, Any], **limits: Any) -> Edit:
    """A ceiling on the free pool, as a throttle writes it."""

    def edit(body: Object) -> None:
        body["spec"]["limits"] = {**body["spec"]["limits"], **limits}
        body["metadata"].setdefault("annotations", {})[f"{OUR}/original"] = objects.mark(dict(original), limits)
        body["metadata"].setdefault("labels", {})[f"{OUR}/throttle"] = "default"

    return edit


def nodes(original: Any, wanted: int, *, is_made: bool = False) -> Edit:
    """The same on a quota."""
    text = objects.mark({"nodes": original}, {"nodes": wanted}, is_made=is_made)
    return each(
        put("spec", "limits", "resources", "nodes", to=wanted),
        put("metadata", "annotations", f"{OUR}/original", to=text),
        put("metadata", "labels", f"{OUR}/throttle", to="default"),
    )


def largest(original: Any, wanted: Any) -> Edit:
    """The same on a MachineDeployment."""
    return each(
        put("metadata", "annotations", objects.MAX_SIZE, to=wanted),
        put(
            "metadata",
            "annotations",
            f"{OUR}/original",
            to=objects.mark({objects.MAX_SIZE: original}, {objects.MAX_SIZE: wanted}),
        ),
        put("metadata", "labels", to={f"{OUR}/throttle": "default"}),
    )


def sized_again(size: str) -> Edit:
    """The user's largest size, and nothing of ours left."""

    def edit(body: Object) -> None:
        body["metadata"]["annotations"] = {objects.MAX_SIZE: size, "example.com/owner": "team"}
        body["metadata"]["labels"] = {}

    return edit


def given_back(limits: Mapping[str, Any]) -> Edit:
    """The user's values, and nothing of ours left."""

    def edit(body: Object) -> None:
        body["spec"]["limits"] = dict(limits)
        body["metadata"]["annotations"] = {}
        body["metadata"]["labels"] = {}

    return edit


def balloons(*path: Any, to: Any) -> Object:
    """A balloon Deployment with one field of its pod changed."""
    body = deepcopy(objects.our_deployment("other"))
    put(*path, to=to)(body["spec"]["template"]["spec"])
    return body


def mounting(source: Object) -> Object:
    """A balloon Deployment with a volume more."""
    body = deepcopy(objects.our_deployment("other"))
    body["spec"]["template"]["spec"]["volumes"].append({"name": "more", **source})
    return body


SPEC_ONLY = "nothing of a node's spec but its taints"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "job", "namespace": NAMESPACE}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "foreign", "namespace": NAMESPACE}}
FREE, HELD, UNMARKED = (f"{NODE_POOLS}/policed-{name}" for name in ("free", "held", "unmarked"))
SCALED, LOWERED = f"{MACHINES}/policed-free", f"{MACHINES}/policed-held"
USERS, MADE = f"{QUOTAS}/policed-users", f"{QUOTAS}/policed-made"
PAIR = objects.our_deployment("other")["spec"]["template"]["spec"]["containers"] * 2

FORBIDDEN = (
    Write("make a node", "/api/v1/nodes", "neither makes nor deletes nodes",
          {**objects.node(), "metadata": {"name": "new"}}),
    Write("delete a node", NODE, "neither makes nor deletes nodes"),
    Write("write a node's status", f"{NODE}/status", "does not write their status",
          edit=put("status", "phase", to="Running"), stored_at=NODE),
    Write("cordon a node", NODE, SPEC_ONLY, edit=put("spec", "unschedulable", to=True)),
    Write("give a node a provider", NODE, SPEC_ONLY, edit=put("spec", "providerID", to="cloud://1")),
    Write("taint a node", NODE, "puts no taint on a node", edit=taint),
    Write("weaken a taint", NODE, "puts no taint on a node", edit=retaint),
    Write("take Karpenter's taint off", NODE, "only startup taints", edit=untaint("karpenter.sh/x")),
    Write("open a node that is kept for a team", NODE, "only startup taints", edit=untaint("dedicated")),
    Write("the guard opens a node that is kept for a team", NODE, "only startup taints",
          edit=untaint("dedicated"), account="kube-balloons-guard"),
    Write("change a node's label", NODE, "changes and removes no label",
          edit=put("metadata", "labels", "example.com/zone", to="b")),
    Write("remove a node's label", NODE, "changes and removes no label",
          edit=drop("metadata", "labels", "example.com/zone")),
    Write("make a node a control plane", NODE, "no label of Kubernetes",
          edit=put("metadata", "labels", "node-role.kubernetes.io/control-plane", to="")),
    Write("annotate a node", NODE, "annotations that keep a node",
          edit=put("metadata", "annotations", "example.com/owner", to="me")),
    Write("remove a node's annotation", NODE, "annotations that keep a node",
          edit=drop("metadata", "annotations", "example.com/owner")),
    Write("let a node go that its user keeps", NODE, "only nodes that it keeps",
          edit=drop("metadata", "annotations", KARPENTER_KEEP)),
    Write("keep a node without a mark", FREE_NODE, "only nodes that it keeps",
          edit=put("metadata", "annotations", CA_KEEP, to="true")),
    Write("call a node its own that its user keeps", NODE, "does not mark a node",
          edit=put("metadata", "annotations", f"{OUR}/held-by", to="ns/gpu")),
    Write("hold a node by a finalizer", NODE, "neither finalizers nor owners",
          edit=put("metadata", "finalizers", to=["example.com/hold"])),

    Write("make a NodePool", NODE_POOLS, "neither makes nor deletes NodePools",
          {**objects.free_pool(), "metadata": {"name": "new"}}),
    Write("delete a NodePool", FREE, "neither makes nor deletes NodePools"),
    Write("delete a NodePool that is held", HELD, "neither makes nor deletes NodePools"),
    Write("write a NodePool's status", f"{FREE}/status", "never writes their status",
          edit=put("status", "resources", to={"cpu": "0"}), stored_at=FREE),
    Write("change a NodePool's weight", FREE, "nothing of a NodePool's spec", edit=put("spec", "weight", to=7)),
    Write("change a NodePool's machines", FREE, "nothing of a NodePool's spec",
          edit=put("spec", "template", "metadata", "labels", "example.com/new", to="x")),
    Write("a ceiling below what is in use", FREE, "below what is in use", edit=ceiling({"cpu": "100"}, cpu="39")),
    Write("the same in other units", FREE, "below what is in use", edit=ceiling({"cpu": "100"}, cpu="39900m")),
    Write("no memory at all where there was no limit", FREE, "below what is in use",
          edit=ceiling({"memory": None}, memory="1Gi")),
    Write("a ceiling above the user's own", FREE, "above the user's own", edit=ceiling({"cpu": "100"}, cpu="101")),
    Write("a ceiling without the value to restore", FREE, "written down", edit=put("spec", "limits", "cpu", to="60")),
    Write("a lie about the value to restore", FREE, "only what stood there", edit=ceiling({"cpu": "900"}, cpu="60")),
    Write("a lie about there having been no limit", FREE, "only what stood there",
          edit=ceiling({"cpu": None}, cpu="60")),
    Write("another original while it is held", HELD, "only what stood there",
          edit=put("metadata", "annotations", f"{OUR}/original",
                   to=objects.mark({"cpu": "900", "memory": None}, {"cpu": "50"}))),
    Write("the value of a mark that somebody took off", UNMARKED, "set the limits that you want",
          edit=ceiling({"cpu": "100"}, cpu="50")),
    Write("a limit back whose mark somebody took off", UNMARKED, "set the limits that you want",
          edit=given_back({"cpu": "100"})),
    Write("the guard gives back less than there was", HELD, "below what is in use",
          edit=given_back({"cpu": "10"}), account="kube-balloons-guard"),
    Write("the guard drops a user's limit", HELD, "only where the user had none",
          edit=given_back({}), account="kube-balloons-guard"),
    Write("somebody else's label on a NodePool", FREE, "its own label and annotations",
          edit=put("metadata", "labels", to={"example.com/x": "y"})),

    Write("a quota without the mark", QUOTAS, "only with the mark", objects.quota("new", 30)),
    Write("delete a user's quota", USERS, "only a CapacityQuota that it made"),
    Write("a quota below what is in use", USERS, "below what is in use", edit=nodes(50, 19)),
    Write("a quota above the user's own", USERS, "above the user's own", edit=nodes(50, 51)),
    Write("a user's quota for other nodes", USERS, "nothing of a user's CapacityQuota",
          edit=put("spec", "selector", "matchLabels", "pool", to="b")),
    Write("a made quota below what is in use", MADE, "below what is in use", edit=nodes(None, 3, is_made=True)),

    Write("make a MachineDeployment", MACHINES, "neither makes, deletes nor scales",
          objects.machine_deployment("new", 10)),
    Write("delete a MachineDeployment", SCALED, "neither makes, deletes nor scales"),
    Write("scale a MachineDeployment", f"{SCALED}/scale", "neither makes, deletes nor scales",
          edit=put("spec", "replicas", to=9)),
    Write("ask for a machine", SCALED, "nothing of a MachineDeployment's spec", edit=put("spec", "replicas", to=9)),
    Write("a size below what is asked for", SCALED, "below what is asked for", edit=largest("10", "3")),
    Write("a size above the user's own", SCALED, "above the user's own", edit=largest("10", "11")),
    Write("a size without the value to restore", SCALED, "written down",
          edit=put("metadata", "annotations", objects.MAX_SIZE, to="6")),
    Write("a size that is no number", SCALED, "as a whole number", edit=largest("10", "many")),
    Write("no size any more", LOWERED, "never takes it away",
          edit=drop("metadata", "annotations", objects.MAX_SIZE)),
    Write("a lie about the size to restore", SCALED, "only what stood there", edit=largest("90", "6")),
    Write("another size to restore while it is held", LOWERED, "only what stood there", edit=largest("90", "6")),
    Write("the guard gives back less than it was", LOWERED, "below what is asked for",
          edit=sized_again("3"), account="kube-balloons-guard"),
    Write("somebody else's annotation on a MachineDeployment", SCALED, "nothing of a MachineDeployment's metadata",
          edit=put("metadata", "annotations", "example.com/owner", to="me")),
    Write("somebody else's label on a MachineDeployment", SCALED, "nothing of a MachineDeployment's metadata",
          edit=put("metadata", "labels", to={"example.com/x": "y"})),

    Write("delete somebody's pod", f"{PODS}/job", "deletes only balloons"),
    Write("delete a pod that only wears our labels", f"{PODS}/disguised", "deletes only balloons"),
    Write("the guard deletes somebody's pod", f"{PODS}/job", "deletes only balloons", account="kube-balloons-guard"),
    Write("evict a pod", f"{PODS}/job/eviction", "uses no subresource", EVICTION),
    Write("make a pod", PODS, "makes no pods", objects.work_pod("new")),
    Write("take somebody's gate off", f"{PODS}/job", "only its own gate", edit=ungate("example.com/other")),
    Write("take every gate off", f"{PODS}/job", "only its own gate", edit=put("spec", "schedulingGates", to=[])),
    Write("change a pod's image", f"{PODS}/job", "but its scheduling gates",
          edit=put("spec", "containers", 0, "image", to="registry.example/mine:1")),
    Write("annotate a pod", f"{PODS}/job", "only the deletion cost",
          edit=put("metadata", "annotations", to={"example.com/x": "y"})),
    Write("set the deletion cost of somebody's pod", f"{PODS}/job", "only the deletion cost",
          edit=put("metadata", "annotations", to={"controller.kubernetes.io/pod-deletion-cost": "-1"})),
    Write("make a pod look like a balloon", f"{PODS}/job", "neither labels",
          edit=put("metadata", "labels", to=objects.LABELS)),

    Write("a Deployment of no pool", DEPLOYMENTS, "labels of a pool", objects.foreign_deployment("new")),
    Write("change somebody's Deployment", f"{DEPLOYMENTS}/foreign", "only what it made",
          edit=each(put("spec", "replicas", to=9), put("metadata", "labels", to=objects.LABELS))),
    Write("scale somebody's Deployment", f"{DEPLOYMENTS}/foreign/scale", "uses no subresource",
          edit=lambda body: {**SCALE, "spec": {"replicas": 3}}, stored_at=f"{DEPLOYMENTS}/foreign"),
    Write("delete somebody's Deployment", f"{DEPLOYMENTS}/foreign", "only what it made"),
    Write("balloons with an account", DEPLOYMENTS, "have no identity", balloons("serviceAccountName", to="admin")),
    Write("balloons with a token", DEPLOYMENTS, "have no identity", balloons("automountServiceAccountToken", to=True)),
    Write("balloons that mount a Secret", DEPLOYMENTS, "nothing but images",
          mounting({"secret": {"secretName": "admin"}})),
    Write("balloons that mount the host", DEPLOYMENTS, "nothing but images",
          mounting({"hostPath": {"path": "/"}})),
    Write("balloons that read a Secret", DEPLOYMENTS, "is told nothing",
          balloons("containers", 0, "envFrom", to=[{"secretRef": {"name": "admin"}}])),
    Write("balloons that run a command", DEPLOYMENTS, "is told nothing",
          balloons("containers", 0, "command", to=["sh"])),
    Write("balloons that run a command as a probe", DEPLOYMENTS, "is told nothing",
          balloons("containers", 0, "livenessProbe", to={"exec": {"command": ["sh"]}})),
    Write("balloons that have a kubelet ask somebody", DEPLOYMENTS, "is told nothing",
          balloons("containers", 0, "startupProbe", to={"httpGet": {"host": "169.254.169.254", "port": 80}})),
    Write("balloons with a terminal", DEPLOYMENTS, "is told nothing", balloons("containers", 0, "tty", to=True)),
    Write("balloons with a second container", DEPLOYMENTS, "one container",
          balloons("containers", to=[PAIR[0], {**PAIR[1], "name": "second"}])),
    Write("balloons on the host's network", DEPLOYMENTS, "nothing of the host", balloons("hostNetwork", to=True)),
    Write("balloons with privileges", DEPLOYMENTS, "with no privilege",
          balloons("containers", 0, "securityContext", to={"privileged": True})),
    Write("balloons whose container is root", DEPLOYMENTS, "changes nothing of its pod's security",
          balloons("containers", 0, "securityContext", "runAsUser", to=0)),
    Write("balloons whose container may be root", DEPLOYMENTS, "changes nothing of its pod's security",
          balloons("containers", 0, "securityContext", "runAsNonRoot", to=False)),
    Write("balloons with a capability", DEPLOYMENTS, "drops every capability",
          balloons("containers", 0, "securityContext", "capabilities", to={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
    Write("balloons that drop nothing", DEPLOYMENTS, "drops every capability",
          balloons("containers", 0, "securityContext", "capabilities", to={})),
    Write("balloons without seccomp", DEPLOYMENTS, "changes nothing of its pod's security",
          balloons("containers", 0, "securityContext", "seccompProfile", to={"type": "Unconfined"})),
    Write("balloons without seccomp by their pod", DEPLOYMENTS, "the runtime's seccomp profile",
          balloons("securityContext", "seccompProfile", to={"type": "Unconfined"})),
    Write("balloons of another SELinux type", DEPLOYMENTS, "nothing else of security",
          balloons("securityContext", "seLinuxOptions", to={"type": "spc_t"})),
    Write("balloons in a group of the host's", DEPLOYMENTS, "nothing else of security",
          balloons("securityContext", "supplementalGroups", to=[0])),
    Write("balloons as root by their pod", DEPLOYMENTS, "are not root",
          balloons("securityContext", "runAsUser", to=0)),
    Write("balloons that claim devices", DEPLOYMENTS, "claim no devices",
          balloons("resourceClaims", to=[{"name": "gpu", "resourceClaimName": "gpu"}])),
    Write("balloons that push work aside", DEPLOYMENTS, "the priority of balloons",
          balloons("priorityClassName", to="system-cluster-critical")),
    Write("a PodTemplate of no pool", TEMPLATES, "labels of a pool",
          {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "new"},
           "template": objects.our_template()["template"]}),

    Write("another Lease", LEASES, "no Lease but its own", objects.lease("somebody")),
    Write("its Lease elsewhere", LEASES.replace(NAMESPACE, "default"), "no Lease but its own",
          objects.lease("kube-balloons-throttle")),
    Write("delete its Lease", f"{LEASES}/kube-balloons-throttle", "no Lease but its own"),
    Write("take over somebody's Lease", f"{LEASES}/foreign", "no Lease but its own",
          edit=put("spec", "holderIdentity", to="me")),
)  # fmt: skip

LEGAL = (
    Write("take the startup taint off", NODE, edit=untaint(STARTUP_TAINT)),
    Write("the guard takes a taint off", NODE, edit=untaint(STARTUP_TAINT), account="kube-balloons-guard"),
    Write("put the DaemonSet label on", NODE, edit=put("metadata", "labels", "example.com/paced", to="true")),
    Write("put an administrators' label on", NODE,
          edit=put("metadata", "labels", "node-restriction.kubernetes.io/paced", to="true")),
    Write("keep a node", FREE_NODE, edit=keep_node),
    Write("keep a node for another pool", KEPT_NODE,
          edit=put("metadata", "annotations", f"{OUR}/held-by", to="ns/other")),
    Write("let a node go", KEPT_NODE, edit=let_node_go),
    Write("the hook lets a node go", KEPT_NODE, edit=let_node_go, account="kube-balloons-give-back"),

    Write("a ceiling between use and the user's own", FREE, edit=ceiling({"cpu": "100"}, cpu="41")),
    Write("a ceiling at what is in use", FREE, edit=ceiling({"cpu": "100"}, cpu="40")),
    Write("a ceiling where the user had none", FREE, edit=ceiling({"memory": None}, memory="81Gi")),
    Write("a higher ceiling", HELD, edit=put("spec", "limits", "cpu", to="58")),
    Write("a mark anew of what stands there", UNMARKED, edit=ceiling({"cpu": "50"}, cpu="45")),
    Write("a lower largest size", SCALED, edit=largest("10", "4")),
    Write("room for one more machine", LOWERED, edit=largest("10", "7")),
    Write("give a largest size back", LOWERED, edit=sized_again("10")),
    Write("the guard gives a largest size back", LOWERED, edit=sized_again("10"), account="kube-balloons-guard"),
    Write("give back what there was", HELD, edit=given_back({"cpu": "100"})),
    Write("the guard gives back what there was", HELD, edit=given_back({"cpu": "100"}), account="kube-balloons-guard"),
    Write("give back to a user who changed his mind", HELD,
          edit=each(put("metadata", "annotations", f"{OUR}/original",
                        to=objects.mark({"cpu": "50", "memory": None}, {"memory": "200Gi"})))),

    Write("a ceiling on a quota", USERS, edit=nodes(50, 21)),
    Write("a quota of its own", QUOTAS, body=objects.made_quota("new")),
    Write("raise its own quota", MADE, edit=nodes(None, 44, is_made=True)),
    Write("put its own quota's selector right", MADE, edit=put("spec", "selector", "matchLabels", "pool", to="b")),
    Write("delete its own quota", MADE),

    Write("take its own gate off", f"{PODS}/job", edit=ungate(f"{OUR}/paced")),
    Write("the guard takes the gate off", f"{PODS}/job", edit=ungate(f"{OUR}/paced"), account="kube-balloons-guard"),
    Write("delete a balloon", f"{PODS}/balloon"),
    Write("mark the balloon that goes first", f"{PODS}/balloon",
          edit=put("metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost", to="-100")),

    Write("balloons with a pre-pulled image", DEPLOYMENTS, body=objects.our_deployment("other")),
    Write("more balloons", OUR_DEPLOYMENT, edit=put("spec", "replicas", to=5)),
    Write("no more balloons", OUR_DEPLOYMENT),
    Write("a PodTemplate of a buffer", TEMPLATES, body=objects.our_template()),

    Write("renew its Lease", f"{LEASES}/kube-balloons-throttle", edit=put("spec", "holderIdentity", to="me")),
)  # fmt: skip
