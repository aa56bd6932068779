"""The rules of `spec.levers`: objects by names that they can have, and nothing of a node that others own."""

import re
from collections import Counter
from collections.abc import Iterator

from throttler.api.throttle import LabelLever, Levers, ThrottleSpec
from throttler.kube.decoding import Problem
from throttler.kube.selectors import KEY_PATTERN, LONGEST_KEY, key_problems, value_problems

NAME_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS-1123 subdomain, as objects are named."""
TAINT_DOMAIN = "startup-taint.cluster-autoscaler.kubernetes.io/"
"""Taints under it are known to cluster-autoscaler as startup taints (its utils/taints). No other is ours to take off:
with a key of its choice a throttle could open nodes that `dedicated` or `nvidia.com/gpu` keeps closed."""
LABEL_DOMAIN = "node-restriction.kubernetes.io/"
"""Labels under it are administrators' own: kubelets cannot put them on."""
FOREIGN_PATTERN = r"([-a-z0-9.]+\.)?(kubernetes\.io|k8s\.io|karpenter\.sh)/.*"
"""Keys with which Kubernetes and Karpenter say something of their own about a node, such as hostname."""

_NAME = re.compile(NAME_PATTERN, re.ASCII)
_KEY = re.compile(KEY_PATTERN, re.ASCII)
_FOREIGN = re.compile(FOREIGN_PATTERN, re.ASCII)


def lever_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    """What is wrong with the levers, alone and against the nodes."""
    yield from _ceiling_problems(spec.levers)
    if spec.levers.startup_taint is not None:
        yield from _taint_problems(spec.levers.startup_taint.key)
    if spec.levers.daemon_set_label is not None:
        yield from _label_problems(spec.levers.daemon_set_label)
        yield from _selected_problems(spec, spec.levers.daemon_set_label.key)


def _ceiling_problems(levers: Levers) -> Iterator[Problem]:
    if levers.capacity_quota is not None:
        yield from _name_problems(levers.capacity_quota.name, "spec.levers.capacityQuota.name")
    names = levers.node_pool_limits.names if levers.node_pool_limits is not None else ()
    path = "spec.levers.nodePoolLimits.names"
    for index, name in enumerate(names):
        yield from _name_problems(name, f"{path}[{index}]")
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(path, f'names has "{name}" {count} times; accepted: each NodePool once')


def _name_problems(name: str, path: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(
            path, f'name "{name}" is not accepted; accepted: the name of an object, in lower case, such as gpu-a'
        )


def _taint_problems(key: str) -> Iterator[Problem]:
    path = "spec.levers.startupTaint.key"
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        yield Problem(
            path,
            f'taint "{key}" cannot be on a node; accepted: a taint key such as {TAINT_DOMAIN}paced',
        )
    if not key.startswith(TAINT_DOMAIN):
        yield Problem(path, f'taint "{key}" is not known as a startup taint; accepted: a key under {TAINT_DOMAIN}')


def _label_problems(lever: LabelLever) -> Iterator[Problem]:
    path = "spec.levers.daemonSetLabel"
    yield from key_problems(lever.key, f"{path}.key")
    yield from value_problems(lever.value, f"{path}.value")
    if _FOREIGN.fullmatch(lever.key) and not lever.key.startswith(LABEL_DOMAIN):
        yield Problem(
            f"{path}.key",
            f'label "{lever.key}" belongs to Kubernetes or Karpenter; '
            f"accepted: a key of your own, or one under {LABEL_DOMAIN}",
        )


def _selected_problems(spec: ThrottleSpec, key: str) -> Iterator[Problem]:
    asked = {*spec.nodes.match_labels, *(each.key for each in spec.nodes.match_expressions)}
    if key in asked:
        yield Problem(
            "spec.nodes",
            f'nodes selects by "{key}", which levers.daemonSetLabel puts on; '
            "accepted: labels that nodes have when they register",
        )
