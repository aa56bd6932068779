"""Which requests of an API server are counted: those that tell how it serves joining nodes, and of their errors those
that say something about its load.

A join is about a hundred requests of a kubelet and of the controllers that act for its node. Their mean latency is what
the pacing law looks at, and their 5xx are what brakes it: a broken conversion webhook or an aggregated API that is away
fails the requests of others. Lists and watches are left out: they last as long as there is data, not as long as the
server is slow.

Some 429 and 5xx say nothing about the load on a server. Told by their labels: an eviction that a disruption budget
refuses (429), an aggregated metrics API that is away (503), and everything that the server only forwards (proxy, log,
exec, attach, portforward). Told by another counter, in reading.py: a webhook that failed. Since 1.34 a storage that is
still (re)initializing answers lists and watches with 429; it is no refusal of flow control, and joins are not judged by
lists.

Of the priority levels of API Priority and Fairness, node and lease writes are in `node-high`, a kubelet's other calls
in `system`, DaemonSet pods, bindings and kube-system agents in `workload-high`. `global-default` is left out although
certificate requests go there: kubelets that wait for a certificate send refused requests into it, and a slow approver
is no busy server.
"""

from collections.abc import Iterable, Mapping

Labels = Mapping[str, str]
JOIN_RESOURCES = frozenset(
    {
        ("", "nodes"),
        ("", "pods"),
        ("", "events"),
        ("", "serviceaccounts"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        ("storage.k8s.io", "csinodes"),
        ("certificates.k8s.io", "certificatesigningrequests"),
    }
)
"""Group and plural of what joins send requests for."""
JOIN_SUBRESOURCES = frozenset({"", "status", "binding", "token"})
JOIN_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "APPLY"})


def is_of_a_join(labels: Labels) -> bool:
    """Whether a series counts requests of the kind that joins send."""
    return (
        labels.get("verb") in JOIN_VERBS
        and (labels.get("group", ""), labels.get("resource", "")) in JOIN_RESOURCES
        and labels.get("subresource", "") in JOIN_SUBRESOURCES
        and not labels.get("dry_run")
    )


FORWARDED = frozenset({"proxy", "log", "exec", "attach", "portforward"})
WEBHOOK_ERRORS = frozenset({"calling_webhook_error", "apiserver_internal_error"})


def is_forwarded(labels: Labels) -> bool:
    """Whether the server only passes these requests on: neither they nor their errors are its own."""
    return labels.get("verb") == "CONNECT" or labels.get("subresource", "").split("/")[0] in FORWARDED


def is_failure(labels: Labels) -> bool:
    """Whether these answers were 5xx, and not of the kinds above."""
    code = labels.get("code", "")
    is_5xx = len(code) == 3 and code.startswith("5")
    return is_5xx and not (code == "503" and _is_metrics_api(labels.get("group", "")))


def is_refusal(labels: Labels) -> bool:
    """Whether these answers were 429, and not of the kinds above."""
    return labels.get("code") == "429" and labels.get("subresource") != "eviction"


def is_webhook_failure(labels: Labels) -> bool:
    """Whether a webhook's rejection reached the client as 429 or 5xx."""
    code = labels.get("rejection_code", "")
    return code == "429" or code.startswith("5") or labels.get("error_type") in WEBHOOK_ERRORS


def _is_metrics_api(group: str) -> bool:
    return group == "metrics.k8s.io" or group.endswith(".metrics.k8s.io")


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


def join_levels(series: Iterable[Labels]) -> frozenset[str]:
    """The priority levels that joins use: the default ones, and those to which flow schemas lead them here."""
    led_to = (labels.get("priority_level", "") for labels in series if labels.get("flow_schema") in JOIN_SCHEMAS)
    return DEFAULT_LEVELS | {level for level in led_to if level}
