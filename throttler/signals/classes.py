"""Which requests tell how a joining node is served.

A join is about a hundred requests of a kubelet and of the controllers that act for its node. Their mean
latency is what the pacing law looks at, and their 5xx are what brakes it: a broken conversion webhook or an aggregated
API that is away fails the requests of others. Lists and watches are left out: they last as long as there is data, not
as long as the server is slow.
"""

from collections.abc import Mapping

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
JOIN_SUBRESOURCES = frozenset({"", "status", "binding", "token"})
JOIN_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "APPLY"})


def is_of_a_join(labels: Mapping[str, str]) -> bool:
    """Whether a series counts requests of the kind that joins send."""
    return (
        labels.get("verb") in JOIN_VERBS
        and (labels.get("group", ""), labels.get("resource", "")) in JOIN_RESOURCES
        and labels.get("subresource", "") in JOIN_SUBRESOURCES
        and not labels.get("dry_run")
    )
