"""Rows to one server's figures, on recorded bodies and in the spelling of each version."""

import pytest

from tests.recorded_metrics import recorded, sample_of, small_body
from throttler.signals.reading import Reading
from throttler.signals.sample import Totals
from throttler.signals.text import BadTextError
from throttler.signals.window import reading_between

VERSIONS = ["1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]


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


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_figures(version: str) -> None:
    before = sample_of(small_body(requests=100, version=version), 0.0)
    after = sample_of(small_body(requests=150, version=version), 5.0)
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


@pytest.mark.parametrize("body", [b"", b"<html>ok</html>\n", b"process_cpu_seconds_total 3\n"])
def test_what_is_not_an_api_servers_is_refused(body: bytes) -> None:
    with pytest.raises(BadTextError, match="not an API server"):
        sample_of(body)
