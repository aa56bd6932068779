"""The balloons' objects as manifests for server-side apply, and whether a stored one already says what we would apply.

The balloon Deployment of one pool and machine shape, its pods and how many are replaced at a time. Deliberately absent:
an ownerReference to the pool (deleting the CRD would then remove all warm capacity), a PodDisruptionBudget, and limits
other than those that devices and huge pages demand. For the CapacityBuffer strategy: upstream's virtual balloon and the
PodTemplate it points to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any

import msgspec

from balloons.api.pool import BalloonPool, Mode, Spread
from balloons.view.shape_and_balloon_size import Shape, extended
from balloons.view.tenancy_and_claim import Term, away_from, deployment_name
from throttler.kube.node import HOST_LABEL, INSTANCE_TYPE_LABEL, KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.pod import MANAGED_BY, POOL_LABEL, PRIORITY_CLASS, SHAPE_LABEL
from throttler.kube.quantities_and_durations import (
    QuantityError,
    Resources,
    format_resources,
    parse_duration,
    parse_quantity,
)
from throttler.kube.selectors import LabelSelector, Requirement, requirements
from throttler.kube.taints import NOT_READY_TAINT, UNREACHABLE_TAINT, Taint, Toleration, untolerated

DEFAULT_IMAGE = "registry.k8s.io/pause:3.10.1"
NO_SIDECAR_LABELS = {"sidecar.istio.io/inject": "false"}
NO_SIDECAR_ANNOTATIONS = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
"""A proxy beside a container that only sleeps would cost room on every held node, and seconds when it gives way."""
NOBODY = {"runAsUser": 65535, "runAsGroup": 65535}
"""As in the pause image; not named where namespaces have users of their own and refuse any other (OpenShift)."""
DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
TEMPLATE_ANNOTATION = "kube-balloons.github.io/template"
"""On a Deployment or PodTemplate: a digest of the template as we gave it. What others add to one does not matter, so
what a pool no longer asks for would go unnoticed without it."""
NEVER = "87600h"
"""Ten years: cluster-autoscaler ignores a pending pod that is younger than its delay."""
EVICTED_AFTER_S = 300.0
"""How long the API server lets a pod that says nothing of it stay on a node that is not Ready, unless its flags say
otherwise (the admission plugin DefaultTolerationSeconds)."""
NO_DEADLINE_S = 2**31 - 1
"""The Deployment controller's own value for "no progress deadline": a waiting balloon is no failed rollout."""
MAX_UNAVAILABLE_PERCENT = 10
"""Share of a Deployment's balloons that a roll-out replaces at a time."""
BUFFER_GROUP = "autoscaling.x-k8s.io"
AMOUNTS = frozenset({"requests", "limits"})
"""Fields whose values are quantities by the name of a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """What balloons run, and which images pools may name."""

    image: str = DEFAULT_IMAGE
    """The pause image, where a pool names none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets of a pool's namespace with which its images are fetched, where the pool's template names none."""
    names_user: bool = True
    """Whether balloons name the user that they run as; else the namespace gives one, or the image has one."""
    allowed_images: tuple[str, ...] = ()
    """Prefixes of images that pools may name for `image` and `prePull`."""


@dataclass(frozen=True, slots=True)
class BalloonSpec:
    """What a Deployment is made from besides pool and shape; `requests` in milli-units."""

    requests: Resources
    replicas: int
    image: str
    image_pull_secrets: tuple[str, ...] = ()
    names_user: bool = True
    left_out: tuple[str, ...] = ()
    """Host names of nodes that refuse balloons."""
    avoided: tuple[LabelSelector, ...] = ()
    """Selectors of other pools, on whose nodes the balloons hold nothing."""


def replaced_at_once(replicas: int) -> int:
    """How many balloons a roll-out replaces at a time, as the Deployment's controller rounds it."""
    return max(1, replicas * MAX_UNAVAILABLE_PERCENT // 100)


def balloon_labels(pool: BalloonPool, shape: Shape) -> dict[str, str]:
    """The labels that select exactly these balloons, within their namespace."""
    return {POOL_LABEL: pool.metadata.name, SHAPE_LABEL: shape.name}


def deployment(pool: BalloonPool, shape: Shape, spec: BalloonSpec) -> dict[str, Any]:
    """The whole manifest; equal input gives an equal result."""
    labels = balloon_labels(pool, shape)
    template = pod_template(pool, shape, spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_metadata(pool, shape), "annotations": {TEMPLATE_ANNOTATION: _digest(template)}},
        "spec": {
            "replicas": spec.replicas,
            # While it is paused by hand no balloon would follow a change; pools have a pause of their own.
            "paused": False,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": NO_DEADLINE_S,
            "selector": {"matchLabels": labels},
            # A surge balloon would wait for a node of its own: replace in place, some at a time.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": f"{MAX_UNAVAILABLE_PERCENT}%"},
            },
            "template": template,
        },
    }


