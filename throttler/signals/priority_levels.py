"""Which priority levels of API Priority and Fairness joins go through, by the flow schemas of every server.

Node and lease writes are in `node-high`, a kubelet's other calls in `system`, DaemonSet pods, bindings and kube-system
agents in `workload-high`. `global-default` is left out although certificate requests go there: kubelets
that wait for a certificate send refused requests into it, and a slow approver is no busy server.
"""

from collections.abc import Iterable

from throttler.signals.text import Row

DEFAULT_LEVELS = frozenset({"node-high", "system", "workload-high"})
JOIN_SCHEMAS = frozenset(
    {
        "system-nodes",
        "system-node-high",
        "kube-scheduler",
        "kube-controller-manager",
        "kube-system-service-accounts",
    }
)


def join_levels(rows: Iterable[Row]) -> frozenset[str]:
    """The default levels, and those to which this cluster's flow schemas lead the requests of joins."""
    led_to = (row.labels.get("priority_level", "") for row in rows if row.labels.get("flow_schema") in JOIN_SCHEMAS)
    return DEFAULT_LEVELS | {level for level in led_to if level}
