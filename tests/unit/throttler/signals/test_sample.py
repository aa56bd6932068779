"""One server's counters: what a scrape of it says as a whole, and which of its answers count in that."""

import pytest

from tests.recorded_metrics import recorded, sample_of, small_body
from throttler.signals.metric_families import BadTextError
from throttler.signals.reading import Reading, reading_between
from throttler.signals.sample import Totals


def test_a_healthy_server_has_every_family_and_no_queue() -> None:
    sample = sample_of(recorded("healthy-1"))
    assert sample.missing == ()
    assert sample.cpus == 1
    assert sample.started_at == pytest.approx(1795245014.16)


def test_a_herd_shows_in_every_figure() -> None:
    herd = reading_between("a", sample_of(recorded("herd-1"), 0.0), sample_of(recorded("herd-2"), 5.0))
    idle = reading_between("a", sample_of(recorded("healthy-1"), 0.0), sample_of(recorded("healthy-2"), 5.0))
    assert isinstance(herd, Reading)
    assert isinstance(idle, Reading)
    assert (herd.latency_s or 0) > 50 * (idle.latency_s or 1)
    assert 0 < (herd.service_s or 0) < (herd.latency_s or 0) / 5
    assert (herd.queue_wait_s or 0) > 0.3
    assert idle.queue_wait_s is None
    assert herd.seats_share == 1.0
    assert herd.cpu_share == pytest.approx(0.996, abs=0.01)
    assert herd.requests == 3378
    assert herd.errors == 0


def test_two_samples_give_the_figures_of_the_time_between() -> None:
    before = sample_of(small_body(requests=100), 0.0)
    after = sample_of(small_body(requests=150), 5.0)
    reading = reading_between("a", before, after)
    assert isinstance(reading, Reading)
    assert reading.requests == 50
    assert reading.latency_s == pytest.approx(0.01)
    assert reading.seats_share == 0.5
    assert reading.cpu_share == pytest.approx(0.05)


def test_missing_families_are_named_and_their_figures_none() -> None:
    body = b"".join(line for line in small_body().splitlines(keepends=True) if b"flowcontrol" not in line)
    sample = sample_of(body)
    assert sample.service is None
    assert sample.seats_share is None
    assert "apiserver_request_sli_duration_seconds" in sample.missing
    assert "apiserver_flowcontrol_current_limit_seats" in sample.missing


def test_lists_watches_and_other_resources_do_not_count_as_latency_of_joins() -> None:
    family = "apiserver_request_duration_seconds"
    others = ['verb="LIST",resource="pods"', 'verb="WATCH",resource="nodes"', 'verb="GET",resource="secrets"']
    extra = "\n".join(f"{family}_sum{{{label}}} 900\n{family}_count{{{label}}} 3" for label in others)
    assert sample_of(small_body(extra=extra)).latency == Totals(1.0, 100.0)


def test_a_level_to_which_schemas_of_joins_lead_is_watched_too() -> None:
    dispatched = "apiserver_flowcontrol_dispatched_requests_total"
    wait = "apiserver_flowcontrol_request_wait_duration_seconds"
    levels = (("system-nodes", "kubelets"), ("other", "workload-low"))
    extra = "\n".join(
        f'{dispatched}{{flow_schema="{schema}",priority_level="{level}"}} 4\n'
        f'{wait}_sum{{flow_schema="{schema}",priority_level="{level}"}} 8\n'
        f'{wait}_count{{flow_schema="{schema}",priority_level="{level}"}} 4'
        for schema, level in levels
    )
    assert sample_of(small_body(extra=extra)).waits == {"kubelets": Totals(8.0, 4.0)}


def test_series_that_come_with_the_first_request_are_not_missing_before_it() -> None:
    """A server in whose queues nobody has waited has no such series, and is no server that lacks them."""
    rare = {"apiserver_flowcontrol_request_wait_duration_seconds", "apiserver_flowcontrol_current_executing_seats"}
    assert not rare.intersection(sample_of(small_body()).missing)


@pytest.mark.parametrize("body", [b"", b"<html>ok</html>\n", b"process_cpu_seconds_total 3\n"])
def test_what_is_not_an_api_servers_is_refused(body: bytes) -> None:
    with pytest.raises(BadTextError, match="not an API server"):
        sample_of(body)


def reading_of(*lines: str, before: str = "") -> Reading:
    """A window in which these series appeared beside 100 good requests."""
    first = sample_of(small_body(requests=100, extra=before), 0.0)
    second = sample_of(small_body(requests=200, extra="\n".join(lines)), 5.0)
    reading = reading_between("a", first, second)
    assert isinstance(reading, Reading)
    return reading


def errors_of(*lines: str, before: str = "") -> tuple[float, float]:
    """(requests, errors) in that window."""
    reading = reading_of(*lines, before=before)
    return reading.requests, reading.errors


def others_of(*lines: str) -> tuple[float, float]:
    """(errors of joins, errors of others) in that window."""
    reading = reading_of(*lines)
    return reading.errors, reading.others_errors


def requests(labels: str, count: int = 10) -> str:
    return f"apiserver_request_total{{{labels}}} {count}"


def rejected(level: str, count: int = 15) -> str:
    labels = f'flow_schema="any",priority_level="{level}",reason="queue-full"'
    return f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} {count}"


@pytest.mark.parametrize("code", ["500", "503", "504"])
def test_a_failure_of_a_request_that_joins_send_counts(code: str) -> None:
    assert errors_of(requests(f'code="{code}",verb="POST",resource="pods"')) == (110, 10)