def _digest(template: Mapping[str, Any]) -> str:
    return sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:16]


def pod_template(pool: BalloonPool, shape: Shape, spec: BalloonSpec) -> dict[str, Any]:
    """The balloon pod; a CapacityBuffer is given the same one."""
    template = pool.spec.template
    labels = {**NO_SIDECAR_LABELS, **template.labels, **balloon_labels(pool, shape), **MANAGED_BY}
    return {
        "metadata": {"labels": labels, "annotations": _annotations(pool)},
        "spec": {
            "priorityClassName": PRIORITY_CLASS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                **(NOBODY if spec.names_user else {}),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **_tolerations(pool),
            **_placement(pool, shape, spec),
            **_image_access(pool, spec),
            "containers": [_container(pool, spec)],
            **_volumes(pool.spec.pre_pull),
        },
    }


def _annotations(pool: BalloonPool) -> dict[str, Any]:
    annotations = {**NO_SIDECAR_ANNOTATIONS, **pool.spec.template.annotations}
    return {**annotations, **({DELAY_ANNOTATION: NEVER} if pool.spec.mode is Mode.HOLD else {})}


def _image_access(pool: BalloonPool, spec: BalloonSpec) -> dict[str, Any]:
    """With which Secrets the image is fetched, and by which runtime it is run; the pool's own Secrets come first."""
    template = pool.spec.template
    secrets = tuple(secret.name for secret in template.image_pull_secrets) or spec.image_pull_secrets
    runtime = template.runtime_class_name
    return {
        **({"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}),
        **({"runtimeClassName": runtime} if runtime else {}),
    }


def _tolerations(pool: BalloonPool) -> dict[str, Any]:
    """The pool's own, and what keeps balloons on a node that stopped being Ready for as long as it is expected back.

    One that Kubernetes evicts before that is made again and waits, and the autoscaler buys a node for it.
    """
    tolerations = pool.spec.nodes.tolerations
    grace_s = parse_duration(pool.spec.nodes.not_ready_grace)
    if pool.spec.mode is Mode.HEADROOM and grace_s > EVICTED_AFTER_S:
        for key in (NOT_READY_TAINT, UNREACHABLE_TAINT):
            if untolerated([Taint(key, "NoExecute")], pool.spec.nodes.tolerations) is not None:
                stay = Toleration(key, "Exists", effect="NoExecute", toleration_seconds=ceil(grace_s))
                tolerations = (*tolerations, stay)
    return {"tolerations": msgspec.to_builtins(tolerations)} if tolerations else {}


def _container(pool: BalloonPool, spec: BalloonSpec) -> dict[str, Any]:
    # The API server refuses a request of these without a limit: they are never shared.
    pages = [name for name, milli in spec.requests.items() if milli and name.startswith("hugepages-")]
    limits = {name: spec.requests[name] for name in (*extended(spec.requests), *pages)}
    mounts = [{"name": f"pull-{i}", "mountPath": f"/images/{i}"} for i in range(len(pool.spec.pre_pull))]
    return {
        "name": "balloon",
        "image": spec.image,
        "resources": {
            "requests": format_resources(spec.requests),
            **({"limits": format_resources(limits)} if limits else {}),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _volumes(images: Sequence[str]) -> dict[str, Any]:
    """Image volumes: the kubelet pulls the image, and nothing of it ever runs."""
    volumes = [
        {"name": f"pull-{i}", "image": {"reference": image, "pullPolicy": "IfNotPresent"}}
        for i, image in enumerate(images)
    ]
    return {"volumes": volumes} if volumes else {}


def _placement(pool: BalloonPool, shape: Shape, spec: BalloonSpec) -> dict[str, Any]:
    """Where a balloon may go; one per node of the whole pool, also while one shape replaces another."""
    rest = (Requirement(HOST_LABEL, "NotIn", spec.left_out),) if spec.left_out else ()
    rules = ((*term, *rest) for term in away_from(own_terms(pool, shape), spec.avoided))
    terms = [{"matchExpressions": list(map(_expression, term))} for term in rules]
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    apart = {
        "topologyKey": HOST_LABEL,
        "labelSelector": {"matchLabels": {POOL_LABEL: pool.metadata.name}},
    }
    match pool.spec.spread:
        case Spread.ANTI_AFFINITY:
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        case Spread.TOPOLOGY_SPREAD:
            spread = {**apart, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            return {"affinity": affinity, "topologySpreadConstraints": [spread]}
        case Spread.EXCLUSIVE_REQUEST:
            pass
    return {"affinity": affinity}


def own_terms(pool: BalloonPool, shape: Shape) -> list[Term]:
    """The pool's selector and the shape's instance type; in Hold as two alternatives that are the lock.

    The lock: nodes that Karpenter did not make, or nodes that it has initialised. Karpenter never provisions for a
    pod whose first alternative excludes its own nodes, and no node of its own making carries the second
    one's label before it exists. See docs/decisions/0002-hold-lock-on-karpenter.md.
    """
    selector = pool.spec.nodes.selector
    rules = requirements(selector)
    if shape.instance_type and INSTANCE_TYPE_LABEL not in selector.match_labels:
        rules.append(Requirement(INSTANCE_TYPE_LABEL, "In", (shape.instance_type,)))
    if shape.other_than:
        rules.append(Requirement(INSTANCE_TYPE_LABEL, "NotIn", shape.other_than))
    if pool.spec.mode is Mode.HEADROOM:
        return [tuple(rules)]
    not_karpenter = Requirement(KARPENTER_POOL_LABEL, "DoesNotExist")
    initialised = Requirement(KARPENTER_INITIALIZED_LABEL, "In", ("true",))
    return [(not_karpenter, *rules), (initialised, *rules)]


def stored_terms(stored: Mapping[str, Any]) -> list[Term]:
    """Where a stored Deployment's spec lets its balloons go; empty where that cannot be read."""
    try:
        affinity = stored["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return [msgspec.convert(term.get("matchExpressions", []), Term) for term in terms]
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError):
        return []


def hosts_in(terms: Sequence[Term], others: Iterable[LabelSelector]) -> tuple[str, ...]:
    """The host names that stored terms leave out, besides those that the `others`, selectors of pools, speak of."""
    rules = [rule for rule in next(iter(terms), ()) if (rule.key, rule.operator) == (HOST_LABEL, "NotIn")]
    if not rules:
        return ()  # the usual case: the selectors, of which there may be a thousand, are not even looked at
    known = {part.values for selector in others for part in requirements(selector) if part.key == HOST_LABEL}
    return tuple(value for rule in rules if rule.values not in known for value in rule.values)


def _expression(rule: Requirement) -> dict[str, Any]:
    return {"key": rule.key, "operator": rule.operator, **({"values": list(rule.values)} if rule.values else {})}


def template_object(pool: BalloonPool, shape: Shape, spec: BalloonSpec) -> dict[str, Any]:
    """The PodTemplate that says how large one unit of the buffer is."""
    template = pod_template(pool, shape, spec)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {**_metadata(pool, shape), "annotations": {TEMPLATE_ANNOTATION: _digest(template)}},
        "template": template,
    }


def buffer_object(pool: BalloonPool, shape: Shape, replicas: int, api_version: str) -> dict[str, Any]:
    """The buffer of `replicas` units."""
    return {
        "apiVersion": api_version,
        "kind": "CapacityBuffer",
        "metadata": _metadata(pool, shape),
        "spec": {"podTemplateRef": {"name": deployment_name(pool.metadata.name, shape.name)}, "replicas": replicas},
    }


def _metadata(pool: BalloonPool, shape: Shape) -> dict[str, Any]:
    return {
        "name": deployment_name(pool.metadata.name, shape.name),
        "namespace": pool.metadata.namespace,
        "labels": {**balloon_labels(pool, shape), **MANAGED_BY},
    }


def says(stored: Any, wanted: Any) -> bool:
    """Whether `stored` holds everything that `wanted` says; what the server or others added does not matter.

    Both as JSON has them. Mappings are compared key by key. Lists must have equal lengths and items that say the same,
    in order: the lists we apply are all ours. Empty mappings and lists that the server drops count as said. Requests
    and limits are compared as the amounts they stand for: the server stores 1000 as 1k. A user that is no longer named
    must go.
    """
    if stored == wanted:
        return True  # the usual case, and told without a look at each part
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            _part_says(key, stored[key], value) if key in stored else _is_nothing(value)
            for key, value in wanted.items()
        )
    return (
        isinstance(wanted, list | tuple)
        and isinstance(stored, list | tuple)
        and len(stored) == len(wanted)
        and all(says(a, b) for a, b in zip(stored, wanted, strict=True))
    )


def _part_says(key: Any, stored: Any, wanted: Any) -> bool:
    if key in AMOUNTS and isinstance(stored, dict) and isinstance(wanted, dict):
        return all(name in stored and _is_same_amount(stored[name], amount) for name, amount in wanted.items())
    if key == "securityContext" and isinstance(stored, dict) and (NOBODY.keys() & stored) - wanted.keys():
        return False
    return says(stored, wanted)


def _is_same_amount(stored: Any, wanted: Any) -> bool:
    try:
        return parse_quantity(str(stored)) == parse_quantity(str(wanted))
    except QuantityError:
        return False


def _is_nothing(value: Any) -> bool:
    """What a server may leave out; a zero is something (a grace period of 0 s is not the default)."""
    return value is False or (isinstance(value, Mapping | list | tuple | str) and not value)
