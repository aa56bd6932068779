"""What our own Deployments still say about shapes of which no node is up now.

A pool that was scaled to zero knows from them how large its balloons are and on which machines they go.
"""

from collections.abc import Mapping
from typing import Any

from balloons.view.shape import Shape, extended
from balloons.view.snapshot import Deployment
from throttler.kube.node import INSTANCE_TYPE_LABEL
from throttler.kube.quantity import QuantityError, Resources, parse_resources


def remembered_shapes(deployments: Mapping[str, Deployment], measured: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of Deployments that no node stands for, by name; those that somebody broke are left out."""
    return {
        name: Shape(name, _instance_type(stored), {}, 0, devices=frozenset(extended(requests)), is_remembered=True)
        for name, stored in sorted(deployments.items())
        if name and name not in measured and (requests := stored_requests(stored))
    }


def stored_requests(stored: Deployment | None) -> Resources | None:
    """The requests of a Deployment as it stands; None where there is none or somebody broke them."""
    return pod_requests(stored.spec.get("template")) if stored else None


def pod_requests(template: Any) -> Resources | None:
    """The requests of a pod template's first container; None where they cannot be read."""
    try:
        return parse_resources(template["spec"]["containers"][0]["resources"]["requests"])
    except (KeyError, TypeError, IndexError, AttributeError, QuantityError):
        return None


def _instance_type(stored: Deployment) -> str:
    """The one instance type that the balloons' node affinity names, if any."""
    try:
        affinity = stored.spec["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        rules = [rule for rule in terms[0]["matchExpressions"] if rule["key"] == INSTANCE_TYPE_LABEL]
        return str(rules[0]["values"][0]) if rules else ""
    except (KeyError, TypeError, IndexError):
        return ""