@pytest.mark.parametrize("level", ["node-high", "system", "workload-high"])
def test_a_refusal_in_a_level_that_joins_use_counts_whatever_was_asked(level: str) -> None:
    """Kubelets list too, and flow control counts what it refused by level only."""
    watches = requests('code="429",verb="WATCH",resource="pods"', 40)
    assert errors_of(watches, rejected(level)) == (140, 15)


@pytest.mark.parametrize("level", ["workload-low", "global-default", "catch-all", "tenants"])
def test_a_refusal_in_another_level_is_others(level: str) -> None:
    assert others_of(requests('code="429",verb="POST",resource="pods"', 15), rejected(level)) == (0, 15)


@pytest.mark.parametrize(
    "labels",
    [
        'verb="GET",group="example.com",resource="widgets"',
        'verb="LIST",resource="pods"',
        'verb="GET",resource="secrets"',
        'verb="POST",resource="pods",subresource="eviction"',
    ],
)
def test_a_failure_of_another_request_is_others(labels: str) -> None:
    assert others_of(requests(f'code="500",{labels}')) == (0, 10)


def test_without_flow_control_the_refusals_of_requests_that_joins_send_count() -> None:
    def body(*lines: str, count: int) -> bytes:
        text = small_body(requests=count, extra="\n".join(lines))
        return b"".join(line for line in text.splitlines(keepends=True) if b"flowcontrol" not in line)

    refused = (requests('code="429",verb="POST",resource="pods"'), requests('code="429",verb="LIST",resource="pods"'))
    before, after = sample_of(body(count=100), 0.0), sample_of(body(*refused, count=200), 5.0)
    reading = reading_between("a", before, after)
    assert isinstance(reading, Reading)
    assert reading.errors == 10
    assert "apiserver_flowcontrol_rejected_requests_total" in reading.missing, "said on the throttle's status"


def test_where_flow_control_has_no_level_of_joins_their_own_refusals_count() -> None:
    dispatched = "apiserver_flowcontrol_dispatched_requests_total"
    refused = requests('code="429",verb="POST",resource="pods"', 3)
    for level, refusals in (("exempt", 3), ("system", 0)):
        body = f'{refused}\n{dispatched}{{priority_level="{level}"}} 40\n'
        assert sample_of(body.encode()).refusals == refusals


@pytest.mark.parametrize("code", ["200", "404", "409", "422", "403"])
def test_an_answer_to_the_client_does_not_count(code: str) -> None:
    assert errors_of(requests(f'code="{code}",verb="POST",resource="pods"')) == (110, 0)


def test_an_eviction_refused_by_a_disruption_budget_does_not_count() -> None:
    assert errors_of(requests('code="429",verb="POST",resource="pods",subresource="eviction"')) == (110, 0)


@pytest.mark.parametrize("group", ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"])
def test_a_metrics_api_that_is_away_does_not_count(group: str) -> None:
    assert others_of(requests(f'code="503",verb="GET",group="{group}",resource="pods"')) == (0, 0)
    assert others_of(requests(f'code="500",verb="GET",group="{group}",resource="pods"')) == (0, 10)


def test_a_group_that_only_ends_alike_is_others() -> None:
    assert others_of(requests('code="503",verb="GET",group="evilmetrics.k8s.io"')) == (0, 10)


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


def test_watches_of_a_storage_that_initializes_do_not_count() -> None:
    assert others_of(requests('code="429",verb="WATCH",resource="pods"', 40)) == (0, 0)


def test_rejections_before_the_window_do_not_count_in_it() -> None:
    assert errors_of(rejected("system"), before=rejected("system")) == (100, 0)


def seats(level: str, used: float | None, limit: float) -> str:
    lines = [f'apiserver_flowcontrol_current_limit_seats{{priority_level="{level}"}} {limit}']
    if used is not None:
        lines.append(f'apiserver_flowcontrol_current_executing_seats{{priority_level="{level}"}} {used}')
    return "\n".join(lines)


def without(word: bytes, extra: str) -> bytes:
    """A small body without the series whose names have this word, and with others."""
    kept = b"".join(line for line in small_body().splitlines(keepends=True) if word not in line)
    return kept + extra.encode() + b"\n"


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ([seats("system", 3, 10), seats("node-high", 6, 10)], 0.6),
        ([seats("system", 3, 10), seats("workload-low", 9, 10)], 0.3),
        ([seats("system", None, 10)], 0.0),
        ([seats("system", 3, 0)], None),
        ([seats("system", 3, 0), seats("node-high", 1, 4)], 0.25),
        ([seats("workload-low", 9, 10)], None),
    ],
)
def test_seats_are_those_of_the_worst_level_that_joins_use(lines: list[str], share: float | None) -> None:
    assert sample_of(without(b"_seats", "\n".join(lines))).seats_share == share


def test_a_pulse_is_all_requests_and_what_flow_control_let_through_or_the_cpu_where_it_is_off() -> None:
    body = b'apiserver_request_total{verb="CONNECT"} 7\nprocess_cpu_seconds_total 2.5\n'
    off = sample_of(body)
    assert (off.pulse, off.requests, off.cpu_s) == (9.5, 0.0, 2.5)
    on = sample_of(body + b'apiserver_flowcontrol_dispatched_requests_total{priority_level="exempt"} 40\n')
    assert on.pulse == 47.0
    assert (on.refusals, on.cpus, on.started_at) == (0.0, None, None)


def test_a_level_tells_its_waits_once_it_has_counted_any() -> None:
    wait = "apiserver_flowcontrol_request_wait_duration_seconds"
    counts = f'{wait}_count{{priority_level="system"}} 4\n{wait}_sum{{priority_level="node-high"}} 3'
    assert sample_of(without(b"request_wait", counts)).waits == {"system": Totals(0.0, 4.0)}
