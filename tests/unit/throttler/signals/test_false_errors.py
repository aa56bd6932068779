"""429s and 5xx that say nothing about load, one by one."""

import pytest

from tests.recorded_metrics import sample_of, small_body
from throttler.signals.reading import Reading
from throttler.signals.window import reading_between


def errors_of(*lines: str, before: str = "") -> tuple[float, float]:
    """(requests, errors) in a window in which these series appeared beside 100 good requests."""
    first = sample_of(small_body(requests=100, extra=before), 0.0)
    second = sample_of(small_body(requests=200, extra="\n".join(lines)), 5.0)
    reading = reading_between("a", first, second)
    assert isinstance(reading, Reading)
    return reading.requests, reading.errors


def requests(labels: str, count: int = 10) -> str:
    return f"apiserver_request_total{{{labels}}} {count}"


@pytest.mark.parametrize("code", ["429", "500", "503", "504"])
def test_a_refusal_or_failure_of_the_server_counts(code: str) -> None:
    assert errors_of(requests(f'code="{code}",verb="POST",resource="pods"')) == (110, 10)


@pytest.mark.parametrize("code", ["200", "404", "409", "422", "403"])
def test_an_answer_to_the_client_does_not_count(code: str) -> None:
    assert errors_of(requests(f'code="{code}",verb="POST",resource="pods"')) == (110, 0)


def test_an_eviction_refused_by_a_disruption_budget_does_not_count() -> None:
    assert errors_of(requests('code="429",verb="POST",resource="pods",subresource="eviction"')) == (110, 0)


def test_an_eviction_that_fails_with_500_counts() -> None:
    assert errors_of(requests('code="500",verb="POST",resource="pods",subresource="eviction"')) == (110, 10)


@pytest.mark.parametrize("group", ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"])
def test_a_metrics_api_that_is_away_does_not_count(group: str) -> None:
    assert errors_of(requests(f'code="503",verb="GET",group="{group}",resource="pods"')) == (110, 0)
    assert errors_of(requests(f'code="500",verb="GET",group="{group}",resource="pods"')) == (110, 10)


def test_a_group_that_only_ends_alike_counts() -> None:
    assert errors_of(requests('code="503",verb="GET",group="evilmetrics.k8s.io"')) == (110, 10)


@pytest.mark.parametrize("subresource", ["proxy", "log", "exec", "attach", "portforward", "proxy/path"])
def test_what_is_only_forwarded_is_not_counted_at_all(subresource: str) -> None:
    assert errors_of(requests(f'code="502",verb="GET",resource="pods",subresource="{subresource}"')) == (100, 0)


def test_connect_is_not_counted_at_all() -> None:
    assert errors_of(requests('code="500",verb="CONNECT",resource="pods"')) == (100, 0)


def test_a_webhook_that_fails_is_not_the_servers_error() -> None:
    labels = 'error_type="calling_webhook_error",rejection_code="500"'
    webhook = f"apiserver_admission_webhook_rejection_count{{{labels}}} 8"
    assert errors_of(requests('code="500",verb="POST",resource="pods"'), webhook) == (110, 2)


def test_a_webhook_that_says_no_takes_nothing_away() -> None:
    webhook = 'apiserver_admission_webhook_rejection_count{error_type="no_error",rejection_code="403",name="w"} 8'
    assert errors_of(requests('code="500",verb="POST",resource="pods"'), webhook) == (110, 10)


WATCHES = requests('code="429",verb="WATCH",resource="pods"', 40)


def test_watches_of_a_storage_that_initializes_do_not_count() -> None:
    assert errors_of(WATCHES) == (140, 0)


def test_watches_that_flow_control_refused_count() -> None:
    rejected = 'apiserver_flowcontrol_rejected_requests_total{priority_level="system",reason="queue-full"} 15'
    assert errors_of(WATCHES, rejected) == (140, 15)


def test_rejections_before_the_window_excuse_nothing_in_it() -> None:
    rejected = 'apiserver_flowcontrol_rejected_requests_total{priority_level="system",reason="queue-full"} 15'
    assert errors_of(WATCHES, rejected, before=rejected) == (140, 0)
