"""Which 429 and 5xx answers say nothing about the load on an API server.

Told by their labels: an eviction that a disruption budget refuses (429), an aggregated metrics API that is away (503),
and everything that the server only forwards (proxy, log, exec, attach, portforward). Told by another counter, in
window.py: a webhook that failed. Since 1.34 a storage that is still (re)initializing answers lists and watches with
429; it is no refusal of flow control, and joins are not judged by lists.
"""

from collections.abc import Mapping

FORWARDED = frozenset({"proxy", "log", "exec", "attach", "portforward"})
WEBHOOK_ERRORS = frozenset({"calling_webhook_error", "apiserver_internal_error"})


def is_forwarded(labels: Mapping[str, str]) -> bool:
    """Whether the server only passes these requests on: neither they nor their errors are its own."""
    return labels.get("verb") == "CONNECT" or labels.get("subresource", "").split("/")[0] in FORWARDED


def is_failure(labels: Mapping[str, str]) -> bool:
    """Whether these answers were 5xx, and not of the kinds above."""
    code = labels.get("code", "")
    is_5xx = len(code) == 3 and code.startswith("5")
    return is_5xx and not (code == "503" and _is_metrics_api(labels.get("group", "")))


def is_refusal(labels: Mapping[str, str]) -> bool:
    """Whether these answers were 429, and not of the kinds above."""
    return labels.get("code") == "429" and labels.get("subresource") != "eviction"


def is_webhook_failure(labels: Mapping[str, str]) -> bool:
    """Whether a webhook's rejection reached the client as 429 or 5xx."""
    code = labels.get("rejection_code", "")
    return code == "429" or code.startswith("5") or labels.get("error_type") in WEBHOOK_ERRORS


def _is_metrics_api(group: str) -> bool:
    return group == "metrics.k8s.io" or group.endswith(".metrics.k8s.io")
