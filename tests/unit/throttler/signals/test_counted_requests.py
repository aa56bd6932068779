"""Which requests and errors count, told by the labels of their series."""

import pytest

from throttler.signals.counted_requests import (
    DEFAULT_LEVELS,
    WEBHOOK_ERRORS,
    is_failure,
    is_forwarded,
    is_of_a_join,
    is_refusal,
    is_webhook_failure,
    join_levels,
)

POD = {"verb": "POST", "group": "", "resource": "pods", "subresource": ""}


@pytest.mark.parametrize(
    ("labels", "is_failure"),
    [
        ({"rejection_code": "429"}, True),
        ({"rejection_code": "500"}, True),
        ({"rejection_code": "503"}, True),
        ({"rejection_code": "400"}, False),
        ({}, False),
        *(({"error_type": error}, True) for error in sorted(WEBHOOK_ERRORS)),
        ({"error_type": "no_error", "rejection_code": "403"}, False),
    ],
)
def test_a_webhooks_failure_is_none_of_the_server(labels: dict[str, str], *, is_failure: bool) -> None:
    assert is_webhook_failure(labels) is is_failure


@pytest.mark.parametrize(
    ("change", "is_one"),
    [
        ({}, True),
        ({"group": None, "subresource": None}, True),
        ({"verb": "GET", "resource": "nodes", "subresource": "status"}, True),
        ({"subresource": "binding"}, True),
        ({"resource": "serviceaccounts", "subresource": "token"}, True),
        ({"group": "coordination.k8s.io", "resource": "leases"}, True),
        ({"verb": "LIST"}, False),
        ({"verb": "WATCH"}, False),
        ({"verb": "DELETE"}, False),
        ({"verb": None}, False),
        ({"resource": "secrets"}, False),
        ({"group": "apps"}, False),
        ({"resource": "leases"}, False),
        ({"subresource": "eviction"}, False),
        ({"dry_run": "All"}, False),
        ({"dry_run": ""}, True),
    ],
)
def test_a_request_of_a_join_is_told_by_verb_resource_and_subresource(
    change: dict[str, str | None], *, is_one: bool
) -> None:
    labels = {name: text for name, text in {**POD, **change}.items() if text is not None}
    assert is_of_a_join(labels) is is_one


@pytest.mark.parametrize(
    ("labels", "is_one"),
    [
        ({"code": "500"}, True),
        ({"code": "599"}, True),
        ({"code": "503", "group": "apps"}, True),
        ({"code": "503", "group": "metrics.k8s.io"}, False),
        ({"code": "504", "group": "metrics.k8s.io"}, True),
        ({"code": "5"}, False),
        ({"code": "5000"}, False),
        ({"code": "429"}, False),
        ({"code": "200"}, False),
        ({}, False),
    ],
)
def test_a_failure_is_a_5xx_but_for_a_metrics_api_that_is_away(labels: dict[str, str], *, is_one: bool) -> None:
    assert is_failure(labels) is is_one


@pytest.mark.parametrize(
    ("labels", "is_one"),
    [
        ({"code": "429"}, True),
        ({"code": "429", "subresource": "status"}, True),
        ({"code": "429", "subresource": "eviction"}, False),
        ({"code": "503"}, False),
        ({}, False),
    ],
)
def test_a_refusal_is_a_429_but_for_an_eviction(labels: dict[str, str], *, is_one: bool) -> None:
    assert is_refusal(labels) is is_one


@pytest.mark.parametrize(
    ("labels", "is_one"),
    [
        ({"verb": "CONNECT"}, True),
        ({"verb": "GET", "subresource": "log"}, True),
        ({"verb": "GET", "subresource": "proxy/x/y"}, True),
        ({"verb": "GET", "subresource": "logs"}, False),
        ({"verb": "GET", "subresource": "status/log"}, False),
        ({"verb": "GET"}, False),
    ],
)
def test_what_a_server_only_passes_on_is_told_by_verb_or_subresource(labels: dict[str, str], *, is_one: bool) -> None:
    assert is_forwarded(labels) is is_one


def test_levels_are_the_usual_ones_and_those_to_which_schemas_of_joins_lead() -> None:
    levels = join_levels(
        [
            {"flow_schema": "system-nodes", "priority_level": "kubelets"},
            {"flow_schema": "system-nodes", "priority_level": ""},
            {"flow_schema": "kube-scheduler"},
            {"flow_schema": "service-accounts", "priority_level": "workload-low"},
            {"priority_level": "catch-all"},
        ]
    )
    assert levels == {*DEFAULT_LEVELS, "kubelets"}
    assert join_levels([]) == DEFAULT_LEVELS
